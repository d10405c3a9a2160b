"""Forecasts the needs of rows in the coming hours, from the hours of the last weeks.

CPU is sized for the hours that the horizon touches, by a candidate for each row; memory by its cycle where it has one,
and else by its highest peak. All of it changes with the hour, and so is computed once an hour. The parameters are those
of all recommenders that size by this forecast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from trellis.core.recommend.amounts import CPU, MEMORY
from trellis.core.recommend.forecast.caches import HourlyCache, SettingsCache, find_daily_slots
from trellis.core.recommend.forecast.candidates import ForecastCandidate, HistoryAtMoments
from trellis.core.recommend.forecast.memory_cycles import CyclePeriodCache, CycleRule, locate_cycle_phase
from trellis.core.recommend.forecast.memory_peaks import PeakRule, size_memory_by_peaks
from trellis.core.recommend.forecast.normalized_history import normalize_hours, trim_unknown_hours
from trellis.core.recommend.parameters import Parameter, ParameterKind, ParameterValues, declare_pod_minimums
from trellis.core.recommend.protocol import Rows
from trellis.core.recommend.settings import DAY, DefaultSettings
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.history.hourly import CELL_HOURS
from trellis.core.usage.history.hours import HOUR, MEASURES, Ring


class HourlyForecastSettings(msgspec.Struct, frozen=True):
    """The values; times in seconds."""

    horizon: float
    growth_horizon: float
    target_cpu_percentile: float
    recommendation_margin_fraction: float
    memory_window: float
    memory_margin_fraction: float
    longest_memory_cycle: float
    memory_cycle_tolerance: float
    history_needed: float
    pod_recommendation_min_cpu_millicores: float
    pod_recommendation_min_memory_mb: float


def declare_hourly_forecast_parameters(settings: DefaultSettings, margin: float) -> tuple[Parameter, ...]:
    """The parameters; what a pod is to have at least is the same for all recommenders."""
    return (
        Parameter(
            "horizon",
            ParameterKind.DURATION,
            "How far ahead CPU is sized: it is raised this long before it is needed.",
            *(0.5 * HOUR, "seconds", 0.0, DAY),
        ),
        Parameter(
            "growth-horizon",
            ParameterKind.DURATION,
            "How far ahead steadily growing memory is sized.",
            *(DAY, "seconds", 0.0, 14 * DAY),
        ),
        Parameter(
            "target-cpu-percentile",
            ParameterKind.NUMBER,
            "Fraction of the weighted samples whose CPU usage is below the target.",
            *(0.9, "fraction", 0.0, 1.0),
        ),
        Parameter(
            "recommendation-margin-fraction",
            ParameterKind.NUMBER,
            "Safety margin of CPU, as a fraction of the percentile.",
            *(margin, "fraction", 0.0, 100.0),
        ),
        Parameter(
            "memory-window",
            ParameterKind.DURATION,
            "Memory without a recognised cycle is sized by the highest peak of this time.",
            *(18 * DAY, "seconds", DAY, 35 * DAY),
        ),
        Parameter(
            "memory-margin-fraction",
            ParameterKind.NUMBER,
            "Safety margin of memory, as a fraction of the peak.",
            *(0.13, "fraction", 0.0, 100.0),
        ),
        Parameter(
            "longest-memory-cycle",
            ParameterKind.DURATION,
            "Longest cycle of memory that is recognised; the shortest is a week, and less than a week recognises none.",
            *(92 * DAY, "seconds", 0.0, 92 * DAY),
        ),
        Parameter(
            "memory-cycle-tolerance",
            ParameterKind.DURATION,
            "How much earlier or later than in the last cycle memory may rise; it is raised this long "
            "before. Steps of 6h.",
            *(12 * HOUR, "seconds", 12 * HOUR, 2 * DAY),
        ),
        Parameter(
            "history-needed",
            ParameterKind.DURATION,
            "History that a container needs; with less it is sized as by `default`.",
            *(2 * DAY, "seconds", DAY, 35 * DAY),
        ),
        *declare_pod_minimums(settings),
    )


def read_hourly_forecast_settings(values: ParameterValues) -> HourlyForecastSettings:
    """The settings, from a value for every parameter."""
    fields = HourlyForecastSettings.__struct_fields__
    return msgspec.convert({field: values[field.replace("_", "-")] for field in fields}, HourlyForecastSettings)


_WEEK = 168
_MEDIAN, _BUSY = 0.5, 0.95
_P95: Final = MEASURES.index("p95")
# Columns that are no hours: the upper bound of CPU, those of memory, hours known of each, and the cycle of memory.
_OTHER_COLUMNS: Final = 8


class HistoryBounds(msgspec.Struct, frozen=True):
    """Bounds (3, rows) of each resource, NaN where too little is known, and of how many hours something is, (2, rows).

    `cycle` has the length of a row's cycle of memory and the time until its next peak, (2, rows) in days; NaN without.
    None where cycles are not looked for.
    A pod is too small if it has less CPU than the coming hours use half of the time, and too large if it has more than
    the busiest hours of the last week used: so it is not made smaller every night.
    """

    cpu: FloatColumn
    memory: FloatColumn
    known_hours: FloatColumn
    cycle: FloatColumn | None = None


class _CycleNeed(NamedTuple):
    """The need of rows at this phase of their memory cycle, the cycle's length and the time until its peak, in days."""

    needed: FloatColumn
    days: FloatColumn


class HourlyForecast:
    """Computes bounds from hourly history, with a cache for each setting that VPAs have."""

    def __init__(self, candidates: Sequence[ForecastCandidate]) -> None:
        self._candidates = tuple(candidates)
        self._caches: SettingsCache[HourlyForecastSettings, HourlyCache] = SettingsCache(_create_hourly_cache)
        self._periods: SettingsCache[CycleRule, CyclePeriodCache] = SettingsCache(CyclePeriodCache)

    def compute_bounds(
        self, rows: Rows, settings: HourlyForecastSettings, choice: IntColumn, now: float
    ) -> HistoryBounds:
        """The bounds of rows; `choice` is the number of the candidate for each."""
        moments = _count_moments(settings)

        def compute(positions: IntColumn) -> FloatColumn:
            summaries = rows.hours(now, positions)
            cycle = self._find_cycles(rows, positions, now, _build_cycle_rule(settings))
            return self._compute_columns(summaries, cycle, choice[positions], settings, moments)

        columns = self._caches.get(settings).get_columns(rows, now, choice, compute)
        touched_hours = count_touched_hours(now, settings.horizon)
        lower, target, other_columns = np.split(columns, [moments, 2 * moments])
        upper, *memory, known_cpu, known_memory, period, until_peak = other_columns
        known_hours = np.nan_to_num(np.stack([known_cpu, known_memory]))
        has_enough = known_hours >= settings.history_needed / HOUR
        cpu = np.stack([lower[:touched_hours].max(axis=0), target[:touched_hours].max(axis=0), upper])
        memory_sized = np.where(has_enough[MEMORY], np.stack(memory), np.nan)
        return HistoryBounds(
            np.where(has_enough[CPU], cpu, np.nan), memory_sized, known_hours, np.stack([period, until_peak])
        )

    def _find_cycles(self, rows: Rows, positions: IntColumn, now: float, rule: CycleRule) -> _CycleNeed:
        peaks = rows.memory_peaks(now, positions)
        numbers = rows.usage.history_rows[positions]
        hours, _ = find_daily_slots(rows, now, positions)
        periods = self._periods.get(rule).get_periods(numbers, peaks, hours, int(now // HOUR))
        phase = locate_cycle_phase(peaks, periods, rule)
        days = np.stack([np.where(periods > 0, periods, np.nan), phase.until_peak]) * (CELL_HOURS / 24)
        return _CycleNeed(phase.needed, days)

    def _compute_columns(
        self, summaries: Ring, cycle: _CycleNeed, choice: IntColumn, settings: HourlyForecastSettings, moments: int
    ) -> FloatColumn:
        """Lower bounds and targets of the coming hours by row, and `_OTHER_COLUMNS` more columns."""
        fractions = (_MEDIAN, settings.target_cpu_percentile)
        quantiles = np.empty((2, len(summaries), moments))
        for number in np.unique(choice).tolist():
            is_chosen = choice == number
            hours = normalize_hours(trim_unknown_hours(summaries[is_chosen, CPU]))
            history = HistoryAtMoments(hours, hours.hours + np.arange(moments))
            quantiles[:, is_chosen] = self._candidates[number].quantiles(history, fractions)
        lower, target = quantiles
        margin_factor = 1.0 + settings.recommendation_margin_fraction
        peaks = PeakRule(
            window=round(settings.memory_window / HOUR),
            margin=settings.memory_margin_fraction,
            horizon=settings.growth_horizon / HOUR,
        )
        upper = compute_busy_usage(summaries[:, CPU]) * margin_factor
        known_hours = (~np.isnan(summaries[:, :, 0])).sum(axis=2).T
        memory = size_memory_by_peaks(summaries[:, MEMORY], peaks, cycle.needed)
        return np.concatenate([lower.T, target.T * margin_factor, upper[None], memory, known_hours, cycle.days])


def _build_cycle_rule(settings: HourlyForecastSettings) -> CycleRule:
    cell = CELL_HOURS * HOUR
    return CycleRule(
        longest=int(settings.longest_memory_cycle // cell),
        tolerance=round(settings.memory_cycle_tolerance / cell),
        margin=settings.memory_margin_fraction,
    )


def _create_hourly_cache(settings: HourlyForecastSettings) -> HourlyCache:
    return HourlyCache(2 * _count_moments(settings) + _OTHER_COLUMNS)


def _count_moments(settings: HourlyForecastSettings) -> int:
    """The largest number of hours that the horizon touches, the current one included."""
    return 1 + math.ceil(settings.horizon / HOUR)


def count_touched_hours(now: float, horizon: float) -> int:
    """The number of hours that the horizon touches now."""
    return max(1, math.ceil((now % HOUR + horizon) / HOUR))


def compute_busy_usage(summaries: Ring) -> FloatColumn:
    """The usage of the busiest hours of the last week, from summaries (rows, measures, hours)."""
    week = np.sort(summaries[:, _P95, -_WEEK:].astype(np.float64), axis=1)  # what is not known comes last
    count = (~np.isnan(week)).sum(axis=1)
    positions = np.clip(np.ceil(_BUSY * count).astype(np.int64) - 1, 0, week.shape[1] - 1)
    usage: FloatColumn = week[np.arange(len(week)), positions]
    return np.nan_to_num(usage)
