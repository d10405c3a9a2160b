"""Adds a batch of samples to histograms, history and runs.

The whole batch at once, also where it has several samples of one container: late and repeated ones are found first,
and of memory only the highest of each window goes on to the histogram.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn, split_into_unique_batches
from trellis.core.usage.histograms.bins import MIN_WEIGHT
from trellis.core.usage.history.hourly import CPU_SERIES, MEMORY_SERIES
from trellis.core.usage.peaks import Readings, add_peaks, find_highest_before, group_by_slot, reduce_to_windows
from trellis.core.usage.samples import (
    LATE_SAMPLE,
    REPEATED_SAMPLE,
    IngestResult,
    Measurements,
    count_dropped,
    screen_samples,
)
from trellis.core.usage.state import UsageState


class _IntakeResult(NamedTuple):
    """Which values of a resource were accepted, and which were late or repeated."""

    accepted: BoolColumn
    late: BoolColumn
    repeated: BoolColumn


def ingest_samples(state: UsageState, samples: Measurements, slots: IntColumn, now: float) -> IngestResult:
    """Add a batch to the histograms; `slots` are those of its containers, -1 for one that is not tracked."""
    screened = screen_samples(samples, slots, now)
    rows = np.where(slots >= 0, state.slots.row[slots], -1) if state.slots.capacity else slots
    pods = _ready_pods(state, slots[screened.cpu | screened.memory])
    cpu, memory = (_IntakeResult(*np.zeros((3, len(samples)), dtype=np.bool_)) for _ in range(2))
    for values, sound, add_values, outcome in (
        (samples.cpu, screened.cpu, _add_cpu, cpu),
        (samples.memory, screened.memory, _add_memory, memory),
    ):
        here = _order_by_slot(slots, sound)
        sample_rows = rows[here]
        pod_counts = (
            pods[state.rows.vpa[sample_rows]] if state.totals.size else np.broadcast_to(np.int64(1), sample_rows.shape)
        )
        result = add_values(state, Readings(slots[here], sample_rows, samples.times[here], values[here], pod_counts))
        for column, new in zip(outcome, result, strict=True):
            column[here] = new
    _add_history(state, rows, samples, cpu.accepted, memory.accepted)
    _add_runs(state, slots, rows, samples, (cpu.accepted, memory.accepted))
    state.history.close_quiet_hours(now)
    taken = cpu.accepted | memory.accepted
    accepted = slice(None) if taken.all() else np.flatnonzero(taken)
    touched = np.zeros(state.rows.capacity, dtype=np.bool_)
    touched[rows[accepted]] = True
    state.rows.mark_unsaved(np.flatnonzero(touched), now)
    order = {LATE_SAMPLE: cpu.late | memory.late, REPEATED_SAMPLE: cpu.repeated | memory.repeated}
    return IngestResult(
        accepted=int(np.count_nonzero(taken)),
        dropped=screened.dropped | count_dropped(order),
        changed_rows=np.flatnonzero(touched),
        slots=slots[accepted],
        rows=rows[accepted],
        cpu=_mask_dropped(samples.cpu, cpu.accepted)[accepted],
        memory=_mask_dropped(samples.memory, memory.accepted)[accepted],
    )


def _order_by_slot(slots: IntColumn, sound: BoolColumn) -> IntColumn | slice:
    """The places of sound samples, those of one slot side by side; all of them where a batch came like that."""
    if sound.all() and (slots[1:] >= slots[:-1]).all():
        return slice(None)
    here = np.flatnonzero(sound)
    return here[group_by_slot(slots[here])]


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


def _ready_pods(state: UsageState, slots: IntColumn) -> IntColumn:
    """By VPA, how much a sample is worth for the whole workload: the Ready pods in the batch, or itself alone.

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
    steady, alone = (
        np.bincount(state.rows.vpa[state.slots.row[which]], minlength=len(pods))
        for which in (ready_now & ready_before, ready_now)
    )
    ready = np.where(steady > 0, steady, alone)
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
