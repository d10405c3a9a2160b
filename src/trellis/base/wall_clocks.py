"""Which instants does a wall clock mean? Time zones, and the hours that their clocks skip or repeat.

A wall time is a naive datetime: what the clock of a zone shows. Once a year it shows some times twice, and some never.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from trellis.base.errors import InvalidSchedule

# No zone has ever moved its clock by more than a day; the two hours more are for offsets that are no whole hours.
_AROUND = timedelta(hours=26)
_SECOND = timedelta(seconds=1)


def zone_named(name: str) -> ZoneInfo:
    """The zone of the IANA database with this name."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:  # OSError: the name of a directory, such as "Europe"
        raise InvalidSchedule(name, "not a time zone such as UTC or Europe/Berlin") from error


def instants_shown(wall: datetime, zone: ZoneInfo) -> list[datetime]:
    """When the clock shows this time, in order: once, twice, or never."""
    first, second = _both_readings(wall, zone)
    if first == second:
        return [first]
    return [first, second] if first < second else []


def instant_reached(wall: datetime, zone: ZoneInfo) -> datetime:
    """When the clock first shows this time or, if it skips it, a later one."""
    first, second = _both_readings(wall, zone)
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


def repeated_around(now: datetime, zone: ZoneInfo) -> timedelta:
    """How much of the clock is repeated within a day of `now`: nothing on all days but one of the year."""
    before = (now - _AROUND).astimezone(zone).utcoffset() or timedelta(0)
    after = (now + _AROUND).astimezone(zone).utcoffset() or timedelta(0)
    return max(before - after, timedelta(0))


def _both_readings(wall: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """With the offset before a change and with the one after it; the same if there is no change (PEP 495)."""
    return (
        wall.replace(tzinfo=zone, fold=0).astimezone(UTC),
        wall.replace(tzinfo=zone, fold=1).astimezone(UTC),
    )
