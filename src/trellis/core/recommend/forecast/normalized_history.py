"""Hourly history, normalised by how busy its days were.

An hour of history is five numbers. Four of them stand for its samples: most of an hour is about its median, and the
rest lies between that and the maximum. Each is put on a scale of logarithms on which a busier day lies higher all over,
and most of that is taken off again: so an hour of last week is comparable with one of today, though a deployment has
halved all usage since.

An hour has two levels. The first is that of the day before it, which is also known for an hour to come: relative to it,
a Monday is as far above a Sunday as ever. But a deployment halves all usage once and not every week, and relative to
the day before that, its first day would look like half a day for ever. So the second, adjusted level follows the change
of its day, as far as the hour itself followed the change.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.core.usage.history.hours import MAXIMUM, MEASURES, Ring

LEAST_USAGE: Final = 0.1  # of a millicore: what is below is as good as nothing
_DAY = 24
# What is known a day after an hour and its neighbours, which are looked up together with it.
_ADJUSTED_AFTER = _DAY - 2


class DayLevels(msgspec.Struct, frozen=True):
    """Logarithms, (rows, hours): of the day that ends with each hour, of that before it, and adjusted to its change.

    `before` and `adjusted` are the two levels of an hour, `after` is the level that a moment after the hour has.
    """

    after: FloatColumn
    before: FloatColumn
    adjusted: FloatColumn

    def read_levels(self, moments: IntColumn) -> FloatColumn:
        """The levels, (rows, moments), at the beginning of hours; those to come have that of now."""
        levels: FloatColumn = self.after[:, np.clip(moments, 1, self.after.shape[1]) - 1]
        return levels

    def prefers_adjusted(self, moments: IntColumn, hours: IntColumn) -> BoolColumn:
        """Mask of hours (moments, hours) that are nearer to the moment by their adjusted level."""
        now = self.read_levels(moments)[:, :, np.newaxis]
        hours = np.clip(hours, 0, self.after.shape[1] - 1)
        is_nearer: BoolColumn = np.abs(self.adjusted[:, hours] - now) < np.abs(self.before[:, hours] - now)
        return is_nearer


def compute_day_levels(means: FloatColumn, change_share: float) -> DayLevels:
    """Compute levels from hourly means (rows, hours), NaN where usage is unknown.

    `change_share` is the share of a change of level that is followed.
    """
    with np.errstate(invalid="ignore"):
        after = np.log(np.maximum(_compute_day_means(means), LEAST_USAGE))
        logs = np.log(np.maximum(means, LEAST_USAGE))
    before = np.concatenate([np.full((len(after), 1), np.nan), after[:, :-1]], axis=1)
    before = np.where(np.isnan(before), after, before)
    return DayLevels(
        *(
            np.nan_to_num(change_share * levels)
            for levels in (after, before, _compute_adjusted_levels(logs, before, after))
        )
    )


def _compute_adjusted_levels(logs: FloatColumn, before: FloatColumn, after: FloatColumn) -> FloatColumn:
    """The level before an hour, and of the change since so much as the hour itself differs from the day before."""
    hours = logs.shape[1]
    change = after[:, np.minimum(np.arange(hours) + _ADJUSTED_AFTER, hours - 1)] - before
    difference = np.zeros(logs.shape)
    difference[:, _DAY:] = logs[:, _DAY:] - logs[:, :-_DAY]
    with np.errstate(invalid="ignore", divide="ignore"):
        followed_share = np.where(change * difference > 0, np.minimum(difference / change, 1.0), 0.0)
    return before + followed_share * change


def _compute_day_means(means: FloatColumn) -> FloatColumn:
    """The mean of the day that ends with each hour; as it was at the last known hour, where nothing is known of one.

    NaN before the first hour that is known.
    """
    known = ~np.isnan(means)
    hours = np.arange(means.shape[1])
    sums, counts = _sum_last_day(np.where(known, means, 0.0)), _sum_last_day(known.astype(np.float64))
    last = np.maximum.accumulate(np.where(known, hours, 0), axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        levels: FloatColumn = np.take_along_axis(sums / counts, last, axis=1)
    return _ease_after_gaps(levels, known, counts == 0, hours)


def _ease_after_gaps(levels: FloatColumn, known: BoolColumn, idle: BoolColumn, hours: IntColumn) -> FloatColumn:
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


def _sum_last_day(values: FloatColumn) -> FloatColumn:
    """The sum of the 24 hours that end with each."""
    # By sums of 2, 4, 8 and 16: a running sum would depend, in its last digit, on how far back it was begun, and one
    # digit is enough to move an hour to the next bin.
    sums = {1: np.pad(values, ((0, 0), (_DAY - 1, 0)))}
    for length in (1, 2, 4, 8):
        half = sums[length]
        sums[2 * length] = half[:, length:] + half[:, :-length]
    hours = values.shape[1]
    last_day: FloatColumn = sums[16][:, :hours] + sums[8][:, 16 : 16 + hours]
    return last_day


# Measures of an hour and the share of its samples they stand for. With these, sizing by summaries is as good as by all
# samples; evenly spread shares would see more peaks than there were.
SAMPLE_MEASURES: Final = tuple(MEASURES.index(name) for name in ("p50", "p90", "p95", "maximum"))
SAMPLE_SHARES: Final[FloatColumn] = np.array([0.75, 0.15, 0.05, 0.05])

HISTOGRAM_BINS: Final = 160  # 5 % each, so that the highest is 2,400 times the lowest
BIN_WIDTH: Final = float(np.log(1.05))
_CHANGE_SHARE = 0.7  # of a change of level; all of it would follow every quiet Sunday into Monday

BinIndexes = npt.NDArray[np.int32]


class NormalizedHours(msgspec.Struct, frozen=True):
    """Hours of some rows, oldest first: summaries (rows, measures, hours) and what makes them comparable.

    `means` are logarithms of hourly means, NaN where nothing is known. `tops` is where the highest bin of a row
    ends, apart from its level.
    """

    summaries: Ring
    known: BoolColumn
    means: FloatColumn
    levels: DayLevels
    tops: FloatColumn

    @property
    def hours(self) -> int:
        """The number of hours."""
        return int(self.known.shape[1])

    def find_bins(self, measure: int, hours: IntColumn, use_adjusted: BoolColumn | bool) -> BinIndexes:
        """The bin of a measure in some hours, (rows, ...), relative to the given level of the hour."""
        level = np.where(use_adjusted, self.levels.adjusted[:, hours], self.levels.before[:, hours])
        level += self.tops.reshape(-1, *(1,) * hours.ndim)
        logs = np.log(np.maximum(self.summaries[:, measure][:, hours], np.float32(LEAST_USAGE)))
        steps = (logs - level.astype(np.float32)) * np.float32(1.0 / BIN_WIDTH)
        # Lowest where nothing is known: such an hour counts nothing, but has a place all the same.
        return np.minimum(np.fmax(steps, 1.0 - HISTOGRAM_BINS), 0.0).astype(np.int32) + (HISTOGRAM_BINS - 1)

    def convert_to_amounts(self, places: FloatColumn, at: IntColumn) -> FloatColumn:
        """The amounts at positions on the scale, (..., rows, moments), at the beginning of hours."""
        amounts: FloatColumn = np.exp(
            self.tops[:, np.newaxis] - (HISTOGRAM_BINS - places) * BIN_WIDTH + self.levels.read_levels(at)
        )
        return amounts


def normalize_hours(summaries: Ring, change_share: float = _CHANGE_SHARE) -> NormalizedHours:
    """Normalize summaries of one resource, (rows, measures, hours), at least one of each.

    `change_share` is how much of a change of level is; with 0, amounts count as they were.
    """
    means = summaries[:, 0].astype(np.float64)
    levels = compute_day_levels(means, change_share)
    with np.errstate(invalid="ignore"):
        highest = np.log(np.maximum(summaries[:, MAXIMUM], np.float32(LEAST_USAGE)))
        means = np.log(np.maximum(means, LEAST_USAGE))
    above = highest - np.minimum(levels.before, levels.adjusted)
    tops = np.fmax.reduce(above, axis=1, initial=-np.inf)
    tops[np.isneginf(tops)] = 0.0
    return NormalizedHours(summaries, ~np.isnan(means), means, levels, tops)


def trim_unknown_hours(summaries: Ring) -> Ring:
    """Without the hours before anything is known of any row, but for one: young rows then cost little."""
    known_hours = np.flatnonzero(~np.isnan(summaries[:, 0]).all(axis=0))
    first = int(known_hours[0]) if len(known_hours) else summaries.shape[-1]
    return summaries[:, :, max(first - 1, 0) :]
