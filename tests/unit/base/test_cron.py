from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.base.cron import CronSchedule, CronWindow, CronWindows
from trellis.base.durations import parse_duration
from trellis.base.errors import InvalidSchedule, InvalidTime
from trellis.base.times import format_time, parse_time

BERLIN = "Europe/Berlin"  # summer time begins 2026-03-29 01:00 UTC and ends 2026-10-25 01:00 UTC

ZONES = ["UTC", BERLIN, "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Beirut", "Asia/Kathmandu"]

zones = st.sampled_from(ZONES)
expressions = st.builds(
    "{} {} {} * {}".format,
    st.sampled_from(["0", "30", "59", "*/20", "5,35"]),
    st.sampled_from(["0", "2", "3", "1-3", "*", "*/6", "23"]),
    st.sampled_from(["*", "1", "25-31"]),
    st.sampled_from(["*", "SUN", "1-5", "5"]),
)
schedules = st.builds(CronSchedule.parse, expressions, zones)
# Two years, and often the days on which some zone above changes its clock.
moments = st.one_of(
    st.datetimes(datetime(2026, 1, 1), datetime(2027, 12, 31), timezones=st.just(UTC)),
    st.builds(
        lambda day, offset: parse_time(f"{day}T00:00:00Z") + timedelta(seconds=offset),
        st.sampled_from(["2026-03-28", "2026-03-29", "2026-10-24", "2026-10-25", "2026-03-08", "2026-11-01"])
        | st.sampled_from(["2026-04-04", "2026-10-03", "2026-04-23", "2026-04-24", "2026-10-29", "2026-10-30"]),
        st.integers(0, 86_400),
    ),
)
windows = st.builds(
    lambda pairs: CronWindows(tuple(CronWindow(schedule, parse_duration(length)) for schedule, length in pairs)),
    st.lists(st.tuples(schedules, st.sampled_from(["1s", "30m", "2h", "10h", "24h", "40h"])), min_size=1, max_size=3),
)


def opened(expression: str, length: str, time_zone: str = "UTC") -> CronWindow:
    return CronWindow(CronSchedule.parse(expression, time_zone), parse_duration(length))


def shown(moment: datetime | None) -> str | None:
    return format_time(moment) if moment else None


@pytest.mark.parametrize(
    ("expression", "time_zone", "now", "following"),
    [
        ("0 8 * * 1-5", "UTC", "2026-11-13T08:00:00Z", "2026-11-16T08:00:00Z"),
        ("0 8 * * 1-5", BERLIN, "2026-11-16T06:59:59Z", "2026-11-16T07:00:00Z"),
        ("0 8 * * *", BERLIN, "2026-07-01T00:00:00Z", "2026-07-01T06:00:00Z"),
        ("0 0 29 2 *", "UTC", "2026-11-15T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("*/15 * * * *", "UTC", "2026-11-15T18:07:31.5Z", "2026-11-15T18:15:00Z"),
        ("0 0 * * 7", "UTC", "2026-11-15T00:00:00Z", "2026-11-22T00:00:00Z"),
        ("0 0 * JAN MON", "UTC", "2026-11-15T00:00:00Z", "2027-01-04T00:00:00Z"),
    ],
)
def test_the_next_firing_is_after_now(expression: str, time_zone: str, now: str, following: str) -> None:
    assert shown(CronSchedule.parse(expression, time_zone).next(parse_time(now))) == following


def test_the_previous_firing_may_be_now() -> None:
    schedule = CronSchedule.parse("0 8 * * *")
    assert shown(schedule.previous(parse_time("2026-11-15T08:00:00Z"))) == "2026-11-15T08:00:00Z"
    assert shown(schedule.previous(parse_time("2026-11-15T08:00:00.000001Z"))) == "2026-11-15T08:00:00Z"
    assert shown(schedule.previous(parse_time("2026-11-15T07:59:59.999999Z"))) == "2026-11-14T08:00:00Z"


def test_a_time_that_the_change_to_summer_time_skips_fires_at_the_change() -> None:
    schedule = CronSchedule.parse("30 2 * * *", BERLIN)
    assert shown(schedule.next(parse_time("2026-03-28T12:00:00Z"))) == "2026-03-29T01:00:00Z"
    assert shown(schedule.next(parse_time("2026-03-29T01:00:00Z"))) == "2026-03-30T00:30:00Z"
    assert shown(schedule.previous(parse_time("2026-03-29T12:00:00Z"))) == "2026-03-29T01:00:00Z"


def test_a_time_that_the_change_to_winter_time_repeats_fires_the_first_time_only() -> None:
    schedule = CronSchedule.parse("30 2 * * *", BERLIN)
    assert shown(schedule.next(parse_time("2026-10-24T12:00:00Z"))) == "2026-10-25T00:30:00Z"
    # 02:10 on the clock for the second time, when 02:30 has already been.
    assert shown(schedule.next(parse_time("2026-10-25T01:10:00Z"))) == "2026-10-26T01:30:00Z"
    assert shown(schedule.previous(parse_time("2026-10-25T01:10:00Z"))) == "2026-10-25T00:30:00Z"


def test_an_hourly_schedule_fires_every_hour_across_clock_changes() -> None:
    schedule = CronSchedule.parse("0 * * * *", BERLIN)
    for day in ("2026-03-28T20:00:00Z", "2026-10-24T20:00:00Z"):
        now = parse_time(day)
        for _ in range(10):
            following = schedule.next(now)
            assert following == now + timedelta(hours=1)
            now = following


def firings(schedule: CronSchedule, start: datetime, end: datetime) -> list[datetime]:
    times = []
    moment = schedule.next(start)
    while moment is not None and moment < end:
        times.append(moment)
        moment = schedule.next(moment)
    return times


@pytest.mark.parametrize("time_zone", ZONES)
@pytest.mark.parametrize("day", ["2026-03-28", "2026-10-24", "2026-04-04", "2026-10-03", "2026-04-23", "2026-10-29"])
def test_with_a_star_a_schedule_fires_whenever_the_clock_shows_it(day: str, time_zone: str) -> None:
    start = parse_time(f"{day}T00:00:00Z")
    minutes = [start + timedelta(minutes=minute) for minute in range(1, 48 * 60)]
    clocks = [(moment, moment.astimezone(ZoneInfo(time_zone))) for moment in minutes]
    for hour in (0, 1, 2, 3, 23):
        expected = [moment for moment, clock in clocks if clock.hour == hour and clock.minute % 20 == 0]
        assert firings(CronSchedule.parse(f"*/20 {hour} * * *", time_zone), start, minutes[-1]) == expected


@pytest.mark.parametrize("time_zone", ZONES)
@pytest.mark.parametrize("hour", [0, 1, 2, 3, 23])
def test_a_schedule_with_a_fixed_time_fires_once_a_day_all_year(hour: int, time_zone: str) -> None:
    start = datetime(2026, 1, 1, tzinfo=ZoneInfo(time_zone))
    times = firings(CronSchedule.parse(f"15 {hour} * * *", time_zone), start, start.replace(year=2027))
    days = [moment.astimezone(ZoneInfo(time_zone)).date() for moment in times]
    assert days == [start.date() + timedelta(days=day) for day in range(365)]


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "* * * *",
        "* * * * * *",
        "@daily",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * * 13 *",
        "* * * * 8",
        "5-1 * * * *",
        "*/0 * * * *",
        "a * * * *",
        "-1 * * * *",
        "\u0661 * * * *",
        "9" * 5000 + " * * * *",
    ],
)
def test_an_invalid_cron_expression_is_refused(expression: str) -> None:
    with pytest.raises(InvalidSchedule):
        CronSchedule.parse(expression)


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 4,6 *", "0 0 */31 * MON#2"])
def test_a_schedule_that_never_fires_is_refused(expression: str) -> None:
    with pytest.raises(InvalidSchedule):
        CronSchedule.parse(expression)


@pytest.mark.parametrize("zone", ["", "Mars/Olympus", "Europe", "../etc/passwd", "/etc/localtime", "a\0b", "CET+1x"])
def test_an_unknown_time_zone_is_refused(zone: str) -> None:
    with pytest.raises(InvalidSchedule, match="not a time zone"):
        CronSchedule.parse("0 8 * * *", zone)


def test_a_time_without_a_zone_is_refused() -> None:
    naive = datetime(2026, 11, 15)
    schedule = CronSchedule.parse("0 8 * * *")
    with pytest.raises(InvalidTime):
        schedule.next(naive)
    with pytest.raises(InvalidTime):
        schedule.previous(naive)
    with pytest.raises(InvalidTime):
        CronWindows().next_change(naive)


def test_a_schedule_prints_its_time_zone() -> None:
    assert str(CronSchedule.parse(" 0  8 * * 1-5 ", BERLIN)) == "0 8 * * 1-5 (Europe/Berlin)"


@given(schedules, moments)
def test_there_is_no_firing_between_the_previous_and_the_next(schedule: CronSchedule, now: datetime) -> None:
    before, after = schedule.previous(now), schedule.next(now)
    assert before is not None
    assert after is not None
    assert before <= now < after
    assert schedule.next(before) == after
    assert schedule.previous(after) == after
    assert schedule.previous(after - timedelta(microseconds=1)) == before


def test_office_hours_follow_the_wall_clock_of_their_zone() -> None:
    office = CronWindows((opened("0 8 * * 1-5", "10h", BERLIN),))
    for now, active in {
        "2026-07-01T05:59:59Z": False,  # a Wednesday in summer, 07:59 there
        "2026-07-01T06:00:00Z": True,
        "2026-07-01T15:59:59Z": True,
        "2026-07-01T16:00:00Z": False,
        "2026-12-02T06:30:00Z": False,  # in winter 07:30 there
        "2026-12-02T07:00:00Z": True,
        "2026-07-04T10:00:00Z": False,  # a Saturday
    }.items():
        assert office.is_active(parse_time(now)) is active


def test_the_next_change_is_the_end_of_an_open_window_and_the_start_of_a_closed_one() -> None:
    office = CronWindows((opened("0 8 * * 1-5", "10h", BERLIN),))
    assert shown(office.next_change(parse_time("2026-07-03T10:00:00Z"))) == "2026-07-03T16:00:00Z"
    assert shown(office.next_change(parse_time("2026-07-03T16:00:00Z"))) == "2026-07-06T06:00:00Z"


def test_windows_that_overlap_or_touch_are_one() -> None:
    both = CronWindows((opened("0 8 * * *", "4h"), opened("0 12 * * *", "4h"), opened("0 10 * * *", "1h")))
    assert shown(both.next_change(parse_time("2026-11-15T09:00:00Z"))) == "2026-11-15T16:00:00Z"


def test_windows_of_a_day_part_for_an_hour_when_winter_time_begins() -> None:
    always_but = CronWindows((opened("0 0 * * *", "24h", BERLIN),))
    assert shown(always_but.next_change(parse_time("2026-07-01T12:00:00Z"))) == "2026-10-25T22:00:00Z"
    assert shown(always_but.next_change(parse_time("2026-10-25T22:00:00Z"))) == "2026-10-25T23:00:00Z"


@pytest.mark.parametrize("expression", ["0 0 * * *", "* * * * *"])
def test_windows_that_never_part_have_no_next_change(expression: str) -> None:
    assert CronWindows((opened(expression, "24h"),)).next_change(parse_time("2026-07-01T12:00:00Z")) is None


def test_a_schedule_without_windows_is_never_active() -> None:
    now = parse_time("2026-07-01T12:00:00Z")
    assert not CronWindows().is_active(now)
    assert CronWindows().next_change(now) is None


@pytest.mark.parametrize("length", ["0s", "-1h"])
def test_a_window_without_length_is_refused(length: str) -> None:
    with pytest.raises(InvalidSchedule):
        opened("0 8 * * *", length)


@given(windows, moments)
def test_activity_changes_at_the_next_change_and_not_before(some: CronWindows, now: datetime) -> None:
    change = some.next_change(now)
    if change is None:
        assert some.is_active(now)
        return
    assert change > now
    assert some.is_active(change) != some.is_active(now)
    for part in range(8):
        assert some.is_active(now + (change - now) * part / 8) == some.is_active(now)
    assert some.is_active(change - timedelta(microseconds=1)) == some.is_active(now)
