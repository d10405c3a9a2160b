"""What did the past hours look like, apart from how busy their days were?

An hour of history is five numbers. Four of them stand for its samples: most of an hour is about its median, and the
rest lies between that and the maximum. Each is put on a scale of logarithms on which a busier day lies higher all over,
and most of that is taken off again: so an hour of last week is comparable with one of today, though a deployment has
halved all usage since.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.core.usage.rings import Ring

# Measures of an hour and the share of its samples they stand for. With these, sizing by summaries is as good as by all
# samples; evenly spread shares would see more peaks than there were.
_P50, _P90, _P95, _MAXIMUM = 1, 2, 3, 4
MEASURES: Final = (_P50, _P90, _P95, _MAXIMUM)
SHARES: Final[FloatColumn] = np.array([0.75, 0.15, 0.05, 0.05])

BUCKETS: Final = 160  # 5 % each, so that the highest is 2,400 times the lowest
STEP: Final = float(np.log(1.05))
_LEVEL_HOURS = 24
_FOLLOWED = 0.7  # of a change of level; all of it would follow every quiet Sunday into Monday
_LEAST = 0.1  # of a millicore: what is below is as good as nothing


class PastHours(msgspec.Struct, frozen=True):
    """Hours of some rows, oldest first. `places` is (measures, rows, hours): the bucket of each measure.

    `tops` is where the highest bucket of a row ends, and `levels` (rows, hours) what has to be added to it again, after
    an hour, to get the logarithm of an amount. `means` are logarithms of hourly means, NaN where nothing is known.
    """

    places: npt.NDArray[np.int32]
    known: BoolColumn
    means: FloatColumn
    levels: FloatColumn
    tops: FloatColumn

    @property
    def hours(self) -> int:
        """How many there are."""
        return int(self.known.shape[1])

    def amounts(self, places: FloatColumn, at: IntColumn) -> FloatColumn:
        """What places on the scale, (..., rows, moments), are worth at the beginning of hours."""
        before = np.clip(at, 1, self.hours) - 1
        found: FloatColumn = np.exp(self.tops[:, np.newaxis] - (BUCKETS - places) * STEP + self.levels[:, before])
        return found


def past_hours(summaries: Ring, followed: float = _FOLLOWED) -> PastHours:
    """From summaries of one resource, (rows, measures, hours), at least one of each.

    `followed` is how much of a change of level is; with 0, amounts count as they were.
    """
    means = summaries[:, 0].astype(np.float64)
    known = ~np.isnan(means)
    with np.errstate(invalid="ignore"):
        levels = followed * np.log(np.maximum(_levels(means, known), _LEAST))
        logs = np.log(np.maximum(summaries, np.float32(_LEAST)))
    # The level of an hour is that of the day before it, as it is when an hour is to be told that has not come yet.
    before = np.concatenate([np.full((len(levels), 1), np.nan), levels[:, :-1]], axis=1)
    before = np.where(np.isnan(before), levels, before).astype(np.float32)
    scaled = logs[:, MEASURES] - before[:, np.newaxis]
    scaled[np.isnan(scaled)] = -np.inf
    tops = scaled.max(axis=(1, 2), initial=-np.inf)
    tops[np.isneginf(tops)] = 0.0
    scaled -= tops[:, np.newaxis, np.newaxis]
    scaled *= np.float32(1.0 / STEP)
    np.maximum(scaled, 1.0 - BUCKETS, out=scaled)
    places = np.moveaxis(scaled, 1, 0).astype(np.int32) + (BUCKETS - 1)
    means_then = logs[:, 0].astype(np.float64)
    return PastHours(places, known, means_then, np.nan_to_num(levels), tops.astype(np.float64))


def since_known(summaries: Ring) -> Ring:
    """Without the hours before anything is known of any row, but for one: young rows then cost little."""
    known = np.flatnonzero(~np.isnan(summaries[:, 0]).all(axis=0))
    first = int(known[0]) if len(known) else summaries.shape[-1]
    return summaries[:, :, max(first - 1, 0) :]


def _levels(means: FloatColumn, known: BoolColumn) -> FloatColumn:
    """The mean of the day that ends with each hour; of the last day there was, where nothing is known of that.

    NaN before the first hour that is known.
    """
    sums, counts = _of_last_day(np.where(known, means, 0.0)), _of_last_day(known.astype(np.float64))
    last = np.maximum.accumulate(np.where(counts > 0, np.arange(means.shape[1]), 0), axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: FloatColumn = np.take_along_axis(sums / counts, last, axis=1)
    return found


def _of_last_day(values: FloatColumn) -> FloatColumn:
    """The sum of the 24 hours that end with each."""
    # By sums of 2, 4, 8 and 16: a running sum would depend, in its last digit, on how far back it was begun, and one
    # digit is enough to move an hour to the next bucket.
    sums = {1: np.pad(values, ((0, 0), (_LEVEL_HOURS - 1, 0)))}
    for length in (1, 2, 4, 8):
        half = sums[length]
        sums[2 * length] = half[:, length:] + half[:, :-length]
    hours = values.shape[1]
    found: FloatColumn = sums[16][:, :hours] + sums[8][:, 16 : 16 + hours]
    return found
