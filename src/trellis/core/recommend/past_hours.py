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

from trellis.core.recommend.day_levels import LEAST, DayLevels, day_levels
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.core.usage.hours import MAXIMUM, MEASURES
from trellis.core.usage.rings import Ring

# Measures of an hour and the share of its samples they stand for. With these, sizing by summaries is as good as by all
# samples; evenly spread shares would see more peaks than there were.
SAMPLE_MEASURES: Final = tuple(MEASURES.index(name) for name in ("p50", "p90", "p95", "maximum"))
SAMPLE_SHARES: Final[FloatColumn] = np.array([0.75, 0.15, 0.05, 0.05])

BUCKETS: Final = 160  # 5 % each, so that the highest is 2,400 times the lowest
STEP: Final = float(np.log(1.05))
_FOLLOWED = 0.7  # of a change of level; all of it would follow every quiet Sunday into Monday

Places = npt.NDArray[np.int32]


class PastHours(msgspec.Struct, frozen=True):
    """Hours of some rows, oldest first: summaries (rows, measures, hours) and what makes them comparable.

    `means` are logarithms of hourly means, NaN where nothing is known. `tops` is where the highest bucket of a row
    ends, apart from its level.
    """

    summaries: Ring
    known: BoolColumn
    means: FloatColumn
    levels: DayLevels
    tops: FloatColumn

    @property
    def hours(self) -> int:
        """How many there are."""
        return int(self.known.shape[1])

    def places(self, measure: int, hours: IntColumn, settled: BoolColumn | bool) -> Places:
        """The bucket of a measure in some hours, (rows, ...), beside the level of the hour that is said."""
        level = np.where(settled, self.levels.settled[:, hours], self.levels.before[:, hours])
        level += self.tops.reshape(-1, *(1,) * hours.ndim)
        logs = np.log(np.maximum(self.summaries[:, measure][:, hours], np.float32(LEAST)))
        steps = (logs - level.astype(np.float32)) * np.float32(1.0 / STEP)
        # Lowest where nothing is known: such an hour counts nothing, but has a place all the same.
        return np.minimum(np.fmax(steps, 1.0 - BUCKETS), 0.0).astype(np.int32) + (BUCKETS - 1)

    def amounts(self, places: FloatColumn, at: IntColumn) -> FloatColumn:
        """What places on the scale, (..., rows, moments), are worth at the beginning of hours."""
        found: FloatColumn = np.exp(self.tops[:, np.newaxis] - (BUCKETS - places) * STEP + self.levels.at(at))
        return found


def past_hours(summaries: Ring, followed: float = _FOLLOWED) -> PastHours:
    """From summaries of one resource, (rows, measures, hours), at least one of each.

    `followed` is how much of a change of level is; with 0, amounts count as they were.
    """
    means = summaries[:, 0].astype(np.float64)
    levels = day_levels(means, followed)
    with np.errstate(invalid="ignore"):
        highest = np.log(np.maximum(summaries[:, MAXIMUM], np.float32(LEAST)))
        means = np.log(np.maximum(means, LEAST))
    above = highest - np.minimum(levels.before, levels.settled)
    tops = np.fmax.reduce(above, axis=1, initial=-np.inf)
    tops[np.isneginf(tops)] = 0.0
    return PastHours(summaries, ~np.isnan(means), means, levels, tops)


def since_known(summaries: Ring) -> Ring:
    """Without the hours before anything is known of any row, but for one: young rows then cost little."""
    known = np.flatnonzero(~np.isnan(summaries[:, 0]).all(axis=0))
    first = int(known[0]) if len(known) else summaries.shape[-1]
    return summaries[:, :, max(first - 1, 0) :]
