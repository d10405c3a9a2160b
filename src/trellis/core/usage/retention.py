"""Garbage collection of the usage model.

Departed pods, once late OOM reports are no longer expected; rows of deleted VPAs; rows without slots that are empty, or
older than the memory windows while other containers of the VPA run. Everything has a grace period: a VPA that is
replaced, a target that is briefly missing and a restart must not lose history.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from trellis.core.usage.columns import BoolColumn, IntColumn, RowKey
from trellis.core.usage.oom_peaks import CountedKills
from trellis.core.usage.row_tables import VpaKey
from trellis.core.usage.state import UsageState
from trellis.core.usage.tracked_pods import TrackedPods

GRACE_PERIOD = 600.0  # seconds


def forget_unused(
    state: UsageState, pods: TrackedPods, counted: CountedKills, alive: Collection[VpaKey], now: float
) -> list[RowKey]:
    """Remove unused rows and return their keys. `alive` are all existing VPAs."""
    counted.forget(pods.release(now - GRACE_PERIOD))
    _mark_deleted_vpas(state, frozenset(alive), now)
    rows = state.rows.numbers()
    rows = rows[_find_unused_rows(state, rows, now)]
    keys = state.rows.keys(rows.tolist())
    state.remove_rows(rows)
    _release_vpas(state, now)
    return keys


def reset_vpa(state: UsageState, vpa: VpaKey) -> None:
    """Clear the rows of a VPA; its slots stay, with new memory windows.

    If it is served here again, its history is restored from its checkpoints.
    """
    number = state.vpas.find(vpa)
    if number < 0:
        return
    rows = state.rows.numbers()
    rows = rows[state.rows.vpa[rows] == number]
    state.clear_rows(rows)
    slots = np.flatnonzero(state.slots.used & np.isin(state.slots.row, rows))
    state.slots.reset(slots, ("window_end", "memory_peak", "oom_peak", "total_peak", "total_oom_peak"))


def _mark_deleted_vpas(state: UsageState, alive: frozenset[VpaKey], now: float) -> None:
    numbers = state.vpas.numbers()
    is_alive = np.array([key in alive for key in state.vpas.keys(numbers.tolist())], dtype=np.bool_)
    state.vpas.deleted_at[numbers] = np.where(is_alive, np.nan, np.fmin(state.vpas.deleted_at[numbers], now))


def _find_unused_rows(state: UsageState, rows: IntColumn, now: float) -> BoolColumn:
    table = state.rows
    has_slots = state.slots.count_per_row(state.slots.used, table.capacity)[rows] > 0
    table.idle_since[rows] = np.where(has_slots, np.nan, np.fmin(table.idle_since[rows], now))
    vpa_gone = state.vpas.deleted_at[table.vpa[rows]] <= now - GRACE_PERIOD
    idle = table.idle_since[rows] <= now - GRACE_PERIOD
    empty = (table.count[rows] == 0) & state.cpu.is_empty(rows) & state.memory.is_empty(rows)
    newest = np.where(np.isnan(table.last[rows]), table.idle_since[rows], table.last[rows])
    # A workload without pods may run again, once a month or a year: only beside other containers is one gone for good.
    has_pods = np.zeros(state.vpas.capacity, dtype=np.bool_)
    has_pods[table.vpa[rows][has_slots]] = True
    stale = has_pods[table.vpa[rows]] & (newest <= now - table.memory_window[rows] * table.memory_windows[rows])
    forgettable: BoolColumn = ~has_slots & (vpa_gone | (idle & (empty | stale)))
    return forgettable


def _release_vpas(state: UsageState, now: float) -> None:
    """Release the numbers of deleted VPAs without rows."""
    table = state.vpas
    rows = np.bincount(state.rows.vpa[state.rows.numbers()], minlength=table.capacity)
    released = np.flatnonzero(table.used & (rows == 0) & (table.deleted_at <= now - GRACE_PERIOD))
    if not len(released):
        return
    keys = set(table.keys(released.tolist()))
    table.release(released)
    for key in [key for key in state.tunings if (key.namespace, key.vpa) in keys]:
        del state.tunings[key]
