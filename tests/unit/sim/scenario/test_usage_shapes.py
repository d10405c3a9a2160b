"""What each shape of usage looks like: levels and times, not noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.usage.columns import FloatColumn
from trellis.sim.scenario.usage_shapes import (
    Spikes,
    WorkingHours,
    daily,
    draw_factors,
    noise,
    phases,
    resample,
    spiky,
    steady,
    trend,
    versions,
    weekly,
)

MONDAY = 1_780_272_000.0  # 1 June 2026
HOUR = 3_600.0
DAY = 86_400.0
OFFICE = WorkingHours(8.0, 18.0, (0, 1, 2, 3, 4))


def hours(count: int) -> FloatColumn:
    return MONDAY + HOUR * np.arange(count, dtype=np.float64)


def draws(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_steady_is_always_the_same() -> None:
    assert steady(hours(3), 0.2).tolist() == [0.2, 0.2, 0.2]


def test_a_trend_goes_from_its_begin_to_its_end() -> None:
    assert trend(hours(3), 1.0, 2.0).tolist() == [1.0, 1.5, 2.0]


def test_a_daily_wave_is_highest_at_its_hour_and_lowest_twelve_hours_later() -> None:
    result = daily(hours(48), 0.2, 1.0, 14.0)
    assert result[14] == result[38] == pytest.approx(1.0)
    assert result[2] == result[26] == pytest.approx(0.2)


def test_working_hours_are_busy_on_working_days_alone() -> None:
    result = weekly(hours(7 * 24), 0.1, 2.0, OFFICE).reshape(7, 24)
    assert (result[:5, 9:18] == 2.0).all()
    assert (result[:5, :9] == 0.1).all()
    assert (result[:5, 18:] == 0.1).all()
    assert (result[5:] == 0.1).all()


def test_it_takes_an_hour_to_get_busy() -> None:
    quarters = MONDAY + 8 * HOUR + 900.0 * np.arange(5, dtype=np.float64)
    assert weekly(quarters, 0.0, 1.0, OFFICE).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_bursts_are_as_many_and_as_high_as_configured() -> None:
    times = MONDAY + 300.0 * np.arange(100 * 288, dtype=np.float64)
    result = spiky(times, 300.0, Spikes(2.0, 4.0, 3_000.0), draws())
    busy = (result > 0).mean()
    assert busy == pytest.approx(4 * 3_000 / DAY, rel=0.15)
    assert result[result > 0].mean() == pytest.approx(2.0, rel=0.15)


def test_a_burst_shorter_than_a_step_adds_in_proportion() -> None:
    result = spiky(hours(1000), HOUR, Spikes(1.0, 2.0, 360.0), draws())
    assert result[result > 0].mean() == pytest.approx(0.1, rel=0.2)


def test_phases_follow_one_another_and_begin_anew() -> None:
    since = 600.0 * np.arange(8, dtype=np.float64)
    assert phases(since, [600.0, 1_200.0], [1.0, 3.0]).tolist() == [1.0, 3.0, 3.0, 1.0, 3.0, 3.0, 1.0, 3.0]


def test_each_version_has_its_factor_and_the_last_one_holds() -> None:
    changes = [MONDAY + HOUR, MONDAY + 3 * HOUR, MONDAY + 4 * HOUR]
    assert versions(hours(6), changes, [2.0, 0.5]).tolist() == [1.0, 2.0, 2.0, 0.5, 0.5, 0.5]
    assert versions(hours(2), changes, []).tolist() == [1.0, 1.0]


def test_drawn_versions_differ_as_far_as_configured() -> None:
    assert np.std(np.log(draw_factors(5_000, 0.3, draws()))) == pytest.approx(0.3, rel=0.05)


@given(st.floats(0.01, 1.0), st.integers(0, 100))
def test_noise_neither_adds_nor_takes_on_average(spread: float, seed: int) -> None:
    assert noise(20_000, spread, draws(seed)).mean() == pytest.approx(1.0, abs=0.06)


def test_without_noise_usage_has_no_variance() -> None:
    assert (noise(10, 0.0, draws()) == 1.0).all()


def test_a_step_of_a_trace_holds_its_mean_or_its_highest() -> None:
    times, values = 60.0 * np.arange(4, dtype=np.float64), np.asarray([1.0, 3.0, 5.0, 6.0])
    assert resample(times, values, 2, 120.0, highest=False).tolist() == [2.0, 5.5]
    assert resample(times, values, 2, 120.0, highest=True).tolist() == [3.0, 6.0]


def test_gaps_of_a_trace_keep_the_last_value_and_unmeasured_values_are_gaps() -> None:
    times, values = np.asarray([0.0, 60.0, 240.0]), np.asarray([1.0, np.nan, 4.0])
    assert resample(times, values, 5, 60.0, highest=False).tolist() == [1.0, 1.0, 1.0, 1.0, 4.0]


def test_a_trace_that_is_too_short_begins_anew() -> None:
    times, values = 60.0 * np.arange(2, dtype=np.float64), np.asarray([1.0, 2.0])
    assert resample(times, values, 5, 60.0, highest=True).tolist() == [1.0, 2.0, 1.0, 2.0, 1.0]


def test_a_trace_with_longer_steps_than_ours_is_held_and_keeps_its_length() -> None:
    times, values = 300.0 * np.arange(2, dtype=np.float64), np.asarray([1.0, 2.0])
    assert resample(times, values, 12, 60.0, highest=False).tolist() == [1.0] * 5 + [2.0] * 5 + [1.0] * 2
