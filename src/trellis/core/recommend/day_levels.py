"""How busy were the days that an hour lies between?

An hour is comparable with another only beside how busy it was then. Beside the day before it, as it is when an hour is
to be told that has not come yet: then a Monday is as far above a Sunday as ever. But a deployment halves all usage once
and not every week, and beside the day before that its first day would look like half a day for ever. So an hour has a
second level, the one that its day settled at, as far as the hour itself went along with the change.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn

LEAST: Final = 0.1  # of a millicore: what is below is as good as nothing
_DAY = 24
# What is known a day after an hour and its neighbours, which are looked up together with it.
_SETTLED_AFTER = _DAY - 2


class DayLevels(msgspec.Struct, frozen=True):
    """Logarithms, (rows, hours): of the day that ends with each hour, of that before it, and of the one it settled at.

    `before` and `settled` are the two levels of an hour, `after` is the level that a moment after the hour has.
    """

    after: FloatColumn
    before: FloatColumn
    settled: FloatColumn

    def at(self, moments: IntColumn) -> FloatColumn:
        """The levels, (rows, moments), at the beginning of hours; those to come have that of now."""
        found: FloatColumn = self.after[:, np.clip(moments, 1, self.after.shape[1]) - 1]
        return found

    def nearer_settled(self, moments: IntColumn, hours: IntColumn) -> BoolColumn:
        """Which of some hours (moments, hours) are nearer to the moment by the level that they settled at."""
        now = self.at(moments)[:, :, np.newaxis]
        hours = np.clip(hours, 0, self.after.shape[1] - 1)
        found: BoolColumn = np.abs(self.settled[:, hours] - now) < np.abs(self.before[:, hours] - now)
        return found


def day_levels(means: FloatColumn, followed: float) -> DayLevels:
    """From hourly means (rows, hours), NaN where nothing is known. `followed` is how much of a change of level is."""
    with np.errstate(invalid="ignore"):
        after = np.log(np.maximum(_of_days(means), LEAST))
        logs = np.log(np.maximum(means, LEAST))
    before = np.concatenate([np.full((len(after), 1), np.nan), after[:, :-1]], axis=1)
    before = np.where(np.isnan(before), after, before)
    return DayLevels(*(np.nan_to_num(followed * each) for each in (after, before, _settled(logs, before, after))))


def _settled(logs: FloatColumn, before: FloatColumn, after: FloatColumn) -> FloatColumn:
    """The level before an hour, and of the change since so much as the hour itself differs from the day before."""
    hours = logs.shape[1]
    change = after[:, np.minimum(np.arange(hours) + _SETTLED_AFTER, hours - 1)] - before
    differs = np.zeros(logs.shape)
    differs[:, _DAY:] = logs[:, _DAY:] - logs[:, :-_DAY]
    with np.errstate(invalid="ignore", divide="ignore"):
        along = np.where(change * differs > 0, np.minimum(differs / change, 1.0), 0.0)
    return before + along * change


def _of_days(means: FloatColumn) -> FloatColumn:
    """The mean of the day that ends with each hour; as it was at the last known hour, where nothing is known of one.

    NaN before the first hour that is known.
    """
    known = ~np.isnan(means)
    hours = np.arange(means.shape[1])
    sums, counts = _of_last_day(np.where(known, means, 0.0)), _of_last_day(known.astype(np.float64))
    last = np.maximum.accumulate(np.where(known, hours, 0), axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: FloatColumn = np.take_along_axis(sums / counts, last, axis=1)
    return _eased(found, known, counts == 0, hours)


def _eased(levels: FloatColumn, known: BoolColumn, idle: BoolColumn, hours: IntColumn) -> FloatColumn:
    """The same levels, and in the first day after a gap of a day or more so much of the one before the gap as is left.

    The first hours alone, of whatever time of the day, would pass for a day that was as quiet or as busy as they are.
    """
    begins = np.zeros(levels.shape, dtype=np.int64)
    begins[:, 1:] = np.where(known[:, 1:] & idle[:, :-1] & ~np.isnan(levels[:, :-1]), hours[1:], 0)
    if not begins.any():
        return levels
    begins = np.maximum.accumulate(begins, axis=1)
    share = (hours - begins + 1.0) / _DAY
    before = np.take_along_axis(levels, np.maximum(begins - 1, 0), axis=1)
    return np.where((begins > 0) & (share < 1.0), share * levels + (1.0 - share) * before, levels)


def _of_last_day(values: FloatColumn) -> FloatColumn:
    """The sum of the 24 hours that end with each."""
    # By sums of 2, 4, 8 and 16: a running sum would depend, in its last digit, on how far back it was begun, and one
    # digit is enough to move an hour to the next bucket.
    sums = {1: np.pad(values, ((0, 0), (_DAY - 1, 0)))}
    for length in (1, 2, 4, 8):
        half = sums[length]
        sums[2 * length] = half[:, length:] + half[:, :-length]
    hours = values.shape[1]
    found: FloatColumn = sums[16][:, :hours] + sums[8][:, 16 : 16 + hours]
    return found
