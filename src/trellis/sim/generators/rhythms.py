"""What follows the clock? Waves with the day and working hours of the week."""

from __future__ import annotations

import msgspec
import numpy as np

from trellis.core.usage.columns import FloatColumn

DAY = 86_400.0
_HOUR = 3_600.0
# 1 January 1970 was a Thursday; weekdays count from Monday.
_FIRST_WEEKDAY = 3
_RAMP_HOURS = 1.0


def daily(times: FloatColumn, low: float, high: float, peak_hour: float) -> FloatColumn:
    """A wave that is highest at an hour of the day, and lowest twelve hours later."""
    hours = times % DAY / _HOUR
    wave: FloatColumn = 0.5 + 0.5 * np.cos(2 * np.pi * (hours - peak_hour) / 24)
    return low + (high - low) * wave


class WorkingHours(msgspec.Struct, frozen=True):
    """From one hour of the day to another, on some days of the week, Monday being 0."""

    begin: float
    end: float
    days: tuple[int, ...]


def weekly(times: FloatColumn, low: float, high: float, busy: WorkingHours) -> FloatColumn:
    """Busy in working hours, with ramps of an hour at both ends, and quiet else."""
    hours = times % DAY / _HOUR
    weekday = (np.floor(times / DAY).astype(np.int64) + _FIRST_WEEKDAY) % 7
    ramp = min(_RAMP_HOURS, (busy.end - busy.begin) / 2)
    level = np.clip((hours - busy.begin) / ramp, 0, 1) * np.clip((busy.end - hours) / ramp, 0, 1)
    return low + (high - low) * np.where(np.isin(weekday, busy.days), level, 0.0)
