"""Earlier samples of a batch are found for all samples at once; a batch may name containers by slots."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.usage.model import UsageModel
from trellis.core.usage.sample_ingestion import find_highest_before
from trellis.core.usage.samples import Samples
from trellis.core.usage.tracked_pods import TrackedContainer, TrackedPod

NOW = 1_790_035_200.0


@given(
    groups=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=6), min_size=1, max_size=5),
    ascending=st.booleans(),
)
def test_the_highest_before_is_that_of_the_same_container(groups: list[list[int]], ascending: bool) -> None:
    ordered = [sorted(group) if ascending else group for group in groups]
    slots = np.repeat(np.arange(len(ordered)), [len(group) for group in ordered])
    result = find_highest_before(slots, np.array([float(value) for group in ordered for value in group]))
    expected = [max(group[:place]) if place else math.nan for group in ordered for place in range(len(group))]
    np.testing.assert_array_equal(result, expected)


def test_samples_by_number_count_as_samples_by_name() -> None:
    pods = [TrackedPod("shop", name, name, name, True, (TrackedContainer("app"),)) for name in ("a", "b")]
    draw = np.random.default_rng(3)
    times = NOW + np.tile(np.arange(50.0), 2) * 600.0
    names = ["a"] * 50 + ["b"] * 50
    samples = Samples(["shop"] * 100, names, ["app"] * 100, times, draw.random(100), 1e9 * draw.random(100))
    by_name, by_number = UsageModel(), UsageModel()
    for model in (by_name, by_number):
        model.track_pods("shop", pods, NOW)
    end = float(times.max())
    first = by_name.ingest(samples, end)
    slots = by_number.find_slots(samples.namespaces, samples.pods, samples.containers)
    second = by_number.ingest_slots(slots, samples.measured, end)
    assert first.accepted == second.accepted == 100
    assert by_number.find_slots(["shop"], ["c"], ["app"]).tolist() == [-1]
    views = [model.view() for model in (by_name, by_number)]
    for bank in ("cpu", "memory"):
        one, other = (getattr(view, bank).percentiles([0.5, 0.9, 1.0], view.rows) for view in views)
        assert one.tolist() == other.tolist()
