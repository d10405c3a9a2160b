"""Adds samples and OOM kills to histograms, history and runs.

A batch of samples is added as a whole, also where it has several samples of one container: history comes as thousands
of samples per container, and what precedes each of them is computed for all at once.

Memory counts by its peak: one sample per container and memory window, at the time the window ends. A higher value in
the same window replaces the lower one in the histogram.

Usage never shows that a container needed more than it had. An OOM kill therefore counts as a peak above what the
container had: the request or the highest sample of the window, bumped up. Peaks of earlier kills are excluded, so that
repeated kills do not raise the recommendation without end. Each kill counts once, however often it is reported.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from trellis.base.reasons import Reason
from trellis.core.cluster.oom_kill_detection import OomKill
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn, find_run_starts, split_into_unique_batches
from trellis.core.usage.histograms.bins import MIN_WEIGHT
from trellis.core.usage.histograms.decaying_histograms import HistogramBank
from trellis.core.usage.history.hourly import CPU_SERIES, MEMORY_SERIES
from trellis.core.usage.samples import (
    CLOCK_SKEW,
    EMPTY_SAMPLE,
    FUTURE_SAMPLE,
    IMPLAUSIBLE_SAMPLE,
    LATE_SAMPLE,
    MOST_BYTES,
    OLDEST,
    REPEATED_SAMPLE,
    UNKNOWN_CONTAINER,
    IngestResult,
    Measurements,
    count_dropped,
    screen_samples,
)
from trellis.core.usage.state import SlotTable, UsageState
from trellis.core.usage.tracked_pods import TrackedPods


class Readings(NamedTuple):
    """Columns of equal length. No slot comes twice, rows may."""

    slots: IntColumn
    rows: IntColumn
    times: FloatColumn
    values: FloatColumn
    pods: IntColumn
    """The number of pods that a value stands for in the totals of its workload."""

    def select(self, mask: BoolColumn) -> Readings:
        """The readings that a mask selects."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def take(self, positions: IntColumn) -> Readings:
        """The readings at some positions."""
        slots, rows, pods = self.slots[positions], self.rows[positions], self.pods[positions]
        return Readings(slots, rows, self.times[positions], self.values[positions], pods)

    def scale_to_workload(self, totals: IntColumn) -> Readings:
        """Readings of whole workloads: values times pods; `totals` are the rows of workloads, by row."""
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
    is_lower = values[1:] < values[:-1]
    is_lower[starts[1:] - 1] = False
    if not is_lower.any():  # as samples nearly always come
        highest[1:] = values[:-1]
        highest[starts] = np.nan
        return highest
    distinct, ranks = np.unique(values, return_inverse=True)
    # Whole numbers, so that one running maximum serves all groups: a later group is above all earlier ones.
    group = np.zeros(len(slots), dtype=np.int64)
    group[starts] = 1
    running = np.maximum.accumulate(np.cumsum(group) * len(distinct) + ranks)
    highest[1:] = distinct[running[:-1] % len(distinct)]
    highest[starts] = np.nan
    return highest


def reduce_to_windows(readings: Readings, ends: FloatColumn, lengths: FloatColumn) -> Readings:
    """The highest value of each slot and memory window, at the time of its first: the others leave no trace.

    Readings are grouped by slot, their times ascending. `ends` is where the window of each reading's slot ends so far,
    NaN if it has none.
    """
    starts = find_run_starts(readings.slots)
    if len(starts) == len(readings.slots):
        return readings
    first = np.repeat(readings.times[starts], np.diff(starts, append=len(readings.slots)))
    ends = np.where(np.isnan(ends), first, ends)
    window = np.where(readings.times < ends, 0, np.trunc((readings.times - ends) / lengths) + 1).astype(np.int64)
    starts = find_run_starts(readings.slots, window)
    return readings.take(starts)._replace(values=np.maximum.reduceat(readings.values, starts))


PEAK_WEIGHT = 1.0


def add_peaks(state: UsageState, readings: Readings, *, killed: bool) -> None:
    """Add memory readings, or the needs estimated for killed containers."""
    table = state.slots
    ends = move_windows(table, readings, state.rows.memory_window[readings.rows])
    peaks, other_peaks = (table.oom_peak, table.memory_peak) if killed else (table.memory_peak, table.oom_peak)
    raise_peaks(state.memory, readings, ends, peaks, other_peaks)
    if state.totals.size:
        has_totals = state.rows.total[readings.rows] >= 0
        workload_readings = readings.scale_to_workload(state.rows.total)
        if killed:
            peaks, other_peaks = table.total_oom_peak, table.total_peak
        else:
            peaks, other_peaks = table.total_peak, table.total_oom_peak
        raise_peaks(state.memory_total, workload_readings.select(has_totals), ends[has_totals], peaks, other_peaks)


def move_windows(table: SlotTable, readings: Readings, lengths: FloatColumn) -> FloatColumn:
    """Begin a new window, without peaks, wherever the old one has ended; where each one ends now.

    A length is only read when a window begins, so that a changed one never moves a peak that is in the histogram.
    """
    ends = table.window_end[readings.slots]
    ends = np.where(np.isnan(ends), readings.times, ends)
    has_ended = ~(readings.times < ends)
    full_windows = np.trunc((readings.times - ends) / lengths) * lengths
    ends = np.where(has_ended, ends + (full_windows + lengths), ends)
    table.window_end[readings.slots] = ends
    table.last_memory[readings.slots] = readings.times
    begun = readings.slots[has_ended]
    for peaks in (table.memory_peak, table.oom_peak, table.total_peak, table.total_oom_peak):
        peaks[begun] = np.nan
    return ends


def raise_peaks(
    bank: HistogramBank, readings: Readings, ends: FloatColumn, peaks: FloatColumn, other_peaks: FloatColumn
) -> None:
    """Replace the peak of a slot, in `peaks` and in the histogram, by a value above both of its peaks.

    A peak of 0 bytes counts: upstream ignores later samples of such a window.
    """
    rows, slots, values = readings.rows, readings.slots, readings.values
    highest = np.fmax(peaks[slots], other_peaks[slots])
    higher = ~(values <= highest)
    replaced = higher & ~np.isnan(highest)
    bank.subtract(rows[replaced], ends[replaced], highest[replaced], PEAK_WEIGHT)
    bank.add(rows[higher], ends[higher], values[higher], PEAK_WEIGHT)
    peaks[slots[higher]] = values[higher]


class _IntakeResult(NamedTuple):
    """Masks of the accepted, late and repeated values of a resource."""

    accepted: BoolColumn
    late: BoolColumn
    repeated: BoolColumn


def ingest_samples(state: UsageState, samples: Measurements, slots: IntColumn, now: float) -> IngestResult:
    """Add a batch to the histograms; `slots` are those of its containers, -1 for one that is not tracked."""
    screened = screen_samples(samples, slots, now)
    rows = np.where(slots >= 0, state.slots.row[slots], -1) if state.slots.capacity else slots
    pods = _count_ready_pods(state, slots[screened.cpu | screened.memory])
    cpu, memory = (_IntakeResult(*np.zeros((3, len(samples)), dtype=np.bool_)) for _ in range(2))
    for values, is_valid, add_values, column_results in (
        (samples.cpu, screened.cpu, _add_cpu, cpu),
        (samples.memory, screened.memory, _add_memory, memory),
    ):
        positions = _order_by_slot(slots, is_valid)
        sample_rows = rows[positions]
        pod_counts = (
            pods[state.rows.vpa[sample_rows]] if state.totals.size else np.broadcast_to(np.int64(1), sample_rows.shape)
        )
        result = add_values(
            state, Readings(slots[positions], sample_rows, samples.times[positions], values[positions], pod_counts)
        )
        for column, new in zip(column_results, result, strict=True):
            column[positions] = new
    _add_history(state, rows, samples, cpu.accepted, memory.accepted)
    _add_runs(state, slots, rows, samples, (cpu.accepted, memory.accepted))
    state.history.close_quiet_hours(now)
    is_accepted = cpu.accepted | memory.accepted
    accepted = slice(None) if is_accepted.all() else np.flatnonzero(is_accepted)
    touched = np.zeros(state.rows.capacity, dtype=np.bool_)
    touched[rows[accepted]] = True
    state.rows.mark_unsaved(np.flatnonzero(touched), now)
    not_accepted = {LATE_SAMPLE: cpu.late | memory.late, REPEATED_SAMPLE: cpu.repeated | memory.repeated}
    return IngestResult(
        accepted=int(np.count_nonzero(is_accepted)),
        dropped=screened.dropped | count_dropped(not_accepted),
        changed_rows=np.flatnonzero(touched),
        slots=slots[accepted],
        rows=rows[accepted],
        times=samples.times[accepted],
        cpu=_mask_dropped(samples.cpu, cpu.accepted)[accepted],
        memory=_mask_dropped(samples.memory, memory.accepted)[accepted],
    )


def _order_by_slot(slots: IntColumn, is_valid: BoolColumn) -> IntColumn | slice:
    """The places of sound samples, those of one slot side by side; all of them where a batch came like that."""
    if is_valid.all() and (slots[1:] >= slots[:-1]).all():
        return slice(None)
    positions = np.flatnonzero(is_valid)
    return positions[group_by_slot(slots[positions])]


def _mask_dropped(values: FloatColumn, accepted: BoolColumn) -> FloatColumn:
    return values if accepted.all() else np.where(accepted, values, np.nan)


def _add_cpu(state: UsageState, readings: Readings) -> _IntakeResult:
    last = np.fmax(state.slots.last_cpu[readings.slots], find_highest_before(readings.slots, readings.times))
    late, repeated = readings.times < last, readings.times == last
    accepted = ~(late | repeated)
    new = readings.select(accepted)
    state.slots.last_cpu[new.slots] = new.times  # the last of a slot is its newest, and it is what stays
    state.cpu.add(new.rows, new.times, new.values, MIN_WEIGHT)
    state.rows.count_samples(new.rows, new.times)
    if state.totals.size:
        workload_readings = new.scale_to_workload(state.rows.total).select(state.rows.total[new.rows] >= 0)
        state.cpu_total.add(workload_readings.rows, workload_readings.times, workload_readings.values, MIN_WEIGHT)
    return _IntakeResult(accepted, late, repeated)


def _add_memory(state: UsageState, readings: Readings) -> _IntakeResult:
    table = state.slots
    last = table.last_memory[readings.slots]
    late = readings.times < np.fmax(last, find_highest_before(readings.slots, readings.times))
    # A second value for one time counts if it is higher. One that is not changes nothing, and so is no second sample.
    peaks = np.fmax(table.memory_peak[readings.slots], table.oom_peak[readings.slots])
    repeated = (readings.times == last) & (readings.values <= peaks)
    accepted = ~(late | repeated)
    new = readings.select(accepted)
    highest = reduce_to_windows(new, table.window_end[new.slots], state.rows.memory_window[new.rows])
    for batch in split_into_unique_batches(highest.slots):
        add_peaks(state, highest.take(batch), killed=False)
    table.last_memory[new.slots] = new.times
    return _IntakeResult(accepted, late, repeated)


def _count_ready_pods(state: UsageState, slots: IntColumn) -> IntColumn:
    """By VPA, the factor from a sample to the whole workload: the Ready pods in the batch, at least 1.

    A pod that became Ready since the batch before has not shared the load for all of the time that this batch covers.
    Counted with the samples of the pods that bore the load, it would raise the total with each new replica.
    """
    pods = np.ones(state.vpas.capacity, dtype=np.int64)
    if not state.totals.size:
        return pods
    sampled = np.zeros(state.slots.capacity, dtype=np.bool_)
    sampled[state.slots.leader[slots]] = True
    ready_now, ready_before = sampled & state.slots.ready, sampled & state.slots.was_ready
    state.slots.was_ready[sampled] = state.slots.ready[sampled]
    ready_in_both, ready_in_batch = (
        np.bincount(state.rows.vpa[state.slots.row[mask]], minlength=len(pods))
        for mask in (ready_now & ready_before, ready_now)
    )
    ready = np.where(ready_in_both > 0, ready_in_both, ready_in_batch)
    state.vpas.pods[ready > 0] = ready[ready > 0]
    return np.maximum(pods, ready)


def _add_history(
    state: UsageState, rows: IntColumn, samples: Measurements, cpu_accepted: BoolColumn, memory_accepted: BoolColumn
) -> None:
    if not state.history.size:
        return
    numbers = np.where(rows >= 0, state.rows.history[rows], -1)
    for resource, values, accepted in (
        (CPU_SERIES, samples.cpu, cpu_accepted),
        (MEMORY_SERIES, samples.memory, memory_accepted),
    ):
        recorded = accepted & (numbers >= 0)
        state.history.add(numbers[recorded], resource, samples.times[recorded], values[recorded])


def _add_runs(
    state: UsageState, slots: IntColumn, rows: IntColumn, samples: Measurements, accepted: tuple[BoolColumn, BoolColumn]
) -> None:
    if not state.runs.size:
        return
    numbers = np.where(rows >= 0, state.rows.runs[rows], -1)
    for resource, values, sample_rows in (
        (CPU_SERIES, samples.cpu, accepted[0]),
        (MEMORY_SERIES, samples.memory, accepted[1]),
    ):
        recorded = np.flatnonzero(sample_rows & (numbers >= 0))
        started = state.slots.started[slots[recorded]]
        state.runs.add(numbers[recorded], resource, started, samples.times[recorded], values[recorded])


KNOWN_KILL = Reason("KnownOomKill", "An out-of-memory kill was discarded: it is already counted.")
OLD_KILL = Reason(
    "OldOomKill",
    "An out-of-memory kill was discarded: it is more than one memory interval older than the "
    "last sample of the container.",
)
KILL_UNDER_OLD_LIMIT = Reason(
    "OomKillUnderOldLimit",
    "An out-of-memory kill was discarded: the pod was resized while a container was down, and still has its old limit.",
)

_MOST_REMEMBERED = 16


class OomRecord(msgspec.Struct, frozen=True):
    """The result of recording kills: those that count, with the memory their containers are taken to have needed."""

    kills: tuple[OomKill, ...]
    rows: IntColumn
    memory: FloatColumn
    dropped: dict[str, int]


class CountedKills:
    """The newest kill times of the containers in slots."""

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
    new_kills: list[OomKill] = []
    slots: list[int] = []
    for kill in kills:
        slot = pods.find_slot(kill.namespace, kill.pod, kill.uid, kill.container)
        reason = _find_drop_reason(state, counted, kill, slot, now)
        if reason is None:
            new_kills.append(kill)
            slots.append(slot)
        else:
            dropped[reason.code] += 1
    kill_slots = np.array(slots, dtype=np.int64)
    rows = state.slots.row[kill_slots]
    readings = Readings(
        slots=kill_slots,
        rows=rows,
        times=np.array([kill.time for kill in new_kills], dtype=np.float64),
        values=np.array([kill.memory for kill in new_kills], dtype=np.float64),
        pods=state.vpas.pods[state.rows.vpa[rows]],
    )
    memory = np.full(len(new_kills), np.nan)
    for batch in split_into_unique_batches(kill_slots):
        memory[batch] = _add_oom_peaks(state, readings.take(batch))
    recorded = np.flatnonzero(~np.isnan(memory))
    if len(recorded) < len(new_kills):
        dropped[OLD_KILL.code] += len(new_kills) - len(recorded)
    rows, times, memory = rows[recorded], readings.times[recorded], memory[recorded]
    started = state.slots.started[kill_slots[recorded]]
    np.fmax.at(state.rows.last_oom, rows, times)
    state.rows.mark_unsaved(rows, now, killed=True)
    numbers = state.rows.history[rows]
    is_kept = numbers >= 0
    state.history.raise_maximum(numbers[is_kept], MEMORY_SERIES, times[is_kept], memory[is_kept])
    numbers = state.rows.runs[rows]
    is_kept = numbers >= 0
    state.runs.raise_highest(numbers[is_kept], MEMORY_SERIES, started[is_kept], times[is_kept], memory[is_kept])
    return OomRecord(tuple(new_kills[number] for number in recorded.tolist()), rows, memory, dict(dropped))


def _find_drop_reason(state: UsageState, counted: CountedKills, kill: OomKill, slot: int, now: float) -> Reason | None:
    if slot < 0:
        return UNKNOWN_CONTAINER
    if math.isnan(kill.time):
        return EMPTY_SAMPLE
    if kill.time > now + CLOCK_SKEW:
        return FUTURE_SAMPLE
    if kill.time < now - OLDEST or kill.memory < 0 or kill.memory > MOST_BYTES:
        return IMPLAUSIBLE_SAMPLE
    if kill.time <= state.rows.restored_from[state.slots.row[slot]] or not counted.add_if_new(slot, kill.time):
        return KNOWN_KILL
    return KILL_UNDER_OLD_LIMIT if kill.old_limit else None


def _add_oom_peaks(state: UsageState, kills: Readings) -> FloatColumn:
    """Count one kill each of some slots; the memory each is taken to have needed, NaN for one that is too old."""
    table = state.slots
    is_current = ~(kills.times < table.last_memory[kills.slots] - state.rows.memory_window[kills.rows])
    requested = np.where(np.isnan(kills.values), table.memory_request[kills.slots], kills.values)
    used = np.nan_to_num(np.fmax(requested, table.memory_peak[kills.slots]))
    bumped = np.trunc(used * state.rows.oom_bump_up_ratio[kills.rows])
    needed = np.maximum(used + np.trunc(state.rows.oom_min_bump_up[kills.rows]), bumped)
    add_peaks(state, kills._replace(values=needed).select(is_current), killed=True)
    return np.where(is_current, needed, np.nan)
