"""Saves rows of the usage model for checkpoints, and merges restored rows into the model, once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from trellis.base.errors import InvalidCheckpoint
from trellis.core.usage.checkpoints import compressed_history
from trellis.core.usage.checkpoints.format import SavedRow
from trellis.core.usage.columns import FloatColumn, IntColumn, RowKey
from trellis.core.usage.histograms.decaying_histograms import HistogramBank, SavedHistogram
from trellis.core.usage.history.hourly import CELL_HOURS, Peaks
from trellis.core.usage.history.hours import HOUR, HourSummaries, Ring
from trellis.core.usage.history.job_runs import StoredRun
from trellis.core.usage.sample_ingestion import PEAK_WEIGHT
from trellis.core.usage.state import UsageState


def save_rows(state: UsageState, rows: IntColumn, now: float) -> list[SavedRow]:
    """Rows as checkpoints have them."""
    table, slots = state.rows, state.slots
    cpu = state.cpu.save(rows)
    open_windows = _find_open_windows(state, rows, now)
    memory = _save_without_open_peaks(open_windows, state.memory, rows, slots.memory_peak, slots.oom_peak)
    with_totals = np.flatnonzero(table.total[rows] >= 0)
    totals = table.total[rows[with_totals]]
    cpu_total = dict(zip(with_totals.tolist(), state.cpu_total.save(totals), strict=True))
    open_windows = _find_open_windows(state, rows[with_totals], now)
    saved_totals = _save_without_open_peaks(
        open_windows, state.memory_total, totals, slots.total_peak, slots.total_oom_peak
    )
    memory_total = dict(zip(with_totals.tolist(), saved_totals, strict=True))
    sample_stats = zip(table.first[rows].tolist(), table.last[rows].tolist(), table.count[rows].tolist(), strict=True)
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
            history=compressed_history.encode_history(*state.history.export_hours(histories[number]))
            if histories[number] >= 0
            else "",
            runs=compressed_history.encode_runs(state.runs.export_runs(runs[number])) if runs[number] >= 0 else "",
            peaks=compressed_history.encode_peaks(*state.history.export_peaks(histories[number]))
            if histories[number] >= 0
            else "",
        )
        for number, (key, (first, last, count)) in enumerate(zip(table.keys(rows.tolist()), sample_stats, strict=True))
    ]


class _OpenWindows(NamedTuple):
    """Windows that are not over, of followed containers of some rows: `places` are those of the rows."""

    places: IntColumn
    slots: IntColumn
    ends: FloatColumn


def _find_open_windows(state: UsageState, rows: IntColumn, now: float) -> _OpenWindows:
    place = np.full(state.rows.capacity, -1)
    place[rows] = np.arange(len(rows))
    slots = np.flatnonzero(state.slots.live & (state.slots.window_end > now))
    places = place[state.slots.row[slots]]
    slots = slots[places >= 0]
    return _OpenWindows(places[places >= 0], slots, state.slots.window_end[slots])


def _save_without_open_peaks(
    open_windows: _OpenWindows, bank: HistogramBank, rows: IntColumn, peaks: FloatColumn, oom_peaks: FloatColumn
) -> list[SavedHistogram]:
    """Rows of a bank without the peaks of windows that are not over.

    The next process begins a window with the next sample of a container, and would count its peak twice. An
    OOM kill is not reported again, so its peak is kept, where upstream loses it.
    """
    slot_peaks = peaks[open_windows.slots]
    counted = np.flatnonzero((slot_peaks >= 0) & ~(oom_peaks[open_windows.slots] > slot_peaks))
    copy = bank.copy_rows(rows)
    copy.subtract(open_windows.places[counted], open_windows.ends[counted], slot_peaks[counted], PEAK_WEIGHT)
    return copy.save(np.arange(len(rows)))


_ONE_PER_MINUTE = 60  # what a stored hour weighs beside late samples: its count is not stored
_MOST_SAMPLES = 2**62  # half of what a column can count, so that new samples always fit

_Hours: TypeAlias = tuple[int, Ring]  # the newest, and what is known of it and those before
_Cells: TypeAlias = tuple[int, Peaks]  # the newest, and the peaks up to it


def restore_checkpoints(state: UsageState, saved: Sequence[SavedRow]) -> dict[RowKey, InvalidCheckpoint]:
    """Merge checkpoints into their rows; invalid ones are returned with their errors.

    A row whose checkpoint was read or written before is left as it is: that checkpoint is known.
    """
    refused: dict[RowKey, InvalidCheckpoint] = {}
    restored: list[SavedRow] = []
    histories: list[_Hours | None] = []
    runs: list[list[StoredRun]] = []
    peaks: list[_Cells | None] = []
    rows: list[int] = []
    for saved_row in saved:
        try:
            history, row_runs, row_peaks = _read_history(saved_row), _read_runs(saved_row), _read_peaks(saved_row)
        except InvalidCheckpoint as error:
            refused[saved_row.key] = error
            continue
        row = state.find_or_add_row(saved_row.key)
        if not state.rows.has_checkpoint[row]:
            state.rows.has_checkpoint[row] = True
            restored.append(saved_row)
            histories.append(history)
            runs.append(row_runs)
            peaks.append(row_peaks)
            rows.append(row)
    if restored:
        _restore_rows(state, np.array(rows), restored)
        _restore_totals(state, np.array(rows), restored)
        _restore_histories(state, np.array(rows), histories)
        _restore_peaks(state, np.array(rows), peaks)
        _restore_runs(state, np.array(rows), runs)
    return refused


def _restore_rows(state: UsageState, rows: IntColumn, saved: Sequence[SavedRow]) -> None:
    table = state.rows
    table.restored_from[rows] = [saved_row.updated for saved_row in saved]
    table.first[rows] = np.fmin(table.first[rows], [saved_row.first for saved_row in saved])
    table.last[rows] = np.fmax(table.last[rows], [saved_row.last for saved_row in saved])
    table.count[rows] += [min(saved_row.count, _MOST_SAMPLES) for saved_row in saved]
    _merge(state.cpu, rows, [saved_row.cpu for saved_row in saved])
    _merge(state.memory, rows, [saved_row.memory for saved_row in saved])


def _restore_totals(state: UsageState, rows: IntColumn, saved: Sequence[SavedRow]) -> None:
    with_totals = [number for number, saved_row in enumerate(saved) if saved_row.cpu_total or saved_row.memory_total]
    if not with_totals:
        return
    rows = rows[with_totals]
    state.add_totals(rows[state.rows.total[rows] < 0])
    totals = state.rows.total[rows]
    _merge(state.cpu_total, totals, [saved[number].cpu_total or SavedHistogram() for number in with_totals])
    _merge(state.memory_total, totals, [saved[number].memory_total or SavedHistogram() for number in with_totals])


def _restore_histories(state: UsageState, rows: IntColumn, histories: Sequence[_Hours | None]) -> None:
    with_history = [(row, hours) for row, hours in zip(rows.tolist(), histories, strict=True) if hours is not None]
    if not with_history:
        return
    rows = np.array([row for row, _ in with_history])
    state.add_history(rows[state.rows.history[rows] < 0])
    summaries = [_build_summaries(int(state.rows.history[row]), *hours) for row, hours in with_history]
    state.history.merge(
        HourSummaries(
            np.concatenate([summary.series for summary in summaries]),
            np.concatenate([summary.hours for summary in summaries]),
            np.concatenate([summary.values for summary in summaries]),
            np.concatenate([summary.counts for summary in summaries]),
        )
    )


def _restore_peaks(state: UsageState, rows: IntColumn, peaks: Sequence[_Cells | None]) -> None:
    """Merge long peaks, after the hours: where both have a cell, the higher counts."""
    for row, cells in zip(rows.tolist(), peaks, strict=True):
        if cells is None:
            continue
        if state.rows.history[row] < 0:
            state.add_history(np.array([row]))
        newest, values = cells
        measured = np.flatnonzero(~np.isnan(values))
        numbers = np.full(len(measured), state.rows.history[row])
        state.history.merge_peaks(numbers, newest - (len(values) - 1) + measured, values[measured].astype(np.float64))


def _restore_runs(state: UsageState, rows: IntColumn, runs: Sequence[list[StoredRun]]) -> None:
    with_runs = [number for number, row_runs in enumerate(runs) if row_runs]
    if not with_runs:
        return
    run_rows = rows[with_runs]
    state.add_runs(run_rows[state.rows.runs[run_rows] < 0])
    numbers = np.repeat(state.rows.runs[run_rows], [len(runs[number]) for number in with_runs])
    state.runs.merge(numbers, [run for number in with_runs for run in runs[number]])


def _read_runs(saved: SavedRow) -> list[StoredRun]:
    runs = compressed_history.decode_runs(saved.runs) if saved.runs else []
    latest = np.fmax(saved.updated, saved.last) + HOUR
    if not all(run.begin <= latest and run.last <= latest for run in runs):
        # It would be the newest for ever.
        raise InvalidCheckpoint("status.runs", saved.runs, "must not be after status.lastUpdateTime")
    return runs


def _read_history(saved: SavedRow) -> _Hours | None:
    if not saved.history:
        return None
    newest, values = compressed_history.decode_history(saved.history)
    if not newest <= np.fmax(saved.updated, saved.last) / HOUR + 1:
        # The ring would turn to that hour, and all that is to come would be older than it reaches.
        raise InvalidCheckpoint("status.history", saved.history, "must not be after status.lastUpdateTime")
    return newest, values


def _read_peaks(saved: SavedRow) -> _Cells | None:
    if not saved.peaks:
        return None
    newest, values = compressed_history.decode_peaks(saved.peaks)
    if not newest * CELL_HOURS <= np.fmax(saved.updated, saved.last) / HOUR + 1:
        # As with hours: all that is to come would be older than the ring reaches.
        raise InvalidCheckpoint("status.peaks", saved.peaks, "must not be after status.lastUpdateTime")
    return newest, values


def _merge(bank: HistogramBank, rows: IntColumn, saved: Sequence[SavedHistogram]) -> None:
    loaded = HistogramBank(bank.layout, bank.half_life, len(rows))
    loaded.reserve(len(rows))
    positions = np.arange(len(rows))
    loaded.load_all(positions, saved)
    bank.merge(rows, loaded, positions)


def _build_summaries(number: int, newest: int, values: Ring) -> HourSummaries:
    """The hours of a stored history, one summary each."""
    resource, hour_positions = np.nonzero(~np.isnan(values[:, 0]))
    return HourSummaries(
        series=2 * number + resource,
        hours=newest - (values.shape[-1] - 1) + hour_positions,
        values=values[resource, :, hour_positions].astype(np.float64),
        counts=np.full(len(hour_positions), _ONE_PER_MINUTE),
    )
