"""`seasonal` sizes for the coming hours: before a daily peak, lower on weekends, with an explained fallback."""

from __future__ import annotations

import numpy as np
import pytest

from trellis.core.recommend.amounts import CPU, MEMORY
from trellis.core.recommend.parameters import ParameterValue
from trellis.core.recommend.protocol import Estimates
from trellis.core.recommend.recommenders.default import DefaultRecommender
from trellis.core.recommend.recommenders.seasonal import SeasonalRecommender
from trellis.core.usage.columns import FloatColumn
from trellis.testing.estimates import request_estimates
from trellis.testing.rows import GIB, HOUR, NOW, UsageExample, build_rows

DAY = 86400.0
DAYS = 21
SATURDAY = 2  # days after that of NOW, a Thursday
PEAK = 2000


def hours_until(now: float, days: int = DAYS) -> FloatColumn:
    """The hour, since the epoch, of each hourly sample up to now."""
    result: FloatColumn = np.floor(now / HOUR) - np.arange(days * 24 - 1, -1, -1, dtype=np.float64)
    return result


def estimated(used: UsageExample, now: float = NOW, **given: ParameterValue) -> Estimates:
    values = {name.replace("_", "-"): value for name, value in given.items()}
    return request_estimates(SeasonalRecommender(DefaultRecommender()), build_rows([used], now), values, now)


def millicores(used: FloatColumn, now: float, **given: ParameterValue) -> float:
    return float(estimated(UsageExample(used), now, **given).target[CPU, 0])


def by_default(used: FloatColumn, now: float) -> float:
    return float(request_estimates(DefaultRecommender(), build_rows([UsageExample(used)], now), now=now).target[CPU, 0])


def at_hour(hour: int, day: int = 0) -> float:
    """Half past that hour of the day, in UTC, so many days after that of NOW."""
    return NOW - NOW % DAY + day * DAY + hour * HOUR + HOUR / 2


def office_hours(now: float, days: int = DAYS) -> FloatColumn:
    """Two cores from nine to six, two tenths at night."""
    hour = hours_until(now, days) % 24
    return np.where((hour >= 9) & (hour < 18), 2.0, 0.2)


def working_week(now: float) -> FloatColumn:
    """The same, but for Saturdays and Sundays."""
    thursdays = hours_until(now) // 24  # the epoch began on one
    return np.where((thursdays + 3) % 7 < 5, office_hours(now), 0.1)


def halved(now: float, hours: int, factor: float = 0.5) -> FloatColumn:
    """Office hours; so many hours ago a deployment halved all usage."""
    used = office_hours(now)
    return np.where(np.arange(len(used)) < len(used) - hours, used, used * factor)


@pytest.mark.req("CR-24")
def test_it_raises_before_the_daily_peak_and_lowers_after_it() -> None:
    night, morning, evening = at_hour(3), at_hour(8), at_hour(21)
    # At half past eight it has seen two tenths of a core for fourteen hours, and the horizon touches nine o'clock.
    assert millicores(office_hours(morning), morning) >= PEAK
    assert millicores(office_hours(night), night) < PEAK / 2
    assert millicores(office_hours(evening), evening) < PEAK / 2


def test_the_horizon_is_the_time_that_is_sized_for() -> None:
    now = at_hour(5)
    assert millicores(office_hours(now), now, horizon=2 * HOUR) < PEAK / 2
    assert millicores(office_hours(now), now, horizon=4 * HOUR) >= PEAK


def test_the_running_hour_counts_until_it_is_over() -> None:
    now = at_hour(17)
    assert millicores(office_hours(now), now, horizon=0.0) >= PEAK


@pytest.mark.req("CR-25")
def test_a_weekend_is_not_sized_for_as_a_working_day() -> None:
    for hour in (8, 12, 16):
        now = at_hour(hour, SATURDAY + 1)
        assert millicores(working_week(now), now) < 400
        assert by_default(working_week(now), now) > PEAK


@pytest.mark.req("CR-25")
def test_monday_morning_is_raised_for_after_a_quiet_weekend() -> None:
    now = at_hour(8, SATURDAY + 2)
    assert millicores(working_week(now), now) >= PEAK
    assert by_default(working_week(now), now) < PEAK / 4


@pytest.mark.req("CR-24")
def test_a_spike_exceeds_its_target_for_less_time_than_that_of_default() -> None:
    ours, other = 0, 0
    for hour in range(24):
        now = at_hour(hour, SATURDAY + 2)
        due = 2000 if 9 <= hour < 18 else 200
        ours += millicores(working_week(now), now) < due
        other += by_default(working_week(now), now) < due
    assert ours == 0 < other


def test_without_a_rhythm_it_requests_no_more_than_default() -> None:
    draw = np.random.default_rng(3)
    used = 0.5 * (1 + 0.05 * draw.standard_normal(DAYS * 24))
    assert millicores(used, NOW) <= 1.1 * by_default(used, NOW)


def test_with_too_little_history_the_estimate_is_that_of_default_and_explained() -> None:
    used = UsageExample([0.5] * 30, [3e8] * 30)
    result = estimated(used)
    assert result.target.tolist() == request_estimates(DefaultRecommender(), build_rows([used])).target.tolist()
    assert (result.explanation["cpu"], result.explanation["memory"]) == (["too little history"],) * 2


def test_the_needed_history_is_a_parameter() -> None:
    used = UsageExample([0.5] * 72, [3e8] * 72)
    assert estimated(used).explanation["cpu"] == ["season"]
    assert estimated(used, history_needed=7 * DAY).explanation["cpu"] == ["too little history"]


def test_only_an_unmeasured_resource_falls_back() -> None:
    result = estimated(UsageExample(cpu=[0.5] * 200))
    assert (result.explanation["cpu"], result.explanation["memory"]) == (["season"], ["too little history"])


@pytest.mark.req("CR-25")
def test_memory_of_a_ten_day_cycle_is_held_between_peaks_before_the_cycle_is_recognised() -> None:
    for days_since in range(1, 10):
        day = hours_until(NOW, 20) // 24
        used = UsageExample([0.1] * (20 * 24), np.where((day - day[-1]) % 10 == (10 - days_since) % 10, 4 * GIB, GIB))
        result = estimated(used)
        assert result.explanation["memory"] == ["peaks"]
        assert result.target[MEMORY, 0] >= 4 * GIB


def test_memory_is_lowered_after_a_peak_that_does_not_return() -> None:
    memory = np.full(30 * 24, GIB)
    memory[24] = 4 * GIB
    assert estimated(UsageExample([0.1] * len(memory), memory)).target[MEMORY, 0] < 1.2 * GIB


def test_a_level_that_has_halved_is_followed_within_a_day() -> None:
    # Ends of a day at which the old level would still be asked for: 2300 by day.
    morning = at_hour(8)
    assert 1000 <= millicores(halved(morning, 24), morning) < 1500
    flat = np.where(np.arange(DAYS * 24) < DAYS * 24 - 25, 4.0, 2.0)
    assert 2000 <= millicores(flat, NOW) < 3000


@pytest.mark.parametrize("hours", [30, 36, 44, 48, 72, 96])
@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_change_of_level_keeps_the_season(hours: int, factor: float) -> None:
    """Neither on the day after a deployment, which has only that one day to go by, nor on later ones."""
    morning, night = at_hour(8), at_hour(3)
    peak = PEAK * factor
    assert peak <= millicores(halved(morning, hours, factor), morning) < 1.5 * peak
    assert millicores(halved(night, hours, factor), night) < peak / 2


def test_a_leak_is_sized_for_its_usage_at_the_horizon() -> None:
    hours = DAYS * 24
    used = UsageExample([0.1] * hours, GIB * (1 + 0.5 * np.arange(hours) / 24))
    then = GIB * (1 + 0.5 * (hours + 6 * 24) / 24)
    assert estimated(used, growth_horizon=6 * DAY).target[MEMORY, 0] >= then > estimated(used).target[MEMORY, 0]


def test_cpu_that_grows_is_followed() -> None:
    hours = DAYS * 24
    grown = 1 + 0.3 * np.arange(hours) / 24
    assert millicores(grown, NOW, horizon=DAY) >= 1000 * (grown[-1] + 0.3)


def test_bounds_contain_the_target() -> None:
    now = at_hour(12)
    result = estimated(UsageExample(office_hours(now), GIB * office_hours(now)), now)
    assert (result.lower <= result.target).all()
    assert (result.target <= result.upper).all()


def test_a_night_is_no_reason_to_make_a_running_pod_smaller() -> None:
    now = at_hour(3)
    assert estimated(UsageExample(office_hours(now)), now).upper[CPU, 0] >= PEAK


def test_the_least_of_a_pod_is_heeded() -> None:
    result = estimated(UsageExample([0.001] * (DAYS * 24), [1e6] * (DAYS * 24)))
    assert result.target[:, 0].tolist() == [25.0, 250.0 * 2**20]


def test_another_hour_is_worked_out_anew_and_the_same_hour_is_not() -> None:
    recommender, now = SeasonalRecommender(DefaultRecommender()), at_hour(7) - 600.0
    rows = build_rows([UsageExample(office_hours(now))], now)
    early, second, later = (request_estimates(recommender, rows, now=item) for item in (now, now + 60.0, now + HOUR))
    assert early.target[CPU, 0] == second.target[CPU, 0]
    assert early.target[CPU, 0] < PEAK <= later.target[CPU, 0]
