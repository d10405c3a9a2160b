"""Shapes of usage: levels, trends, versions, days and weeks, bursts, noise, phases of batch jobs, and measured traces.

Pure functions of parameters, times and a random generator. Times are seconds since 1970, in UTC; the result is a column
as long as they are. Amounts are cores or bytes. Of a trace each step takes what fell into it; gaps keep the last
value.
"""

from __future__ import annotations

from collections.abc import Sequence

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
    """Busy in working hours, with ramps of an hour at both ends, and quiet otherwise."""
    hours = times % DAY / _HOUR
    weekday = (np.floor(times / DAY).astype(np.int64) + _FIRST_WEEKDAY) % 7
    ramp = min(_RAMP_HOURS, (busy.end - busy.begin) / 2)
    level = np.clip((hours - busy.begin) / ramp, 0, 1) * np.clip((busy.end - hours) / ramp, 0, 1)
    return low + (high - low) * np.where(np.isin(weekday, busy.days), level, 0.0)


def steady(times: FloatColumn, level: float) -> FloatColumn:
    """A constant level."""
    return np.full(len(times), level)


def trend(times: FloatColumn, begin: float, end: float) -> FloatColumn:
    """A straight line from the first time to the last."""
    return np.linspace(begin, end, len(times))


def versions(times: FloatColumn, changes: Sequence[float], factors: Sequence[float]) -> FloatColumn:
    """1 before the first change, and from each on its factor; the last factor holds for all changes that follow."""
    if not factors:
        return np.ones(len(times))
    version = np.searchsorted(np.asarray(changes), times, side="right")
    return np.asarray([1.0, *factors])[np.minimum(version, len(factors))]


def draw_factors(count: int, shift: float, draw: np.random.Generator) -> tuple[float, ...]:
    """The factors of later versions over the first: log-normal, and independent."""
    return tuple(draw.lognormal(0.0, shift, count).tolist())


_LENGTHS_DIFFER = 0.4
_HEIGHTS_DIFFER = 0.25


class Spikes(msgspec.Struct, frozen=True):
    """How high bursts are, how many there are in a day, and how many seconds they last; all on average."""

    height: float
    per_day: float
    length: float


def spiky(times: FloatColumn, step: float, spikes: Spikes, draw: np.random.Generator) -> FloatColumn:
    """Bursts alone: their number a day on average, at any time, each of its own length and height.

    Where two meet, the higher counts. A burst that is shorter than a step adds to it in proportion.
    """
    result = np.zeros(len(times))
    span = step * len(times)
    count = int(draw.poisson(spikes.per_day * span / DAY))
    begins = draw.uniform(0.0, span, count)
    lengths = spikes.length * draw.lognormal(-(_LENGTHS_DIFFER**2) / 2, _LENGTHS_DIFFER, count)
    heights = spikes.height * draw.lognormal(-(_HEIGHTS_DIFFER**2) / 2, _HEIGHTS_DIFFER, count)
    for begin, lasts, high in zip(begins.tolist(), lengths.tolist(), heights.tolist(), strict=True):
        first = int(begin // step)
        steps = max(1, round(lasts / step))
        level = high * min(1.0, lasts / step)
        result[first : first + steps] = np.maximum(result[first : first + steps], level)
    return result


def noise(count: int, spread: float, draw: np.random.Generator) -> FloatColumn:
    """Factors around 1, log-normal, with so much of a standard deviation in their logarithm."""
    if spread == 0:
        return np.ones(count)
    return draw.lognormal(-(spread**2) / 2, spread, count)


def phases(since: FloatColumn, lengths: Sequence[float], levels: Sequence[float]) -> FloatColumn:
    """The level of the phase that each moment falls into, `since` being seconds from the begin of the first."""
    ends = np.cumsum(np.asarray(lengths, dtype=np.float64))
    place = np.searchsorted(ends, since % ends[-1], side="right")
    result: FloatColumn = np.asarray(levels, dtype=np.float64)[np.minimum(place, len(ends) - 1)]
    return result


def resample(times: FloatColumn, values: FloatColumn, steps: int, step: float, highest: bool) -> FloatColumn:
    """A trace laid over steps, its first figure upon the first of them.

    A step holds the mean of the figures in it, or the highest: CPU is spent over a step, memory must fit at its peak.
    A trace that is shorter than the steps begins anew, as long after its last figure as others follow one another.
    """
    apart = float(np.median(np.diff(times))) if len(times) > 1 else step
    # What lies beyond the last step is not needed, and may be far away.
    length = min(steps, max(1, round((times[-1] - times[0] + apart) / step)))
    usable = np.isfinite(values) & (times - times[0] < length * step)
    at = ((times[usable] - times[0]) // step).astype(np.int64)
    sums = np.full(length, -np.inf) if highest else np.zeros(length)
    if highest:
        np.maximum.at(sums, at, values[usable])
    else:
        np.add.at(sums, at, values[usable])
    counts = np.bincount(at, minlength=length)
    filled = np.flatnonzero(counts)
    if not len(filled):
        return np.zeros(steps)
    figures = sums if highest else sums / np.maximum(counts, 1)
    # The last step that has a figure; steps before the first take the first.
    last = np.maximum.accumulate(np.where(counts > 0, np.arange(length), filled[0]))
    return np.resize(figures[last], steps)
