"""Instants as the API server writes them, and windows that recur every day.

An instant is an aware datetime in UTC. Text is RFC 3339 as Go's `time.Parse` reads it: a lower-case `t` or `z` is
refused, whereas an hour of one digit and a comma before the fraction are accepted.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import msgspec

from trellis.base.errors import InvalidTime

_RFC_3339 = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})"
    r"(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)
_RFC_3339_RULE = "not an RFC 3339 time such as 2026-11-15T18:00:00Z"
_TIME_OF_DAY = re.compile(r"([0-9]{2})([0-9]{2})([0-9]{2})([+-])([0-9]{2})([0-9]{2})")
_TIME_OF_DAY_RULE = "not a time of day such as 220000+0100, which is HHMMSS and an offset from UTC"
_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)


def parse_time(text: str) -> datetime:
    """The instant in UTC. Finer than microseconds is cut off; the years are 1 to 9999, as datetime has them."""
    form = _RFC_3339.fullmatch(text)
    if form is None:
        raise InvalidTime(text, _RFC_3339_RULE)
    year, month, day, hour, minute, second = (int(part) for part in form.groups()[:6])
    micro = int((form[7] or "")[:6].ljust(6, "0"))
    try:
        return datetime(year, month, day, hour, minute, second, micro, UTC) - _offset(text, form)
    except (ValueError, OverflowError) as error:
        raise InvalidTime(text, f"{_RFC_3339_RULE}: {error}") from error


def convert_to_utc(moment: datetime) -> datetime:
    """The same instant on the clock of UTC. A naive datetime is refused: no machine's zone is assumed."""
    if moment.utcoffset() is None:
        raise InvalidTime(moment, "a time needs a time zone")
    return moment.astimezone(UTC)


def format_time(moment: datetime) -> str:
    """The text of a `metav1.Time`: truncated to seconds."""
    return convert_to_utc(moment).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def format_micro_time(moment: datetime) -> str:
    """The text of a `metav1.MicroTime`, as in leases and events: always six places."""
    return convert_to_utc(moment).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


class TimeOfDay(msgspec.Struct, frozen=True):
    """A time on the clock of a fixed offset from UTC."""

    hour: int
    minute: int
    second: int
    offset_minutes: int

    @property
    def since_midnight_utc(self) -> timedelta:
        """From 0 to less than a day, whichever day that falls on where the clock hangs."""
        return timedelta(hours=self.hour, minutes=self.minute - self.offset_minutes, seconds=self.second) % _DAY

    def __str__(self) -> str:
        hours, minutes = divmod(abs(self.offset_minutes), 60)
        sign = "-" if self.offset_minutes < 0 else "+"
        return f"{self.hour:02}{self.minute:02}{self.second:02}{sign}{hours:02}{minutes:02}"


def parse_time_of_day(text: str) -> TimeOfDay:
    """Parse a time such as `220000+0100`: 22:00, an hour ahead of UTC."""
    form = _TIME_OF_DAY.fullmatch(text)
    if form is None:
        raise InvalidTime(text, _TIME_OF_DAY_RULE)
    hour, minute, second = int(form[1]), int(form[2]), int(form[3])
    offset_hours, offset_minutes = int(form[5]), int(form[6])
    if hour > 23 or minute > 59 or second > 59:
        raise InvalidTime(text, "a day ends with 235959")
    if offset_hours > 23 or offset_minutes > 59:
        raise InvalidTime(text, "an offset from UTC is less than a day, such as -0730")
    offset = offset_hours * 60 + offset_minutes
    return TimeOfDay(hour, minute, second, -offset if form[4] == "-" else offset)


class DailyWindow(msgspec.Struct, frozen=True):
    """From `begin` to `end`, every day; across midnight if the end comes first.

    The second that `end` names belongs to the window, so that 000000 to 235959 leaves nothing out. If begin and end are
    the same instant of the day, the window is the whole day.
    """

    begin: TimeOfDay
    end: TimeOfDay

    def contains(self, now: datetime) -> bool:
        """Whether the window is open."""
        return self._is_whole_day or self._since_begin(now) < self._length

    def next_change(self, now: datetime) -> datetime | None:
        """The next instant after `now` at which the window opens or closes; None if it is never closed."""
        if self._is_whole_day:
            return None
        since = self._since_begin(now)
        return convert_to_utc(now) - since + (self._length if since < self._length else _DAY)

    @property
    def _is_whole_day(self) -> bool:
        return self._length in (_SECOND, timedelta(0))

    @property
    def _length(self) -> timedelta:
        return (self.end.since_midnight_utc + _SECOND - self.begin.since_midnight_utc) % _DAY

    def _since_begin(self, now: datetime) -> timedelta:
        now = convert_to_utc(now)
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        return (now - midnight - self.begin.since_midnight_utc) % _DAY


def _offset(text: str, form: re.Match[str]) -> timedelta:
    if form[8] is None:
        return timedelta(0)
    hours, minutes = int(form[9]), int(form[10])
    if hours > 24 or minutes > 60:  # Go's bounds, both included
        raise InvalidTime(text, "an offset from UTC is at most 24:00")
    return timedelta(hours=hours, minutes=minutes) * (-1 if form[8] == "-" else 1)
