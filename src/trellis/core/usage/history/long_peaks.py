"""Peaks of memory over 280 days: a ring of maxima of six hours for each row that has a history.

The hourly ring ends after five weeks, and a cycle takes three peaks to be recognised: 280 days have three peaks of a
cycle as long as a quarter, wherever in the cycle they end. 1,120 float32 are 4.5 KB a row, an eighth of what its hourly
summaries take.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from trellis.core.usage.columns import FloatColumn, IntColumn

CELL_HOURS: Final = 6
PEAK_DAYS: Final = 280
CELLS: Final = PEAK_DAYS * 24 // CELL_HOURS
_ROWS_PER_BLOCK: Final = 256
_UNKNOWN: Final = np.float32(np.nan)

Peaks: TypeAlias = npt.NDArray[np.float32]


class LongPeaks:
    """The ring of each row, numbered from 0 on. Cell n of all time has the place `n % CELLS`."""

    def __init__(self, rows_per_block: int = _ROWS_PER_BLOCK) -> None:
        self._per_block = rows_per_block
        self._blocks: list[Peaks] = []
        self._newest: IntColumn = np.zeros(0, dtype=np.int64)

    @property
    def nbytes(self) -> int:
        """Size of all rings."""
        return sum(block.nbytes for block in self._blocks)

    def reserve(self, rows: int) -> None:
        """Allocate rings for so many rows."""
        while len(self._blocks) * self._per_block < rows:
            self._blocks.append(np.full((self._per_block, CELLS), _UNKNOWN))
        more = max(rows - len(self._newest), 0)
        self._newest = np.append(self._newest, np.full(more, -1))

    def clear(self, rows: IntColumn) -> None:
        """Forget the peaks of rows."""
        self._newest[rows] = -1
        for block, where, _ in self._parts(rows):
            block[where] = _UNKNOWN

    def newest(self, row: int) -> int:
        """The newest cell of a row; -1 for none."""
        return int(self._newest[row])

    def add(self, rows: IntColumn, cells: IntColumn, values: FloatColumn) -> None:
        """Raise cells to values; rows may repeat. What is older than a ring reaches is left out."""
        self._advance(rows, cells)
        inside = np.flatnonzero(cells > self._newest[rows] - CELLS)
        for block, where, positions in self._parts(rows[inside]):
            here = inside[positions]
            np.fmax.at(block, (where, cells[here] % CELLS), values[here].astype(np.float32))

    def read(self, rows: IntColumn, last: int) -> Peaks:
        """(rows, cells) up to a cell, oldest first; NaN where nothing is known."""
        cells = np.arange(last - CELLS + 1, last + 1)
        newest = self._newest[rows][:, np.newaxis]
        peaks = np.empty((len(rows), CELLS), dtype=np.float32)
        oldest = (last + 1) % CELLS
        split = CELLS - oldest
        for block, where, positions in self._parts(rows):
            peaks[positions, :split] = block[where, oldest:]
            peaks[positions, split:] = block[where, :oldest]
        peaks[(cells > newest) | (cells <= newest - CELLS)] = _UNKNOWN
        return peaks

    def copy_rows(self, rows: IntColumn) -> LongPeaks:
        """Some rows in rings of their own, numbered from 0 on."""
        copy = LongPeaks(max(len(rows), 1))
        copy.reserve(len(rows))
        copy._newest[:] = self._newest[rows]
        for block, where, positions in self._parts(rows):
            copy._blocks[0][positions] = block[where]
        return copy

    def _advance(self, rows: IntColumn, cells: IntColumn) -> None:
        """Turn rings on to new cells; those in between are unknown."""
        newest = self._newest.copy()
        np.maximum.at(newest, rows, cells)
        moved = np.flatnonzero((newest > self._newest) & (self._newest >= 0))
        steps = np.minimum(newest[moved] - self._newest[moved], CELLS)
        which = np.repeat(moved, steps)
        offset = np.arange(len(which)) - np.repeat(np.cumsum(steps) - steps, steps)
        place = (newest[which] - offset) % CELLS
        for block, where, positions in self._parts(which):
            block[where, place[positions]] = _UNKNOWN
        self._newest = newest

    def _parts(self, rows: IntColumn) -> Iterator[tuple[Peaks, IntColumn, IntColumn]]:
        """A batch block by block: the block, where in it the rows are, and where in the batch."""
        numbers, where = np.divmod(rows, self._per_block)
        for number in np.unique(numbers).tolist():
            positions = np.flatnonzero(numbers == number)
            yield self._blocks[number], where[positions], positions
