from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.oracles.histograms import SlowHistogram, round_like_go
from trellis.core.usage.columns import split_into_unique_batches
from trellis.core.usage.histograms.bins import (
    CPU_BINS,
    CPU_TOTAL_BINS,
    EPSILON,
    MEMORY_BINS,
    MEMORY_TOTAL_BINS,
    BinLayout,
)
from trellis.core.usage.histograms.decaying_histograms import compute_decay_factors, round_to_half_life

LAYOUTS = [CPU_BINS, MEMORY_BINS, CPU_TOTAL_BINS, MEMORY_TOTAL_BINS]
DAY = 86_400.0
times = st.floats(-1e10, 1e10)
half_lives = st.sampled_from([DAY, 3_600.0, 36 * 3_600.0, 7 * DAY, 1_234.5, 0.25])


def test_the_buckets_of_a_container_are_as_many_as_upstream_has() -> None:
    assert (CPU_BINS.bins, MEMORY_BINS.bins) == (176, 176)
    assert EPSILON == 0.001 * 0.1


@pytest.mark.parametrize(
    ("layout", "largest"), [(CPU_BINS, 1e3), (MEMORY_BINS, 1e12), (CPU_TOTAL_BINS, 1e6), (MEMORY_TOTAL_BINS, 1e15)]
)
def test_the_last_bucket_starts_at_the_largest_value_or_above(layout: BinLayout, largest: float) -> None:
    assert layout.starts[layout.bins - 2] < largest <= layout.starts[layout.bins - 1]


def test_workload_totals_have_the_bins_of_containers_and_more() -> None:
    assert CPU_TOTAL_BINS.bins > CPU_BINS.bins
    np.testing.assert_array_equal(CPU_TOTAL_BINS.starts[: CPU_BINS.bins], CPU_BINS.starts[:-1])
    np.testing.assert_array_equal(MEMORY_TOTAL_BINS.starts[: MEMORY_BINS.bins], MEMORY_BINS.starts[:-1])


@pytest.mark.parametrize(
    ("layout", "value", "bucket", "end"),
    [
        (CPU_BINS, 0.1, 8, 0.110265643),
        (CPU_BINS, 0.5, 25, 0.511134538),
        (CPU_BINS, 1.0, 36, 1.016281389),
        (CPU_BINS, 4.0, 62, 4.124698514),
        (MEMORY_BINS, 300 * 2.0**20, 19, 330659541.0),
        (MEMORY_BINS, 2.0**30, 37, 1077095458.0),
    ],
)
def test_values_fall_into_upstreams_bins(layout: BinLayout, value: float, bucket: int, end: float) -> None:
    assert layout.find_bins(np.array([value])).tolist() == [bucket]
    assert layout.starts[bucket + 1] == pytest.approx(end, rel=1e-8)


def test_values_beyond_the_first_and_last_bin_are_counted() -> None:
    assert CPU_BINS.find_bins(np.array([0.0, 0.00999, 0.01, 1_021.0, 1_022.0, 1e18])).tolist() == [
        0,
        0,
        1,
        174,
        175,
        175,
    ]


def test_the_last_bin_ends_at_its_start() -> None:
    for layout in LAYOUTS:
        assert len(layout.starts) == layout.bins + 1
        assert layout.starts[-1] == layout.starts[-2]


def test_the_edges_of_bins_are_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        CPU_BINS.starts[3] = 1.0


@given(st.sampled_from(LAYOUTS), st.lists(st.floats(0, 1e16), min_size=1))
def test_a_value_lies_between_the_edges_of_its_bin(layout: BinLayout, values: list[float]) -> None:
    slow = SlowHistogram(layout.first_width, layout.bins, DAY)
    for value, bucket in zip(values, layout.find_bins(np.array(values)).tolist(), strict=True):
        # At an edge itself a rounding error of the logarithm decides, with upstream as well.
        assert abs(bucket - slow.bucket(value)) <= 1
        assert slow.start(bucket) <= value * (1 + 1e-12) or bucket == 0
        assert value <= slow.start(bucket + 1) * (1 + 1e-12) or bucket == layout.bins - 1


@given(st.lists(times, min_size=1), half_lives)
def test_references_are_rounded_as_go_rounds_times(moments: list[float], half_life: float) -> None:
    result = round_to_half_life(np.array(moments), half_life)
    for moment, reference in zip(moments, result.tolist(), strict=True):
        assert abs(reference - moment) <= half_life / 2 + 1e-5
        # A time before 1970 may be cut to the microsecond on the way, and then be half way on either side.
        near = {
            round_like_go(moment - 1e-6, half_life),
            round_like_go(moment, half_life),
            round_like_go(moment + 1e-6, half_life),
        }
        assert min(abs(reference - item) for item in near) <= 1e-5


@pytest.mark.parametrize(
    ("hours", "reference"),
    [(0.0, 0.0), (11.999, 0.0), (12.0, 24.0), (12.001, 24.0), (-12.0, 0.0), (-12.001, -24.0), (24.0, 24.0)],
)
def test_with_a_half_life_of_a_day_the_reference_is_a_midnight_and_noon_belongs_to_the_next(
    hours: float, reference: float
) -> None:
    assert round_to_half_life(np.array([hours * 3_600]), DAY).tolist() == [reference * 3_600]


def test_references_are_multiples_of_the_half_life_since_the_year_one() -> None:
    week = 7 * DAY
    monday = 1_763_337_600.0  # 2025-11-17, a Monday as 0001-01-01 was; 1970-01-01 was a Thursday
    assert round_to_half_life(np.array([monday + 3 * DAY]), week).tolist() == [monday]
    assert round_to_half_life(np.array([monday + 4 * DAY]), week).tolist() == [monday + week]


@given(st.floats(-50, 50), half_lives)
def test_a_sample_weighs_half_of_one_a_half_life_younger(age: float, half_life: float) -> None:
    old, young = compute_decay_factors(np.array([age, age + 1]) * half_life, np.zeros(2), half_life).tolist()
    assert math.isclose(young, 2 * old, rel_tol=1e-9)


@given(st.lists(st.integers(0, 4)))
def test_rounds_name_every_sample_once_and_no_row_twice_and_keep_the_order(rows: list[int]) -> None:
    parts = [part.tolist() for part in split_into_unique_batches(np.array(rows, dtype=np.int64))]
    assert sorted(position for part in parts for position in part) == list(range(len(rows)))
    for row in set(rows):
        turns = [[position for position in part if rows[position] == row] for part in parts]
        assert all(len(turn) <= 1 for turn in turns)
        observed = [turn[0] for turn in turns if turn]
        assert observed == sorted(observed)
