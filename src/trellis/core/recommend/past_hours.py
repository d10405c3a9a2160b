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


def past_hours(summaries: Ring) -> PastHours:
    """From summaries of one resource, (rows, measures, hours)."""
    means = summaries[:, 0].astype(np.float64)
    known = ~np.isnan(means)
    levels = _FOLLOWED * np.log(np.maximum(_levels(means, known), _LEAST))
    with np.errstate(invalid="ignore"):
        logs = np.log(np.maximum(summaries, np.float32(_LEAST)))
    scaled = logs[:, MEASURES] - levels.astype(np.float32)[:, np.newaxis]
    scaled[np.isnan(scaled)] = -np.inf
    tops = scaled.max(axis=(1, 2), initial=-np.inf)
    tops[np.isneginf(tops)] = 0.0
    scaled -= tops[:, np.newaxis, np.newaxis]
    scaled *= np.float32(1.0 / STEP)
    np.maximum(scaled, 1.0 - BUCKETS, out=scaled)
    places = np.moveaxis(scaled, 1, 0).astype(np.int32) + (BUCKETS - 1)
    return PastHours(places, known, logs[:, 0].astype(np.float64), levels, tops.astype(np.float64))


def _levels(means: FloatColumn, known: BoolColumn) -> FloatColumn:
    """The mean of the day that ends with each hour; of the last day there was, where nothing is known of that."""
    sums = np.cumsum(np.where(known, means, 0.0), axis=1)
    counts = np.cumsum(known, axis=1, dtype=np.int64)
    sums[:, _LEVEL_HOURS:] -= sums[:, :-_LEVEL_HOURS].copy()
    counts[:, _LEVEL_HOURS:] -= counts[:, :-_LEVEL_HOURS].copy()
    last = np.maximum.accumulate(np.where(counts > 0, np.arange(means.shape[1]), 0), axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = np.take_along_axis(sums / counts, last, axis=1)
    return np.nan_to_num(found)
