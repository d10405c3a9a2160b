"""Usage of workloads is summed by time, in any batches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.advice.survey.model import WorkloadUsage
from trellis.core.advice.survey.usage import WorkloadUsageCounter
from trellis.core.usage.samples import Measurements

CONTAINERS = [("web-1", "app"), ("web-1", "proxy"), ("web-2", "app"), ("db-0", "db")]
KEYS = ["web", "web", "web", "db"]
STEPS = 12


def counted(
    rows: list[tuple[int, int, float, float]], cuts: list[int], of: tuple[str, ...] = ("web", "db")
) -> WorkloadUsage:
    """Rows are a container, a step, cores and bytes; cuts are steps at which a batch begins."""
    counter = WorkloadUsageCounter(of, 1000.0, 60.0, STEPS)
    for first, last in zip([0, *cuts], [*cuts, STEPS + 9], strict=True):
        batch = [row for row in rows if first <= row[1] < last]
        which = np.array([row[0] for row in batch], dtype=np.int64)
        times, cpu, memory = (np.array([row[at] for row in batch], dtype=np.float64) for at in (1, 2, 3))
        pods = [pod for pod, _ in CONTAINERS]
        counter.add_batch(KEYS, pods, which, Measurements(1000.0 + 60.0 * times, cpu, memory))
    return counter.read_usage()["web"]


ROWS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, STEPS + 2),
        st.sampled_from([0.0, 0.5, 2.0, float("nan"), -1.0]),
        st.sampled_from([0.0, 100.0, float("nan"), 1e18]),
    ),
    unique_by=lambda row: row[:2],
)


@given(ROWS, st.lists(st.integers(1, STEPS), unique=True).map(sorted))
def test_batches_do_not_change_totals_and_totals_are_sums_of_rows(
    rows: list[tuple[int, int, float, float]], cuts: list[int]
) -> None:
    advised = counted(rows, cuts)
    for at in range(STEPS):
        here = [row for row in rows if row[0] < 3 and row[1] == at]
        cores = [row[2] for row in here if row[2] >= 0]
        bytes_ = [row[3] for row in here if 0 <= row[3] < 1e15]
        pods = {CONTAINERS[row[0]][0] for row in here if row[2] >= 0 or 0 <= row[3] < 1e15}
        assert advised.pods[at] == len(pods)
        assert advised.cpu[at] == pytest.approx(1000 * sum(cores) if cores else np.nan, nan_ok=True)
        assert advised.memory[at] == pytest.approx(sum(bytes_) if bytes_ else np.nan, nan_ok=True)


def test_unselected_workloads_are_skipped() -> None:
    counter = WorkloadUsageCounter(["web"], 0.0, 60.0, 2)
    column = np.ones(4)
    counter.add_batch(KEYS, ["a", "a", "b", "c"], np.arange(4), Measurements(np.zeros(4), column, column))
    assert list(counter.read_usage()) == ["web"]
    assert counter.read_usage()["web"].pods.tolist() == [2, 0]
