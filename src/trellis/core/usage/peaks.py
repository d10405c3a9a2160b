"""Readings of one resource, and memory peaks: one sample per container and memory window.

Of memory not the usage counts but its peak: one sample per container and window, at the time the window ends. A higher
value in the same window replaces the lower one in the histogram, and an OOM kill is such a value too.

History comes as thousands of readings per container. They are not added one by one: what precedes
each of them is computed for all at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn, find_run_starts
from trellis.core.usage.histograms.decaying_histograms import HistogramBank
from trellis.core.usage.row_tables import SlotTable
from trellis.core.usage.state import UsageState


class Readings(NamedTuple):
    """Columns of equal length. No slot comes twice, rows may."""

    slots: IntColumn
    rows: IntColumn
    times: FloatColumn
    values: FloatColumn
    pods: IntColumn
    """How many pods a value stands for in the totals of its workload."""

    def select(self, which: BoolColumn) -> Readings:
        """The readings that a mask selects."""
        return self if which.all() else self.take(np.flatnonzero(which))

    def take(self, positions: IntColumn) -> Readings:
        """The readings at some positions."""
        slots, rows, pods = self.slots[positions], self.rows[positions], self.pods[positions]
        return Readings(slots, rows, self.times[positions], self.values[positions], pods)

    def scale_to_workload(self, totals: IntColumn) -> Readings:
        """Readings of whole workloads: values times pods; `totals` are the rows of workloads, by row."""
        return self._replace(rows=totals[self.rows], values=self.values * self.pods)


def group_by_slot(slots: IntColumn) -> IntColumn:
    """The places of a batch, those of one slot side by side and in the order in which they came."""
    return np.argsort(slots, kind="stable")


def find_highest_before(slots: IntColumn, values: FloatColumn) -> FloatColumn:
    """The highest value that came before each in its slot, NaN for the first; `slots` are grouped."""
    highest = np.full(len(slots), np.nan)
    starts = find_run_starts(slots)
    if len(starts) == len(slots):
        return highest
    fallen = values[1:] < values[:-1]
    fallen[starts[1:] - 1] = False
    if not fallen.any():  # as samples nearly always come
        highest[1:] = values[:-1]
        highest[starts] = np.nan
        return highest
    different, ranks = np.unique(values, return_inverse=True)
    # Whole numbers, so that one running maximum serves all groups: a later group is above all earlier ones.
    group = np.zeros(len(slots), dtype=np.int64)
    group[starts] = 1
    running = np.maximum.accumulate(np.cumsum(group) * len(different) + ranks)
    highest[1:] = different[running[:-1] % len(different)]
    highest[starts] = np.nan
    return highest


def reduce_to_windows(readings: Readings, ends: FloatColumn, lengths: FloatColumn) -> Readings:
    """The highest value of each slot and memory window, at the time of its first: the others leave no trace.

    Readings are grouped by slot, their times ascending. `ends` is where the window of each reading's slot ends so far,
    NaN if it has none.
    """
    starts = find_run_starts(readings.slots)
    if len(starts) == len(readings.slots):
        return readings
    first = np.repeat(readings.times[starts], np.diff(starts, append=len(readings.slots)))
    ends = np.where(np.isnan(ends), first, ends)
    window = np.where(readings.times < ends, 0, np.trunc((readings.times - ends) / lengths) + 1).astype(np.int64)
    starts = find_run_starts(readings.slots, window)
    return readings.take(starts)._replace(values=np.maximum.reduceat(readings.values, starts))


PEAK_WEIGHT = 1.0


def add_peaks(state: UsageState, readings: Readings, *, killed: bool) -> None:
    """Add memory readings, or the needs estimated for killed containers."""
    table = state.slots
    ends = move_windows(table, readings, state.rows.memory_window[readings.rows])
    peaks, others = (table.oom_peak, table.memory_peak) if killed else (table.memory_peak, table.oom_peak)
    raise_peaks(state.memory, readings, ends, peaks, others)
    if state.totals.size:
        has_totals = state.rows.total[readings.rows] >= 0
        workload_readings = readings.scale_to_workload(state.rows.total)
        if killed:
            peaks, others = table.total_oom_peak, table.total_peak
        else:
            peaks, others = table.total_peak, table.total_oom_peak
        raise_peaks(state.memory_total, workload_readings.select(has_totals), ends[has_totals], peaks, others)


def move_windows(table: SlotTable, readings: Readings, lengths: FloatColumn) -> FloatColumn:
    """Begin a new window, without peaks, wherever the old one has ended; where each one ends now.

    A length is only read when a window begins, so that a changed one never moves a peak that is in the histogram.
    """
    ends = table.window_end[readings.slots]
    ends = np.where(np.isnan(ends), readings.times, ends)
    has_ended = ~(readings.times < ends)
    full_windows = np.trunc((readings.times - ends) / lengths) * lengths
    ends = np.where(has_ended, ends + (full_windows + lengths), ends)
    table.window_end[readings.slots] = ends
    table.last_memory[readings.slots] = readings.times
    begun = readings.slots[has_ended]
    for peaks in (table.memory_peak, table.oom_peak, table.total_peak, table.total_oom_peak):
        peaks[begun] = np.nan
    return ends


def raise_peaks(
    bank: HistogramBank, readings: Readings, ends: FloatColumn, peaks: FloatColumn, other_peaks: FloatColumn
) -> None:
    """Where a value is above both peaks of its slot, put it into `peaks` and into the histogram in their place.

    A peak of 0 bytes counts: upstream ignores later samples of such a window.
    """
    rows, slots, values = readings.rows, readings.slots, readings.values
    highest = np.fmax(peaks[slots], other_peaks[slots])
    higher = ~(values <= highest)
    replaced = higher & ~np.isnan(highest)
    bank.subtract(rows[replaced], ends[replaced], highest[replaced], PEAK_WEIGHT)
    bank.add(rows[higher], ends[higher], values[higher], PEAK_WEIGHT)
    peaks[slots[higher]] = values[higher]
