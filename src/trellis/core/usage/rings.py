"""Where is an hour of a series kept, and what becomes of it when the ring has gone round?

In blocks of (series, measures, hours) float32. An hour has the place `hour % hours`. Beside it stands how many samples
it is made of: none means that nothing is known of it, and two parts of an hour are mixed by their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.hours import MAXIMUM, MEASURES, Summaries

Ring: TypeAlias = npt.NDArray[np.float32]

SERIES_PER_BLOCK = 256  # 4.7 MB at 35 days
_MOST_SAMPLES = 65_535  # an hour with more weighs no more: 16 bits


class _Block:
    def __init__(self, hours: int, series: int) -> None:
        self.values: Ring = np.zeros((series, len(MEASURES), hours), dtype=np.float32)
        self.counts: npt.NDArray[np.uint16] = np.zeros((series, hours), dtype=np.uint16)


class Rings:
    """The last hours of each series, numbered from 0 on."""

    def __init__(self, hours: int, series_per_block: int = SERIES_PER_BLOCK) -> None:
        self.hours = hours
        self._per_block = series_per_block
        self._blocks: list[_Block] = []
        self._newest: IntColumn = np.zeros(0, dtype=np.int64)
        self._revisions: IntColumn = np.zeros(0, dtype=np.int64)

    @property
    def nbytes(self) -> int:
        """What all of it occupies."""
        return sum(block.values.nbytes + block.counts.nbytes for block in self._blocks)

    def reserve(self, series: int) -> None:
        """Make room for so many series."""
        while len(self._blocks) * self._per_block < series:
            self._blocks.append(_Block(self.hours, self._per_block))
        more = max(series - len(self._newest), 0)
        self._newest = np.append(self._newest, np.full(more, -1))
        self._revisions = np.append(self._revisions, np.zeros(more, dtype=np.int64))

    def clear(self, series: IntColumn) -> None:
        """Forget what is known of some series."""
        self._newest[series] = -1
        self._revisions[series] += 1
        for block, where, _ in self._parts(series):
            block.counts[where] = 0

    def newest(self, series: IntColumn) -> IntColumn:
        """The newest hour of each series; -1 for none."""
        return self._newest[series]

    def revisions(self, series: IntColumn) -> IntColumn:
        """A number for each series that is another one whenever anything in its ring has changed."""
        return self._revisions[series]

    def knows(self, series: int, hour: int) -> bool:
        """Whether an hour has samples."""
        return self._newest[series] - self.hours < hour <= self._newest[series] and bool(
            self._blocks[series // self._per_block].counts[series % self._per_block, hour % self.hours]
        )

    def raise_maximum(self, series: int, hour: int, value: float) -> None:
        """Raise the maximum of an hour that has samples."""
        highest = self._blocks[series // self._per_block].values[series % self._per_block, MAXIMUM]
        highest[hour % self.hours] = max(highest[hour % self.hours], value)
        self.touch(series)

    def touch(self, series: int) -> None:
        """Note that something is new about a series, here or beside its ring."""
        self._revisions[series] += 1

    def merge(self, found: Summaries) -> None:
        """Work summaries in, and turn rings on to new hours; what is older than they reach is left out."""
        self._advance(found.series, found.hours)
        self._revisions[found.series] += 1
        inside = np.flatnonzero(found.hours > self._newest[found.series] - self.hours)
        for block, where, positions in self._parts(found.series[inside]):
            here = inside[positions]
            place = found.hours[here] % self.hours
            together = block.counts[where, place] + found.counts[here]
            share = found.counts[here] / together
            block.values[where, :, place] = mixed(block.values[where, :, place], found.values[here], share)
            block.counts[where, place] = np.minimum(together, _MOST_SAMPLES)

    def read(self, series: IntColumn, last: int) -> tuple[Ring, IntColumn]:
        """The hours up to one, oldest first (series, measures, hours), and the samples behind each (series, hours)."""
        hours = np.arange(last - self.hours + 1, last + 1)
        newest = self._newest[series][:, np.newaxis]
        inside = (hours <= newest) & (hours > newest - self.hours)
        values = np.empty((len(series), len(MEASURES), self.hours), dtype=np.float32)
        counts = np.zeros((len(series), self.hours), dtype=np.int64)
        # In two pieces: picking hour by hour takes six times as long.
        oldest = (last + 1) % self.hours
        split = self.hours - oldest
        for there, here in ((slice(oldest, None), slice(split)), (slice(oldest), slice(split, None))):
            for block, where, positions in self._parts(series):
                values[positions, :, here] = block.values[where, :, there]
                counts[positions, here] = np.where(inside[positions, here], block.counts[where, there], 0)
        return values, counts

    def copied(self, series: IntColumn) -> Rings:
        """Some series in rings of their own, numbered from 0 on."""
        copy = Rings(self.hours, max(len(series), 1))
        copy.reserve(len(series))
        copy._newest[:] = self._newest[series]
        copy._revisions[:] = self._revisions[series]
        for block, where, positions in self._parts(series):
            mine = copy._blocks[0]
            mine.values[positions], mine.counts[positions] = block.values[where], block.counts[where]
        return copy

    def _advance(self, series: IntColumn, hours: IntColumn) -> None:
        """Turn rings on to new hours: nothing is known yet of those and of all in between."""
        newest = self._newest.copy()
        np.maximum.at(newest, series, hours)
        moved = np.flatnonzero((newest > self._newest) & (self._newest >= 0))
        steps = np.minimum(newest[moved] - self._newest[moved], self.hours)
        which = np.repeat(moved, steps)
        nth = np.arange(len(which)) - np.repeat(np.cumsum(steps) - steps, steps)
        place = (newest[which] - nth) % self.hours
        for block, where, positions in self._parts(which):
            block.counts[where, place[positions]] = 0
        self._newest = newest

    def _parts(self, series: IntColumn) -> Iterator[tuple[_Block, IntColumn, IntColumn]]:
        """A batch block by block: the block, where in it the series are, and where in the batch."""
        numbers, where = np.divmod(series, self._per_block)
        for number in np.unique(numbers).tolist():
            positions = np.flatnonzero(numbers == number)
            yield self._blocks[number], where[positions], positions


def mixed(old: Ring, new: FloatColumn, share: FloatColumn) -> FloatColumn:
    """Summaries (summaries, measures) of two parts of their hours as one; `share` is the new part's of all samples."""
    only_new = share[:, np.newaxis] >= 1
    both = np.where(only_new, new, old + (new - old) * share[:, np.newaxis])
    both[:, MAXIMUM] = np.where(only_new[:, 0], new[:, MAXIMUM], np.maximum(old[:, MAXIMUM], new[:, MAXIMUM]))
    return both
