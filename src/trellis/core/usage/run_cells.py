"""What was used in each stretch of one run, and what becomes of it when the run lasts longer than there are stretches?

A cell is one run of one row: 96 places for each resource, each with the mean and the highest of its samples. Beside it
stands how many samples it is made of: none means that nothing is known of it. When a run outgrows its places, they are
joined in pairs, so that each lasts twice as long. A cell takes 1.7 KB.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from trellis.core.usage.columns import FloatColumn, IntColumn

PLACES = 96
MEAN, HIGHEST = 0, 1

Values: TypeAlias = npt.NDArray[np.float32]  # (cells, resources, measures, places)
Counts: TypeAlias = npt.NDArray[np.uint8]  # (cells, resources, places)

_CELLS_PER_BLOCK = 1536  # 2.7 MB
_MOST_SAMPLES = 255  # a place with more weighs no more: 8 bits


class Stretches(NamedTuple):
    """What is known of places of cells, no place twice. One that `counts` nothing only raises the highest."""

    cells: IntColumn
    resources: IntColumn
    places: IntColumn
    means: FloatColumn
    highest: FloatColumn
    counts: IntColumn


class _Block:
    def __init__(self, cells: int) -> None:
        self.values: Values = np.zeros((cells, 2, 2, PLACES), dtype=np.float32)
        self.counts: Counts = np.zeros((cells, 2, PLACES), dtype=np.uint8)


class Cells:
    """The places of all runs, by the number of the cell."""

    def __init__(self, per_block: int = _CELLS_PER_BLOCK) -> None:
        self._per_block = per_block
        self._blocks: list[_Block] = []

    @property
    def nbytes(self) -> int:
        """What all of it occupies."""
        return sum(block.values.nbytes + block.counts.nbytes for block in self._blocks)

    def reserve(self, cells: int) -> None:
        """Make room for so many."""
        while len(self._blocks) * self._per_block < cells:
            self._blocks.append(_Block(self._per_block))

    def clear(self, cells: IntColumn) -> None:
        """Forget what is known of some cells."""
        for block, where, _ in self._parts(cells):
            block.counts[where] = 0

    def merge(self, found: Stretches) -> None:
        """Work in what is new of some places."""
        for block, where, positions in self._parts(found.cells):
            resource, place = found.resources[positions], found.places[positions]
            old = block.counts[where, resource, place]
            counts = np.maximum(found.counts[positions], old == 0)
            share = counts / (old + counts)
            highest = found.highest[positions]
            mean, top = block.values[where, resource, MEAN, place], block.values[where, resource, HIGHEST, place]
            known = old > 0
            mixed = mean + (found.means[positions] - mean) * share
            block.values[where, resource, MEAN, place] = np.where(known, mixed, found.means[positions])
            block.values[where, resource, HIGHEST, place] = np.where(known, np.maximum(top, highest), highest)
            block.counts[where, resource, place] = np.minimum(old + counts, _MOST_SAMPLES)

    def widen(self, cells: IntColumn) -> None:
        """Join places in pairs; no cell comes twice."""
        for block, where, _ in self._parts(cells):
            block.values[where], block.counts[where] = halved(block.values[where], block.counts[where])

    def read(self, cells: IntColumn) -> tuple[Values, Counts]:
        """Copies of some cells; what is in a place without samples means nothing."""
        values = np.empty((len(cells), 2, 2, PLACES), dtype=np.float32)
        counts = np.empty((len(cells), 2, PLACES), dtype=np.uint8)
        for block, where, positions in self._parts(cells):
            values[positions], counts[positions] = block.values[where], block.counts[where]
        return values, counts

    def copied(self, cells: IntColumn) -> Cells:
        """Some cells by themselves, numbered from 0 on."""
        copy = Cells(max(len(cells), 1))
        copy.reserve(len(cells))
        if len(cells):
            copy._blocks[0].values, copy._blocks[0].counts = self.read(cells)
        return copy

    def _parts(self, cells: IntColumn) -> Iterator[tuple[_Block, IntColumn, IntColumn]]:
        """A batch block by block: the block, where in it the cells are, and where in the batch."""
        numbers, where = np.divmod(cells, self._per_block)
        for number in np.unique(numbers).tolist():
            positions = np.flatnonzero(numbers == number)
            yield self._blocks[number], where[positions], positions


def halved(values: Values, counts: Counts) -> tuple[Values, Counts]:
    """The same with places of twice the length: half as many, and the rest unknown."""
    pairs = values.reshape(*values.shape[:-1], PLACES // 2, 2)
    weights = counts.reshape(*counts.shape[:-1], PLACES // 2, 2).astype(np.float32)
    both = weights.sum(axis=-1)
    half_values, half_counts = np.zeros_like(values), np.zeros_like(counts)
    half_values[:, :, MEAN, : PLACES // 2] = (pairs[:, :, MEAN] * weights).sum(axis=-1) / np.maximum(both, 1.0)
    half_values[:, :, HIGHEST, : PLACES // 2] = np.where(weights > 0, pairs[:, :, HIGHEST], 0.0).max(axis=-1)
    half_counts[:, :, : PLACES // 2] = np.minimum(both, _MOST_SAMPLES)
    return half_values, half_counts
