"""The state behind the usage model: its tables, banks and history, and the changes that concern several of them.

A row is one container name of one VPA; a slot is one container of one tracked pod, with its memory window, its peaks
and the row that it feeds.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import TypeAlias

import numpy as np

from trellis.core.usage.columns import (
    BoolColumn,
    ColumnTable,
    FloatColumn,
    IntColumn,
    KeyedTable,
    RowKey,
    find_run_starts,
)
from trellis.core.usage.histograms.bins import CPU_BINS, CPU_TOTAL_BINS, MEMORY_BINS, MEMORY_TOTAL_BINS
from trellis.core.usage.histograms.decaying_histograms import FEW_ROWS, HistogramBank
from trellis.core.usage.history.hourly import HourlyHistory
from trellis.core.usage.history.job_runs import RunHistory
from trellis.core.usage.settings import Tuning, UsageSettings

VpaKey: TypeAlias = tuple[str, str]  # namespace and name


class VpaTable(KeyedTable[VpaKey]):
    """One entry per VPA that has rows."""

    initial_values = {"totals": False, "history": False, "runs": False, "pods": 1, "deleted_at": math.nan}

    totals: BoolColumn
    """Whether its rows keep the histograms of the whole workload."""
    history: BoolColumn
    """Whether its rows keep hourly summaries."""
    runs: BoolColumn
    """Whether its rows keep their runs."""
    pods: IntColumn
    """Ready pods in the newest batch that had any, which is by how much an OOM kill counts for the whole workload."""
    deleted_at: FloatColumn
    """The time at which the VPA was found to be deleted."""


class RowTable(KeyedTable[RowKey]):
    """One entry per container name of a VPA. Absent times are NaN."""

    initial_values = {
        "vpa": -1,
        "total": -1,
        "history": -1,
        "runs": -1,
        "first": math.nan,
        "last": math.nan,
        "count": 0,
        "idle_since": math.nan,
        "last_oom": math.nan,
        "unsaved_since": math.nan,
        "changed_at": math.nan,
        "unsaved_kill_at": math.nan,
        "has_checkpoint": False,
        "restored_from": math.nan,
        "memory_window": math.nan,
        "memory_windows": 1,
        "oom_bump_up_ratio": math.nan,
        "oom_min_bump_up": math.nan,
    }

    vpa: IntColumn
    total: IntColumn
    """Its row in the banks of whole workloads; -1 for none."""
    history: IntColumn
    """Its number in the history; -1 for none."""
    runs: IntColumn
    """Its number in the run history; -1 for none."""
    first: FloatColumn
    last: FloatColumn
    count: IntColumn
    """CPU samples, as upstream counts: they alone decide how sure a recommendation is."""
    idle_since: FloatColumn
    """The time since which no container feeds the row."""
    last_oom: FloatColumn
    unsaved_since: FloatColumn
    """The time of the oldest change that is not in a checkpoint."""
    changed_at: FloatColumn
    """The time of the last change."""
    unsaved_kill_at: FloatColumn
    """The time of the last OOM kill that is not in a checkpoint."""
    has_checkpoint: BoolColumn
    """Whether the row's checkpoint is ours: read, or written."""
    restored_from: FloatColumn
    """The time at which the restored checkpoint was written: it includes OOM kills up to then."""
    memory_window: FloatColumn
    memory_windows: IntColumn
    oom_bump_up_ratio: FloatColumn
    oom_min_bump_up: FloatColumn

    def tune(self, row: int, tuning: Tuning) -> None:
        """Set how a row counts memory from now on."""
        self.memory_window[row] = tuning.memory_window
        self.memory_windows[row] = tuning.memory_windows
        self.oom_bump_up_ratio[row] = tuning.oom_bump_up_ratio
        self.oom_min_bump_up[row] = tuning.oom_min_bump_up

    def count_samples(self, rows: IntColumn, times: FloatColumn) -> None:
        """Note CPU samples; rows may repeat, and cost next to nothing where they repeat side by side."""
        starts = find_run_starts(rows)
        if not len(starts):
            return
        batch_rows = rows[starts]
        np.fmin.at(self.first, batch_rows, np.minimum.reduceat(times, starts))
        np.fmax.at(self.last, batch_rows, np.maximum.reduceat(times, starts))
        np.add.at(self.count, batch_rows, np.diff(starts, append=len(rows)))

    def mark_unsaved(self, rows: IntColumn, now: float, *, killed: bool = False) -> None:
        """Mark rows as changed since their checkpoints."""
        self.unsaved_since[rows] = np.fmin(self.unsaved_since[rows], now)
        self.changed_at[rows] = now
        if killed:
            self.unsaved_kill_at[rows] = now

    def mark_saved(self, rows: IntColumn, when: float) -> None:
        """Mark rows as saved up to a time."""
        changed = self.changed_at[rows]
        self.unsaved_since[rows] = np.where(changed > when, changed, np.nan)
        self.unsaved_kill_at[rows] = np.where(self.unsaved_kill_at[rows] > when, self.unsaved_kill_at[rows], np.nan)
        self.has_checkpoint[rows] = True

    def select_unsaved(self, now: float, limit: int) -> IntColumn:
        """Rows to save, at most `limit`: those with OOM kills first, then those that have waited longest."""
        unsaved = np.flatnonzero(self.unsaved_since <= now)
        order = np.lexsort((unsaved, self.unsaved_since[unsaved], np.isnan(self.unsaved_kill_at[unsaved])))
        return unsaved[order[:limit]]


class SlotTable(ColumnTable):
    """One entry per container of a tracked pod, or of one that departed recently. Absent times are NaN."""

    initial_values = {
        "row": -1,
        "leader": -1,
        "ready": False,
        "was_ready": False,
        "memory_request": math.nan,
        "cpu_request": math.nan,
        "started": math.nan,
        "departed_at": math.nan,
        "last_cpu": math.nan,
        "last_memory": math.nan,
        "window_end": math.nan,
        "memory_peak": math.nan,
        "oom_peak": math.nan,
        "total_peak": math.nan,
        "total_oom_peak": math.nan,
    }

    row: IntColumn
    leader: IntColumn
    """The slot of the pod's first container: one number for all containers of a pod."""
    ready: BoolColumn
    was_ready: BoolColumn
    """Whether its pod was Ready when it was sampled before. Only set for leaders."""
    memory_request: FloatColumn
    """The memory request in bytes; NaN if there is none."""
    cpu_request: FloatColumn
    """The CPU request in millicores; NaN if there is none."""
    started: FloatColumn
    """The start time of the pod; NaN if unknown."""
    departed_at: FloatColumn
    last_cpu: FloatColumn
    last_memory: FloatColumn
    window_end: FloatColumn
    memory_peak: FloatColumn
    """The highest sample of the window, in bytes; NaN before the first. Peaks are what the histogram has of it."""
    oom_peak: FloatColumn
    """The estimated need after an OOM kill in the window; only the higher of the two is in the histogram."""
    total_peak: FloatColumn
    """The same two for the whole workload."""
    total_oom_peak: FloatColumn

    @property
    def live(self) -> BoolColumn:
        """Mask of the slots of tracked pods."""
        return self.used & np.isnan(self.departed_at)

    def count_per_row(self, mask: BoolColumn, rows: int) -> IntColumn:
        """The number of masked slots per row."""
        return np.bincount(self.row[mask], minlength=rows)


class UsageState:
    """All tables and banks, and the changes that concern more than one of them."""

    def __init__(self, settings: UsageSettings) -> None:
        self.tuning = settings.tuning
        self.vpas = VpaTable()
        self.rows = RowTable()
        self.slots = SlotTable()
        self.cpu = HistogramBank(CPU_BINS, settings.cpu_half_life)
        self.memory = HistogramBank(MEMORY_BINS, settings.memory_half_life)
        self.totals = ColumnTable()
        self.cpu_total = HistogramBank(CPU_TOTAL_BINS, settings.cpu_half_life, FEW_ROWS)
        self.memory_total = HistogramBank(MEMORY_TOTAL_BINS, settings.memory_half_life, FEW_ROWS)
        self.history = HourlyHistory(settings.history_days)
        self.runs = RunHistory()
        self.tunings: dict[RowKey, Tuning] = {}
        self._with_totals: set[VpaKey] = set()
        self._with_history: set[VpaKey] = set()
        self._with_runs: set[VpaKey] = set()

    def find_or_add_row(self, key: RowKey) -> int:
        """The row of a key, made if there is none."""
        row = self.rows.find(key)
        if row >= 0:
            return row
        vpa_key = (key.namespace, key.vpa)
        vpa = self.vpas.find(vpa_key)
        if vpa < 0:
            vpa = self.vpas.add(vpa_key)
            self.vpas.totals[vpa] = vpa_key in self._with_totals
            self.vpas.history[vpa] = vpa_key in self._with_history
            self.vpas.runs[vpa] = vpa_key in self._with_runs
        row = self.rows.add(key)
        self.rows.vpa[row] = vpa
        self.rows.tune(row, self.tunings.get(key, self.tuning))
        if row >= self.cpu.capacity:
            self.cpu.reserve(row + 1)
            self.memory.reserve(row + 1)
        if self.vpas.totals[vpa]:
            self.add_totals(np.array([row]))
        if self.vpas.history[vpa]:
            self.add_history(np.array([row]))
        if self.vpas.runs[vpa]:
            self.add_runs(np.array([row]))
        return row

    def clear_rows(self, rows: IntColumn) -> None:
        """Clear all usage of rows."""
        self.cpu.clear(rows)
        self.memory.clear(rows)
        self.drop_totals(rows)
        self.drop_history(rows)
        self.drop_runs(rows)
        self.rows.reset(rows, ("first", "last", "count", "last_oom", "unsaved_since", "changed_at", "unsaved_kill_at"))
        self.rows.reset(rows, ("has_checkpoint", "restored_from"))

    def remove_rows(self, rows: IntColumn) -> None:
        """Remove rows that no slot feeds."""
        self.drop_totals(rows)
        self.drop_history(rows)
        self.drop_runs(rows)
        self.cpu.clear(rows)
        self.memory.clear(rows)
        self.rows.release(rows)

    def keep_totals(self, vpas: Collection[VpaKey]) -> None:
        """Keep the second pair of histograms for the rows of exactly these VPAs."""
        self._with_totals = set(vpas)
        self._mark_vpas(self.vpas.totals, self._with_totals)
        rows = self.rows.numbers()
        needs = self.vpas.totals[self.rows.vpa[rows]]
        has = self.rows.total[rows] >= 0
        self.drop_totals(rows[has & ~needs])
        self.add_totals(rows[needs & ~has])

    def keep_history(self, vpas: Collection[VpaKey]) -> None:
        """Keep hourly summaries for the rows of exactly these VPAs."""
        self._with_history = set(vpas)
        self._mark_vpas(self.vpas.history, self._with_history)
        rows = self.rows.numbers()
        needs = self.vpas.history[self.rows.vpa[rows]]
        has = self.rows.history[rows] >= 0
        self.drop_history(rows[has & ~needs])
        self.add_history(rows[needs & ~has])

    def keep_runs(self, vpas: Collection[VpaKey]) -> None:
        """Keep runs for the rows of exactly these VPAs."""
        self._with_runs = set(vpas)
        self._mark_vpas(self.vpas.runs, self._with_runs)
        rows = self.rows.numbers()
        needs = self.vpas.runs[self.rows.vpa[rows]]
        has = self.rows.runs[rows] >= 0
        self.drop_runs(rows[has & ~needs])
        self.add_runs(rows[needs & ~has])

    def add_totals(self, rows: IntColumn) -> None:
        """Add workload totals to rows that have none."""
        self.rows.total[rows] = self.totals.allocate(len(rows))
        self.cpu_total.reserve(self.totals.numbers_end)
        self.memory_total.reserve(self.totals.numbers_end)

    def drop_totals(self, rows: IntColumn) -> None:
        """Drop the workload totals of rows."""
        rows = rows[self.rows.total[rows] >= 0]
        if not len(rows):
            return
        totals = self.rows.total[rows]
        self.cpu_total.clear(totals)
        self.memory_total.clear(totals)
        self.totals.release(totals)
        self.rows.total[rows] = -1
        counted = self.slots.used & (self.rows.total[self.slots.row] < 0)
        self.slots.total_peak[counted] = np.nan
        self.slots.total_oom_peak[counted] = np.nan

    def add_history(self, rows: IntColumn) -> None:
        """Add hourly history to rows that have none."""
        self.rows.history[rows] = self.history.allocate(len(rows))

    def drop_history(self, rows: IntColumn) -> None:
        """Drop the hourly history of rows."""
        rows = rows[self.rows.history[rows] >= 0]
        if len(rows):
            self.history.release(self.rows.history[rows])
            self.rows.history[rows] = -1

    def add_runs(self, rows: IntColumn) -> None:
        """Add run history to rows that have none."""
        self.rows.runs[rows] = self.runs.allocate(len(rows))

    def drop_runs(self, rows: IntColumn) -> None:
        """Drop the run history of rows."""
        rows = rows[self.rows.runs[rows] >= 0]
        if len(rows):
            self.runs.release(self.rows.runs[rows])
            self.rows.runs[rows] = -1

    def _mark_vpas(self, column: BoolColumn, vpas: set[VpaKey]) -> None:
        numbers = self.vpas.numbers()
        column[numbers] = [key in vpas for key in self.vpas.keys(numbers.tolist())]

    @property
    def nbytes(self) -> int:
        """The size of columns, banks and rings once all of their pages are in use."""
        parts = (self.vpas, self.rows, self.slots, self.cpu, self.memory, self.cpu_total, self.memory_total)
        return sum(part.nbytes for part in parts) + self.history.nbytes + self.runs.nbytes
