"""Which rows have a cycle of memory? Tested once a day for each row, at an hour of its own, and kept in between.

A test takes up to a third of a millisecond, so that 10,000 rows in one pass would be seconds. What is tested is the
peaks before the row's last hour of the day, whenever that is asked: another process finds the same. A rise that no
cycle forecast ends the cycle within a day, and until then the peak of the last day is what counts.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from trellis.core.recommend.memory_cycles import CycleRule, recognised
from trellis.core.usage.columns import IntColumn
from trellis.core.usage.long_peaks import CELL_HOURS, CELLS, Peaks

# Odd numbers, so that a change of any one cell changes the sum.
_WEIGHTS: Final = np.cumprod(np.full(CELLS, 6_364_136_223_846_793_005, dtype=np.uint64)) | np.uint64(1)


class KnownPeriods:
    """The period of each row by its number in the history, and what it was found from."""

    def __init__(self, rule: CycleRule) -> None:
        self._rule = rule
        self._tested: npt.NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)
        self._periods: IntColumn = np.full(0, -1, dtype=np.int64)

    def of(self, numbers: IntColumn, peaks: Peaks, moments: IntColumn, hour: int) -> IntColumn:
        """Periods in cells, 0 for none, from peaks up to the cell of an hour and the hours at which rows are tested."""
        self._reserve(int(numbers.max(initial=-1)) + 1)
        past = _until(peaks, hour // CELL_HOURS - moments // CELL_HOURS + 1)
        seen = (past.view(np.uint32).astype(np.uint64) * _WEIGHTS).sum(axis=1, dtype=np.uint64)
        new = np.flatnonzero((self._tested[numbers] != seen) | (self._periods[numbers] < 0))
        self._periods[numbers[new]] = recognised(past[new], self._rule)
        self._tested[numbers[new]] = seen[new]
        return self._periods[numbers]

    def _reserve(self, size: int) -> None:
        more = size - len(self._periods)
        if more > 0:
            more = max(more, len(self._periods) // 2)
            self._tested = np.append(self._tested, np.zeros(more, dtype=np.uint64))
            self._periods = np.append(self._periods, np.full(more, -1))


def _until(peaks: Peaks, shifts: IntColumn) -> Peaks:
    """Peaks up to so many cells before the last, which are the last then."""
    found = np.full_like(peaks, np.nan)
    for shift in np.unique(shifts).tolist():
        mine = shifts == shift
        found[mine, shift:] = peaks[mine, : CELLS - shift]
    return found
