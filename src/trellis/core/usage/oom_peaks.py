"""Counts an out-of-memory kill as a memory peak.

Usage never shows that a container needed more than it had. So a kill counts as a peak above what it had: the request or
the highest sample of the window, bumped up. Peaks of earlier kills are no part of that, so that a container that is
killed again and again does not ask for ever more. Each kill counts once, however often it is reported.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Sequence

import msgspec
import numpy as np

from trellis.base.reasons import Reason
from trellis.core.cluster.oom_kills import OomKill
from trellis.core.usage.columns import FloatColumn, IntColumn, split_into_unique_batches
from trellis.core.usage.history.hourly import MEMORY_SERIES
from trellis.core.usage.peaks import Readings, add_peaks
from trellis.core.usage.samples import (
    ABSURD_SAMPLE,
    CLOCK_SKEW,
    EMPTY_SAMPLE,
    FUTURE_SAMPLE,
    MOST_BYTES,
    OLDEST,
    UNKNOWN_CONTAINER,
)
from trellis.core.usage.state import UsageState
from trellis.core.usage.tracked_pods import TrackedPods

KNOWN_KILL = Reason("KnownOomKill", "An out-of-memory kill was left out: it has been counted already.")
OLD_KILL = Reason(
    "OldOomKill", "An out-of-memory kill was left out: the container was sampled more than a memory window later."
)
KILL_UNDER_OLD_LIMIT = Reason(
    "OomKillUnderOldLimit",
    "An out-of-memory kill was left out: the pod was resized while a container was down, and still has its old limit.",
)

_MOST_REMEMBERED = 16


class OomRecord(msgspec.Struct, frozen=True):
    """What became of some kills: those that were recorded, with the memory they are taken to have needed."""

    kills: tuple[OomKill, ...]
    rows: IntColumn
    memory: FloatColumn
    dropped: dict[str, int]


class CountedKills:
    """When the containers of slots were killed: the newest few times of each."""

    def __init__(self) -> None:
        self._times: dict[int, list[float]] = {}

    def __len__(self) -> int:
        return len(self._times)

    def add_if_new(self, slot: int, time: float) -> bool:
        """Record a kill and return whether it is new. One older than all recorded ones counts as known."""
        times = self._times.setdefault(slot, [])
        place = bisect_left(times, time)
        if place < len(times) and times[place] == time:
            return False
        if len(times) == _MOST_REMEMBERED:
            if place == 0:
                return False
            del times[0]
        insort(times, time)
        return True

    def forget(self, slots: IntColumn) -> None:
        """Remove the kills of released slots."""
        if self._times:
            for slot in slots.tolist():
                self._times.pop(slot, None)


def record_oom_kills(
    state: UsageState, pods: TrackedPods, counted: CountedKills, kills: Sequence[OomKill], now: float
) -> OomRecord:
    """Count kills, in the order in which they are given."""
    dropped: Counter[str] = Counter()
    fresh: list[OomKill] = []
    slots: list[int] = []
    for kill in kills:
        slot = pods.find_slot(kill.namespace, kill.pod, kill.uid, kill.container)
        reason = _find_drop_reason(state, counted, kill, slot, now)
        if reason is None:
            fresh.append(kill)
            slots.append(slot)
        else:
            dropped[reason.code] += 1
    killed = np.array(slots, dtype=np.int64)
    rows = state.slots.row[killed]
    readings = Readings(
        slots=killed,
        rows=rows,
        times=np.array([kill.time for kill in fresh], dtype=np.float64),
        values=np.array([kill.memory for kill in fresh], dtype=np.float64),
        pods=state.vpas.pods[state.rows.vpa[rows]],
    )
    memory = np.full(len(fresh), np.nan)
    for batch in split_into_unique_batches(killed):
        memory[batch] = _add(state, readings.take(batch))
    recorded = np.flatnonzero(~np.isnan(memory))
    if len(recorded) < len(fresh):
        dropped[OLD_KILL.code] += len(fresh) - len(recorded)
    rows, times, memory = rows[recorded], readings.times[recorded], memory[recorded]
    started = state.slots.started[killed[recorded]]
    np.fmax.at(state.rows.last_oom, rows, times)
    state.rows.mark_unsaved(rows, now, killed=True)
    numbers = state.rows.history[rows]
    valid = numbers >= 0
    state.history.raise_maximum(numbers[valid], MEMORY_SERIES, times[valid], memory[valid])
    numbers = state.rows.runs[rows]
    valid = numbers >= 0
    state.runs.raise_highest(numbers[valid], MEMORY_SERIES, started[valid], times[valid], memory[valid])
    return OomRecord(tuple(fresh[number] for number in recorded.tolist()), rows, memory, dict(dropped))


def _find_drop_reason(state: UsageState, counted: CountedKills, kill: OomKill, slot: int, now: float) -> Reason | None:
    if slot < 0:
        return UNKNOWN_CONTAINER
    if math.isnan(kill.time):
        return EMPTY_SAMPLE
    if kill.time > now + CLOCK_SKEW:
        return FUTURE_SAMPLE
    if kill.time < now - OLDEST or kill.memory < 0 or kill.memory > MOST_BYTES:
        return ABSURD_SAMPLE
    if kill.time <= state.rows.restored_from[state.slots.row[slot]] or not counted.add_if_new(slot, kill.time):
        return KNOWN_KILL
    return KILL_UNDER_OLD_LIMIT if kill.old_limit else None


def _add(state: UsageState, kills: Readings) -> FloatColumn:
    """Count one kill each of some slots; the memory each is taken to have needed, NaN for one that is too old."""
    table = state.slots
    current = ~(kills.times < table.last_memory[kills.slots] - state.rows.memory_window[kills.rows])
    requested = np.where(np.isnan(kills.values), table.memory_request[kills.slots], kills.values)
    used = np.nan_to_num(np.fmax(requested, table.memory_peak[kills.slots]))
    bumped = np.trunc(used * state.rows.oom_bump_up_ratio[kills.rows])
    needed = np.maximum(used + np.trunc(state.rows.oom_min_bump_up[kills.rows]), bumped)
    add_peaks(state, kills._replace(values=needed).select(current), killed=True)
    return np.where(current, needed, np.nan)
