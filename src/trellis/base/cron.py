"""Cron expressions in a time zone, and the windows that open at them.

The wall clock of the zone counts, across changes to and from summer time, as in Debian's cron. An expression with a
fixed hour and minute fires once on every day it names: a time that the change skips fires at the change, and a time
that the change repeats fires the first time only. One with `*` in the minute or the hour fires whenever the clock shows
it: not at all in a skipped hour, and twice in a repeated one.

cronsim finds the wall times (naive datetimes: what the clock of a zone shows); this module maps them to instants.
cronsim's own handling of zones steps by whole hours and so misses firings where the clock changes at midnight (Beirut)
or by half an hour (Lord Howe).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from trellis.base.durations import Duration
from trellis.base.errors import InvalidSchedule
from trellis.base.times import convert_to_utc

# No zone has ever moved its clock by more than a day; the two hours more are for offsets that are no whole hours.
_SEARCH_MARGIN = timedelta(hours=26)
_SECOND = timedelta(seconds=1)


def find_zone(name: str) -> ZoneInfo:
    """The zone of the IANA database with this name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # OSError: the name of a directory, such as "Europe"
        raise InvalidSchedule(name, "not a time zone such as UTC or Europe/Berlin") from error


def find_instants(wall: datetime, zone: ZoneInfo) -> list[datetime]:
    """The instants at which the clock shows this time, in order: one, two or none."""
    first, second = _find_both_offsets(wall, zone)
    if first == second:
        return [first]
    return [first, second] if first < second else []


def find_first_instant(wall: datetime, zone: ZoneInfo) -> datetime:
    """The instant at which the clock first shows this time or, if it is skipped, a later one."""
    first, second = _find_both_offsets(wall, zone)
    if first <= second:
        return first
    # A skipped time read with the offset after the change lies before the change, and the other way round.
    before, after = second, first
    offset = before.astimezone(zone).utcoffset()
    while (apart := (after - before) // _SECOND) > 1:
        middle = before + _SECOND * (apart // 2)
        if middle.astimezone(zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after


def find_repeated_time(now: datetime, zone: ZoneInfo) -> timedelta:
    """How much of the clock is repeated within a day of `now`: nothing on all days but one of the year."""
    before = (now - _SEARCH_MARGIN).astimezone(zone).utcoffset() or timedelta(0)
    after = (now + _SEARCH_MARGIN).astimezone(zone).utcoffset() or timedelta(0)
    return max(before - after, timedelta(0))


def _find_both_offsets(wall: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """With the offset before a change and with the one after it; the same if there is no change (PEP 495)."""
    return (
        wall.replace(tzinfo=zone, fold=0).astimezone(UTC),
        wall.replace(tzinfo=zone, fold=1).astimezone(UTC),
    )


# From here the parser looks for a first firing. cronsim gives up after 50 years; the rarest date that recurs, 29
# February on a given weekday, does so within 40.
_PROBE = datetime(2000, 1, 1, tzinfo=UTC)

# How far `Windows.next_change` follows windows that overlap. A year and a month see both changes of the clock, on which
# windows of 24 hours part; the number of steps keeps windows of minutes from taking seconds.
_HORIZON = timedelta(days=400)
_MAX_STEPS = 1000


class CronSchedule(msgspec.Struct, frozen=True):
    """Five fields (minute, hour, day of month, month, day of week) and the zone whose clock they mean."""

    expression: str
    time_zone: str = "UTC"

    @classmethod
    def parse(cls, expression: str, time_zone: str = "UTC") -> CronSchedule:
        """Parse an expression; raises if it is not cron, can never fire, or the zone is unknown."""
        fields = expression.split()
        if len(fields) != 5:
            rule = "a schedule has five fields: minute, hour, day of month, month, day of week"
            raise InvalidSchedule(expression, f"{rule}; this has {len(fields)}")
        find_zone(time_zone)
        schedule = cls(" ".join(fields), time_zone)
        try:
            first = schedule.next(_PROBE)
        except (CronSimError, ValueError) as error:
            raise InvalidSchedule(expression, f"not a cron expression: {error}") from error
        if first is None:
            raise InvalidSchedule(expression, "no day matches; it would never fire")
        return schedule

    def next(self, now: datetime) -> datetime | None:
        """The first firing after `now`, in UTC; None if there is none within 50 years."""
        now, zone = convert_to_utc(now), find_zone(self.time_zone)
        # From as far back as the clock may be set back: what it shows again may be still to come.
        start = _to_wall_time(now, zone) - find_repeated_time(now, zone)
        later: list[datetime] = []
        for wall in CronSim(self.expression, start):
            firings = self._firings(wall, zone)
            later += [firing for firing in firings if firing > now]
            if firings and firings[0] > now:
                break
        return min(later, default=None)

    def previous(self, now: datetime) -> datetime | None:
        """The last firing at or before `now`, in UTC; None if there is none within 50 years."""
        now, zone = convert_to_utc(now), find_zone(self.time_zone)
        start = _to_wall_time(now, zone) + find_repeated_time(now, zone) + timedelta(seconds=1)
        earlier: list[datetime] = []
        for wall in CronSim(self.expression, start, reverse=True):
            firings = self._firings(wall, zone)
            earlier += [firing for firing in firings if firing <= now]
            if firings and firings[-1] <= now:
                break
        return max(earlier, default=None)

    def _firings(self, wall: datetime, zone: ZoneInfo) -> list[datetime]:
        minute, hour = self.expression.split(" ", maxsplit=2)[:2]
        if minute.startswith("*") or hour.startswith("*"):
            return find_instants(wall, zone)
        return [find_first_instant(wall, zone)]

    def __str__(self) -> str:
        return f"{self.expression} ({self.time_zone})"


class CronWindow(msgspec.Struct, frozen=True):
    """A window that opens at every firing of the schedule, for a duration."""

    start: CronSchedule
    duration: Duration

    def __post_init__(self) -> None:
        if self.duration <= Duration.ZERO:
            raise InvalidSchedule(str(self.duration), "a window must be open for longer than 0s")

    def closes_at(self, now: datetime) -> datetime | None:
        """The end of the window that is open at `now`; None if none is open."""
        opened = self.start.previous(now)
        if opened is None or (end := opened + self.duration.timedelta()) <= now:
            return None
        return end


class CronWindows(msgspec.Struct, frozen=True):
    """Several windows together: open whenever one of them is. Without any, never."""

    windows: tuple[CronWindow, ...] = ()

    def is_active(self, now: datetime) -> bool:
        """Whether a window is open."""
        return any(window.closes_at(now) is not None for window in self.windows)

    def next_change(self, now: datetime) -> datetime | None:
        """The next instant after `now` at which `is_active` changes.

        None if none is in sight: windows that overlap are followed for 400 days or 1,000 steps, whichever is less.
        """
        now = convert_to_utc(now)
        end = _find_latest(window.closes_at(now) for window in self.windows)
        if end is None:
            return min(filter(None, (window.start.next(now) for window in self.windows)), default=None)
        for _ in range(_MAX_STEPS):
            later = _find_latest(window.closes_at(end) for window in self.windows)
            if later is None:
                return end
            if later > now + _HORIZON:
                return None
            end = later
        return None


def _find_latest(moments: Iterable[datetime | None]) -> datetime | None:
    return max(filter(None, moments), default=None)


def _to_wall_time(now: datetime, zone: ZoneInfo) -> datetime:
    return now.astimezone(zone).replace(microsecond=0, tzinfo=None, fold=0)
