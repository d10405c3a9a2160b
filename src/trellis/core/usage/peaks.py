"""How does memory usage become samples?

Not the usage counts but its peak: one sample per container and window, at the time the window ends. A higher value in
the same window takes the place of the lower one in the histogram, and an OOM kill is such a value too.
"""

from __future__ import annotations

import numpy as np

from trellis.core.usage.bank import Bank
from trellis.core.usage.columns import FloatColumn
from trellis.core.usage.readings import Readings
from trellis.core.usage.slots import SlotTable
from trellis.core.usage.state import UsageState

PEAK_WEIGHT = 1.0


def add_peaks(state: UsageState, found: Readings, *, killed: bool) -> None:
    """Take in memory readings, or what killed containers are taken to have needed."""
    table = state.slots
    ends = move_windows(table, found, state.rows.memory_window[found.rows])
    peaks, others = (table.oom_peak, table.memory_peak) if killed else (table.memory_peak, table.oom_peak)
    raise_peaks(state.memory, found, ends, peaks, others)
    if state.totals.size:
        kept = state.rows.total[found.rows] >= 0
        whole = found.of_workload(state.rows.total)
        if killed:
            peaks, others = table.total_oom_peak, table.total_peak
        else:
            peaks, others = table.total_peak, table.total_oom_peak
        raise_peaks(state.memory_total, whole.only(kept), ends[kept], peaks, others)


def move_windows(table: SlotTable, found: Readings, lengths: FloatColumn) -> FloatColumn:
    """Begin a new window, without peaks, wherever the old one has ended; where each one ends now.

    A length is only read when a window begins, so that a changed one never moves a peak that is in the histogram.
    """
    ends = table.window_end[found.slots]
    ends = np.where(np.isnan(ends), found.times, ends)
    over = ~(found.times < ends)
    whole = np.trunc((found.times - ends) / lengths) * lengths
    ends = np.where(over, ends + (whole + lengths), ends)
    table.window_end[found.slots] = ends
    table.last_memory[found.slots] = found.times
    begun = found.slots[over]
    for peaks in (table.memory_peak, table.oom_peak, table.total_peak, table.total_oom_peak):
        peaks[begun] = np.nan
    return ends


def raise_peaks(bank: Bank, found: Readings, ends: FloatColumn, peaks: FloatColumn, other_peaks: FloatColumn) -> None:
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
