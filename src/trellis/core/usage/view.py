"""The view of usage rows that recommenders read."""

from __future__ import annotations

import msgspec
import numpy as np

from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn, RowKey
from trellis.core.usage.histograms.decaying_histograms import HistogramBank
from trellis.core.usage.history.hourly import HourlyHistory
from trellis.core.usage.history.job_runs import RunHistory
from trellis.core.usage.settings import DAY
from trellis.core.usage.state import UsageState


class RowsView(msgspec.Struct, frozen=True):
    """A view of rows, in columns of equal length. Banks, history and runs are the model's own: read-only."""

    keys: list[RowKey]
    rows: IntColumn
    """The row in `cpu` and `memory`."""
    vpas: IntColumn
    """The number of the row's VPA, the same as long as the model knows it."""
    first: FloatColumn
    """The time of the first CPU sample; NaN without one."""
    last: FloatColumn
    """The time of the last CPU sample."""
    count: IntColumn
    """The number of CPU samples."""
    last_oom: FloatColumn
    """The time of the last OOM kill; NaN without one."""
    current: BoolColumn
    """Whether running pods have such a container, or the last pods had, if none run."""
    started: FloatColumn
    """The start time of the newest pod with such a container; NaN without a pod."""
    requests: FloatColumn
    """The requests in that pod, (CPU, MEMORY; row), in millicores and bytes; NaN where absent."""
    total_rows: IntColumn
    """The row in `cpu_total` and `memory_total`; -1 without totals."""
    history_rows: IntColumn
    """The row in `history`; -1 without one."""
    run_rows: IntColumn
    """The row in `runs`; -1 without runs."""
    cpu: HistogramBank
    memory: HistogramBank
    cpu_total: HistogramBank
    memory_total: HistogramBank
    history: HourlyHistory
    runs: RunHistory

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, positions: IntColumn) -> RowsView:
        """The view of some rows, in the given order; banks, history and runs are still the model's."""
        columns = {name: getattr(self, name)[..., positions] for name in _COLUMNS}
        keys = [self.keys[position] for position in positions.tolist()]
        return msgspec.structs.replace(self, keys=keys, **columns)

    def detach(self, *, history: bool, runs: bool = False) -> RowsView:
        """The same rows with banks of their own and without other rows: a view that can be sent to another process.

        Without `history` or `runs`, as if none were kept. With them, 42 and 21 KB for each row that has them.
        """
        total_numbers, total_rows = _renumber(self.total_rows)
        history_numbers, history_rows = _renumber(self.history_rows)
        if not history:
            history_numbers, history_rows = history_numbers[:0], np.full(len(self), -1, dtype=np.int64)
        run_numbers, run_rows = _renumber(self.run_rows)
        if not runs:
            run_numbers, run_rows = run_numbers[:0], np.full(len(self), -1, dtype=np.int64)
        return msgspec.structs.replace(
            self,
            rows=np.arange(len(self), dtype=np.int64),
            total_rows=total_rows,
            history_rows=history_rows,
            run_rows=run_rows,
            cpu=self.cpu.copy_rows(self.rows),
            memory=self.memory.copy_rows(self.rows),
            cpu_total=self.cpu_total.copy_rows(total_numbers),
            memory_total=self.memory_total.copy_rows(total_numbers),
            history=self.history.copy_rows(history_numbers),
            runs=self.runs.copy_rows(run_numbers),
        )


_COLUMNS = (
    *("rows", "vpas", "first", "last", "count", "last_oom", "current", "started", "requests"),
    *("total_rows", "history_rows", "run_rows"),
)


def build_rows_view(state: UsageState, rows: IntColumn | None) -> RowsView:
    """A view of given rows, or of all."""
    table = state.rows
    current = _find_current_rows(state)
    started, requests = _read_newest_pods(state)
    rows = table.numbers() if rows is None else rows
    return RowsView(
        keys=table.keys(rows.tolist()),
        rows=rows,
        vpas=table.vpa[rows],
        first=table.first[rows],
        last=table.last[rows],
        count=table.count[rows],
        last_oom=table.last_oom[rows],
        current=current[rows],
        started=started[rows],
        requests=requests[:, rows],
        total_rows=table.total[rows],
        history_rows=table.history[rows],
        run_rows=table.runs[rows],
        cpu=state.cpu,
        memory=state.memory,
        cpu_total=state.cpu_total,
        memory_total=state.memory_total,
        history=state.history,
        runs=state.runs,
    )


def _find_current_rows(state: UsageState) -> BoolColumn:
    """By row, whether a tracked pod feeds it, or, if its VPA has none, whether it was sampled last.

    A container that was renamed or removed so leaves the recommendation at once, and one of a workload that is scaled
    to nothing, or between two runs, stays in it.
    """
    table = state.rows
    has_slots = state.slots.count_per_row(state.slots.live, table.capacity) > 0
    rows = table.numbers()
    vpas = table.vpa[rows]
    has_pods = np.zeros(state.vpas.capacity, dtype=np.bool_)
    has_pods[vpas[has_slots[rows]]] = True
    sampled = np.nan_to_num(table.last[rows], nan=-np.inf)
    newest = np.full(state.vpas.capacity, -np.inf)
    np.maximum.at(newest, vpas, sampled)
    current = np.zeros(table.capacity, dtype=np.bool_)
    current[rows] = has_slots[rows] | (~has_pods[vpas] & ~np.isinf(sampled) & (sampled >= newest[vpas] - DAY))
    return current


def _read_newest_pods(state: UsageState) -> tuple[FloatColumn, FloatColumn]:
    """By row, the start time of the newest pod that feeds it, and its requests.

    Of several pods that started at one moment, as those of a Job do, the highest requests count.
    """
    slots, capacity = state.slots, state.rows.capacity
    live = np.flatnonzero(slots.live)
    rows = slots.row[live]
    started = np.nan_to_num(slots.started[live], nan=-np.inf)
    newest = np.full(capacity, -np.inf)
    np.maximum.at(newest, rows, started)
    is_newest = started == newest[rows]
    live, rows = live[is_newest], rows[is_newest]
    requests = np.full((2, capacity), -np.inf)
    for column, requested in zip(requests, (slots.cpu_request, slots.memory_request), strict=True):
        np.maximum.at(column, rows, np.nan_to_num(requested[live], nan=-np.inf))
    requests[np.isinf(requests)] = np.nan
    newest[np.isinf(newest)] = np.nan
    return newest, requests


def _renumber(numbers: IntColumn) -> tuple[IntColumn, IntColumn]:
    """The numbers other than -1, and the position of each entry among them."""
    valid = numbers >= 0
    return numbers[valid], np.where(valid, np.cumsum(valid) - 1, -1)
