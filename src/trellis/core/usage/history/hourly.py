"""Hourly summaries of the last weeks, per row and resource, and peaks of memory over 280 days.

For recommenders that look for a rhythm, and only for the rows they serve: 35 days are 18.5 KB a row and resource.
Samples come in any order: a late sample is merged into its hour, an hour without samples stays unknown, and what is
older than the ring is dropped.

A second ring has the maxima of memory in cells of six hours. The hourly ring ends after five weeks, and a cycle takes
three peaks to be recognised: 280 days have three peaks of a cycle as long as a quarter, wherever in the cycle they end.
1,120 float32 are 4.5 KB a row, an eighth of what its hourly summaries take.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from trellis.core.usage.columns import ColumnTable, FloatColumn, IntColumn
from trellis.core.usage.history.hours import (
    HOUR,
    MAXIMUM,
    MEASURES,
    HourSummaries,
    Ring,
    Rings,
    RunningHours,
    mix_summaries,
    summarise_hours,
)

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
        """Allocate rings for a number of rows."""
        while len(self._blocks) * self._per_block < rows:
            self._blocks.append(np.full((self._per_block, CELLS), _UNKNOWN))
        added = max(rows - len(self._newest), 0)
        self._newest = np.append(self._newest, np.full(added, -1))

    def clear(self, rows: IntColumn) -> None:
        """Clear the peaks of rows."""
        self._newest[rows] = -1
        for block, where, _ in self._split_by_block(rows):
            block[where] = _UNKNOWN

    def newest(self, row: int) -> int:
        """The newest cell of a row; -1 for none."""
        return int(self._newest[row])

    def add(self, rows: IntColumn, cells: IntColumn, values: FloatColumn) -> None:
        """Raise cells to values; rows may repeat. What is older than a ring reaches is left out."""
        self._advance(rows, cells)
        inside = np.flatnonzero(cells > self._newest[rows] - CELLS)
        for block, where, positions in self._split_by_block(rows[inside]):
            sample_positions = inside[positions]
            np.fmax.at(block, (where, cells[sample_positions] % CELLS), values[sample_positions].astype(np.float32))

    def read(self, rows: IntColumn, last: int) -> Peaks:
        """(rows, cells) up to a cell, oldest first; NaN where nothing is known."""
        cells = np.arange(last - CELLS + 1, last + 1)
        newest = self._newest[rows][:, np.newaxis]
        peaks = np.empty((len(rows), CELLS), dtype=np.float32)
        oldest = (last + 1) % CELLS
        split = CELLS - oldest
        for block, where, positions in self._split_by_block(rows):
            peaks[positions, :split] = block[where, oldest:]
            peaks[positions, split:] = block[where, :oldest]
        peaks[(cells > newest) | (cells <= newest - CELLS)] = _UNKNOWN
        return peaks

    def copy_rows(self, rows: IntColumn) -> LongPeaks:
        """A copy of some rows, numbered from 0."""
        copy = LongPeaks(max(len(rows), 1))
        copy.reserve(len(rows))
        copy._newest[:] = self._newest[rows]
        for block, where, positions in self._split_by_block(rows):
            copy._blocks[0][positions] = block[where]
        return copy

    def _advance(self, rows: IntColumn, cells: IntColumn) -> None:
        """Turn rings on to new cells; those in between are unknown."""
        newest = self._newest.copy()
        np.maximum.at(newest, rows, cells)
        moved = np.flatnonzero((newest > self._newest) & (self._newest >= 0))
        steps = np.minimum(newest[moved] - self._newest[moved], CELLS)
        repeated = np.repeat(moved, steps)
        offset = np.arange(len(repeated)) - np.repeat(np.cumsum(steps) - steps, steps)
        cell_positions = (newest[repeated] - offset) % CELLS
        for block, where, positions in self._split_by_block(repeated):
            block[where, cell_positions[positions]] = _UNKNOWN
        self._newest = newest

    def _split_by_block(self, rows: IntColumn) -> Iterator[tuple[Peaks, IntColumn, IntColumn]]:
        """A batch block by block: the block, where in it the rows are, and where in the batch."""
        numbers, where = np.divmod(rows, self._per_block)
        for number in np.unique(numbers).tolist():
            positions = np.flatnonzero(numbers == number)
            yield self._blocks[number], where[positions], positions


CPU_SERIES, MEMORY_SERIES = 0, 1


class HourlyHistory:
    """The history of all rows that have one, by the number that a row was given here."""

    def __init__(self, days: int) -> None:
        self._numbers = ColumnTable()
        self._running = RunningHours()
        self._rings = Rings(24 * days)
        self._peaks = LongPeaks()

    @property
    def hours(self) -> int:
        """The length of the history in hours."""
        return self._rings.hours

    @property
    def size(self) -> int:
        """The number of rows with a history."""
        return self._numbers.size

    @property
    def nbytes(self) -> int:
        """The size of all parts."""
        return self._running.nbytes + self._rings.nbytes + self._peaks.nbytes

    def allocate(self, count: int) -> IntColumn:
        """Numbers for further rows."""
        numbers = self._numbers.allocate(count)
        series = 2 * self._numbers.numbers_end
        self._rings.reserve(series)
        self._peaks.reserve(self._numbers.numbers_end)
        self._running.allocate(series - self._running.size)
        return numbers

    def release(self, numbers: IntColumn) -> None:
        """Clear rows and release their numbers."""
        series = _list_series(numbers)
        self._running.restart(series, np.full(len(series), -1))
        self._rings.clear(series)
        self._peaks.clear(numbers)
        self._numbers.release(numbers)

    def add(self, numbers: IntColumn, resource: int, times: FloatColumn, values: FloatColumn) -> None:
        """Take in samples, in any order; rows may repeat."""
        series = 2 * numbers + resource
        hours = np.floor(times / HOUR).astype(np.int64)
        running = hours == self._running.hour[series]
        self._running.add(series[running], values[running])
        newest = self._running.hour.copy()
        np.maximum.at(newest, series, hours)
        self._close_hours(np.flatnonzero(newest > self._running.hour), newest)
        begun = ~running & (hours == newest[series])
        self._running.add(series[begun], values[begun])
        late = ~running & ~begun
        if late.any():
            self.merge(summarise_hours(series[late], hours[late], values[late]))

    def close_quiet_hours(self, now: float) -> None:
        """Sum up hours that are over and get no more samples."""
        quiet = np.flatnonzero((self._running.hour >= 0) & (self._running.hour < now // HOUR - 1))
        if len(quiet):
            self._close_hours(quiet, np.full(self._running.capacity, -1))

    def merge(self, summaries: HourSummaries) -> None:
        """Take in hours that are summed up already; the series of number n are 2n for CPU and 2n + 1 for memory."""
        self._rings.merge(summaries)
        memory = np.flatnonzero(summaries.series % 2 == MEMORY_SERIES)
        if len(memory):
            cells = summaries.hours[memory] // CELL_HOURS
            self._peaks.add(summaries.series[memory] // 2, cells, summaries.values[memory, MAXIMUM])

    def merge_peaks(self, numbers: IntColumn, cells: IntColumn, values: FloatColumn) -> None:
        """Take in peaks of memory that were stored: cells of `CELL_HOURS` hours since the epoch."""
        self._peaks.add(numbers, cells, values)
        for number in np.unique(numbers).tolist():
            self._rings.bump_revision(2 * number + MEMORY_SERIES)

    def read_peaks(self, numbers: IntColumn, until: float) -> Peaks:
        """(rows, cells): the peaks of memory up to the cell in which a time is, oldest first; NaN where unknown.

        An hour that is not closed yet is left out: `read_summaries` has it.
        """
        return self._peaks.read(numbers, int(until // HOUR) // CELL_HOURS)

    def export_peaks(self, number: int) -> tuple[int, Peaks]:
        """The peaks of one row and the cell of the newest."""
        newest = self._peaks.newest(number)
        return newest, self._peaks.read(np.array([number]), newest)[0]

    def raise_maximum(self, numbers: IntColumn, resource: int, times: FloatColumn, values: FloatColumn) -> None:
        """Note that more was needed than was ever sampled: an OOM kill."""
        all_series, hours = 2 * numbers + resource, np.floor(times / HOUR).astype(np.int64)
        for series, hour, value in zip(all_series.tolist(), hours.tolist(), values.tolist(), strict=True):
            if resource == MEMORY_SERIES:
                self._peaks.add(np.array([series // 2]), np.array([hour // CELL_HOURS]), np.array([value]))
            if self._running.hour[series] == hour:
                self._running.highest[series] = max(self._running.highest[series], value)
                self._rings.bump_revision(series)
            elif self._rings.has_samples(series, hour):
                self._rings.raise_maximum(series, hour, value)
            else:
                values_needed = np.full((1, len(MEASURES)), value)
                self._rings.merge(HourSummaries(np.array([series]), np.array([hour]), values_needed, np.array([1])))

    def read_summaries(self, numbers: IntColumn, until: float) -> Ring:
        """(rows, resources, measures, hours): the whole hours before a time, oldest first; NaN where nothing is known.

        17 KB a row and resource: read a few thousand rows at a time.
        """
        last = int(until // HOUR) - 1
        return self._read(_list_series(numbers), last).reshape(len(numbers), 2, len(MEASURES), self.hours)

    def revisions(self, numbers: IntColumn, until: float) -> IntColumn:
        """(rows, resources): numbers that are others whenever `read_summaries` of these rows may be others."""
        series = _list_series(numbers)
        # An hour that is over and not summed up yet is read as it stands, and a late sample may still change it.
        is_open = (self._running.hour[series] >= 0) & (self._running.hour[series] < until // HOUR)
        counts = np.where(is_open, self._running.count[series], 0)
        revisions: IntColumn = (self._rings.revisions(series) << 32) + counts
        return revisions.reshape(len(numbers), 2)

    def copy_rows(self, numbers: IntColumn) -> HourlyHistory:
        """A copy of some rows, numbered from 0."""
        copy = HourlyHistory(self.hours // 24)
        copy._numbers.allocate(len(numbers))
        series = _list_series(numbers)
        copy._rings = self._rings.copy_series(series)
        copy._peaks = self._peaks.copy_rows(numbers)
        copy._running = self._running.copy_series(series)
        return copy

    def export_hours(self, number: int) -> tuple[int, Ring]:
        """All hours of one row, as `read_summaries`, up to the newest; the running hour so far included."""
        series = _list_series(np.array([number]))
        newest = int(max(self._rings.newest(series).max(), self._running.hour[series].max()))
        return newest, self._read(series, newest)

    def _read(self, series: IntColumn, last: int) -> Ring:
        """(series, measures, hours) up to an hour; one that is not closed yet is as good as one that is."""
        values, counts = self._rings.read(series, last)
        first = last - self.hours + 1
        hour = self._running.hour[series]
        with_running_hour = np.flatnonzero((hour >= first) & (hour <= last) & (self._running.count[series] > 0))
        running = self._running.summarise(series[with_running_hour])
        hour_positions = running.hours - first
        share = running.counts / (counts[with_running_hour, hour_positions] + running.counts)
        values[with_running_hour, :, hour_positions] = mix_summaries(
            values[with_running_hour, :, hour_positions], running.values, share
        )
        counts[with_running_hour, hour_positions] += running.counts
        return np.where(counts[:, np.newaxis] > 0, values, np.float32(np.nan))

    def _close_hours(self, series: IntColumn, hours: IntColumn) -> None:
        """Sum up the running hours of some series, and begin others; `hours` are those of all series."""
        self.merge(self._running.summarise(series))
        self._running.restart(series, hours[series])


def _list_series(numbers: IntColumn) -> IntColumn:
    """The series of rows: CPU and memory of each in turn."""
    series: IntColumn = (2 * numbers[:, np.newaxis] + np.array([CPU_SERIES, MEMORY_SERIES])).reshape(-1)
    return series
