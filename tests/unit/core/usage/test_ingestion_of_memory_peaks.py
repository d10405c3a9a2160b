"""Memory counts as one peak per container and window."""

from __future__ import annotations

import math

import numpy as np
import pytest

from support.builders.usage_samples import batch, memory_weights, peak, pod, row
from trellis.core.usage.histograms.bins import MEMORY_BINS
from trellis.core.usage.model import UsageModel
from trellis.core.usage.settings import UsageSettings

START = 1_700_000_000.0
DAY = 86_400.0


def buckets(*values: float) -> list[int]:
    """The buckets of values, ascending."""
    return [int(bucket) for bucket in MEMORY_BINS.find_bins(np.array(sorted(values)))]


@pytest.fixture
def model() -> UsageModel:
    model = UsageModel()
    model.track_pods("shop", [pod("web-1")], START)
    return model


def use(model: UsageModel, time: float, memory: float, name: str = "web-1") -> None:
    model.ingest(batch((name, "app", time, math.nan, memory)), time)


def test_only_the_highest_of_a_window_is_in_the_histogram(model: UsageModel) -> None:
    for minute, memory in enumerate([2e8, 5e8, 3e8, 9e8, 1e8]):
        use(model, START + 60 * minute, memory)
    assert list(memory_weights(model)) == buckets(9e8)


def test_every_window_has_a_peak(model: UsageModel) -> None:
    for day, memory in enumerate([2e8, 5e8, 3e8]):
        use(model, START + DAY * day, memory)
    assert list(memory_weights(model)) == buckets(2e8, 3e8, 5e8)


def test_every_container_has_a_peak_of_its_own(model: UsageModel) -> None:
    model.track_pods("shop", [pod("web-1"), pod("web-2")], START)
    use(model, START, 2e8, "web-1")
    use(model, START, 8e8, "web-2")
    use(model, START + 60, 4e8, "web-1")
    assert list(memory_weights(model)) == buckets(4e8, 8e8)


def test_a_peak_counts_at_the_end_of_its_window(model: UsageModel) -> None:
    use(model, START, 2e8)
    weight = memory_weights(model)[buckets(2e8)[0]]
    reference = float(model.view().memory.references(row(model))[0])
    assert weight == pytest.approx(math.exp2((START + DAY - reference) / DAY))


def test_windows_are_consecutive_however_long_a_container_is_silent(model: UsageModel) -> None:
    use(model, START, 2e8)
    use(model, START + 5.5 * DAY, 3e8)
    use(model, START + 5.9 * DAY, 4e8)  # the sixth window ends at START + 6 days
    use(model, START + 6.0 * DAY, 1e8)
    assert list(memory_weights(model)) == buckets(1e8, 2e8, 4e8)


def test_a_first_sample_of_nothing_does_not_blind_the_window(model: UsageModel) -> None:
    use(model, START, 0.0)
    assert list(memory_weights(model)) == [0]
    use(model, START + 60, 7e8)
    assert list(memory_weights(model)) == buckets(7e8)


def test_a_second_value_for_one_time_counts_if_it_is_higher(model: UsageModel) -> None:
    use(model, START, 3e8)
    use(model, START, 2e8)
    use(model, START, 6e8)
    assert list(memory_weights(model)) == buckets(6e8)


def test_an_older_value_does_not_count(model: UsageModel) -> None:
    use(model, START, 3e8)
    use(model, START - 1, 6e8)
    assert list(memory_weights(model)) == buckets(3e8)


def test_after_a_batch_with_several_values_samples_before_the_newest_are_late(model: UsageModel) -> None:
    times = (START, START + 60, START + 120)
    model.ingest(batch(*(("web-1", "app", time, math.nan, 2e8) for time in times)), START + 120)
    use(model, START + 90, 6e8)
    assert list(memory_weights(model)) == buckets(2e8)


def test_the_length_of_a_window_can_be_set() -> None:
    model = UsageModel(UsageSettings(memory_window=3600.0))
    model.track_pods("shop", [pod("web-1")], START)
    for hour, memory in enumerate([2e8, 5e8, 3e8]):
        use(model, START + 3600 * hour, memory)
    assert list(memory_weights(model)) == buckets(2e8, 3e8, 5e8)
    assert peak(model) == MEMORY_BINS.starts[buckets(5e8)[0] + 1]
