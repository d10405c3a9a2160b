from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.oracles.histograms import SlowHistogram
from trellis.base.errors import InternalError
from trellis.core.usage.columns import IntColumn
from trellis.core.usage.histograms.bins import CPU_BINS, CPU_TOTAL_BINS, EPSILON, MEMORY_BINS, BinLayout
from trellis.core.usage.histograms.decaying_histograms import FEW_ROWS, HistogramBank, SavedHistogram

DAY = 86_400.0
NOON = 1_763_380_800.0  # 2025-11-17T12:00:00Z
MIDNIGHT = NOON + DAY / 2
ROWS = 5
FRACTIONS = [0.0, 0.1, 0.5, 0.9, 1.0]
SMALL = BinLayout(0.01, 40)  # the last bucket starts at 1.1


class Sample(NamedTuple):
    row: int
    time: float
    value: float
    weight: float


class Step(NamedTuple):
    """One call: add or subtract `samples`, or merge, save and load, or clear `rows`."""

    what: str
    samples: list[Sample]
    rows: list[int]


def bank_of(
    layout: BinLayout = CPU_BINS, half_life: float = DAY, rows_per_block: int = 2, rows: int = ROWS
) -> HistogramBank:
    bank = HistogramBank(layout, half_life, rows_per_block)
    bank.reserve(rows)
    return bank


def ints(*rows: int) -> IntColumn:
    return np.array(rows, dtype=np.int64)


def feed(bank: HistogramBank, samples: Sequence[Sample], subtract: bool = False) -> None:
    change = bank.subtract if subtract else bank.add
    change(
        ints(*(sample.row for sample in samples)),
        np.array([sample.time for sample in samples], dtype=np.float64),
        np.array([sample.value for sample in samples], dtype=np.float64),
        np.array([sample.weight for sample in samples], dtype=np.float64),
    )


def filled(*values: float, layout: BinLayout = CPU_BINS, weight: float = 1.0) -> HistogramBank:
    """A bank whose row 0 has samples of these values, all at the reference and so of the weight given."""
    bank = bank_of(layout)
    feed(bank, [Sample(0, MIDNIGHT, value, weight) for value in values])
    return bank


class Oracles:
    """The same rows as slow histograms."""

    def __init__(self, layout: BinLayout, half_life: float) -> None:
        self.layout = layout
        self.half_life = half_life
        self.rows = [self.new() for _ in range(ROWS)]
        self.heaviest = 0.0

    def new(self) -> SlowHistogram:
        return SlowHistogram(self.layout.first_width, self.layout.bins, self.half_life)

    def do(self, step: Step) -> None:
        for row, time, value, weight in step.samples:
            (self.rows[row].subtract if step.what == "subtract" else self.rows[row].add)(time, value, weight)
            self.heaviest = max(self.heaviest, *(histogram.total for histogram in self.rows))
        if step.what == "merge":
            into, other = step.rows[0], step.rows[-1]
            copy = self.new()
            copy.merge(self.rows[other])
            self.rows[into].merge(copy)
        if step.what == "reload":
            for row in step.rows:
                before, self.rows[row] = self.rows[row], self.new()
                self.rows[row].load(before.reference, before.saved(), before.total)
        if step.what == "clear":
            for row in step.rows:
                self.rows[row] = self.new()


def do(bank: HistogramBank, step: Step) -> None:
    if step.samples:
        feed(bank, step.samples, step.what == "subtract")
    if step.what == "merge":
        # A merge leaves out what is too light to count, so the copy is a merge as well.
        copy = bank_of(bank.layout, bank.half_life, rows_per_block=1, rows=1)
        copy.merge(ints(0), bank, ints(step.rows[-1]))
        bank.merge(ints(step.rows[0]), copy, ints(0))
    if step.what == "reload":
        for row, saved in zip(step.rows, bank.save(ints(*step.rows)), strict=True):
            bank.load(row, saved)
    if step.what == "clear":
        bank.clear(ints(*step.rows))


def assert_same(bank: HistogramBank, oracles: Oracles, heaviest: float) -> None:
    """To 1e-9 of what is there, or of what a sum had in it before it was taken away again."""
    rows = np.arange(ROWS, dtype=np.int64)
    references = [math.nan if slow.reference is None else slow.reference for slow in oracles.rows]
    np.testing.assert_allclose(bank.references(rows), references, rtol=0, atol=1e-5)
    totals = [slow.total for slow in oracles.rows]
    np.testing.assert_allclose(bank.totals(rows), totals, rtol=1e-9, atol=1e-9 * heaviest)
    weights = np.array([slow.weights for slow in oracles.rows]).T
    np.testing.assert_allclose(bank.weights(rows), weights, rtol=1e-9, atol=1e-9 * heaviest)
    assert bank.is_empty(rows).tolist() == [slow.weights[slow.lowest] < EPSILON for slow in oracles.rows]
    assert_same_percentiles(bank, oracles)


def assert_same_percentiles(bank: HistogramBank, oracles: Oracles) -> None:
    result = bank.percentiles(FRACTIONS)[:, :ROWS]
    for number, fraction in enumerate(FRACTIONS):
        for row, slow in enumerate(oracles.rows):
            # Where a sum is just about the threshold, its last digit decides.
            around = [slow.percentile(fraction * by) for by in (1 - 1e-9, 1, 1 + 1e-9)]
            assert min(around) * (1 - 1e-9) <= result[number, row] <= max(around) * (1 + 1e-9)
    for rows in (ints(3), ints(4, 0, 4), ints()):
        np.testing.assert_array_equal(bank.percentiles(FRACTIONS, rows), result[:, rows])


def samples_at(moments: st.SearchStrategy[float]) -> st.SearchStrategy[list[Sample]]:
    values = st.one_of(st.floats(0, 2), st.sampled_from([0.0, 0.5, 1e18]))
    weights = st.sampled_from([0.1, 1.0, 0.0, 7.0])
    return st.lists(st.builds(Sample, st.integers(0, ROWS - 1), moments, values, weights), min_size=1, max_size=9)


def steps_of(batches: st.SearchStrategy[list[Sample]]) -> st.SearchStrategy[list[Step]]:
    rows = st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=2, unique=True)
    return st.lists(
        st.one_of(
            st.builds(Step, st.sampled_from(["add", "add", "subtract"]), batches, st.just([])),
            st.builds(Step, st.sampled_from(["merge", "reload", "clear"]), st.just([]), rows),
        ),
        max_size=8,
    )


half_lives = st.sampled_from([DAY, 3_600.0, 36 * 3_600.0, 1_234.5])
# In half-lives. Whole ones make every weight exact, so that not even a removal loses a digit.
whole_ages = st.one_of(st.integers(-30, 30), st.integers(-120, 120), st.integers(-20_000, 20_000))
near_ages = st.floats(0, 15)
far_ages = st.one_of(st.floats(-150, 150), st.floats(-20_000, 20_000))


@given(steps_of(samples_at(whole_ages.map(float))), half_lives)
def test_a_bank_equals_single_histograms_over_years(steps: list[Step], half_life: float) -> None:
    check(steps, half_life)


@given(steps_of(samples_at(near_ages)), half_lives)
def test_a_bank_equals_single_histograms_within_days(steps: list[Step], half_life: float) -> None:
    check(steps, half_life)


@given(st.lists(samples_at(far_ages), max_size=6), half_lives)
def test_samples_at_any_time_and_in_any_order_add_up(batches: list[list[Sample]], half_life: float) -> None:
    check([Step("add", batch, []) for batch in batches], half_life)


def check(steps: list[Step], half_life: float) -> None:
    bank, oracles = bank_of(SMALL, half_life), Oracles(SMALL, half_life)
    start = bank_start(half_life)
    for step in steps:
        timed = [sample._replace(time=start + sample.time * half_life) for sample in step.samples]
        do(bank, step._replace(samples=timed))
        oracles.do(step._replace(samples=timed))
    assert_same(bank, oracles, oracles.heaviest if any(step.what == "subtract" for step in steps) else 0.0)


def bank_start(half_life: float) -> float:
    """A possible reference in 2025."""
    slow = SlowHistogram(1.0, 2, half_life)
    slow.shift(NOON)
    assert slow.reference is not None
    return slow.reference


@pytest.mark.parametrize(
    ("layout", "value", "end"),
    [
        (CPU_BINS, 0.1, 0.110265643),
        (CPU_BINS, 0.5, 0.511134538),
        (CPU_BINS, 1.0, 1.016281389),
        (CPU_BINS, 4.0, 4.124698514),
        (MEMORY_BINS, 300 * 2.0**20, 330659541.0),
        (MEMORY_BINS, 2.0**30, 1077095458.0),
    ],
)
def test_the_percentile_of_steady_usage_is_the_end_of_its_bin(layout: BinLayout, value: float, end: float) -> None:
    bank = filled(*[value] * 60, layout=layout)
    assert bank.percentiles([0.5, 0.9, 0.95], ints(0))[:, 0].tolist() == pytest.approx([end] * 3, rel=1e-8)


def test_an_empty_row_has_no_percentile() -> None:
    bank = filled(1.0)
    assert bank.percentiles(FRACTIONS, ints(1)).tolist() == [[0.0]] * len(FRACTIONS)
    assert bank.is_empty(ints(0, 1)).tolist() == [False, True]
    assert math.isnan(bank.references(ints(1))[0])
    assert bank.totals(ints(1)).tolist() == [0.0]


def test_percentile_0_is_the_lowest_bucket_and_percentile_1_the_highest() -> None:
    result = filled(0.1, 0.5, 4.0).percentiles([0.0, 1.0], ints(0))[:, 0]
    assert result.tolist() == pytest.approx([0.110265643, 4.124698514], rel=1e-8)


def test_a_sum_that_just_reaches_the_threshold_is_enough() -> None:
    result = filled(0.1, 4.0).percentiles([0.5, 0.50001], ints(0))[:, 0]
    assert result.tolist() == pytest.approx([0.110265643, 4.124698514], rel=1e-8)


def test_the_percentile_in_the_last_bin_is_its_start() -> None:
    assert filled(5_000.0).percentiles([0.5], ints(0))[0, 0] == CPU_BINS.starts[-1]
    assert filled(5e6, layout=CPU_TOTAL_BINS).percentiles([0.5], ints(0))[0, 0] == CPU_TOTAL_BINS.starts[-1]


def test_weights_below_a_thousandth_of_the_lightest_sample_do_not_count() -> None:
    bank = filled(1.0, weight=0.99 * EPSILON)
    assert bank.is_empty(ints(0)).all()
    feed(bank, [Sample(0, MIDNIGHT, 1.0, 0.02 * EPSILON)])
    assert not bank.is_empty(ints(0)).any()


def test_light_buckets_at_both_ends_are_passed_over() -> None:
    bank = filled(0.5, 1.0)
    feed(bank, [Sample(0, MIDNIGHT, value, 0.9 * EPSILON) for value in (0.0, 4.0)])
    result = bank.percentiles([0.0, 1.0], ints(0))[:, 0]
    assert result.tolist() == pytest.approx([0.511134538, 1.016281389], rel=1e-8)


def test_weights_below_the_lowest_counted_bin_are_not_summed() -> None:
    bank = bank_of()
    feed(bank, [Sample(0, MIDNIGHT, value, weight * EPSILON) for value, weight in ((0.0, 0.9), (0.5, 2.0), (4.0, 2.0))])
    feed(bank, [Sample(1, MIDNIGHT, 0.0, 1.0)])  # the sweep over this block begins with bucket 0
    assert bank.percentiles([0.55], ints(0))[0, 0] == pytest.approx(4.124698514, rel=1e-8)


def test_weights_that_do_not_count_are_neither_merged_nor_saved() -> None:
    bank, other = filled(0.5), filled(0.5)
    for item in (bank, other):
        feed(item, [Sample(0, MIDNIGHT, value, 0.9 * EPSILON) for value in (0.0, 4.0)])
    assert other.save(ints(0))[0].weights == {25: 10_000}
    bank.merge(ints(0), other, ints(0))
    assert bank.weights(ints(0))[[0, 25, 62], 0].tolist() == [0.9 * EPSILON, 2.0, 0.9 * EPSILON]
    assert bank.totals(ints(0))[0] == pytest.approx(2.0 + 3.6 * EPSILON)


def test_subtracting_a_sample_restores_the_row() -> None:
    bank = filled(0.5)
    feed(bank, [Sample(0, MIDNIGHT, 4.0, 1.0)])
    feed(bank, [Sample(0, MIDNIGHT, 4.0, 1.0)], subtract=True)
    assert bank.percentiles([1.0], ints(0))[0, 0] == pytest.approx(0.511134538, rel=1e-8)
    assert bank.totals(ints(0)).tolist() == [1.0]


def test_taking_away_more_than_there_is_leaves_nothing_and_nothing_negative() -> None:
    bank = filled(0.5)
    feed(bank, [Sample(0, MIDNIGHT, 0.5, 3.0), Sample(0, MIDNIGHT, 0.5, 3.0)], subtract=True)
    assert bank.is_empty(ints(0)).all()
    assert bank.totals(ints(0)).tolist() == [0.0]
    assert bank.weights(ints(0)).min() == 0.0


def test_taking_away_almost_all_leaves_nothing() -> None:
    bank = filled(0.5)
    feed(bank, [Sample(0, MIDNIGHT, 0.5, 1 - 0.9 * EPSILON)], subtract=True)
    assert bank.totals(ints(0)).tolist() == [0.0]
    assert bank.weights(ints(0)).max() == 0.0


def test_a_sample_of_a_half_life_ago_weighs_half() -> None:
    bank = bank_of()
    feed(bank, [Sample(0, MIDNIGHT, 0.5, 1.0), Sample(0, MIDNIGHT + DAY, 4.0, 1.0)])
    result = bank.percentiles([0.33, 0.34], ints(0))[:, 0]
    assert result.tolist() == pytest.approx([0.511134538, 4.124698514], rel=1e-8)


def test_the_reference_stays_for_a_hundred_half_lives_and_then_follows() -> None:
    bank = bank_of()
    feed(bank, [Sample(0, NOON, 0.5, 1.0)])
    assert bank.references(ints(0)).tolist() == [MIDNIGHT]
    feed(bank, [Sample(0, MIDNIGHT + 100 * DAY, 0.5, 1.0)])
    assert bank.references(ints(0)).tolist() == [MIDNIGHT]
    assert bank.totals(ints(0))[0] == pytest.approx(2.0**100 + 2.0**-0.5)
    feed(bank, [Sample(0, MIDNIGHT + 100.25 * DAY, 0.5, 1.0)])
    assert bank.references(ints(0)).tolist() == [MIDNIGHT + 100 * DAY]
    assert bank.totals(ints(0))[0] == pytest.approx(1 + 2.0**0.25)


def test_a_batch_may_take_a_row_through_several_references() -> None:
    far = [Sample(0, MIDNIGHT + day * DAY, 0.5, 1.0) for day in (0, 3, 150, 120, 400, 5, 401)]
    at_once, one_by_one = bank_of(), bank_of()
    feed(at_once, far)
    for sample in far:
        feed(one_by_one, [sample])
    assert at_once.references(ints(0)).tolist() == [MIDNIGHT + 400 * DAY]
    np.testing.assert_array_equal(at_once.weights(ints(0)), one_by_one.weights(ints(0)))


def test_a_sample_without_a_time_is_a_bug_of_the_caller() -> None:
    with pytest.raises(InternalError):
        feed(bank_of(), [Sample(0, math.nan, 0.5, 1.0)])


def test_the_older_reference_follows_the_younger_in_a_merge() -> None:
    old, young = bank_of(), bank_of()
    feed(old, [Sample(1, MIDNIGHT, 0.5, 8.0)])
    feed(young, [Sample(2, MIDNIGHT + 3 * DAY, 4.0, 1.0)])
    for into, row, other, other_row in ((old.copy_rows(ints(1)), 0, young, 2), (young.copy_rows(ints(2)), 0, old, 1)):
        into.merge(ints(row), other, ints(other_row))
        assert into.references(ints(row)).tolist() == [MIDNIGHT + 3 * DAY]
        assert into.totals(ints(row)).tolist() == [2.0]
        assert into.percentiles([0.5], ints(row))[0, 0] == pytest.approx(0.511134538, rel=1e-8)
    assert old.references(ints(1)).tolist() == [MIDNIGHT]
    assert old.totals(ints(1)).tolist() == [8.0]


def test_several_rows_merge_into_one_in_any_order() -> None:
    bank = bank_of()
    feed(bank, [Sample(row, MIDNIGHT + row * 120 * DAY, 0.5 * row, 1.0) for row in (1, 2, 3)])
    feed(bank, [Sample(row, MIDNIGHT + 360 * DAY, 0.5, 1.0) for row in (1, 2, 3)])
    merged = bank_of()
    for row, order in enumerate([(1, 2, 3), (3, 2, 1)]):
        merged.merge(ints(row, row, row), bank, ints(*order))
    assert merged.references(ints(0, 1)).tolist() == [MIDNIGHT + 360 * DAY] * 2
    np.testing.assert_array_equal(merged.weights(ints(0)), merged.weights(ints(1)))
    assert merged.totals(ints(0))[0] == pytest.approx(4.0)


def test_a_row_can_be_merged_into_another_of_its_own_bank() -> None:
    bank = filled(0.5)
    feed(bank, [Sample(4, MIDNIGHT, 4.0, 1.0)])
    bank.merge(ints(4), bank, ints(0))
    assert bank.totals(ints(0, 4)).tolist() == [1.0, 2.0]


def test_histograms_of_different_kinds_are_never_merged() -> None:
    for other in (bank_of(MEMORY_BINS), bank_of(half_life=3_600.0)):
        with pytest.raises(InternalError):
            bank_of().merge(ints(0), other, ints(0))


def test_a_copy_is_independent_and_dense() -> None:
    bank = filled(0.5)
    feed(bank, [Sample(3, MIDNIGHT, 4.0, 2.0)])
    copy = bank.copy_rows(ints(3, 0))
    bank.clear(ints(0, 3))
    assert copy.totals(ints(0, 1)).tolist() == [2.0, 1.0]
    assert copy.percentiles([0.5]).tolist()[0] == pytest.approx([4.124698514, 0.511134538], rel=1e-8)
    assert bank.copy_rows(ints()).capacity == 0


def test_a_cleared_row_is_empty_and_its_neighbours_are_unchanged() -> None:
    bank = filled(0.5)
    feed(bank, [Sample(1, MIDNIGHT, 4.0, 1.0)])
    bank.clear(ints(0))
    assert bank.is_empty(ints(0, 1)).tolist() == [True, False]
    assert math.isnan(bank.references(ints(0))[0])
    feed(bank, [Sample(0, MIDNIGHT - 300 * DAY, 1.0, 1.0)])
    assert bank.references(ints(0)).tolist() == [MIDNIGHT - 300 * DAY]
    assert bank.totals(ints(0)).tolist() == [1.0]


def test_growing_keeps_rows_and_an_unused_bank_takes_no_memory() -> None:
    bank = HistogramBank(CPU_TOTAL_BINS, DAY, rows_per_block=2)
    assert (bank.capacity, bank.nbytes) == (0, 0)
    assert bank.percentiles([0.5]).shape == (1, 0)
    bank.reserve(1)
    feed(bank, [Sample(0, MIDNIGHT, 0.5, 1.0)])
    small = bank.nbytes
    bank.reserve(2)
    assert (bank.capacity, bank.nbytes) == (2, small)
    bank.reserve(7)
    assert (bank.capacity, bank.nbytes) == (8, 4 * small)
    assert bank.totals(ints(0, 7)).tolist() == [1.0, 0.0]
    assert bank.is_empty(ints(1, 7)).all()


def test_blocks_begin_small_and_double_the_capacity_until_they_are_full_size() -> None:
    bank = HistogramBank(CPU_BINS, DAY, rows_per_block=4 * FEW_ROWS)
    assert bank.nbytes == 0
    capacities = []
    for rows in range(1, 13 * FEW_ROWS, FEW_ROWS):
        bank.reserve(rows)
        capacities.append(bank.capacity // FEW_ROWS)
    assert capacities == [1, 2, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12, 16]


def test_rows_of_blocks_of_unlike_sizes_equal_those_of_one_block() -> None:
    grown, whole = HistogramBank(CPU_BINS, DAY, 4 * FEW_ROWS), HistogramBank(CPU_BINS, DAY, FEW_ROWS)
    ends = [number * FEW_ROWS + step for number in (1, 2, 4, 8) for step in (-1, 0)]
    rows, places = ints(0, *ends), np.arange(9, dtype=np.int64)
    grown.reserve(10 * FEW_ROWS)
    whole.reserve(9)
    for bank, numbers in ((grown, rows), (whole, places)):
        bank.add(np.tile(numbers, 20), np.full(180, MIDNIGHT), np.linspace(0, 13, 180) ** 2, 0.1)
        bank.subtract(numbers[::2], np.full(5, MIDNIGHT), np.full(5, 0.0), 0.05)
    np.testing.assert_array_equal(grown.percentiles(FRACTIONS, rows), whole.percentiles(FRACTIONS, places))
    np.testing.assert_array_equal(grown.weights(rows), whole.weights(places))
    assert grown.save(rows) == whole.save(places)
    assert grown.is_empty(rows + 2).sum() == len(rows)


def test_percentiles_of_few_rows_equal_those_of_all() -> None:
    bank = bank_of(rows_per_block=64, rows=150)
    rows = np.arange(150, dtype=np.int64)
    bank.add(np.tile(rows, 3), np.full(450, MIDNIGHT), np.linspace(0, 30, 450) ** 2, 0.1)
    everyone = bank.percentiles(FRACTIONS)
    for some in (ints(77), rows[::11], rows[::-1].copy(), rows[60:140]):
        np.testing.assert_array_equal(bank.percentiles(FRACTIONS, some), everyone[:, some])


def test_the_heaviest_bucket_is_saved_as_10000_and_the_lightest_not_at_all() -> None:
    bank = bank_of()
    feed(bank, [Sample(0, MIDNIGHT, 0.5, 2.0), Sample(0, MIDNIGHT, 4.0, 1.0), Sample(0, MIDNIGHT, 1.0, 1.01e-4)])
    feed(bank, [Sample(0, MIDNIGHT, 0.1, 0.9 * EPSILON)])
    full, empty = bank.save(ints(0, 1))
    assert (full.reference, full.weights) == (MIDNIGHT, {25: 10_000, 36: 1, 62: 5_000})
    assert full.total == pytest.approx(3.000191)
    assert (math.isnan(empty.reference), empty.weights, empty.total) == (True, {}, 0.0)


def test_weights_are_saved_to_the_nearest_and_half_is_up() -> None:
    bank = bank_of()
    weights = {0.5: 1e4, 1.0: 1.5, 4.0: 1.499, 0.1: 0.5, 0.2: 0.499}
    feed(bank, [Sample(0, MIDNIGHT, value, weight) for value, weight in weights.items()])
    assert bank.save(ints(0))[0].weights == {25: 10_000, 36: 2, 62: 1, 8: 1}


def test_a_loaded_row_has_its_shares_of_the_total() -> None:
    bank = filled(1.0)
    bank.load(0, SavedHistogram(MIDNIGHT, {25: 10_000, 62: 5_000, 70: 0}, 3.0))
    assert bank.totals(ints(0)).tolist() == [3.0]
    assert bank.weights(ints(0))[[25, 36, 62], 0].tolist() == pytest.approx([2.0, 0.0, 1.0])
    assert bank.percentiles([1.0], ints(0))[0, 0] == pytest.approx(4.124698514, rel=1e-8)


def test_loading_many_is_loading_each() -> None:
    saved = [SavedHistogram(MIDNIGHT + n * DAY, {n: 10_000, n + 9: 7 * n}, 1.0 + n) for n in range(ROWS - 1)]
    saved.append(SavedHistogram())
    many, item = bank_of(), bank_of()
    many.load_all(np.arange(ROWS, dtype=np.int64), saved)
    for row, one in enumerate(saved):
        item.load(row, one)
    everyone = np.arange(ROWS, dtype=np.int64)
    np.testing.assert_array_equal(many.weights(everyone), item.weights(everyone))
    np.testing.assert_array_equal(many.references(everyone), item.references(everyone))
    assert many.totals(everyone).tolist() == [1.0, 2.0, 3.0, 4.0, 0.0]


def test_weights_without_a_reference_have_no_age_and_are_not_loaded() -> None:
    bank = filled(1.0)
    bank.load(0, SavedHistogram(math.nan, {25: 10_000}, 3.0))
    assert bank.is_empty(ints(0)).all()
    feed(bank, [Sample(0, MIDNIGHT, 4.0, 1.0)])
    assert bank.totals(ints(0)).tolist() == [1.0]


def test_a_row_saved_with_another_half_life_keeps_its_weight_among_newer_samples() -> None:
    bank = bank_of(half_life=5 * DAY)
    before = SavedHistogram(MIDNIGHT, {25: 10_000}, 1.0)
    bank.load(0, before)
    reference = bank.references(ints(0))[0]
    assert reference != MIDNIGHT
    feed(bank, [Sample(1, MIDNIGHT, 0.5, 1.0)])
    assert bank.references(ints(1)).tolist() == [reference]
    assert bank.totals(ints(0)).tolist() == pytest.approx(bank.totals(ints(1)).tolist())
