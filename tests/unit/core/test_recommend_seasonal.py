"""`seasonal` sizes for the hours that come: it raises before a daily peak, knows weekends, and says when it cannot."""

from __future__ import annotations

import numpy as np
import pytest

from trellis.core.recommend.amounts import CPU, MEMORY
from trellis.core.recommend.default import DefaultRecommender
from trellis.core.recommend.protocol import Estimates
from trellis.core.recommend.seasonal import SeasonalRecommender
from trellis.core.usage.columns import FloatColumn
from trellis.testing.rows import GIB, HOUR, NOW, Used, rows_of

DAYS = 21


def hours_until(now: float, days: int = DAYS) -> FloatColumn:
    """The hour, since the epoch, of each hourly sample up to now."""
    found: FloatColumn = np.floor(now / HOUR) - np.arange(days * 24 - 1, -1, -1, dtype=np.float64)
    return found


def estimated(used: Used, now: float, **given: float) -> Estimates:
    recommender = SeasonalRecommender(DefaultRecommender())
    values = {each.name: each.default for each in recommender.parameters} | given
    return recommender.estimate(rows_of([used], now), values, now)


def at_hour(hour: int) -> float:
    """Half past that hour of the day, in UTC, on the day of NOW."""
    return NOW - NOW % 86400.0 + hour * HOUR + 1800.0


def office_hours(now: float) -> FloatColumn:
    hour = hours_until(now) % 24
    return np.where((hour >= 9) & (hour < 18), 2.0, 0.2)


@pytest.mark.req("CR-24")
def test_it_raises_before_the_daily_peak_and_lowers_after_it() -> None:
    night, morning, evening = at_hour(3), at_hour(8), at_hour(21)
    low = estimated(Used(office_hours(night)), night).target[CPU, 0]
    ahead = estimated(Used(office_hours(morning)), morning).target[CPU, 0]
    after = estimated(Used(office_hours(evening)), evening).target[CPU, 0]
    # At half past eight it has seen two tenths of a core for fourteen hours, and the horizon touches nine o'clock.
    assert ahead >= 2000
    assert low < 1000
    assert after < 1000


def test_where_there_is_no_rhythm_it_needs_no_more_than_default() -> None:
    draw = np.random.default_rng(3)
    used = Used(0.5 * (1 + 0.05 * draw.standard_normal(DAYS * 24)))
    rows, default = rows_of([used]), DefaultRecommender()
    usual = default.estimate(rows, {each.name: each.default for each in default.parameters}, NOW).target[CPU, 0]
    assert estimated(used, NOW).target[CPU, 0] <= 1.1 * usual


def test_with_too_little_history_it_says_what_default_says_and_why() -> None:
    used = Used([0.5] * 30, [3e8] * 30)
    found = estimated(used, NOW)
    default = DefaultRecommender()
    usual = default.estimate(rows_of([used]), {each.name: each.default for each in default.parameters}, NOW)
    assert found.target.tolist() == usual.target.tolist()
    assert set(found.explanation["cpu"]) == {"too little history"}


@pytest.mark.req("CR-25")
def test_a_memory_cycle_of_ten_days_is_remembered_between_its_peaks() -> None:
    day = hours_until(NOW) // 24
    used = Used([0.1] * (DAYS * 24), np.where((day - day[-1]) % 10 == 1, 4 * GIB, GIB))
    assert estimated(used, NOW).target[MEMORY, 0] >= 4 * GIB


def test_bounds_contain_the_target() -> None:
    now = at_hour(12)
    found = estimated(Used(office_hours(now), GIB * office_hours(now)), now)
    assert (found.lower <= found.target).all()
    assert (found.target <= found.upper).all()


def test_a_level_that_has_halved_is_followed_within_a_day() -> None:
    hours = DAYS * 24
    used = Used(np.where(np.arange(hours) < hours - 26, 4.0, 2.0))
    assert estimated(used, NOW).target[CPU, 0] < 0.85 * 4000 * 1.15
