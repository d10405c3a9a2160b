"""How is an hour of usage summed up?

By mean, median, 90th and 95th percentile and maximum of its samples. A batch that has an hour to itself is summed up
from its values. An hour that fills up batch by batch is counted in buckets, those of the histograms: its percentiles
are as fine as theirs (5 %), its mean and maximum exact, and it takes 1.4 KB a row however many pods and samples there
are. A row of a bank would do the same, but decays, keeps a reference and comes in blocks of 16,384.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.core.usage.layout import CPU, MEMORY
from trellis.core.usage.tables import Table

HOUR = 3600.0
MEASURES = ("mean", "p50", "p90", "p95", "maximum")
MAXIMUM = 4
_FRACTIONS = (0.5, 0.9, 0.95)
_LAYOUTS = (CPU, MEMORY)  # by the resource of a series
_BUCKETS = max(layout.buckets for layout in _LAYOUTS)


class Summaries(NamedTuple):
    """Hours that are summed up: `values` is (summaries, measures), and no series has one hour twice."""

    series: IntColumn
    hours: IntColumn
    values: FloatColumn
    counts: IntColumn


class RunningHours(Table):
    """The newest hour of each series, still filling up. The series of number n are 2n for CPU and 2n + 1 for memory."""

    fills = {"hour": -1, "count": 0, "total": 0.0, "highest": 0.0}

    hour: IntColumn
    count: IntColumn
    total: FloatColumn
    highest: FloatColumn

    def __init__(self) -> None:
        super().__init__()
        self._buckets: npt.NDArray[np.uint32] = np.zeros((0, _BUCKETS), dtype=np.uint32)

    @property
    def nbytes(self) -> int:
        """What all of it occupies."""
        return super().nbytes + self._buckets.nbytes

    def add(self, series: IntColumn, values: FloatColumn) -> None:
        """Count samples of the running hour."""
        if len(self._buckets) < self.capacity:
            grown = np.zeros((self.capacity, _BUCKETS), dtype=np.uint32)
            grown[: len(self._buckets)] = self._buckets
            self._buckets = grown
        np.add.at(self.count, series, 1)
        np.add.at(self.total, series, values)
        np.maximum.at(self.highest, series, values)
        for resource, layout in enumerate(_LAYOUTS):
            mine = series % 2 == resource
            np.add.at(self._buckets, (series[mine], layout.find(values[mine])), 1)

    def summed_up(self, series: IntColumn) -> Summaries:
        """The running hours as far as they have come; series without a sample are left out."""
        series = series[self.count[series] > 0]
        counts = self.count[series]
        values = np.empty((len(series), len(MEASURES)))
        values[:, 0] = self.total[series] / counts
        values[:, MAXIMUM] = self.highest[series]
        for resource, layout in enumerate(_LAYOUTS):
            mine = series % 2 == resource
            buckets = self._buckets[series[mine], : layout.buckets]
            values[mine, 1:MAXIMUM] = np.minimum(
                _percentiles(buckets, layout.starts), self.highest[series[mine], np.newaxis]
            )
        return Summaries(series, self.hour[series], values, counts)

    def copied(self, series: IntColumn) -> RunningHours:
        """Some series in a table of their own, numbered from 0 on."""
        copy = RunningHours()
        copy.take(len(series))
        for name in self.fills:
            copy._column(name)[: len(series)] = self._column(name)[series]
        copy._buckets = np.zeros((copy.capacity, _BUCKETS), dtype=np.uint32)
        counted = np.flatnonzero(series < len(self._buckets))
        copy._buckets[counted] = self._buckets[series[counted]]
        return copy

    def begin(self, series: IntColumn, hours: IntColumn) -> None:
        """Start anew, in given hours."""
        self.hour[series] = hours
        self.count[series] = 0
        self.total[series] = 0.0
        self.highest[series] = 0.0
        self._buckets[series[series < len(self._buckets)]] = 0


def summed_up(series: IntColumn, hours: IntColumn, values: FloatColumn) -> Summaries:
    """A batch of samples, hour by hour, from the values themselves."""
    order = np.lexsort((values, hours, series))
    series, hours, values = series[order], hours[order], values[order]
    begins = np.flatnonzero(_changes(series) | _changes(hours))
    counts = np.diff(begins, append=len(series))
    found = np.empty((len(begins), len(MEASURES)))
    found[:, 0] = np.add.reduceat(values, begins) / counts if len(begins) else 0.0
    for measure, fraction in enumerate(_FRACTIONS, start=1):
        found[:, measure] = values[begins + np.ceil(fraction * counts).astype(np.int64) - 1]
    found[:, MAXIMUM] = values[begins + counts - 1]
    return Summaries(series[begins], hours[begins], found, counts)


def _percentiles(buckets: npt.NDArray[np.uint32], starts: FloatColumn) -> FloatColumn:
    """Percentiles of rows of buckets, as if the samples of a bucket were spread evenly over it."""
    sums = np.cumsum(buckets, axis=1, dtype=np.float64)
    found = np.empty((len(buckets), len(_FRACTIONS)))
    everyone = np.arange(len(buckets))
    for measure, fraction in enumerate(_FRACTIONS):
        wanted = fraction * sums[:, -1]
        bucket = (sums >= wanted[:, np.newaxis]).argmax(axis=1)
        inside = buckets[everyone, bucket]
        missing = wanted - (sums[everyone, bucket] - inside)
        found[:, measure] = starts[bucket] + (starts[bucket + 1] - starts[bucket]) * missing / np.maximum(inside, 1)
    return found


def _changes(column: IntColumn) -> BoolColumn:
    return np.concatenate((np.ones(min(len(column), 1), dtype=np.bool_), column[1:] != column[:-1]))
