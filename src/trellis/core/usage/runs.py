"""What did each of the last runs of a workload use, from its start on?

For recommenders that look for phases in what is run again and again, and only for the rows they serve: hours are too
long for that, and phases begin when a pod does and not on the hour. A run is a start of pods: those of a Job that start
at about the same moment are one, in which the highest of them counts, each by the time since its own start. The last
twelve runs are kept, the running ones among them, in places of a minute; a run that lasts longer has places of two,
four, eight minutes and so on. It takes 21 KB a row, however many pods, samples and hours there are.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn, rounds
from trellis.core.usage.run_cells import HIGHEST, MEAN, PLACES, Cells, Counts, Stretches, Values, halved
from trellis.core.usage.tables import Table

RUNS = 12
FIRST_WIDTH = 60.0  # seconds
TOGETHER = 30.0  # seconds between the starts of pods of one run; a CronJob can start one every minute
MOST_DOUBLINGS = 24  # three thousand years

_MOST_WEIGHT = 255


class RunsSeen(NamedTuple):
    """Runs of rows, newest first: `values` is (rows, runs, resources, measures, places), NaN where nothing is known.

    The measures are mean and highest. A place is so many seconds wide, for all runs of a row. `begin` and `last`, when
    a run started and when it was last sampled, are (rows, runs), NaN where there is no run.
    """

    begin: FloatColumn
    last: FloatColumn
    width: FloatColumn
    values: Values


class StoredRun(NamedTuple):
    """One run: `doublings` is how often its places were joined, `values` (resources, measures, places)."""

    begin: float
    last: float
    doublings: int
    values: Values


class Runs:
    """The runs of all rows that have such a memory, by the number that a row was given here."""

    def __init__(self) -> None:
        self._numbers = Table()
        self._cells = Cells()
        self._begin: FloatColumn = np.zeros((0, RUNS))
        self._last: FloatColumn = np.zeros((0, RUNS))
        self._doublings: IntColumn = np.zeros((0, RUNS), dtype=np.int64)
        self._revisions: IntColumn = np.zeros(0, dtype=np.int64)

    @property
    def size(self) -> int:
        """How many rows have one."""
        return self._numbers.size

    @property
    def nbytes(self) -> int:
        """What all of it occupies."""
        columns = (self._begin, self._last, self._doublings, self._revisions)
        return self._cells.nbytes + sum(column.nbytes for column in columns)

    def take(self, count: int) -> IntColumn:
        """Numbers for so many more rows."""
        numbers = self._numbers.take(count)
        more = self._numbers.capacity - len(self._begin)
        if more > 0:
            self._begin = np.append(self._begin, np.full((more, RUNS), np.nan), axis=0)
            self._last = np.append(self._last, np.full((more, RUNS), np.nan), axis=0)
            self._doublings = np.append(self._doublings, np.zeros((more, RUNS), dtype=np.int64), axis=0)
            self._revisions = np.append(self._revisions, np.zeros(more, dtype=np.int64))
        self._cells.reserve(RUNS * self._numbers.reach)
        return numbers

    def release(self, numbers: IntColumn) -> None:
        """Forget rows."""
        self._begin[numbers] = np.nan
        self._last[numbers] = np.nan
        self._revisions[numbers] += 1
        self._cells.clear(_cells(numbers))
        self._numbers.release(numbers)

    def add(
        self, numbers: IntColumn, resource: int, started: FloatColumn, times: FloatColumn, values: FloatColumn
    ) -> None:
        """Take in samples of pods that started at given times, in any order; those of an unknown start are left out."""
        self._put(numbers, resource, started, times, values, weight=1)

    def raise_highest(
        self, numbers: IntColumn, resource: int, started: FloatColumn, times: FloatColumn, values: FloatColumn
    ) -> None:
        """Note that more was needed than was ever sampled: an OOM kill."""
        self._put(numbers, resource, started, times, values, weight=0)

    def merge(self, numbers: IntColumn, runs: list[StoredRun]) -> None:
        """Take in runs that were stored, one for each number; numbers may repeat."""
        begin = np.array([run.begin for run in runs])
        cells = self._cells_of(numbers, begin)
        kept = np.flatnonzero(cells >= 0)
        for turn in rounds(cells[kept]):
            here = kept[turn]
            self._merge(cells[here], [runs[at] for at in here.tolist()])
        self._revisions[numbers] += 1

    def seen(self, numbers: IntColumn, longest: float = math.inf, most: int = RUNS) -> RunsSeen:
        """The newest runs of rows, at most so many, and of them those that lasted no longer than so many seconds.

        18 KB a row: ask for a few thousand at a time.
        """
        newest = np.argsort(-self._begin[numbers], axis=1, kind="stable")[:, :most]  # those that are not there last
        begin = np.take_along_axis(self._begin[numbers], newest, axis=1)
        last = np.take_along_axis(self._last[numbers], newest, axis=1)
        doublings = np.take_along_axis(self._doublings[numbers], newest, axis=1)
        there = last - begin <= longest
        begin, last = np.where(there, begin, np.nan), np.where(there, last, np.nan)
        most_doublings = np.where(there, doublings, 0).max(axis=1, initial=0)
        values, counts = self._cells.read((RUNS * numbers[:, np.newaxis] + newest).reshape(-1))
        missing = np.where(there, most_doublings[:, np.newaxis] - doublings, 0).reshape(-1)
        values, counts = _widened(values, counts, missing)
        known = (counts > 0) & there.reshape(-1)[:, np.newaxis, np.newaxis]
        values[~np.broadcast_to(known[:, :, np.newaxis], values.shape)] = np.nan
        shape = (len(numbers), newest.shape[1], *values.shape[1:])
        return RunsSeen(begin, last, FIRST_WIDTH * np.exp2(most_doublings), values.reshape(shape))

    def revisions(self, numbers: IntColumn) -> IntColumn:
        """A number for each row that is another one whenever anything of its runs has changed."""
        return self._revisions[numbers]

    def copied(self, numbers: IntColumn) -> Runs:
        """Some rows in a memory of their own, where they are numbered from 0 on."""
        copy = Runs()
        copy.take(len(numbers))
        mine = slice(len(numbers))
        copy._begin[mine], copy._last[mine] = self._begin[numbers], self._last[numbers]
        copy._doublings[mine], copy._revisions[mine] = self._doublings[numbers], self._revisions[numbers]
        copy._cells = self._cells.copied(_cells(numbers))
        return copy

    def recorded(self, number: int) -> list[StoredRun]:
        """Everything of one row, oldest first."""
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

    def _put(
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
        placed = np.flatnonzero(~np.isnan(started))
        cells[placed] = self._cells_of(numbers[placed], started[placed])
        kept = np.flatnonzero(cells >= 0)
        if not len(kept):
            return
        cells, values = cells[kept], values[kept]
        np.fmax.at(self._last.reshape(-1), cells, times[kept])
        minutes = np.floor(np.maximum(times[kept] - started[kept], 0.0) / FIRST_WIDTH).astype(np.int64)
        self._widen(cells, doublings_for(minutes))
        places = minutes >> self._doublings.reshape(-1)[cells]
        unique, inverse, counts = np.unique(cells * PLACES + places, return_inverse=True, return_counts=True)
        highest = np.full(len(unique), -np.inf)
        np.maximum.at(highest, inverse, values)
        means = np.bincount(inverse, weights=values, minlength=len(unique)) / counts
        which = np.full(len(unique), resource)
        self._cells.merge(Stretches(unique // PLACES, which, unique % PLACES, means, highest, counts * weight))
        self._revisions[numbers[kept]] += 1

    def _merge(self, cells: IntColumn, runs: list[StoredRun]) -> None:
        """Work stored runs into their cells, of which none comes twice."""
        np.fmax.at(self._last.reshape(-1), cells, np.array([run.last for run in runs]))
        doublings = np.array([run.doublings for run in runs])
        self._widen(cells, doublings)
        missing = self._doublings.reshape(-1)[cells] - doublings
        values = np.stack([run.values for run in runs])
        known = ~np.isnan(values[:, :, MEAN])
        # Nobody stores how many samples a place had: as many as there would be if one came every minute.
        weight = np.minimum(np.exp2(doublings), _MOST_WEIGHT)[:, np.newaxis, np.newaxis]
        values, counts = _widened(np.nan_to_num(values), np.where(known, weight, 0).astype(np.uint8), missing)
        at, resource, place = np.nonzero(counts)
        found = values[at, resource, :, place].astype(np.float64)
        self._cells.merge(
            Stretches(
                cells[at],
                resource,
                place,
                found[:, MEAN],
                found[:, HIGHEST],
                counts[at, resource, place].astype(np.int64),
            )
        )

    def _cells_of(self, numbers: IntColumn, started: FloatColumn) -> IntColumn:
        """The cell of the run that each pod belongs to, made if there is none; -1 if it is too long ago.

        The newest are made first, so that there are never more turns than a row has runs.
        """
        waiting = np.flatnonzero(self._near(numbers, started) < 0)
        while len(waiting):
            newest = np.full(len(self._begin), -np.inf)
            np.maximum.at(newest, numbers[waiting], started[waiting])
            waiting = waiting[self._begin_runs(newest)[numbers[waiting]]]
            waiting = waiting[self._near(numbers[waiting], started[waiting]) < 0]
        # Only now: a run that begins may have taken the place of one that was there.
        return self._near(numbers, started)

    def _near(self, numbers: IntColumn, started: FloatColumn) -> IntColumn:
        distance = np.nan_to_num(np.abs(self._begin[numbers] - started[:, np.newaxis]), nan=np.inf)
        nearest = distance.argmin(axis=1) if len(numbers) else np.zeros(0, dtype=np.int64)
        near = np.take_along_axis(distance, nearest[:, np.newaxis], axis=1)[:, 0] <= TOGETHER
        found: IntColumn = np.where(near, RUNS * numbers + nearest, -1)
        return found

    def _begin_runs(self, starts: FloatColumn) -> BoolColumn:
        """Begin a run in each row that has a start, in place of its oldest; which have begun one."""
        oldest = np.nan_to_num(self._begin, nan=-np.inf)
        place = oldest.argmin(axis=1)
        begun: BoolColumn = starts > oldest[np.arange(len(place)), place]
        numbers = np.flatnonzero(begun)
        at = place[numbers]
        self._begin[numbers, at], self._last[numbers, at] = starts[numbers], np.nan
        self._doublings[numbers, at] = 0
        self._cells.clear(RUNS * numbers + at)
        return begun

    def _widen(self, cells: IntColumn, doublings: IntColumn) -> None:
        """See to it that cells have been doubled so often at least."""
        mine = self._doublings.reshape(-1)
        while len(short := np.unique(cells[mine[cells] < doublings])):
            self._cells.widen(short)
            mine[short] += 1


def doublings_for(minutes: IntColumn) -> IntColumn:
    """How often places must be doubled until so many minutes have one."""
    found: IntColumn = np.frexp((minutes // PLACES).astype(np.float64))[1].astype(np.int64)
    return found


def _widened(values: Values, counts: Counts, times: IntColumn) -> tuple[Values, Counts]:
    """Cells with places joined so many times each."""
    for turn in range(int(times.max(initial=0))):
        more = np.flatnonzero(times > turn)
        values[more], counts[more] = halved(values[more], counts[more])
    return values, counts


def _cells(numbers: IntColumn) -> IntColumn:
    cells: IntColumn = (RUNS * numbers[:, np.newaxis] + np.arange(RUNS)).reshape(-1)
    return cells
