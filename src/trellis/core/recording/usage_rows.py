"""Rows of usage history in recordings: exact to the last bit, where a checkpoint has whole seconds."""

from __future__ import annotations

import math

import msgspec

from trellis.core.usage.checkpoints.format import SavedRow
from trellis.core.usage.columns import RowKey
from trellis.core.usage.histograms.decaying_histograms import SavedHistogram


class HistogramLine(msgspec.Struct, frozen=True):
    """The bins of a histogram and their weights, in order: sums of them depend on it."""

    reference: float | None
    weights: tuple[tuple[int, int], ...]
    total: float

    @classmethod
    def of(cls, saved: SavedHistogram) -> HistogramLine:
        """The line of a histogram."""
        return cls(_number(saved.reference), tuple(saved.weights.items()), saved.total)

    def saved(self) -> SavedHistogram:
        """The histogram that was written."""
        return SavedHistogram(_nan(self.reference), dict(self.weights), self.total)


class UsageRowLine(msgspec.Struct, frozen=True):
    """The history of one container."""

    key: RowKey
    first: float | None
    last: float | None
    count: int
    updated: float | None
    histograms: tuple[HistogramLine | None, ...]
    history: str
    runs: str
    peaks: str = ""  # recordings of earlier releases have none

    @classmethod
    def of(cls, row: SavedRow) -> UsageRowLine:
        """The line of a row."""
        saved = (row.cpu, row.memory, row.cpu_total, row.memory_total)
        histograms = tuple(HistogramLine.of(histogram) if histogram is not None else None for histogram in saved)
        times = (_number(row.first), _number(row.last), row.count, _number(row.updated))
        return cls(row.key, *times, histograms, row.history, row.runs, row.peaks)

    def to_saved_row(self) -> SavedRow:
        """The row that was written."""
        cpu, memory, cpu_total, memory_total = (
            histogram.saved() if histogram else None for histogram in self.histograms
        )
        return SavedRow(
            key=self.key,
            first=_nan(self.first),
            last=_nan(self.last),
            count=self.count,
            updated=_nan(self.updated),
            cpu=cpu or SavedHistogram(),
            memory=memory or SavedHistogram(),
            cpu_total=cpu_total,
            memory_total=memory_total,
            history=self.history,
            runs=self.runs,
            peaks=self.peaks,
        )


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _nan(value: float | None) -> float:
    return math.nan if value is None else value
