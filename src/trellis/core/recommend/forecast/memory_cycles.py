"""Recognises cycles of memory of a week to a quarter, and finds the need of a row at its phase of the cycle.

A period is tested the way it would be used: a rise above the peak of the last day must have been forecast by what was
used one period before it, a tolerance to either side. A period is recognised if every rise of the last four cycles was
forecast, all of these cycles but one have such a rise, two at least, and the forecast would have requested clearly less
than the maximum. Anything else is no cycle: noise, a single odd peak, a phase that jumped, one repetition that may be
chance. The row is then sized by its highest peak, as before.

The tolerance is more than a day wide in all. So a rhythm of hours has no gain and is never followed, a phase may drift
by half a day from cycle to cycle, and the request rises half a day before the peak is due.

Each row is tested once a day, at an hour of its own, and the period is cached in between: a test takes up to a third of
a millisecond, so that 10,000 rows in one pass would be seconds. The test covers the peaks before the row's last hour of
the day, whenever it runs: another process finds the same. A rise that no cycle forecast ends the cycle within a day,
and until then the peak of the last day counts.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from trellis.core.recommend.forecast.caches import grow_column
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.core.usage.history.hourly import CELL_HOURS, CELLS, Peaks

_DAY: Final = 24 // CELL_HOURS
_SHORTEST: Final = 7 * _DAY
_TESTED_CYCLES: Final = 4
_LEAST_TESTED: Final = 42 * _DAY
_CYCLES: Final = 3  # whose peaks make the forecast: one that was missed or small does not lower it
_LEAST_RISES: Final = 2  # that were forecast: three peaks, two equal distances
_MOST_RISES: Final = 64  # a row that rises more often in half a year has no cycle of a week
_LEAST_SPAN: Final = 28 * _DAY  # two weeks that were alike are no proof of a third
_LEAST_KNOWN: Final = 0.75  # of the cells since the first
_LEAST_GAIN: Final = 0.25  # less is not worth a rise that may come otherwise
_ROWS_AT_ONCE: Final = 16
_NEVER: Final = -np.inf


class CycleRule(msgspec.Struct, frozen=True):
    """The longest period and the tolerance to either side, in cells, and the margin that a forecast has."""

    longest: int = 92 * _DAY
    tolerance: int = 2
    margin: float = 0.13


class CyclePhase(msgspec.Struct, frozen=True):
    """By row, the memory needed now, and the cells until the next peak; NaN without a cycle."""

    needed: FloatColumn
    until_peak: FloatColumn


def find_cycle_periods(peaks: Peaks, rule: CycleRule) -> IntColumn:
    """The period of each row, in cells, from its peaks, (rows, cells); 0 for none."""
    periods = np.zeros(len(peaks), dtype=np.int64)
    if rule.longest < _SHORTEST:
        return periods
    first = _find_first_known(peaks)
    candidates = np.flatnonzero((CELLS - first >= _LEAST_SPAN) & _may_gain(peaks, first, rule))
    for begin in range(0, len(candidates), _ROWS_AT_ONCE):
        rows = candidates[begin : begin + _ROWS_AT_ONCE]
        part = np.where(np.isnan(peaks[rows]), np.float32(_NEVER), peaks[rows])
        periods[rows] = _search_periods(part, first[rows], rule)
    return periods


def locate_cycle_phase(peaks: Peaks, periods: IntColumn, rule: CycleRule) -> CyclePhase:
    """The phase of rows in their cycles, from the peaks up to the current cell and the period of each."""
    phase = CyclePhase(np.full(len(peaks), np.nan), np.full(len(peaks), np.nan))
    rows = np.flatnonzero(periods)
    if not len(rows):
        return phase
    values = np.where(np.isnan(peaks[rows]), np.float32(_NEVER), peaks[rows])
    period = periods[rows]
    ahead = np.arange(int(period.max()))
    upcoming = np.full((len(rows), len(ahead)), np.float32(_NEVER))
    needed = values[:, -1 - _DAY :].max(axis=1)
    for cycle in range(1, _CYCLES + 1):
        cells_before = CELLS - 1 - cycle * period
        nearby_cells = cells_before[:, np.newaxis] + np.arange(-rule.tolerance, rule.tolerance + 1)
        needed = np.maximum(needed, _pick_cells(values, nearby_cells).max(axis=1))
        upcoming = np.maximum(upcoming, _pick_cells(values, cells_before[:, np.newaxis] + ahead))
    upcoming[ahead >= period[:, np.newaxis]] = _NEVER
    phase.needed[rows] = needed
    is_peak = upcoming >= upcoming.max(axis=1, keepdims=True) / (1 + rule.margin)
    phase.until_peak[rows] = is_peak.argmax(axis=1)
    return phase


def _pick_cells(values: Peaks, cells: IntColumn) -> Peaks:
    """Cells of each row, (rows, cells); lowest beyond the first and the last."""
    picked = np.take_along_axis(values, np.clip(cells, 0, CELLS - 1), axis=1)
    return np.where((cells >= 0) & (cells < CELLS), picked, np.float32(_NEVER))


def _find_first_known(peaks: Peaks) -> IntColumn:
    known = ~np.isnan(peaks)
    return np.where(known.any(axis=1), known.argmax(axis=1), CELLS)


def _may_gain(peaks: Peaks, first: IntColumn, rule: CycleRule) -> BoolColumn:
    """Rows that are worth a search: mostly known, and clearly below their maximum for most of the time.

    A forecast is at least the peaks around a cell, so that their mean bounds what can be gained.
    """
    known = ~np.isnan(peaks)
    span = np.maximum(CELLS - first, 1)
    highest_near = _compute_nearby_maxima(np.where(known, peaks, np.float32(_NEVER)), rule.tolerance)
    is_known = np.isfinite(highest_near)
    mean = np.where(is_known, highest_near, 0.0).sum(axis=1) / np.maximum(is_known.sum(axis=1), 1)
    may_gain: BoolColumn = (known.sum(axis=1) >= _LEAST_KNOWN * span) & (
        mean <= (1 - _LEAST_GAIN) * highest_near.max(axis=1)
    )
    return may_gain


def _search_periods(values: Peaks, first: IntColumn, rule: CycleRule) -> IntColumn:
    """The period of each row, 0 for none; `values` are peaks, (rows, cells), lowest where unknown."""
    recent = _compute_last_day_maxima(values)
    rises = np.isfinite(values) & np.isfinite(recent) & (values > np.float32(1.0 + rule.margin) * recent)
    rises_too_often = rises.sum(axis=1) > _MOST_RISES
    rises[rises_too_often] = False
    at, is_rise = _find_mark_positions(rises)
    periods = np.arange(_SHORTEST, rule.longest + 1)
    window = np.maximum(_TESTED_CYCLES * periods, _LEAST_TESTED)
    tested, is_met, repeated = _test_periods(values, rises, at, periods, rule)
    tested &= is_rise[:, np.newaxis, :] & (at[:, np.newaxis, :] >= CELLS - window[:, np.newaxis])
    span = CELLS - first[:, np.newaxis]
    cycles = np.minimum(span, window) // periods
    passed = (span >= np.maximum(2 * periods, _LEAST_SPAN)) & ~(tested & ~is_met).any(axis=2)
    passed &= (tested & repeated).sum(axis=2) >= np.maximum(cycles - 1, _LEAST_RISES)
    best = np.zeros(len(values), dtype=np.int64)
    for row in np.flatnonzero(passed.any(axis=1)).tolist():
        best[row] = _choose_best_period(values[row], recent[row], periods[passed[row]], rule)
    return best


def _test_periods(
    values: Peaks, rises: BoolColumn, at: IntColumn, periods: IntColumn, rule: CycleRule
) -> tuple[BoolColumn, BoolColumn, BoolColumn]:
    """Tests rises by periods, (rows, periods, rises): whether the peak a period before is known, and was high enough.

    The third is whether it was a rise as well: a level that happens to be high forecasts one, but repeats nothing.
    """
    highest_near, near_rise = _compute_nearby_maxima(values, rule.tolerance), _spread_marks(rises, rule.tolerance)
    rows = np.arange(len(values))[:, np.newaxis]
    needed = values[rows, at][:, np.newaxis, :]
    cells_before = at[:, np.newaxis, :] - periods[:, np.newaxis]
    place = (rows[:, :, np.newaxis], np.maximum(cells_before, 0))
    forecast = np.where(cells_before >= 0, highest_near[place], np.float32(_NEVER))
    is_met = forecast * np.float32(1.0 + rule.margin) >= needed
    return np.isfinite(forecast), is_met, is_met & near_rise[place]


def _choose_best_period(values: Peaks, recent: Peaks, passed: IntColumn, rule: CycleRule) -> int:
    """The best fit among the shortest adjacent periods that passed; 0 if it gains too little.

    The neighbours of a period pass as well, and so do its multiples.
    """
    neighbours = passed[: int(np.argmin(np.append(np.diff(passed), 2) == 1)) + 1]
    period = int(neighbours[np.argmin([_measure_misfit(values, int(candidate)) for candidate in neighbours])])
    highest_near = _compute_nearby_maxima(values[np.newaxis], rule.tolerance)[0]
    forecast = np.maximum(_forecast_by_period(highest_near, period), recent)[
        -max(_TESTED_CYCLES * period, _LEAST_TESTED) :
    ]
    used = values[-len(forecast) :]
    is_known = np.isfinite(forecast) & np.isfinite(used)
    gains = is_known.any() and forecast[is_known].mean() <= (1 - _LEAST_GAIN) * used[is_known].max()
    return period if gains else 0


def _measure_misfit(values: Peaks, period: int) -> float:
    """The mean difference of cells from those a period before, in the last cycles."""
    with np.errstate(invalid="ignore"):  # what is unknown on both sides
        differences = values[period:][-_CYCLES * period :] - values[:-period][-_CYCLES * period :]
    known = np.isfinite(differences)
    return float(np.abs(differences[known]).mean()) if known.any() else np.inf


def _compute_nearby_maxima(values: Peaks, tolerance: int) -> Peaks:
    """The maximum of the cells to either side of each, and itself."""
    highest = values.copy()
    for apart in range(1, tolerance + 1):
        highest[:, apart:] = np.maximum(highest[:, apart:], values[:, :-apart])
        highest[:, :-apart] = np.maximum(highest[:, :-apart], values[:, apart:])
    return highest


def _spread_marks(marks: BoolColumn, tolerance: int) -> BoolColumn:
    """Whether a mark is within the tolerance of each cell."""
    marked = marks.copy()
    for apart in range(1, tolerance + 1):
        marked[:, apart:] |= marks[:, :-apart]
        marked[:, :-apart] |= marks[:, apart:]
    return marked


def _compute_last_day_maxima(values: Peaks) -> Peaks:
    """The maximum of the day before each cell."""
    highest = np.full_like(values, _NEVER)
    for apart in range(1, _DAY + 1):
        highest[:, apart:] = np.maximum(highest[:, apart:], values[:, :-apart])
    return highest


def _forecast_by_period(highest_near: Peaks, period: int) -> Peaks:
    """The forecast of each cell by earlier cycles alone."""
    forecast = np.full_like(highest_near, _NEVER)
    for cycle in range(1, _CYCLES + 1):
        lag = cycle * period
        if lag < len(highest_near):
            forecast[lag:] = np.maximum(forecast[lag:], highest_near[:-lag])
    return forecast


def _find_mark_positions(marks: BoolColumn) -> tuple[IntColumn, BoolColumn]:
    """The positions of the marks of each row, padded to equal length, and a mask of those that are no padding."""
    counts = marks.sum(axis=1)
    most = max(int(counts.max(initial=0)), 1)
    places = np.argsort(~marks, axis=1, kind="stable")[:, :most]
    return places, np.arange(most) < counts[:, np.newaxis]


# Odd numbers, so that a change of any one cell changes the sum.
_HASH_WEIGHTS: Final = np.cumprod(np.full(CELLS, 6_364_136_223_846_793_005, dtype=np.uint64)) | np.uint64(1)


class CyclePeriodCache:
    """The period of each row by its number in the history, and what it was found from."""

    def __init__(self, rule: CycleRule) -> None:
        self._rule = rule
        self._tested: npt.NDArray[np.uint64] = np.zeros(0, dtype=np.uint64)
        self._periods: IntColumn = np.full(0, -1, dtype=np.int64)

    def get_periods(self, numbers: IntColumn, peaks: Peaks, moments: IntColumn, hour: int) -> IntColumn:
        """Periods in cells, 0 for none, from peaks up to the cell of an hour and the hours at which rows are tested."""
        self._reserve(int(numbers.max(initial=-1)) + 1)
        past = _shift_back(peaks, hour // CELL_HOURS - moments // CELL_HOURS + 1)
        digests = (past.view(np.uint32).astype(np.uint64) * _HASH_WEIGHTS).sum(axis=1, dtype=np.uint64)
        new = np.flatnonzero((self._tested[numbers] != digests) | (self._periods[numbers] < 0))
        self._periods[numbers[new]] = find_cycle_periods(past[new], self._rule)
        self._tested[numbers[new]] = digests[new]
        return self._periods[numbers]

    def _reserve(self, size: int) -> None:
        self._tested = grow_column(self._tested, size, 0)
        self._periods = grow_column(self._periods, size, -1)


def _shift_back(peaks: Peaks, shifts: IntColumn) -> Peaks:
    """Peaks up to a number of cells before the last."""
    shifted = np.full_like(peaks, np.nan)
    for shift in np.unique(shifts).tolist():
        has_shift = shifts == shift
        shifted[has_shift, shift:] = peaks[has_shift, : CELLS - shift]
    return shifted
