"""Summaries of an hour of usage, and the rings that store the last hours of each series.

An hour is summarised by mean, median, 90th and 95th percentile and maximum of its samples. A batch that has an hour to
itself is summarised from its values. An hour that fills up batch by batch is counted in bins, those of the histograms:
its percentiles are as fine as theirs (5 %), its mean and maximum exact, and it takes 1.4 KB a row however many pods and
samples there are. A row of a bank would do the same, but decays, keeps a reference and comes in blocks of 16,384.

Rings are blocks of (series, measures, hours) float32. An hour has the place `hour % hours`. Beside it stands how many
samples it is made of: none means that nothing is known of it, and two parts of an hour are mixed by their numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from trellis.core.usage.columns import BoolColumn, ColumnTable, FloatColumn, IntColumn
from trellis.core.usage.histograms.bins import CPU_BINS, MEMORY_BINS

HOUR = 3600.0
MEASURES = ("mean", "p50", "p90", "p95", "maximum")
MAXIMUM = 4
_FRACTIONS = (0.5, 0.9, 0.95)
_LAYOUTS = (CPU_BINS, MEMORY_BINS)  # by the resource of a series
_BINS = max(layout.bins for layout in _LAYOUTS)


class HourSummaries(NamedTuple):
    """Hours that are summed up: `values` is (summaries, measures), and no series has one hour twice."""

    series: IntColumn
    hours: IntColumn
    values: FloatColumn
    counts: IntColumn


class RunningHours(ColumnTable):
    """The newest hour of each series, still filling up. The series of number n are 2n for CPU and 2n + 1 for memory."""

    initial_values = {"hour": -1, "count": 0, "total": 0.0, "highest": 0.0}

    hour: IntColumn
    count: IntColumn
    total: FloatColumn
    highest: FloatColumn

    def __init__(self) -> None:
        super().__init__()
        self._bins: npt.NDArray[np.uint32] = np.zeros((0, _BINS), dtype=np.uint32)

    @property
    def nbytes(self) -> int:
        """The size of columns and bins."""
        return super().nbytes + self._bins.nbytes

    def add(self, series: IntColumn, values: FloatColumn) -> None:
        """Count samples of the running hour."""
        if len(self._bins) < self.capacity:
            grown = np.zeros((self.capacity, _BINS), dtype=np.uint32)
            grown[: len(self._bins)] = self._bins
            self._bins = grown
        np.add.at(self.count, series, 1)
        np.add.at(self.total, series, values)
        np.maximum.at(self.highest, series, values)
        for resource, layout in enumerate(_LAYOUTS):
            is_of_resource = series % 2 == resource
            np.add.at(self._bins, (series[is_of_resource], layout.find_bins(values[is_of_resource])), 1)

    def summarise(self, series: IntColumn) -> HourSummaries:
        """The running hours as far as they have come; series without a sample are left out."""
        series = series[self.count[series] > 0]
        counts = self.count[series]
        values = np.empty((len(series), len(MEASURES)))
        values[:, 0] = self.total[series] / counts
        values[:, MAXIMUM] = self.highest[series]
        for resource, layout in enumerate(_LAYOUTS):
            is_of_resource = series % 2 == resource
            bins = self._bins[series[is_of_resource], : layout.bins]
            values[is_of_resource, 1:MAXIMUM] = np.minimum(
                _interpolate_percentiles(bins, layout.starts), self.highest[series[is_of_resource], np.newaxis]
            )
        return HourSummaries(series, self.hour[series], values, counts)

    def copy_series(self, series: IntColumn) -> RunningHours:
        """A copy of some series, numbered from 0."""
        copy = RunningHours()
        copy.allocate(len(series))
        for name in self.initial_values:
            copy._column(name)[: len(series)] = self._column(name)[series]
        copy._bins = np.zeros((copy.capacity, _BINS), dtype=np.uint32)
        counted = np.flatnonzero(series < len(self._bins))
        copy._bins[counted] = self._bins[series[counted]]
        return copy

    def restart(self, series: IntColumn, hours: IntColumn) -> None:
        """Clear series and begin given hours."""
        self.hour[series] = hours
        self.count[series] = 0
        self.total[series] = 0.0
        self.highest[series] = 0.0
        self._bins[series[series < len(self._bins)]] = 0


def summarise_hours(series: IntColumn, hours: IntColumn, values: FloatColumn) -> HourSummaries:
    """A batch of samples, hour by hour, from the values themselves."""
    order = np.lexsort((values, hours, series))
    series, hours, values = series[order], hours[order], values[order]
    begins = np.flatnonzero(_mark_changes(series) | _mark_changes(hours))
    counts = np.diff(begins, append=len(series))
    summaries = np.empty((len(begins), len(MEASURES)))
    summaries[:, 0] = np.add.reduceat(values, begins) / counts if len(begins) else 0.0
    for measure, fraction in enumerate(_FRACTIONS, start=1):
        summaries[:, measure] = values[begins + np.ceil(fraction * counts).astype(np.int64) - 1]
    summaries[:, MAXIMUM] = values[begins + counts - 1]
    return HourSummaries(series[begins], hours[begins], summaries, counts)


def _interpolate_percentiles(bins: npt.NDArray[np.uint32], starts: FloatColumn) -> FloatColumn:
    """Percentiles of rows of bins, as if the samples of a bin were spread evenly over it."""
    sums = np.cumsum(bins, axis=1, dtype=np.float64)
    percentiles = np.empty((len(bins), len(_FRACTIONS)))
    positions = np.arange(len(bins))
    for measure, fraction in enumerate(_FRACTIONS):
        target_weight = fraction * sums[:, -1]
        position = (sums >= target_weight[:, np.newaxis]).argmax(axis=1)
        bin_count = bins[positions, position]
        missing = target_weight - (sums[positions, position] - bin_count)
        percentiles[:, measure] = starts[position] + (starts[position + 1] - starts[position]) * missing / np.maximum(
            bin_count, 1
        )
    return percentiles


def _mark_changes(column: IntColumn) -> BoolColumn:
    return np.concatenate((np.ones(min(len(column), 1), dtype=np.bool_), column[1:] != column[:-1]))


Ring: TypeAlias = npt.NDArray[np.float32]

SERIES_PER_BLOCK = 256  # 4.7 MB at 35 days
_MOST_SAMPLES = 65_535  # an hour with more weighs no more: 16 bits


class _HourBlock:
    def __init__(self, hours: int, series: int) -> None:
        self.values: Ring = np.zeros((series, len(MEASURES), hours), dtype=np.float32)
        self.counts: npt.NDArray[np.uint16] = np.zeros((series, hours), dtype=np.uint16)


class Rings:
    """The last hours of each series, numbered from 0 on."""

    def __init__(self, hours: int, series_per_block: int = SERIES_PER_BLOCK) -> None:
        self.hours = hours
        self._per_block = series_per_block
        self._blocks: list[_HourBlock] = []
        self._newest: IntColumn = np.zeros(0, dtype=np.int64)
        self._revisions: IntColumn = np.zeros(0, dtype=np.int64)

    @property
    def nbytes(self) -> int:
        """The size of all blocks."""
        return sum(block.values.nbytes + block.counts.nbytes for block in self._blocks)

    def reserve(self, series: int) -> None:
        """Grow to a number of series."""
        while len(self._blocks) * self._per_block < series:
            self._blocks.append(_HourBlock(self.hours, self._per_block))
        added = max(series - len(self._newest), 0)
        self._newest = np.append(self._newest, np.full(added, -1))
        self._revisions = np.append(self._revisions, np.zeros(added, dtype=np.int64))

    def clear(self, series: IntColumn) -> None:
        """Clear some series."""
        self._newest[series] = -1
        self._revisions[series] += 1
        for block, where, _ in self._split_by_block(series):
            block.counts[where] = 0

    def newest(self, series: IntColumn) -> IntColumn:
        """The newest hour of each series; -1 for none."""
        return self._newest[series]

    def revisions(self, series: IntColumn) -> IntColumn:
        """A number for each series that is another one whenever anything in its ring has changed."""
        return self._revisions[series]

    def has_samples(self, series: int, hour: int) -> bool:
        """Whether an hour has samples."""
        return self._newest[series] - self.hours < hour <= self._newest[series] and bool(
            self._blocks[series // self._per_block].counts[series % self._per_block, hour % self.hours]
        )

    def raise_maximum(self, series: int, hour: int, value: float) -> None:
        """Raise the maximum of an hour that has samples."""
        highest = self._blocks[series // self._per_block].values[series % self._per_block, MAXIMUM]
        highest[hour % self.hours] = max(highest[hour % self.hours], value)
        self.bump_revision(series)

    def bump_revision(self, series: int) -> None:
        """Mark a series as changed, in its ring or beside it."""
        self._revisions[series] += 1

    def merge(self, summaries: HourSummaries) -> None:
        """Merge summaries, and advance rings to new hours; what is older than the rings is dropped."""
        self._advance(summaries.series, summaries.hours)
        self._revisions[summaries.series] += 1
        inside = np.flatnonzero(summaries.hours > self._newest[summaries.series] - self.hours)
        for block, where, positions in self._split_by_block(summaries.series[inside]):
            summary_positions = inside[positions]
            hour_positions = summaries.hours[summary_positions] % self.hours
            total_counts = block.counts[where, hour_positions] + summaries.counts[summary_positions]
            share = summaries.counts[summary_positions] / total_counts
            block.values[where, :, hour_positions] = mix_summaries(
                block.values[where, :, hour_positions], summaries.values[summary_positions], share
            )
            block.counts[where, hour_positions] = np.minimum(total_counts, _MOST_SAMPLES)

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
        for ring_part, result_part in ((slice(oldest, None), slice(split)), (slice(oldest), slice(split, None))):
            for block, where, positions in self._split_by_block(series):
                values[positions, :, result_part] = block.values[where, :, ring_part]
                counts[positions, result_part] = np.where(
                    inside[positions, result_part], block.counts[where, ring_part], 0
                )
        return values, counts

    def copy_series(self, series: IntColumn) -> Rings:
        """A copy of some series, numbered from 0."""
        copy = Rings(self.hours, max(len(series), 1))
        copy.reserve(len(series))
        copy._newest[:] = self._newest[series]
        copy._revisions[:] = self._revisions[series]
        for block, where, positions in self._split_by_block(series):
            target = copy._blocks[0]
            target.values[positions], target.counts[positions] = block.values[where], block.counts[where]
        return copy

    def _advance(self, series: IntColumn, hours: IntColumn) -> None:
        """Turn rings on to new hours: nothing is known yet of those and of all in between."""
        newest = self._newest.copy()
        np.maximum.at(newest, series, hours)
        moved = np.flatnonzero((newest > self._newest) & (self._newest >= 0))
        steps = np.minimum(newest[moved] - self._newest[moved], self.hours)
        repeated = np.repeat(moved, steps)
        offset = np.arange(len(repeated)) - np.repeat(np.cumsum(steps) - steps, steps)
        hour_positions = (newest[repeated] - offset) % self.hours
        for block, where, positions in self._split_by_block(repeated):
            block.counts[where, hour_positions[positions]] = 0
        self._newest = newest

    def _split_by_block(self, series: IntColumn) -> Iterator[tuple[_HourBlock, IntColumn, IntColumn]]:
        """A batch block by block: the block, where in it the series are, and where in the batch."""
        numbers, where = np.divmod(series, self._per_block)
        for number in np.unique(numbers).tolist():
            positions = np.flatnonzero(numbers == number)
            yield self._blocks[number], where[positions], positions


def mix_summaries(old: Ring, new: FloatColumn, share: FloatColumn) -> FloatColumn:
    """Summaries (summaries, measures) of two parts of their hours as one; `share` is the new part's of all samples."""
    only_new = share[:, np.newaxis] >= 1
    mixed = np.where(only_new, new, old + (new - old) * share[:, np.newaxis])
    mixed[:, MAXIMUM] = np.where(only_new[:, 0], new[:, MAXIMUM], np.maximum(old[:, MAXIMUM], new[:, MAXIMUM]))
    return mixed
