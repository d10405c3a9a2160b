"""The bins of histograms: their edges, the storage of their weights, and the sweep that finds percentiles.

Bin 0 is [0, first) and every bin is 5 % wider than the one before it; the last has no end. Bounds and formulas are
upstream's, so that a checkpoint means the same number here and there. (Upstream and checkpoints say bucket.)

Weights lie in blocks of (bins, rows) float64, bin-major: the weights of one bin of all rows lie side by side, so that a
percentile of all rows is one sweep over the bins. To grow, a block is appended and no weight is copied. Pages that no
sample has touched cost no memory: the code writes only to bins in use.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np

from trellis.core.usage.columns import FloatColumn, IntColumn

# What weighs less than this counts as nothing: a thousandth of the lightest sample.
MIN_WEIGHT = 0.1
EPSILON = 0.001 * MIN_WEIGHT


class BinLayout(msgspec.Struct, frozen=True, dict=True):
    """Bins that grow exponentially. `first_width` is the width of bin 0."""

    first_width: float
    bins: int
    growth: float = 0.05

    @cached_property
    def starts(self) -> FloatColumn:
        """The start of each bin, and the end of the last one: its start again, as it has no end."""
        powers = np.array([math.pow(1 + self.growth, number) for number in range(self.bins)])
        edges = np.append(self.first_width * (powers - 1) / self._rounded_growth, np.nan)
        edges[-1] = edges[-2]
        edges.flags.writeable = False
        return edges

    def find_bins(self, values: FloatColumn) -> IntColumn:
        """The bin of each value; values are not negative."""
        # By the logarithm it would be faster and, right at an edge such as 10m, a matter of the processor's rounding.
        return np.searchsorted(self.starts[1:-1], values, side="right")

    @property
    def _rounded_growth(self) -> float:
        return (1 + self.growth) - 1  # not quite the growth, and the edges follow it


def build_layout(first: float, largest: float) -> BinLayout:
    """The shortest layout whose last bin starts at `largest` or above."""
    layout = BinLayout(first, 1)
    steps = math.log(largest * layout._rounded_growth / first + 1) / math.log(1 + layout.growth)
    return BinLayout(first, math.ceil(steps) + 1)


# Cores and bytes. A whole workload uses more than one container can, in bins of the same widths.
CPU_BINS = build_layout(0.01, 1e3)
MEMORY_BINS = build_layout(1e7, 1e12)
CPU_TOTAL_BINS = build_layout(0.01, 1e6)
MEMORY_TOTAL_BINS = build_layout(1e7, 1e15)


FEW_ROWS = 1_024  # below 4 MB, which is more than such a block has, NumPy asks for no huge pages


class WeightBlock:
    """The weights of some rows, the first of them row `begin`. Outside `low`..`high` - 1 no bin was ever written."""

    def __init__(self, begin: int, bins: int, rows: int) -> None:
        self.weights: FloatColumn = np.zeros((bins, rows))
        self.rows = slice(begin, begin + rows)
        self.lowest_bin = bins
        self.end_bin = 0
        self._width = rows
        self._flat = self.weights.reshape(-1)

    @property
    def used(self) -> FloatColumn:
        """The bins that have been written, of all rows."""
        return self.weights[self.lowest_bin : self.end_bin]

    def add(self, bins: IntColumn, columns: IntColumn, weights: FloatColumn) -> FloatColumn:
        """Add to some bins, which may repeat; what they weigh afterwards."""
        index = self._index(bins, columns)
        np.add.at(self._flat, index, weights)
        return self._flat[index]

    def subtract(self, bins: IntColumn, columns: IntColumn, weights: FloatColumn, epsilon: float) -> None:
        """Take from some bins, which may repeat; what then weighs less than `epsilon` weighs nothing."""
        subtract_weights(self._flat, self._index(bins, columns), weights, epsilon)

    def find_nonempty_bins(self, bins: IntColumn, columns: IntColumn, step: int, epsilon: float) -> IntColumn:
        """The first bin from each given one, up or down, that weighs `epsilon` or more; else the outermost."""
        end = len(self.weights) - 1 if step > 0 else 0
        found_bins = bins.copy()
        searching = np.arange(len(found_bins))
        while len(searching):
            current = found_bins[searching]
            is_empty = self._flat[current * self._width + columns[searching]] < epsilon
            searching, current = searching[is_empty], current[is_empty] + step
            is_past_end = (current >= self.end_bin) if step > 0 else (current < self.lowest_bin)
            found_bins[searching] = np.where(is_past_end, end, current)
            searching = searching[~is_past_end]
        return found_bins

    def _index(self, bins: IntColumn, columns: IntColumn) -> IntColumn:
        """The flat indexes of bins; extends the range of written bins to them."""
        self.lowest_bin = min(self.lowest_bin, int(bins.min()))
        self.end_bin = max(self.end_bin, int(bins.max()) + 1)
        return bins * self._width + columns


class BlockPart(NamedTuple):
    """The part of a batch of rows that lies in one block: `positions` in the batch, `columns` in the block."""

    block: WeightBlock
    positions: IntColumn | slice
    columns: IntColumn


class WeightBlocks:
    """All blocks of a bank. The first ones have few rows, and each doubles the capacity until one is full size."""

    def __init__(self, bins: int, rows_per_block: int, first_rows: int = FEW_ROWS) -> None:
        self._bins = bins
        self._width = rows_per_block
        self._first_width = min(first_rows, rows_per_block)
        self._blocks: list[WeightBlock] = []
        self._begins: IntColumn = np.zeros(0, dtype=np.int64)

    @property
    def capacity(self) -> int:
        """The number of rows that fit without growing."""
        return self._blocks[-1].rows.stop if self._blocks else 0

    @property
    def nbytes(self) -> int:
        """The size of the blocks once every page of them is in use."""
        return sum(block.weights.nbytes for block in self._blocks)

    def reserve(self, rows: int) -> None:
        """Grow to rows 0 to `rows` - 1."""
        while self.capacity < rows:
            width = min(max(self.capacity, self._first_width), self._width)
            self._begins = np.append(self._begins, self.capacity)
            self._blocks.append(WeightBlock(self.capacity, self._bins, width))

    def split_by_block(self, rows: IntColumn) -> Iterator[BlockPart]:
        """A batch, block by block."""
        if not len(rows):
            return
        if len(self._blocks) == 1:
            yield BlockPart(self._blocks[0], slice(None), rows)
            return
        numbers = np.searchsorted(self._begins, rows, side="right") - 1
        columns = rows - self._begins[numbers]
        if (numbers == numbers[0]).all():
            yield BlockPart(self._blocks[numbers[0]], slice(None), columns)
            return
        order = np.argsort(numbers.astype(np.uint16), kind="stable")  # fast for 16 bits, and no bank has 65,536 blocks
        begin = 0
        for number, size in enumerate(np.bincount(numbers).tolist()):
            if size:
                positions = order[begin : begin + size]
                yield BlockPart(self._blocks[number], positions, columns[positions])
                begin += size

    def copy_weights(self, rows: IntColumn) -> FloatColumn:
        """A copy of some rows, (bins, rows)."""
        copy = self.copy_rows(rows)
        return copy._blocks[0].weights if len(rows) else np.zeros((self._bins, 0))

    def copy_rows(self, rows: IntColumn) -> WeightBlocks:
        """A copy of some rows, in the given order, as a single block."""
        copy = WeightBlocks(self._bins, max(len(rows), 1), max(len(rows), 1))
        copy.reserve(len(rows))
        for block, positions, columns in self.split_by_block(rows):
            target = copy._blocks[0]
            target.weights[block.lowest_bin : block.end_bin, positions] = block.used[:, columns]
            target.lowest_bin, target.end_bin = (
                min(target.lowest_bin, block.lowest_bin),
                max(target.end_bin, block.end_bin),
            )
        return copy


def subtract_weights(column: FloatColumn, index: IntColumn, weights: FloatColumn, epsilon: float) -> None:
    """Take weights from a column, whose indexes may repeat; what is then less than `epsilon` is nothing."""
    np.subtract.at(column, index, weights)
    remaining = column[index]
    column[index] = np.where(remaining < epsilon, 0.0, remaining)


def trim_weights(weights: FloatColumn, epsilon: float) -> FloatColumn:
    """The same array with nothing left below the first and above the last bin that weighs `epsilon` or more."""
    is_counted = weights >= epsilon
    is_inside = np.maximum.accumulate(is_counted)
    is_inside &= np.maximum.accumulate(is_counted[::-1])[::-1]
    weights[~is_inside] = 0
    return weights


def find_percentile_bins(
    weights: FloatColumn,
    columns: IntColumn | None,
    totals: FloatColumn,
    bin_ranges: tuple[IntColumn, IntColumn],
    fractions: FloatColumn,
) -> IntColumn:
    """The bin of each fraction and row, (fractions, rows), from some columns, or all, of weights (bins, rows).

    `bin_ranges` are the lowest and the highest bin of each row. The weights are added up from the lowest on; the first
    bin whose sum reaches `fraction * total` is it, the highest at the latest. What an empty row gets, with a highest
    bin below its lowest, means nothing.
    """
    lowest, highest = bin_ranges
    first, last = int(lowest.min()), int(highest.max())
    thresholds = fractions[:, None] * totals
    sums = np.zeros(len(totals))
    below = np.zeros(thresholds.shape, dtype=np.bool_)
    # Counting up in bytes is an eighth of the memory to go through.
    bins = np.zeros(thresholds.shape, dtype=np.uint8 if len(weights) <= 255 else np.uint16)
    order = np.argsort(lowest.astype(np.uint16), kind="stable")
    begins = np.concatenate(([0], np.cumsum(np.bincount(lowest, minlength=len(weights)))))
    for number in range(first, last):
        beginning = order[begins[number] : begins[number + 1]]
        if len(beginning):  # what lies below their lowest bin is too little to count
            sums[beginning] = 0
            bins[:, beginning] = number
        sums += weights[number] if columns is None else weights[number].take(columns)
        np.less(sums, thresholds, out=below)
        np.add(bins, below.view(np.uint8), out=bins)
    unswept = order[begins[max(first, last)] :]
    bins[:, unswept] = lowest[unswept]
    return np.minimum(bins, highest)
