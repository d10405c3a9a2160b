"""Metrics of a pod, read through the proxy."""

from __future__ import annotations

import math

from trellis.diagnosis.collection.metrics_pages import parse_page, parse_samples

PAGE = """
# TYPE trellis_build_info gauge
trellis_build_info{version="0.1.0"} 1.0
trellis_component_leader{component="recommender",name="default"} 0.0
trellis_component_leader{component="recommender",name="slow"} 1.0
trellis_component_leader{component="updater",name=""} 0.0
trellis_component_pass_interval_seconds{component="updater"} 60.0
trellis_component_last_pass_timestamp_seconds{component="updater"} 1.784e+09
trellis_component_last_pass_duration_seconds{component="updater"} 0.25
trellis_component_failed_passes{component="updater"} 2.0
trellis_component_not_ready{component="hvpa",reason="lease-lost"} 1.0
trellis_component_not_ready{component="nodes",reason="starting"} 0.0
trellis_writes_total{resource="pods",action="ResizePod",result="Forbidden"} 4.0
trellis_writes_total{resource="pods",action="ResizePod",result="Applied"} 9.0
trellis_unseen_resources{resource="nodes"} 1.0
trellis_unseen_resources{resource="pods"} 0.0
trellis_admission_certificate_expiry_timestamp_seconds{certificate="serving"} 1.79e+09
trellis_nodes_group_backoff_seconds{group="spot"} 120.0
trellis_nodes_group_backoff_seconds{group="base"} 0.0
"""


def test_what_a_diagnosis_uses_is_read() -> None:
    page = parse_page(PAGE)
    assert page.version == "0.1.0"
    assert page.leads == {"recommender": True, "updater": False}
    passes = page.passes["updater"]
    assert (passes.interval, passes.last, passes.duration, passes.failed) == (60.0, 1.784e9, 0.25, 2)
    assert page.not_ready == {"hvpa": "lease-lost"}
    assert page.forbidden_writes == {"pods": 4.0}
    assert page.unseen == ("nodes",)
    assert page.certificate_ends == {"serving": 1.79e9}
    assert page.group_backoffs == {"spot": 120.0}


def test_a_page_of_upstream_says_nothing_of_passes() -> None:
    page = parse_page('vpa_recommender_vpa_objects_count{update_mode="Off"} 3\n')
    assert (page.version, page.passes, page.leads) == ("", {}, {})


def test_lines_that_are_no_samples_are_left_out() -> None:
    text = '<html>\nx{a="b c"} 1.5\nbroken\ny notanumber\nz 2 1700000000000\n'
    assert list(parse_samples(text)) == [("x", {"a": "b c"}, 1.5), ("z", {}, 2.0)]


def test_lag_is_what_a_pass_is_overdue() -> None:
    passes = parse_page(PAGE).passes["updater"]
    assert (passes.find_lag(1.784e9 + 30.0), passes.find_lag(1.784e9 + 100.0)) == (0.0, 40.0)
    only = parse_page('trellis_component_pass_interval_seconds{component="updater"} 60.0\n').passes["updater"]
    assert math.isnan(only.find_lag(1.784e9))
