"""The state behind the usage model: its tables, banks and history, and the changes that concern several of them."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from trellis.core.usage.columns import BoolColumn, ColumnTable, IntColumn, RowKey
from trellis.core.usage.histograms.bins import CPU_BINS, CPU_TOTAL_BINS, MEMORY_BINS, MEMORY_TOTAL_BINS
from trellis.core.usage.histograms.decaying_histograms import FEW_ROWS, HistogramBank
from trellis.core.usage.history.hourly import HourlyHistory
from trellis.core.usage.history.runs import RunHistory
from trellis.core.usage.row_tables import RowTable, SlotTable, VpaKey, VpaTable
from trellis.core.usage.settings import Tuning, UsageSettings


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
        self.cpu_total.reserve(self.totals.reach)
        self.memory_total.reserve(self.totals.reach)

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
        """What the columns, banks and rings occupy once all of their pages are in use."""
        parts = (self.vpas, self.rows, self.slots, self.cpu, self.memory, self.cpu_total, self.memory_total)
        return sum(part.nbytes for part in parts) + self.history.nbytes + self.runs.nbytes
