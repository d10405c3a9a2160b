"""Forgets what the usage model no longer needs.

Pods that departed, once reports about them can no longer come; rows of VPAs that are gone; rows that nothing feeds and
that are empty, or older than a VPA looks back while its other containers run. Nothing goes at once: a VPA that is
replaced, a target that is missing for a moment and a restart all look at first as if everything had gone.
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
    state: UsageState, pods: TrackedPods, seen: CountedKills, alive: Collection[VpaKey], now: float
) -> list[RowKey]:
    """Forget what can be; the keys of the rows that went. `alive` are all VPAs there are."""
    seen.forget(pods.release(now - GRACE_PERIOD))
    _note_gone(state, frozenset(alive), now)
    rows = state.rows.numbers()
    rows = rows[_forgettable(state, rows, now)]
    keys = state.rows.keys(rows.tolist())
    state.forget(rows)
    _release_vpas(state, now)
    return keys


def abandon_vpa(state: UsageState, vpa: VpaKey) -> None:
    """Empty the rows of a VPA whose history another process keeps from now on.

    Should it come back, its history is what its checkpoints hold then. Slots go on, with new windows.
    """
    number = state.vpas.find(vpa)
    if number < 0:
        return
    rows = state.rows.numbers()
    rows = rows[state.rows.vpa[rows] == number]
    state.empty(rows)
    slots = np.flatnonzero(state.slots.used & np.isin(state.slots.row, rows))
    state.slots.reset(slots, ("window_end", "memory_peak", "oom_peak", "total_peak", "total_oom_peak"))


def _note_gone(state: UsageState, alive: frozenset[VpaKey], now: float) -> None:
    numbers = state.vpas.numbers()
    is_alive = np.array([key in alive for key in state.vpas.keys(numbers.tolist())], dtype=np.bool_)
    state.vpas.gone[numbers] = np.where(is_alive, np.nan, np.fmin(state.vpas.gone[numbers], now))


def _forgettable(state: UsageState, rows: IntColumn, now: float) -> BoolColumn:
    table = state.rows
    fed = state.slots.per_row(state.slots.used, table.capacity)[rows] > 0
    table.idle[rows] = np.where(fed, np.nan, np.fmin(table.idle[rows], now))
    vpa_gone = state.vpas.gone[table.vpa[rows]] <= now - GRACE_PERIOD
    idle = table.idle[rows] <= now - GRACE_PERIOD
    empty = (table.count[rows] == 0) & state.cpu.empty(rows) & state.memory.empty(rows)
    newest = np.where(np.isnan(table.last[rows]), table.idle[rows], table.last[rows])
    # A workload without pods may run again, once a month or a year: only beside other containers is one gone for good.
    has_pods = np.zeros(state.vpas.capacity, dtype=np.bool_)
    has_pods[table.vpa[rows][fed]] = True
    stale = has_pods[table.vpa[rows]] & (newest <= now - table.memory_window[rows] * table.memory_windows[rows])
    forgettable: BoolColumn = ~fed & (vpa_gone | (idle & (empty | stale)))
    return forgettable


def _release_vpas(state: UsageState, now: float) -> None:
    """Give back the numbers of VPAs that are gone and have no row left."""
    table = state.vpas
    rows = np.bincount(state.rows.vpa[state.rows.numbers()], minlength=table.capacity)
    released = np.flatnonzero(table.used & (rows == 0) & (table.gone <= now - GRACE_PERIOD))
    if not len(released):
        return
    keys = set(table.keys(released.tolist()))
    table.release(released)
    for key in [key for key in state.tunings if (key.namespace, key.vpa) in keys]:
        del state.tunings[key]
