"""The queries are upstream's, for several namespaces at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trellis.sources.prometheus.queries import (
    build_cpu_query,
    build_memory_query,
    build_memory_time_query,
    group_namespaces,
    quote_string,
)
from trellis.sources.prometheus.settings import PrometheusSettings

DEFAULTS = PrometheusSettings()
SELECTOR = 'job="kubernetes-cadvisor", pod_name=~".+", name!="POD", name!=""'


def test_all_namespaces_are_queried_with_upstreams_selector() -> None:
    assert build_cpu_query(DEFAULTS, None, "1h") == (
        f"max by (namespace, pod_name, name) (rate(container_cpu_usage_seconds_total{{{SELECTOR}}}[1h]))"
    )
    assert build_memory_query(DEFAULTS, None) == (
        f"max by (namespace, pod_name, name) (container_memory_working_set_bytes{{{SELECTOR}}})"
    )
    assert build_memory_time_query(DEFAULTS, None) == (
        f"max by (namespace, pod_name, name) (timestamp(container_memory_working_set_bytes{{{SELECTOR}}}))"
    )


def test_one_namespace_is_an_equality_matcher_and_several_are_a_regex() -> None:
    assert f'{{{SELECTOR}, namespace="shop"}}' in build_memory_query(DEFAULTS, ["shop"])
    assert f'{{{SELECTOR}, namespace=~"data-1|shop"}}' in build_memory_query(DEFAULTS, ["data-1", "shop"])


def test_labels_metrics_and_job_are_settings() -> None:
    settings = PrometheusSettings(
        prometheus_cadvisor_job_name="",
        history_cpu_metric="cpu_seconds",
        container_namespace_label="ns",
        container_pod_name_label="pod",
        container_name_label="container",
    )
    assert build_cpu_query(settings, ["shop"], "5m") == (
        'max by (ns, pod, container) (rate(cpu_seconds{pod=~".+", container!="POD", container!="", ns="shop"}[5m]))'
    )


def test_a_job_is_quoted_and_a_name_is_taken_literally() -> None:
    settings = PrometheusSettings(prometheus_cadvisor_job_name='a"b\\c')
    query = build_memory_query(settings, ["a.b", "c"])
    assert 'job="a\\"b\\\\c"' in query
    assert 'namespace=~"a\\\\.b|c"' in query
    assert quote_string("two\nlines") == '"two\\nlines"'


@given(st.lists(st.text("abc", min_size=1)), st.integers(1, 5))
def test_every_namespace_is_in_one_group(namespaces: list[str], most: int) -> None:
    groups = group_namespaces(namespaces, most)
    assert [name for group in groups for name in group] == sorted(set(namespaces))
    assert all(1 <= len(group) <= most for group in groups)
