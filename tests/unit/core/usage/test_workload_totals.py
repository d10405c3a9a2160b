"""A second pair of histograms has the usage of whole workloads."""

from __future__ import annotations

import numpy as np
import pytest

from support.builders.usage_samples import batch, kill, pod, row
from trellis.core.usage.histograms.bins import CPU_TOTAL_BINS, MEMORY_TOTAL_BINS
from trellis.core.usage.model import UsageModel

START = 1_700_000_000.0
DAY = 86_400.0
WEB = ("shop", "web")


def totals(model: UsageModel, container: str = "app") -> tuple[float, float]:
    """The highest totals of CPU and memory, as the ends of their buckets."""
    view = model.view(row(model, container))
    cpu, memory = (bank.percentiles([1.0], view.total_rows)[0, 0] for bank in (view.cpu_total, view.memory_total))
    return float(cpu), float(memory)


def ends(cpu: float, memory: float) -> tuple[float, float]:
    return (
        float(CPU_TOTAL_BINS.starts[CPU_TOTAL_BINS.find_bins(np.array([cpu]))[0] + 1]),
        float(MEMORY_TOTAL_BINS.starts[MEMORY_TOTAL_BINS.find_bins(np.array([memory]))[0] + 1]),
    )


@pytest.fixture
def model() -> UsageModel:
    model = UsageModel()
    model.keep_totals([WEB])
    return model


def test_a_sample_counts_times_the_ready_pods_sampled_with_it(model: UsageModel) -> None:
    names = [f"web-{n}" for n in range(10)]
    model.track_pods("shop", [pod(name, containers=("app", "proxy")) for name in names], START)
    lines = [(name, which, START, 0.5, 1e9) for name in names for which in ("app", "proxy")]
    model.ingest(batch(*lines), START)
    assert totals(model) == totals(model, "proxy") == ends(5.0, 1e10)
    view = model.view(row(model))
    assert view.cpu.percentiles([1.0], view.rows)[0, 0] < 0.6


def test_pods_that_are_not_ready_and_pods_without_samples_do_not_multiply(model: UsageModel) -> None:
    model.track_pods("shop", [pod("a"), pod("b"), pod("starting", ready=False), pod("silent")], START)
    model.ingest(batch(*((name, "app", START, 1.0, 1e9) for name in ("a", "b", "starting"))), START)
    assert totals(model) == ends(2.0, 2e9)


def test_a_workload_without_ready_pods_counts_each_sample_by_itself(model: UsageModel) -> None:
    model.track_pods("shop", [pod("a", ready=False), pod("b", ready=False)], START)
    model.ingest(batch(("a", "app", START, 1.0, 1e9), ("b", "app", START, 1.0, 1e9)), START)
    assert totals(model) == ends(1.0, 1e9)


@pytest.mark.req("HV-36")
def test_a_pod_that_has_just_become_ready_multiplies_no_sample_of_the_earlier_ones(model: UsageModel) -> None:
    model.track_pods("shop", [pod("a"), pod("b")], START)
    model.ingest(batch(("a", "app", START, 10.0, 1e9), ("b", "app", START, 10.0, 1e9)), START)
    for minute, cpu in enumerate([(10.0, 10.0, 0.1), (6.7, 6.7, 6.7), (6.7, 6.7, 6.7)], start=1):
        now = START + 60 * minute
        model.track_pods("shop", [pod("a"), pod("b"), pod("c")], now)
        model.ingest(batch(*((name, "app", now, used, 1e9) for name, used in zip("abc", cpu, strict=True))), now)
    assert totals(model) == ends(20.1, 3e9)


def test_totals_have_a_larger_range(model: UsageModel) -> None:
    names = [f"web-{n}" for n in range(200)]
    model.track_pods("shop", [pod(name) for name in names], START)
    model.ingest(batch(*((name, "app", START, 64.0, 2e11) for name in names)), START)
    assert totals(model) == ends(12_800.0, 4e13)


def test_the_total_of_memory_is_a_peak_per_container_and_window(model: UsageModel) -> None:
    names = ["a", "b"]
    model.track_pods("shop", [pod(name) for name in names], START)
    for minute, memory in enumerate([1e9, 4e9, 2e9]):
        now = START + 60 * minute
        model.ingest(batch(*((name, "app", now, 0.1, memory) for name in names)), now)
    view = model.view(row(model))
    assert totals(model)[1] == ends(0, 8e9)[1]
    # Two peaks, one of each container, and nothing is left of the lower ones.
    assert view.memory_total.percentiles([0.01], view.total_rows)[0, 0] == ends(0, 8e9)[1]


def test_more_pods_raise_the_total_of_a_window_without_higher_usage(model: UsageModel) -> None:
    model.track_pods("shop", [pod("a")], START)
    model.ingest(batch(("a", "app", START, 0.1, 1e9)), START)
    model.track_pods("shop", [pod("a"), pod("b")], START + 60)
    for now in (START + 60, START + 120):
        model.ingest(batch(*((name, "app", now, 0.1, 1e9) for name in "ab")), now)
    view = model.view(row(model))
    assert totals(model)[1] == ends(0, 2e9)[1]
    assert view.memory_total.percentiles([0.01], view.total_rows)[0, 0] == ends(0, 2e9)[1]


def test_a_kill_counts_in_the_workload_total(model: UsageModel) -> None:
    names = ["a", "b", "c"]
    model.track_pods("shop", [pod(name) for name in names], START)
    model.ingest(batch(*((name, "app", START, 0.1, 1e9) for name in names)), START)
    model.record_ooms([kill("a", START + 1, 1e9)], START + 1)
    assert totals(model)[1] == ends(0, 3.6e9)[1]


def test_totals_are_recorded_for_the_requested_vpas_alone(model: UsageModel) -> None:
    model.track_pods("shop", [pod("a"), pod("b", "other")], START)
    assert model.sizes().totals == 1
    model.keep_totals([WEB, ("shop", "other"), ("shop", "nobody")])
    assert model.sizes().totals == 2
    model.keep_totals([])
    assert model.sizes().totals == 0
    model.ingest(batch(("a", "app", START, 0.1, 1e9)), START)
    assert model.view().total_rows.tolist() == [-1, -1]


def test_totals_that_begin_in_the_middle_of_a_window_take_away_nothing(model: UsageModel) -> None:
    model.keep_totals([])
    model.track_pods("shop", [pod("a")], START)
    model.ingest(batch(("a", "app", START, 0.1, 2e9)), START)
    for minute in (1, 2):
        model.keep_totals([WEB])
        now = START + 60 * minute
        model.ingest(batch(("a", "app", now, 0.1, 1e9)), now)
        assert totals(model)[1] == ends(0, 1e9)[1]
        model.keep_totals([])


def test_totals_outlive_a_restart_without_the_peaks_of_windows_that_run(model: UsageModel) -> None:
    model.track_pods("shop", [pod("a"), pod("b")], START)
    for day, memory in enumerate([4e9, 1e9]):
        now = START + DAY * day
        model.ingest(batch(*((name, "app", now, 1.0, memory) for name in "ab")), now)
    (saved,) = model.save_rows(row(model), START + DAY + 60)
    copy = UsageModel()
    copy.restore(saved)
    copy.keep_totals([WEB])
    view = copy.view(row(copy))
    assert totals(copy) == ends(2.0, 8e9)
    assert view.memory_total.percentiles([0.01], view.total_rows)[0, 0] == ends(0, 8e9)[1]


def test_rows_without_totals_save_none(model: UsageModel) -> None:
    model.keep_totals([])
    model.track_pods("shop", [pod("a")], START)
    (saved,) = model.save_rows(row(model), START)
    assert (saved.cpu_total, saved.memory_total) == (None, None)
