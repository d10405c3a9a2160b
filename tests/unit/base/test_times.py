from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.base.errors import InvalidTime
from trellis.base.times import (
    DailyWindow,
    TimeOfDay,
    format_micro_time,
    format_time,
    parse_time,
    parse_time_of_day,
)

moments = st.datetimes(
    min_value=datetime(2, 1, 1),
    max_value=datetime(9998, 1, 1),
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45)), timezone(-timedelta(hours=9))]),
)
times_of_day = st.builds(
    TimeOfDay, st.integers(0, 23), st.integers(0, 59), st.integers(0, 59), st.integers(-14 * 60, 14 * 60)
)
windows = st.builds(DailyWindow, times_of_day, times_of_day)


def window(begin: str, end: str) -> DailyWindow:
    return DailyWindow(parse_time_of_day(begin), parse_time_of_day(end))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-11-15T18:00:00Z", datetime(2026, 11, 15, 18, tzinfo=UTC)),
        ("2026-11-15T18:00:00+01:00", datetime(2026, 11, 15, 17, tzinfo=UTC)),
        ("2026-11-15T18:00:00-07:30", datetime(2026, 11, 16, 1, 30, tzinfo=UTC)),
        ("2026-11-15T18:00:00.5Z", datetime(2026, 11, 15, 18, 0, 0, 500_000, UTC)),
        ("2026-11-15T18:00:00.123456999Z", datetime(2026, 11, 15, 18, 0, 0, 123_456, UTC)),
        ("2026-11-15T8:00:00Z", datetime(2026, 11, 15, 8, tzinfo=UTC)),
        ("2026-11-15T18:00:00,5Z", datetime(2026, 11, 15, 18, 0, 0, 500_000, UTC)),
        ("2024-02-29T00:00:00Z", datetime(2024, 2, 29, tzinfo=UTC)),
    ],
)
def test_rfc_3339_is_read_as_go_reads_it(text: str, moment: datetime) -> None:
    parsed = parse_time(text)
    assert parsed == moment
    assert parsed.tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-11-15",
        "2026-11-15T18:00:00",
        "2026-11-15t18:00:00Z",
        "2026-11-15T18:00:00z",
        "2026-11-15 18:00:00Z",
        "2026-11-15T18:00:00+0100",
        "2026-11-15T18:00:00+25:00",
        "2026-11-15T18:00:00+01:61",
        "2026-11-15T18:00:60Z",
        "2026-11-15T24:00:00Z",
        "2026-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-11-15T18:00:00.Z",
        "2026-11-15T18:00:00Z\n",
        "\u0662026-11-15T18:00:00Z",
        "9999-12-31T23:59:59-01:00",
    ],
)
def test_an_invalid_instant_is_refused(text: str) -> None:
    with pytest.raises(InvalidTime):
        parse_time(text)


def test_times_are_written_as_the_api_server_writes_them() -> None:
    moment = datetime(2026, 11, 15, 19, 0, 0, 999_999, timezone(timedelta(hours=1)))
    assert format_time(moment) == "2026-11-15T18:00:00Z"
    assert format_micro_time(moment) == "2026-11-15T18:00:00.999999Z"
    assert format_micro_time(datetime(26, 1, 2, tzinfo=UTC)) == "0026-01-02T00:00:00.000000Z"


def test_a_time_without_a_zone_is_refused() -> None:
    naive = datetime(2026, 11, 15)
    with pytest.raises(InvalidTime):
        format_time(naive)
    with pytest.raises(InvalidTime):
        window("220000+0000", "230000+0000").contains(naive)


@given(moments)
def test_micro_times_read_back_as_the_same_instant(moment: datetime) -> None:
    assert parse_time(format_micro_time(moment)) == moment


@pytest.mark.parametrize("text", ["220000-0000", "220000+0100", "000000-0730", "235959+1400"])
def test_times_of_day_read_back(text: str) -> None:
    assert str(parse_time_of_day(text)).replace("+0000", "-0000") == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2200",
        "220000",
        "220000Z",
        "22:00:00+0000",
        "240000+0000",
        "226000+0000",
        "220060+0000",
        "220000+2400",
        "220000+0060",
        "220000+000",
        " 220000+0000",
        "\u0662\u066220000+0000",
    ],
)
def test_an_invalid_time_of_day_is_refused(text: str) -> None:
    with pytest.raises(InvalidTime):
        parse_time_of_day(text)


@pytest.mark.parametrize(
    ("begin", "end", "now", "inside"),
    [
        ("220000+0000", "230000+0000", "2026-11-15T21:59:59.999999Z", False),
        ("220000+0000", "230000+0000", "2026-11-15T22:00:00Z", True),
        ("220000+0000", "230000+0000", "2026-11-15T23:00:00.999999Z", True),
        ("220000+0000", "230000+0000", "2026-11-15T23:00:01Z", False),
        ("220000+0000", "020000+0000", "2026-11-15T23:59:59Z", True),
        ("220000+0000", "020000+0000", "2026-11-15T01:59:59Z", True),
        ("220000+0000", "020000+0000", "2026-11-15T12:00:00Z", False),
        ("220000+0100", "230000+0100", "2026-11-15T21:30:00Z", True),
        ("220000+0100", "230000+0100", "2026-11-15T22:30:00Z", False),
        ("010000+0200", "040000+0200", "2026-11-14T23:30:00Z", True),
        ("220000+0000", "010000+0200", "2026-11-15T22:30:00Z", True),
        ("220000+0000", "010000+0200", "2026-11-15T23:30:00Z", False),
        ("000000+0000", "235959+0000", "2026-11-15T23:59:59.5Z", True),
        ("080000+0000", "080000+0000", "2026-11-15T20:00:00Z", True),
        ("080000+0000", "090000+0100", "2026-11-15T20:00:00Z", True),
    ],
)
def test_a_daily_window_is_open_between_its_ends(begin: str, end: str, now: str, inside: bool) -> None:
    assert window(begin, end).contains(parse_time(now)) is inside


def test_the_next_change_is_the_end_of_an_open_window_and_the_begin_of_a_closed_one() -> None:
    night = window("220000+0000", "020000+0000")
    assert night.next_change(parse_time("2026-11-15T23:00:00Z")) == parse_time("2026-11-16T02:00:01Z")
    assert night.next_change(parse_time("2026-11-16T02:00:01Z")) == parse_time("2026-11-16T22:00:00Z")
    assert night.next_change(parse_time("2026-11-15T22:00:00Z")) == parse_time("2026-11-16T02:00:01Z")


def test_a_window_of_a_full_day_never_changes() -> None:
    assert window("000000+0000", "235959+0000").next_change(parse_time("2026-11-15T23:00:00Z")) is None
    assert window("080000+0000", "080000+0000").next_change(parse_time("2026-11-15T08:00:00Z")) is None


@given(windows, moments)
def test_a_window_changes_exactly_at_the_next_change(daily: DailyWindow, now: datetime) -> None:
    change = daily.next_change(now)
    if change is None:
        assert daily.contains(now)
        return
    assert timedelta(0) < change - now <= timedelta(days=1)
    assert daily.contains(change - timedelta(microseconds=1)) == daily.contains(now)
    assert daily.contains(now + (change - now) / 2) == daily.contains(now)
    assert daily.contains(change) != daily.contains(now)
