"""What does a recommender see of the usage?"""

from __future__ import annotations

import msgspec
import numpy as np

from trellis.core.usage.bank import Bank
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn, RowKey
from trellis.core.usage.history import History
from trellis.core.usage.settings import DAY
from trellis.core.usage.state import UsageState


class RowsView(msgspec.Struct, frozen=True):
    """Some rows, in columns of equal length. The banks and the history are the model's own: read, never change."""

    keys: list[RowKey]
    rows: IntColumn
    """Where each row is in `cpu` and `memory`."""
    vpas: IntColumn
    """One number for all rows of a VPA, the same as long as the model knows it."""
    first: FloatColumn
    """When the first CPU sample was taken, NaN before."""
    last: FloatColumn
    """When the last one was."""
    count: IntColumn
    """How many there were."""
    last_oom: FloatColumn
    """When a container was last killed for its memory, NaN if none was."""
    current: BoolColumn
    """Whether pods have such a container: those there are, or the last ones there were."""
    total_rows: IntColumn
    """Where each row is in `cpu_total` and `memory_total`; -1 if no totals are kept."""
    history_rows: IntColumn
    """What each row is called in `history`; -1 if none is kept."""
    cpu: Bank
    memory: Bank
    cpu_total: Bank
    memory_total: Bank
    history: History

    def __len__(self) -> int:
        return len(self.rows)


def rows_view(state: UsageState, rows: IntColumn | None) -> RowsView:
    """A view of given rows, or of all."""
    table = state.rows
    current = _current(state)
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
        total_rows=table.total[rows],
        history_rows=table.history[rows],
        cpu=state.cpu,
        memory=state.memory,
        cpu_total=state.cpu_total,
        memory_total=state.memory_total,
        history=state.history,
    )


def _current(state: UsageState) -> BoolColumn:
    """By row: whether a followed pod feeds it, or, if its VPA has none, whether it is among the last that were sampled.

    A container that was renamed or removed so leaves the recommendation at once, and one of a workload that is scaled
    to nothing, or between two runs, stays in it.
    """
    table = state.rows
    fed = state.slots.per_row(state.slots.live, table.capacity) > 0
    rows = table.numbers()
    vpas = table.vpa[rows]
    has_pods = np.zeros(state.vpas.capacity, dtype=np.bool_)
    has_pods[vpas[fed[rows]]] = True
    sampled = np.nan_to_num(table.last[rows], nan=-np.inf)
    newest = np.full(state.vpas.capacity, -np.inf)
    np.maximum.at(newest, vpas, sampled)
    current = np.zeros(table.capacity, dtype=np.bool_)
    current[rows] = fed[rows] | (~has_pods[vpas] & ~np.isinf(sampled) & (sampled >= newest[vpas] - DAY))
    return current
