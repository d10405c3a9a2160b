"""Metrics keep the names they were declared with, and forget what is gone."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from trellis.base.errors import InternalError
from trellis.runtime.telemetry.metrics import (
    CounterSpec,
    GaugeSpec,
    HistogramSpec,
    Metrics,
    Spec,
    StepTimer,
    execution_latency,
)

EVICTED = CounterSpec("vpa_updater_evicted_pods_total", "Pods evicted.", ("vpa_namespace", "vpa_name"))
RESPONSES = CounterSpec("vpa_recommender_metric_server_responses", "Answers.", ("is_error",))
CONTROLLED = GaugeSpec("vpa_updater_controlled_pods_total", "Pods ruled by a VPA.", ("update_mode",))
STATES = GaugeSpec("vpa_recommender_aggregate_container_states_count", "Aggregates.")
LATENCY = HistogramSpec("vpa_test_latency_seconds", "How long.", ("vpa_namespace", "vpa_name"), buckets=(1.0, 5.0))


def samples(metrics: Metrics) -> dict[str, float]:
    """Every line that Prometheus would read."""
    return {
        sample.name + "".join(f" {value}" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(metrics.format_text().decode())
        for sample in family.samples
    }


def of(*specs: Spec) -> Metrics:
    return Metrics(specs, about_process=False)


def test_labels_are_sorted_and_a_bound_comes_last_as_go_writes_them() -> None:
    spec = HistogramSpec("vpa_test_sizes", "How big.", ("resource", "is_oom", "update_mode"), buckets=(1.0,))
    metrics = of(spec)
    metrics.observe(spec, 0.5, "cpu", "false", "Off")
    lines = metrics.format_text().decode().splitlines()
    assert 'vpa_test_sizes_bucket{is_oom="false",resource="cpu",update_mode="Off",le="1"} 1' in lines
    assert 'vpa_test_sizes_count{is_oom="false",resource="cpu",update_mode="Off"} 1' in lines


def test_names_are_served_as_they_were_declared() -> None:
    metrics = of(EVICTED, RESPONSES, CONTROLLED, STATES)
    metrics.add(EVICTED, 2, "default", "web")
    metrics.add(RESPONSES, 1, "false")
    metrics.set(CONTROLLED, 7, "Recreate")
    metrics.set(STATES, 5)
    assert metrics.format_text().decode().splitlines() == [
        "# HELP vpa_updater_evicted_pods_total Pods evicted.",
        "# TYPE vpa_updater_evicted_pods_total counter",
        'vpa_updater_evicted_pods_total{vpa_name="web",vpa_namespace="default"} 2',
        "# HELP vpa_recommender_metric_server_responses Answers.",
        "# TYPE vpa_recommender_metric_server_responses counter",
        'vpa_recommender_metric_server_responses{is_error="false"} 1',
        "# HELP vpa_updater_controlled_pods_total Pods ruled by a VPA.",
        "# TYPE vpa_updater_controlled_pods_total gauge",
        'vpa_updater_controlled_pods_total{update_mode="Recreate"} 7',
        "# HELP vpa_recommender_aggregate_container_states_count Aggregates.",
        "# TYPE vpa_recommender_aggregate_container_states_count gauge",
        "vpa_recommender_aggregate_container_states_count 5",
    ]


def test_accumulated_counts_are_added_before_metrics_are_read() -> None:
    metrics = of(EVICTED)
    held = [3, 4]
    metrics.register_flush(lambda: metrics.add(EVICTED, held.pop(), "default", "web"))
    for total in (4.0, 7.0):
        metrics.flush()
        assert samples(metrics) == {"vpa_updater_evicted_pods_total web default": total}


def test_a_counter_of_zero_is_there_before_the_first_count() -> None:
    metrics = of(EVICTED)
    metrics.add(EVICTED, 0, "default", "web")
    assert samples(metrics) == {"vpa_updater_evicted_pods_total web default": 0.0}


def test_a_histogram_counts_what_is_below_its_bounds() -> None:
    metrics = of(LATENCY)
    for value in (0.5, 3.0, 100.0):
        metrics.observe(LATENCY, value, "default", "web")
    assert samples(metrics) == {
        "vpa_test_latency_seconds_bucket web default 1": 1.0,
        "vpa_test_latency_seconds_bucket web default 5": 2.0,
        "vpa_test_latency_seconds_bucket web default +Inf": 3.0,
        "vpa_test_latency_seconds_count web default": 3.0,
        "vpa_test_latency_seconds_sum web default": 103.5,
    }


def test_a_histogram_with_bounds_below_zero_has_a_sum_and_a_count_too() -> None:
    changes = HistogramSpec("vpa_test_changes", "By how much.", buckets=(-0.5, 0.0))
    metrics = of(changes)
    metrics.observe(changes, -0.75)
    metrics.observe(changes, 0.5)
    assert samples(metrics) == {
        "vpa_test_changes_bucket -0.5": 1.0,
        "vpa_test_changes_bucket 0": 1.0,
        "vpa_test_changes_bucket +Inf": 2.0,
        "vpa_test_changes_count": 2.0,
        "vpa_test_changes_sum": -0.25,
    }


def test_series_of_deleted_objects_are_removed() -> None:
    metrics = of(EVICTED, LATENCY, CONTROLLED)
    for name in ("web", "gone"):
        metrics.add(EVICTED, 3, "default", name)
        metrics.observe(LATENCY, 1, "default", name)
    metrics.set(CONTROLLED, 1, "Recreate")
    assert metrics.remove_deleted(("vpa_namespace", "vpa_name"), {("default", "web")}) == 2
    assert not [line for line in samples(metrics) if "gone" in line]
    assert samples(metrics)["vpa_updater_evicted_pods_total web default"] == 3.0
    assert samples(metrics)["vpa_updater_controlled_pods_total Recreate"] == 1.0
    assert metrics.remove_deleted(("vpa_namespace", "vpa_name"), {("default", "web")}) == 0


def test_labels_to_keep_are_named_in_any_order() -> None:
    metrics = of(EVICTED)
    metrics.add(EVICTED, 1, "default", "web")
    assert metrics.remove_deleted(("vpa_name", "vpa_namespace"), {("web", "default")}) == 0
    assert metrics.remove_deleted(("vpa_name",), set()) == 1


def test_a_gauge_set_as_a_whole_has_no_other_series() -> None:
    metrics = of(CONTROLLED)
    metrics.set_all(CONTROLLED, {("Recreate",): 1.0, ("Off",): 2.0})
    metrics.set_all(CONTROLLED, {("Off",): 0.0})
    assert samples(metrics) == {"vpa_updater_controlled_pods_total Off": 0.0}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-1.0, "-1"),
        (0.5, "0.5"),
        (0.01, "0.01"),
        (0.0001, "0.0001"),
        (0.000012658, "1.2658e-05"),
        (163.84, "163.84"),
        (999999.0, "999999"),
        (1e6, "1e+06"),
        (104857600.0, "1.048576e+08"),
        (1763265342.25, "1.76326534225e+09"),
        (-2.5e-100, "-2.5e-100"),
        (1e300, "1e+300"),
    ],
)
def test_numbers_are_formatted_as_in_go(value: float, text: str) -> None:
    metrics = of(STATES)
    metrics.set(STATES, value)
    assert metrics.format_text().decode().splitlines()[-1] == f"vpa_recommender_aggregate_container_states_count {text}"


def test_bucket_bounds_are_formatted_as_in_go() -> None:
    sizes = HistogramSpec("vpa_test_sizes_bytes", "How much.", buckets=(0.5, 1.0, 1e6, 1.6e7))
    bounds = [line for line in of(sizes).format_text().decode().splitlines() if "_bucket" in line]
    assert [line.split('"')[1] for line in bounds] == ["0.5", "1", "1e+06", "1.6e+07", "+Inf"]


@pytest.mark.parametrize("value", [1e-320, 5e-324, 1.7976931348623157e308, 0.1 + 0.2, 1 / 3, 2.0**60])
def test_no_digit_of_a_number_is_lost(value: float) -> None:
    metrics = of(STATES)
    metrics.set(STATES, value)
    assert samples(metrics)["vpa_recommender_aggregate_container_states_count"] == value


def test_odd_values_and_labels_survive() -> None:
    metrics = of(CONTROLLED, STATES)
    metrics.set(CONTROLLED, math.inf, 'a "b" \\ c\nd')
    metrics.set(STATES, math.nan)
    values = samples(metrics)
    assert values['vpa_updater_controlled_pods_total a "b" \\ c\nd'] == math.inf
    assert math.isnan(values["vpa_recommender_aggregate_container_states_count"])


def test_the_process_itself_is_measured() -> None:
    values = samples(Metrics([]))
    assert values["process_resident_memory_bytes"] > 1e6
    assert [line for line in values if line.startswith("python_gc_objects_collected_total")]
    assert [line for line in values if line.startswith("python_info")]


def test_invalid_metric_declarations_raise_internal_errors() -> None:
    with pytest.raises(InternalError, match="declared twice"):
        of(STATES, STATES)
    with pytest.raises(InternalError, match="vpa_updater_evicted_pods_total has the labels"):
        of(EVICTED).add(EVICTED, 1, "default")


def test_steps_are_timed_from_the_end_of_the_one_before_and_the_total_from_the_start() -> None:
    latency = execution_latency("vpa_recommender")
    metrics = of(latency)
    times: Iterator[float] = iter([100.0, 100.5, 103.5, 110.0])
    timer = StepTimer(metrics, latency, lambda: next(times))
    timer.step("LoadVPAs")
    timer.step("UpdateVPAs")
    timer.total()
    values = samples(metrics)
    name = "vpa_recommender_execution_latency_seconds"
    assert [values[f"{name}_sum {step}"] for step in ("LoadVPAs", "UpdateVPAs", "total")] == [0.5, 3.0, 10.0]
    bounds = [line.split()[-1] for line in values if line.startswith(f"{name}_bucket total")]
    assert (bounds[0], bounds[-2], bounds[-1], len(bounds)) == ("0.01", "300", "+Inf", 24)


def test_a_column_counts_like_its_values_one_by_one_and_skips_what_is_no_number() -> None:
    one_by_one, at_once = Metrics([LATENCY], about_process=False), Metrics([LATENCY], about_process=False)
    values = [0.5, 1.0, 1.5, 5.0, 9.0]
    for value in values:
        one_by_one.observe(LATENCY, value, "default", "web")
    at_once.observe_all(LATENCY, np.array([*values, np.nan]), "default", "web")
    assert at_once.format_text() == one_by_one.format_text()
    assert b'vpa_test_latency_seconds_bucket{vpa_name="web",vpa_namespace="default",le="1"} 2' in at_once.format_text()
