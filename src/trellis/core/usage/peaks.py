"""Readings of one resource, and memory peaks: one sample per container and memory window.

Of memory not the usage counts but its peak: one sample per container and window, at the time the window ends. A higher
value in the same window replaces the lower one in the histogram, and an OOM kill is such a value too.

History comes as thousands of readings per container. They are not taken in one after the other: what comes before each
of them is computed for all at once.
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
    """By how much a value counts for the whole workload."""

    def only(self, which: BoolColumn) -> Readings:
        """Those that a mask marks."""
        return self if which.all() else self.at(np.flatnonzero(which))

    def at(self, positions: IntColumn) -> Readings:
        """Those in some places."""
        slots, rows, pods = self.slots[positions], self.rows[positions], self.pods[positions]
        return Readings(slots, rows, self.times[positions], self.values[positions], pods)

    def of_workload(self, totals: IntColumn) -> Readings:
        """What each is for the whole workload; `totals` are the rows of workloads, by row."""
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


def reduce_to_windows(found: Readings, ends: FloatColumn, lengths: FloatColumn) -> Readings:
    """The highest value of each slot and memory window, at the time of its first: the others leave no trace.

    Readings are grouped by slot, their times ascending. `ends` is where the window of each reading's slot ends so far,
    NaN if it has none.
    """
    starts = find_run_starts(found.slots)
    if len(starts) == len(found.slots):
        return found
    first = np.repeat(found.times[starts], np.diff(starts, append=len(found.slots)))
    ends = np.where(np.isnan(ends), first, ends)
    window = np.where(found.times < ends, 0, np.trunc((found.times - ends) / lengths) + 1).astype(np.int64)
    starts = find_run_starts(found.slots, window)
    return found.at(starts)._replace(values=np.maximum.reduceat(found.values, starts))


PEAK_WEIGHT = 1.0


def add_peaks(state: UsageState, found: Readings, *, killed: bool) -> None:
    """Take in memory readings, or what killed containers are taken to have needed."""
    table = state.slots
    ends = move_windows(table, found, state.rows.memory_window[found.rows])
    peaks, others = (table.oom_peak, table.memory_peak) if killed else (table.memory_peak, table.oom_peak)
    raise_peaks(state.memory, found, ends, peaks, others)
    if state.totals.size:
        has_totals = state.rows.total[found.rows] >= 0
        workload_readings = found.of_workload(state.rows.total)
        if killed:
            peaks, others = table.total_oom_peak, table.total_peak
        else:
            peaks, others = table.total_peak, table.total_oom_peak
        raise_peaks(state.memory_total, workload_readings.only(has_totals), ends[has_totals], peaks, others)


def move_windows(table: SlotTable, found: Readings, lengths: FloatColumn) -> FloatColumn:
    """Begin a new window, without peaks, wherever the old one has ended; where each one ends now.

    A length is only read when a window begins, so that a changed one never moves a peak that is in the histogram.
    """
    ends = table.window_end[found.slots]
    ends = np.where(np.isnan(ends), found.times, ends)
    over = ~(found.times < ends)
    full_windows = np.trunc((found.times - ends) / lengths) * lengths
    ends = np.where(over, ends + (full_windows + lengths), ends)
    table.window_end[found.slots] = ends
    table.last_memory[found.slots] = found.times
    begun = found.slots[over]
    for peaks in (table.memory_peak, table.oom_peak, table.total_peak, table.total_oom_peak):
        peaks[begun] = np.nan
    return ends


def raise_peaks(
    bank: HistogramBank, found: Readings, ends: FloatColumn, peaks: FloatColumn, other_peaks: FloatColumn
) -> None:
    """Where a value is above both peaks of its slot, put it into `peaks` and into the histogram in their place.

    A peak of nothing is a peak: a container that is first seen with 0 bytes is not blind until its window ends, as it
    is with upstream.
    """
    rows, slots, values = found.rows, found.slots, found.values
    highest = np.fmax(peaks[slots], other_peaks[slots])
    higher = ~(values <= highest)
    replaced = higher & ~np.isnan(highest)
    bank.subtract(rows[replaced], ends[replaced], highest[replaced], PEAK_WEIGHT)
    bank.add(rows[higher], ends[higher], values[higher], PEAK_WEIGHT)
    peaks[slots[higher]] = values[higher]
