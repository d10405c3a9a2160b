"""The usage of a workload's last runs, each from its start on.

For recommenders that look for phases in what is run again and again, and only for the rows they serve: hours are too
long for that, and phases begin when a pod does and not on the hour. A run is a start of pods: those of a Job that start
at about the same moment are one, in which the highest of them counts, each by the time since its own start. The last
twelve runs are stored, the running ones among them, in intervals of a minute; a longer run has intervals of two, four,
eight minutes and so on. It takes 21 KB a row, however many pods, samples and hours there are.

A cell is one run of one row: 96 intervals for each resource, each with the mean and the highest of its samples, and
with the number of samples: an interval without samples is unknown. When a run outgrows its intervals, they are joined
in pairs, so that each lasts twice as long. A cell takes 1.7 KB.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from trellis.core.usage.columns import BoolColumn, ColumnTable, FloatColumn, IntColumn, split_into_unique_batches

INTERVALS = 96
MEAN, HIGHEST = 0, 1

CellValues: TypeAlias = npt.NDArray[np.float32]  # (cells, resources, measures, intervals)
CellCounts: TypeAlias = npt.NDArray[np.uint8]  # (cells, resources, intervals)

_CELLS_PER_BLOCK = 1536  # 2.7 MB
_MOST_SAMPLES = 255  # an interval with more weighs no more: 8 bits


class CellUpdates(NamedTuple):
    """Updates of intervals of cells, each interval once. One whose `counts` is 0 only raises the highest."""

    cells: IntColumn
    resources: IntColumn
    intervals: IntColumn
    means: FloatColumn
    highest: FloatColumn
    counts: IntColumn


class _CellBlock:
    def __init__(self, cells: int) -> None:
        self.values: CellValues = np.zeros((cells, 2, 2, INTERVALS), dtype=np.float32)
        self.counts: CellCounts = np.zeros((cells, 2, INTERVALS), dtype=np.uint8)


class RunCells:
    """The intervals of all runs, by the number of the cell."""

    def __init__(self, per_block: int = _CELLS_PER_BLOCK) -> None:
        self._per_block = per_block
        self._blocks: list[_CellBlock] = []

    @property
    def nbytes(self) -> int:
        """The size of all blocks."""
        return sum(block.values.nbytes + block.counts.nbytes for block in self._blocks)

    def reserve(self, cells: int) -> None:
        """Grow to a number of cells."""
        while len(self._blocks) * self._per_block < cells:
            self._blocks.append(_CellBlock(self._per_block))

    def clear(self, cells: IntColumn) -> None:
        """Clear some cells."""
        for block, where, _ in self._split_by_block(cells):
            block.counts[where] = 0

    def merge(self, updates: CellUpdates) -> None:
        """Merge updates of intervals."""
        for block, where, positions in self._split_by_block(updates.cells):
            resource, interval = updates.resources[positions], updates.intervals[positions]
            old = block.counts[where, resource, interval]
            counts = np.maximum(updates.counts[positions], old == 0)
            share = counts / (old + counts)
            highest = updates.highest[positions]
            mean, top = block.values[where, resource, MEAN, interval], block.values[where, resource, HIGHEST, interval]
            has_samples = old > 0
            mixed = mean + (updates.means[positions] - mean) * share
            block.values[where, resource, MEAN, interval] = np.where(has_samples, mixed, updates.means[positions])
            block.values[where, resource, HIGHEST, interval] = np.where(has_samples, np.maximum(top, highest), highest)
            block.counts[where, resource, interval] = np.minimum(old + counts, _MOST_SAMPLES)

    def widen(self, cells: IntColumn) -> None:
        """Join intervals in pairs; no cell comes twice."""
        for block, where, _ in self._split_by_block(cells):
            block.values[where], block.counts[where] = join_interval_pairs(block.values[where], block.counts[where])

    def read(self, cells: IntColumn) -> tuple[CellValues, CellCounts]:
        """Copies of some cells; what is in an interval without samples means nothing."""
        values = np.empty((len(cells), 2, 2, INTERVALS), dtype=np.float32)
        counts = np.empty((len(cells), 2, INTERVALS), dtype=np.uint8)
        for block, where, positions in self._split_by_block(cells):
            values[positions], counts[positions] = block.values[where], block.counts[where]
        return values, counts

    def copy_cells(self, cells: IntColumn) -> RunCells:
        """A copy of some cells, numbered from 0."""
        copy = RunCells(max(len(cells), 1))
        copy.reserve(len(cells))
        if len(cells):
            copy._blocks[0].values, copy._blocks[0].counts = self.read(cells)
        return copy

    def _split_by_block(self, cells: IntColumn) -> Iterator[tuple[_CellBlock, IntColumn, IntColumn]]:
        """A batch block by block: the block, where in it the cells are, and where in the batch."""
        numbers, where = np.divmod(cells, self._per_block)
        for number in np.unique(numbers).tolist():
            positions = np.flatnonzero(numbers == number)
            yield self._blocks[number], where[positions], positions


def join_interval_pairs(values: CellValues, counts: CellCounts) -> tuple[CellValues, CellCounts]:
    """The same with intervals of twice the length: half as many, and the rest unknown."""
    pairs = values.reshape(*values.shape[:-1], INTERVALS // 2, 2)
    weights = counts.reshape(*counts.shape[:-1], INTERVALS // 2, 2).astype(np.float32)
    pair_weights = weights.sum(axis=-1)
    half_values, half_counts = np.zeros_like(values), np.zeros_like(counts)
    half_values[:, :, MEAN, : INTERVALS // 2] = (pairs[:, :, MEAN] * weights).sum(axis=-1) / np.maximum(
        pair_weights, 1.0
    )
    half_values[:, :, HIGHEST, : INTERVALS // 2] = np.where(weights > 0, pairs[:, :, HIGHEST], 0.0).max(axis=-1)
    half_counts[:, :, : INTERVALS // 2] = np.minimum(pair_weights, _MOST_SAMPLES)
    return half_values, half_counts


RUNS = 12
FIRST_INTERVAL_SECONDS = 60.0  # seconds
SAME_RUN_SECONDS = 30.0  # seconds between the starts of pods of one run; a CronJob can start one every minute
MOST_DOUBLINGS = 24  # three thousand years

_MOST_WEIGHT = 255


class RecentRuns(NamedTuple):
    """Runs of rows, newest first: `values` is (rows, runs, resources, measures, intervals), NaN where nothing is known.

    The measures are mean and highest. `width` is the seconds of an interval, the same for all runs of a row. `begin`
    and `last`, when a run started and when it was last sampled, are (rows, runs), NaN where there is no run.
    """

    begin: FloatColumn
    last: FloatColumn
    width: FloatColumn
    values: CellValues


class StoredRun(NamedTuple):
    """A stored run: `doublings` is how often its intervals were joined, `values` (resources, measures, intervals)."""

    begin: float
    last: float
    doublings: int
    values: CellValues


class RunHistory:
    """The runs of all rows that have a run history, by the number of the row in it."""

    def __init__(self) -> None:
        self._numbers = ColumnTable()
        self._cells = RunCells()
        self._begin: FloatColumn = np.zeros((0, RUNS))
        self._last: FloatColumn = np.zeros((0, RUNS))
        self._doublings: IntColumn = np.zeros((0, RUNS), dtype=np.int64)
        self._revisions: IntColumn = np.zeros(0, dtype=np.int64)

    @property
    def size(self) -> int:
        """The number of rows with a run history."""
        return self._numbers.size

    @property
    def nbytes(self) -> int:
        """The size of cells and columns."""
        columns = (self._begin, self._last, self._doublings, self._revisions)
        return self._cells.nbytes + sum(column.nbytes for column in columns)

    def allocate(self, count: int) -> IntColumn:
        """Numbers for further rows."""
        numbers = self._numbers.allocate(count)
        added = self._numbers.capacity - len(self._begin)
        if added > 0:
            self._begin = np.append(self._begin, np.full((added, RUNS), np.nan), axis=0)
            self._last = np.append(self._last, np.full((added, RUNS), np.nan), axis=0)
            self._doublings = np.append(self._doublings, np.zeros((added, RUNS), dtype=np.int64), axis=0)
            self._revisions = np.append(self._revisions, np.zeros(added, dtype=np.int64))
        self._cells.reserve(RUNS * self._numbers.numbers_end)
        return numbers

    def release(self, numbers: IntColumn) -> None:
        """Clear rows and release their numbers."""
        self._begin[numbers] = np.nan
        self._last[numbers] = np.nan
        self._revisions[numbers] += 1
        self._cells.clear(_list_cells(numbers))
        self._numbers.release(numbers)

    def add(
        self, numbers: IntColumn, resource: int, started: FloatColumn, times: FloatColumn, values: FloatColumn
    ) -> None:
        """Add samples of pods that started at given times, in any order; those of an unknown start are left out."""
        self._add_samples(numbers, resource, started, times, values, weight=1)

    def raise_highest(
        self, numbers: IntColumn, resource: int, started: FloatColumn, times: FloatColumn, values: FloatColumn
    ) -> None:
        """Note that more was needed than was ever sampled: an OOM kill."""
        self._add_samples(numbers, resource, started, times, values, weight=0)

    def merge(self, numbers: IntColumn, runs: list[StoredRun]) -> None:
        """Merge stored runs, one for each number; numbers may repeat."""
        begin = np.array([run.begin for run in runs])
        cells = self._find_or_begin_cells(numbers, begin)
        with_cell = np.flatnonzero(cells >= 0)
        for batch in split_into_unique_batches(cells[with_cell]):
            positions = with_cell[batch]
            self._merge_runs(cells[positions], [runs[at] for at in positions.tolist()])
        self._revisions[numbers] += 1

    def read_recent(self, numbers: IntColumn, longest: float = math.inf, most: int = RUNS) -> RecentRuns:
        """The newest runs of rows, limited in number and in length.

        18 KB a row: read a few thousand at a time.
        """
        newest = np.argsort(-self._begin[numbers], axis=1, kind="stable")[:, :most]  # those that are not there last
        begin = np.take_along_axis(self._begin[numbers], newest, axis=1)
        last = np.take_along_axis(self._last[numbers], newest, axis=1)
        doublings = np.take_along_axis(self._doublings[numbers], newest, axis=1)
        is_included = last - begin <= longest
        begin, last = np.where(is_included, begin, np.nan), np.where(is_included, last, np.nan)
        most_doublings = np.where(is_included, doublings, 0).max(axis=1, initial=0)
        values, counts = self._cells.read((RUNS * numbers[:, np.newaxis] + newest).reshape(-1))
        missing = np.where(is_included, most_doublings[:, np.newaxis] - doublings, 0).reshape(-1)
        values, counts = _widen_intervals(values, counts, missing)
        has_samples = (counts > 0) & is_included.reshape(-1)[:, np.newaxis, np.newaxis]
        values[~np.broadcast_to(has_samples[:, :, np.newaxis], values.shape)] = np.nan
        shape = (len(numbers), newest.shape[1], *values.shape[1:])
        return RecentRuns(begin, last, FIRST_INTERVAL_SECONDS * np.exp2(most_doublings), values.reshape(shape))

    def revisions(self, numbers: IntColumn) -> IntColumn:
        """A number for each row that is another one whenever anything of its runs has changed."""
        return self._revisions[numbers]

    def copy_rows(self, numbers: IntColumn) -> RunHistory:
        """A copy of some rows, numbered from 0."""
        copy = RunHistory()
        copy.allocate(len(numbers))
        targets = slice(len(numbers))
        copy._begin[targets], copy._last[targets] = self._begin[numbers], self._last[numbers]
        copy._doublings[targets], copy._revisions[targets] = self._doublings[numbers], self._revisions[numbers]
        copy._cells = self._cells.copy_cells(_list_cells(numbers))
        return copy

    def export_runs(self, number: int) -> list[StoredRun]:
        """All runs of one row, oldest first."""
        order = np.argsort(self._begin[number])
        order = order[~np.isnan(self._begin[number, order])]
        values, counts = self._cells.read(RUNS * number + order)
        values[~np.broadcast_to((counts > 0)[:, :, np.newaxis], values.shape)] = np.nan
        return [
            StoredRun(
                float(self._begin[number, at]), float(self._last[number, at]), int(self._doublings[number, at]), run
            )
            for at, run in zip(order.tolist(), values, strict=True)
        ]

    def _add_samples(
        self,
        numbers: IntColumn,
        resource: int,
        started: FloatColumn,
        times: FloatColumn,
        values: FloatColumn,
        *,
        weight: int,
    ) -> None:
        cells = np.full(len(numbers), -1)
        with_start = np.flatnonzero(~np.isnan(started))
        cells[with_start] = self._find_or_begin_cells(numbers[with_start], started[with_start])
        valid = np.flatnonzero(cells >= 0)
        if not len(valid):
            return
        cells, values = cells[valid], values[valid]
        np.fmax.at(self._last.reshape(-1), cells, times[valid])
        minutes = np.floor(np.maximum(times[valid] - started[valid], 0.0) / FIRST_INTERVAL_SECONDS).astype(np.int64)
        self._widen_cells(cells, count_doublings(minutes))
        intervals = minutes >> self._doublings.reshape(-1)[cells]
        unique, inverse, counts = np.unique(cells * INTERVALS + intervals, return_inverse=True, return_counts=True)
        highest = np.full(len(unique), -np.inf)
        np.maximum.at(highest, inverse, values)
        means = np.bincount(inverse, weights=values, minlength=len(unique)) / counts
        resources = np.full(len(unique), resource)
        self._cells.merge(
            CellUpdates(unique // INTERVALS, resources, unique % INTERVALS, means, highest, counts * weight)
        )
        self._revisions[numbers[valid]] += 1

    def _merge_runs(self, cells: IntColumn, runs: list[StoredRun]) -> None:
        """Work stored runs into their cells, of which none comes twice."""
        np.fmax.at(self._last.reshape(-1), cells, np.array([run.last for run in runs]))
        doublings = np.array([run.doublings for run in runs])
        self._widen_cells(cells, doublings)
        missing = self._doublings.reshape(-1)[cells] - doublings
        values = np.stack([run.values for run in runs])
        measured = ~np.isnan(values[:, :, MEAN])
        # The count of samples in an interval is not stored: assume one a minute.
        weight = np.minimum(np.exp2(doublings), _MOST_WEIGHT)[:, np.newaxis, np.newaxis]
        values, counts = _widen_intervals(
            np.nan_to_num(values), np.where(measured, weight, 0).astype(np.uint8), missing
        )
        at, resource, interval = np.nonzero(counts)
        measures = values[at, resource, :, interval].astype(np.float64)
        self._cells.merge(
            CellUpdates(
                cells[at],
                resource,
                interval,
                measures[:, MEAN],
                measures[:, HIGHEST],
                counts[at, resource, interval].astype(np.int64),
            )
        )

    def _find_or_begin_cells(self, numbers: IntColumn, started: FloatColumn) -> IntColumn:
        """The cell of the run that each pod belongs to, made if there is none; -1 if it is too long ago.

        The newest are made first, so that the loop ends after at most as many rounds as a row has runs.
        """
        missing = np.flatnonzero(self._find_nearest_cells(numbers, started) < 0)
        while len(missing):
            newest = np.full(len(self._begin), -np.inf)
            np.maximum.at(newest, numbers[missing], started[missing])
            missing = missing[self._begin_runs(newest)[numbers[missing]]]
            missing = missing[self._find_nearest_cells(numbers[missing], started[missing]) < 0]
        # Only now: a run that begins may have taken the place of one that was there.
        return self._find_nearest_cells(numbers, started)

    def _find_nearest_cells(self, numbers: IntColumn, started: FloatColumn) -> IntColumn:
        distance = np.nan_to_num(np.abs(self._begin[numbers] - started[:, np.newaxis]), nan=np.inf)
        nearest = distance.argmin(axis=1) if len(numbers) else np.zeros(0, dtype=np.int64)
        near = np.take_along_axis(distance, nearest[:, np.newaxis], axis=1)[:, 0] <= SAME_RUN_SECONDS
        cells: IntColumn = np.where(near, RUNS * numbers + nearest, -1)
        return cells

    def _begin_runs(self, starts: FloatColumn) -> BoolColumn:
        """Begin a run in each row that has a start, in place of its oldest; which have begun one."""
        oldest = np.nan_to_num(self._begin, nan=-np.inf)
        oldest_run = oldest.argmin(axis=1)
        begun: BoolColumn = starts > oldest[np.arange(len(oldest_run)), oldest_run]
        numbers = np.flatnonzero(begun)
        at = oldest_run[numbers]
        self._begin[numbers, at], self._last[numbers, at] = starts[numbers], np.nan
        self._doublings[numbers, at] = 0
        self._cells.clear(RUNS * numbers + at)
        return begun

    def _widen_cells(self, cells: IntColumn, doublings: IntColumn) -> None:
        """Widen cells until each has been doubled at least so often."""
        all_doublings = self._doublings.reshape(-1)
        while len(too_narrow := np.unique(cells[all_doublings[cells] < doublings])):
            self._cells.widen(too_narrow)
            all_doublings[too_narrow] += 1


def count_doublings(minutes: IntColumn) -> IntColumn:
    """The number of doublings after which the intervals of a run reach a length in minutes."""
    doublings: IntColumn = np.frexp((minutes // INTERVALS).astype(np.float64))[1].astype(np.int64)
    return doublings


def _widen_intervals(values: CellValues, counts: CellCounts, doublings: IntColumn) -> tuple[CellValues, CellCounts]:
    """Cells whose intervals are joined, each by its own number of times."""
    for step in range(int(doublings.max(initial=0))):
        to_widen = np.flatnonzero(doublings > step)
        values[to_widen], counts[to_widen] = join_interval_pairs(values[to_widen], counts[to_widen])
    return values, counts


def _list_cells(numbers: IntColumn) -> IntColumn:
    cells: IntColumn = (RUNS * numbers[:, np.newaxis] + np.arange(RUNS)).reshape(-1)
    return cells
