"""Memory cycles from a week to a quarter: recognised, followed before the peak, and ended when they break."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.recommend.amounts import MEMORY
from trellis.core.recommend.forecast.memory_cycles import CycleRule, find_cycle_periods, locate_cycle_phase
from trellis.core.recommend.parameters import ParameterValue
from trellis.core.recommend.protocol import Estimates
from trellis.core.recommend.recommenders.default import DefaultRecommender
from trellis.core.recommend.recommenders.seasonal import SeasonalRecommender
from trellis.core.usage.columns import FloatColumn
from trellis.core.usage.history.hourly import CELLS, Peaks
from trellis.testing.estimates import request_estimates
from trellis.testing.rows import GIB, HOUR, NOW, UsageExample, build_rows

DAY = 86400.0
PER_DAY = 4
LOW, HIGH = 1.0, 4.0


def peaks(period: float, phase: float = 0.0, *, days: float = 280, width: float = 1.0, noise: float = 0.01) -> Peaks:
    """One row: a peak of a day every `period` days, the last of which began `phase` days ago; the last `days` known."""
    ago = np.arange(CELLS - 1, -1, -1) / PER_DAY
    begun = (phase - ago) % period
    draw = np.random.default_rng(int(100 * period + 10 * phase))
    result = np.where(begun < width, HIGH, LOW) * draw.lognormal(0.0, noise, CELLS)
    result[ago >= days] = np.nan
    return result[np.newaxis].astype(np.float32)


def period_of(result: Peaks, rule: CycleRule | None = None) -> float:
    """In days; 0 for none."""
    return float(find_cycle_periods(result, rule or CycleRule())[0]) / PER_DAY


def used_memory(period: float, days_since: float, days: int = 60) -> UsageExample:
    """Hours of a day-long peak of 4 GiB every `period` days above 1 GiB; the last one began so long ago."""
    ago = np.arange(days * 24 - 1, -1, -1) / 24.0
    memory = np.where((days_since - ago) % period < 1.0, HIGH, LOW) * GIB
    return UsageExample([0.1] * len(ago), memory)


def estimated(used: UsageExample, now: float = NOW, **given: ParameterValue) -> Estimates:
    values = {name.replace("_", "-"): value for name, value in given.items()}
    return request_estimates(SeasonalRecommender(DefaultRecommender()), build_rows([used], now), values, now)


def target(used: UsageExample, **given: ParameterValue) -> float:
    return float(estimated(used, NOW, **given).target[MEMORY, 0]) / GIB


@pytest.mark.req("CR-25")
@pytest.mark.parametrize("period", [7, 8, 10, 14, 21, 30, 45, 60, 92])
def test_a_cycle_is_recognised_at_each_of_its_phases(period: int) -> None:
    for phase in np.linspace(0.0, period, 8, endpoint=False).tolist():
        assert period_of(peaks(period, phase)) == period


@pytest.mark.parametrize("period", [9.9, 10.1, 13.8, 30.2])
def test_a_period_between_cells_is_recognised_as_the_nearest_one(period: float) -> None:
    assert period_of(peaks(period, 3.0)) == pytest.approx(period, abs=0.25)


def test_a_phase_that_drifts_by_some_hours_is_tolerated() -> None:
    result = peaks(10, 5.0)[0]
    draw = np.random.default_rng(3)
    drifting = np.full(CELLS, LOW, dtype=np.float32)
    for begin in np.flatnonzero((result > 2) & (np.roll(result, 1) < 2)).tolist():
        moved = begin + int(draw.integers(-1, 2))
        drifting[moved : moved + PER_DAY] = HIGH
    assert period_of(drifting[np.newaxis]) == pytest.approx(10, abs=0.5)


@pytest.mark.parametrize("period", [14, 30])
def test_two_peaks_are_not_enough_and_three_are(period: int) -> None:
    assert period_of(peaks(period, 2.0, days=1.6 * period)) == 0
    assert period_of(peaks(period, 2.0, days=2.0 * period + 5)) == period


def test_a_cycle_longer_than_the_parameter_is_not_recognised() -> None:
    month = peaks(30, 3.0)
    assert period_of(month, CycleRule(longest=29 * PER_DAY)) == 0
    assert period_of(month, CycleRule(longest=30 * PER_DAY)) == 30
    assert period_of(month, CycleRule(longest=0)) == 0


def test_alternating_big_and_small_peaks_are_one_cycle_of_two_peaks() -> None:
    small = peaks(20, 15.0)[0]
    both = np.maximum(peaks(20, 5.0)[0], np.where(small > 2, 2.0, LOW)).astype(np.float32)
    assert period_of(both[np.newaxis]) == 20


def test_a_rhythm_of_a_day_is_no_cycle() -> None:
    ago = np.arange(CELLS - 1, -1, -1)
    daily = np.where(ago % PER_DAY < 2, HIGH, LOW)[np.newaxis].astype(np.float32)
    assert period_of(daily) == 0


def test_an_odd_peak_in_the_last_cycles_ends_the_cycle() -> None:
    result = peaks(10, 2.0)
    assert period_of(result) == 10
    result[0, -28:-24] = HIGH
    assert period_of(result) == 0


def test_a_shifted_peak_ends_the_cycle_until_it_repeats() -> None:
    before, after = peaks(10, 2.0)[0], peaks(10, 6.0)[0]

    def jumped(days_ago: int) -> Peaks:
        at = CELLS - days_ago * PER_DAY
        return np.concatenate([before[:at], after[at:]])[np.newaxis]

    assert period_of(jumped(10)) == 0
    assert period_of(jumped(70)) == 10


def test_a_missed_peak_does_not_end_the_cycle() -> None:
    result = peaks(10, 5.0)
    result[0, -8 * PER_DAY :] = LOW  # the last peak did not come
    period = find_cycle_periods(result, CycleRule())
    assert period.tolist() == [10 * PER_DAY]
    next_peak = np.concatenate([result[:, 5 * PER_DAY :], np.full((1, 5 * PER_DAY), LOW, dtype=np.float32)], axis=1)
    assert locate_cycle_phase(next_peak, period, CycleRule()).needed[0] > 0.9 * HIGH


@pytest.mark.parametrize("rate", [2, 5, 12, 30])
def test_random_peaks_are_hardly_ever_recognised_as_a_cycle(rate: int) -> None:
    draw = np.random.default_rng(rate)
    result = np.full((400, CELLS), LOW, dtype=np.float32)
    for row in result:
        for begin in draw.integers(0, CELLS, draw.poisson(rate)).tolist():
            row[begin : begin + PER_DAY] = HIGH
    assert (find_cycle_periods(result, CycleRule()) > 0).mean() <= 0.01


@pytest.mark.parametrize("noise", [0.02, 0.1, 0.3, 1.0])
def test_noise_is_no_cycle(noise: float) -> None:
    draw = np.random.default_rng(1)
    assert not find_cycle_periods(draw.lognormal(0.0, noise, (100, CELLS)).astype(np.float32), CycleRule()).any()


@pytest.mark.parametrize("days_since", [0.5, 1.0, 2.5, 5.0, 7.0, 9.0, 9.4, 9.9])
@pytest.mark.parametrize("period", [10, 14])
@pytest.mark.req("CR-24", "CR-25")
def test_memory_is_raised_half_a_day_before_the_peak_and_lowered_a_day_after_it(period: int, days_since: float) -> None:
    since = days_since if days_since < 9 else days_since + period - 10
    result = estimated(used_memory(period, since, 6 * period))
    assert result.explanation["memory"] == ["cycle"]
    if since < 1.0 or since > period - 0.5:
        assert result.lower[MEMORY, 0] >= HIGH * GIB
    elif 2.5 <= since <= period - 1:
        assert result.upper[MEMORY, 0] < 1.5 * GIB


def test_the_explanation_has_the_cycle_and_the_time_to_its_peak() -> None:
    result = estimated(used_memory(14, 4.0, 80))
    assert result.explanation["memory-cycle-days"] == pytest.approx([14.0])
    assert result.explanation["memory-peak-in-days"] == pytest.approx([10.0], abs=0.5)
    without = estimated(UsageExample([0.1] * 800, [GIB] * 800))
    assert without.explanation["memory"] == ["peaks"]
    assert np.isnan(without.explanation["memory-cycle-days"]).all()


def test_a_cycle_above_the_longest_in_the_parameters_is_not_followed() -> None:
    used = used_memory(10, 4.0)
    assert target(used) < 1.5
    assert target(used, longest_memory_cycle=0.0) > HIGH


def test_use_that_no_cycle_forecast_is_held_at_once() -> None:
    used = used_memory(10, 4.0)
    odd = np.asarray(used.memory).copy()
    odd[-3:] = 6 * GIB
    assert target(UsageExample(used.cpu, odd)) >= 6


days_long = st.integers(14, 60)


@given(days=days_long, seed=st.integers(0, 10_000), count=st.integers(0, 30), high=st.floats(1.1, 8.0))
def test_without_a_cycle_memory_is_sized_by_the_highest_peak(days: int, seed: int, count: int, high: float) -> None:
    draw = np.random.default_rng(seed)
    memory: FloatColumn = GIB * draw.lognormal(0.0, 0.05, days * 24)
    for begin in draw.integers(0, len(memory), count).tolist():
        memory[begin : begin + int(draw.integers(1, 40))] *= high
    used = UsageExample([0.1] * len(memory), memory)
    result, held = estimated(used), estimated(used, longest_memory_cycle=0.0)
    if result.explanation["memory"] == ["peaks"]:
        assert result.bounds.tolist() == held.bounds.tolist()
    # Cycle or not: what was used in the last day always fits.
    assert result.target[MEMORY, 0] >= memory[-25:-1].max() * 0.999


def test_a_row_is_tested_once_a_day_and_another_process_finds_the_same() -> None:
    used = used_memory(10, 4.0)
    early = SeasonalRecommender(DefaultRecommender())
    rows = build_rows([used])
    for hours in range(0, 30, 7):
        now = NOW + hours * HOUR
        own, other = (
            request_estimates(early, rows, now=now),
            request_estimates(SeasonalRecommender(DefaultRecommender()), rows, now=now),
        )
        assert own.bounds.tolist() == other.bounds.tolist()
