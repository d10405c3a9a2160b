"""What of a row goes into its checkpoint?"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trellis.core.usage import history_text, peaks_text, runs_text
from trellis.core.usage.bank import Bank, SavedHistogram
from trellis.core.usage.checkpoints import SavedRow
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.peaks import PEAK_WEIGHT
from trellis.core.usage.state import UsageState


def saved_rows(state: UsageState, rows: IntColumn, now: float) -> list[SavedRow]:
    """Rows as checkpoints have them."""
    table, slots = state.rows, state.slots
    cpu = state.cpu.save(rows)
    running = _running_windows(state, rows, now)
    memory = _without(running, state.memory, rows, slots.memory_peak, slots.oom_peak)
    counted = np.flatnonzero(table.total[rows] >= 0)
    totals = table.total[rows[counted]]
    cpu_total = dict(zip(counted.tolist(), state.cpu_total.save(totals), strict=True))
    running = _running_windows(state, rows[counted], now)
    whole = _without(running, state.memory_total, totals, slots.total_peak, slots.total_oom_peak)
    memory_total = dict(zip(counted.tolist(), whole, strict=True))
    facts = zip(table.first[rows].tolist(), table.last[rows].tolist(), table.count[rows].tolist(), strict=True)
    histories, runs = table.history[rows].tolist(), table.runs[rows].tolist()
    return [
        SavedRow(
            key=key,
            first=first,
            last=last,
            count=count,
            updated=now,
            cpu=cpu[number],
            memory=memory[number],
            cpu_total=cpu_total.get(number),
            memory_total=memory_total.get(number),
            history=history_text.as_text(*state.history.recorded(histories[number])) if histories[number] >= 0 else "",
            runs=runs_text.as_text(state.runs.recorded(runs[number])) if runs[number] >= 0 else "",
            peaks=peaks_text.as_text(*state.history.recorded_peaks(histories[number]))
            if histories[number] >= 0
            else "",
        )
        for number, (key, (first, last, count)) in enumerate(zip(table.keys(rows.tolist()), facts, strict=True))
    ]


class _Running(NamedTuple):
    """Windows that are not over, of followed containers of some rows: `places` are those of the rows."""

    places: IntColumn
    slots: IntColumn
    ends: FloatColumn


def _running_windows(state: UsageState, rows: IntColumn, now: float) -> _Running:
    place = np.full(state.rows.capacity, -1)
    place[rows] = np.arange(len(rows))
    slots = np.flatnonzero(state.slots.live & (state.slots.window_end > now))
    places = place[state.slots.row[slots]]
    slots = slots[places >= 0]
    return _Running(places[places >= 0], slots, state.slots.window_end[slots])


def _without(
    running: _Running, bank: Bank, rows: IntColumn, peaks: FloatColumn, oom_peaks: FloatColumn
) -> list[SavedHistogram]:
    """Rows of a bank without the peaks of windows that are not over.

    The next process begins a window with the next sample of a container, and would count its peak twice. Nobody tells
    it about an OOM kill again, so the peak of one is kept, where upstream loses it.
    """
    mine = peaks[running.slots]
    counted = np.flatnonzero((mine >= 0) & ~(oom_peaks[running.slots] > mine))
    copy = bank.copied(rows)
    copy.subtract(running.places[counted], running.ends[counted], mine[counted], PEAK_WEIGHT)
    return copy.save(np.arange(len(rows)))
