"""The phases recommender: sizes a run for its next phase, for repeated runs: training, Spark, CronJobs.

A run is located in earlier runs by its current phase and by the time since its start. The forecast is what those runs
used from there until the horizon: a high fraction of them for CPU, the highest for memory. So the target is raised
before the next phase begins, unless that phase is short, and current usage is covered in any case. Phases may last
longer or shorter than before. Before a run has begun, and until it can be distinguished from others, all earlier runs
count by the clock: the next pod begins with what the first phase needs.

A row gets the estimate of the fallback where it has too few earlier runs, where its run is like none of them, and where
pods run on for days.

A forecast is cached until the row's runs change, another pod starts, or the run reaches another interval. Between
two runs that can be days.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

import msgspec
import numpy as np

from trellis.core.recommend.amounts import CPU, MEMORY, MIDDLE
from trellis.core.recommend.forecast.caches import SettingsCache, grow_column
from trellis.core.recommend.forecast.hourly_forecast import HistoryBounds
from trellis.core.recommend.forecast.phase_alignment import (
    RunAlignment,
    align_runs,
    find_negligible_differences,
    locate_runs,
    split_into_phases,
)
from trellis.core.recommend.parameters import (
    Parameter,
    ParameterKind,
    ParameterValues,
    declare_pod_minimums,
    share_pod_minimums,
)
from trellis.core.recommend.protocol import Estimates, Explanations, Recommender, Rows
from trellis.core.recommend.recommenders.fallback import estimate_fallback, overlay_bounds
from trellis.core.recommend.settings import DAY, DefaultSettings
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.core.usage.history.hours import Ring
from trellis.core.usage.history.job_runs import HIGHEST, MEAN, RUNS, SAME_RUN_SECONDS, RecentRuns, RunHistory

_MINUTE = 60.0


class PhaseSettings(msgspec.Struct, frozen=True):
    """The values; times in seconds."""

    horizon: float
    memory_horizon: float
    target_cpu_percentile: float
    recommendation_margin_fraction: float
    memory_margin_fraction: float
    runs: int
    runs_needed: int
    longest_run: float
    pod_recommendation_min_cpu_millicores: float
    pod_recommendation_min_memory_mb: float


def declare_phase_parameters(settings: DefaultSettings) -> tuple[Parameter, ...]:
    """The parameters; what a pod is to have at least is the same for all recommenders."""
    return (
        Parameter(
            "horizon",
            ParameterKind.DURATION,
            "How far ahead in its run CPU is sized, by earlier runs. Pods that are not resized in place "
            "need a horizon longer than a run.",
            *(10 * _MINUTE, "seconds", 2 * _MINUTE, 7 * DAY),
        ),
        Parameter(
            "memory-horizon",
            ParameterKind.DURATION,
            "How far ahead in its run memory is sized; longer, because memory that comes too late is a "
            "kill, not a delay.",
            *(30 * _MINUTE, "seconds", 2 * _MINUTE, 7 * DAY),
        ),
        Parameter(
            "target-cpu-percentile",
            ParameterKind.NUMBER,
            "Fraction of similar earlier runs that stayed below the CPU target. Memory is sized by all of them.",
            *(0.9, "fraction", 0.0, 1.0),
        ),
        Parameter(
            "recommendation-margin-fraction",
            ParameterKind.NUMBER,
            "Safety margin of CPU, as a fraction.",
            *(0.15, "fraction", 0.0, 100.0),
        ),
        Parameter(
            "memory-margin-fraction",
            ParameterKind.NUMBER,
            "Safety margin of memory, as a fraction.",
            *(0.15, "fraction", 0.0, 100.0),
        ),
        Parameter(
            "runs",
            ParameterKind.WHOLE,
            "Number of newest runs that are considered; with fewer, an old version of a program is forgotten sooner.",
            *(8, "", 1, RUNS - 1),
        ),
        Parameter(
            "runs-needed",
            ParameterKind.WHOLE,
            "Number of earlier runs that a container needs; with fewer it is sized as by `default`.",
            *(3, "", 1, RUNS - 1),
        ),
        Parameter(
            "longest-run",
            ParameterKind.DURATION,
            "Maximum length of a run; a pod that runs longer is sized as by `default`, and is not used for later runs.",
            *(DAY, "seconds", 10 * _MINUTE, 35 * DAY),
        ),
        *declare_pod_minimums(settings),
    )


def read_phase_settings(values: ParameterValues) -> PhaseSettings:
    """The settings, from a value for every parameter."""
    fields = PhaseSettings.__struct_fields__
    return msgspec.convert({field: values[field.replace("_", "-")] for field in fields}, PhaseSettings)


SILENCE_SECONDS: Final = 180.0  # seconds after which a run that has not been sampled is taken to be over
_RISE: Final = 1.2  # what is this many times more than now is a rise
_RECENT_INTERVALS: Final = 2  # intervals of which usage counts as what is used now

# Why a row is not sized by its runs; 0 if it is.
SIZED_BY_PHASES, TOO_FEW_RUNS, UNLIKE_EARLIER_RUNS, TOO_LONG_RUN = range(4)


class PhaseForecast(NamedTuple):
    """Lower bound, target and upper bound (3, resources, rows), NaN without a forecast; and the reasons by row.

    `runs` are known and `alike` of them are like the newest; `phase` is its phase, from 1 on, 0 before it begins;
    `seconds_to_rise` is in how many seconds one of those used more, NaN if none did. The forecast holds until
    `expires_at`.
    """

    bounds: FloatColumn
    reasons: IntColumn
    runs: IntColumn
    alike: IntColumn
    phase: IntColumn
    seconds_to_rise: FloatColumn
    expires_at: FloatColumn


class _OpenRuns(NamedTuple):
    """Runs that go on, or are about to begin.

    The row of each, which of its runs it is (-1 before the first sample), when it began (infinity if it has not), and
    in which interval it is. Those of a row are side by side, the newest last.
    """

    row: IntColumn
    run: IntColumn
    begin: FloatColumn
    interval: IntColumn


def forecast_phases(recent: RecentRuns, started: FloatColumn, settings: PhaseSettings, now: float) -> PhaseForecast:
    """Forecast rows whose newest pod started at a time, NaN without a pod."""
    open_runs = _find_open_runs(recent, started, now)
    means, highest = recent.values[:, :, :, MEAN], recent.values[:, :, :, HIGHEST]
    rows, runs = recent.begin.shape
    negligible = find_negligible_differences(means)
    phases = split_into_phases(means.reshape(rows * runs, 2, -1), np.repeat(negligible, runs, axis=0))
    running = locate_runs(
        phases, np.where(open_runs.run >= 0, open_runs.row * runs + open_runs.run, -1), open_runs.interval
    )
    earlier = phases.select_rows(runs, open_runs.row)
    compared = (recent.begin[open_runs.row] < open_runs.begin[:, np.newaxis] - SAME_RUN_SECONDS) & (earlier.lengths > 0)
    compared &= np.cumsum(compared, axis=1) <= settings.runs
    at = align_runs(running, earlier, negligible[open_runs.row])
    alike = at.alike & compared
    used = np.where(alike[..., np.newaxis, np.newaxis], highest[open_runs.row], np.float32(np.nan))
    current_usage = _find_recent_usage(highest, open_runs, earlier.lengths)
    width = recent.width[open_runs.row]
    bounds = _compute_bounds(*_find_usage_ahead(used, at, earlier.lengths, settings, width), current_usage, settings)
    counts = compared.sum(axis=1), alike.sum(axis=1)
    reasons = _find_reasons(*counts, settings)
    bounds[:, :, reasons != SIZED_BY_PHASES] = np.nan
    newest = np.flatnonzero(
        np.append(open_runs.row[1:] != open_runs.row[:-1], np.ones(min(len(open_runs.row), 1), dtype=np.bool_))
    )
    reasons = np.where(now - started > settings.longest_run, TOO_LONG_RUN, reasons[newest])
    return PhaseForecast(
        bounds=np.where(reasons == SIZED_BY_PHASES, _combine_open_runs(bounds, open_runs.row, rows), np.nan),
        reasons=reasons,
        runs=counts[0][newest],
        alike=counts[1][newest],
        phase=running.phase[newest] + 1,
        seconds_to_rise=_find_rises(used, at, current_usage, width)[newest],
        expires_at=_find_expiry(open_runs, recent, started, settings, now),
    )


def _find_reasons(known: IntColumn, alike: IntColumn, settings: PhaseSettings) -> IntColumn:
    """Whether enough earlier runs are known, and enough of them are alike: one of as few as are needed may be odd."""
    few, unlike = known < settings.runs_needed, alike < max(settings.runs_needed - 1, 1)
    reasons: IntColumn = np.where(few, TOO_FEW_RUNS, np.where(unlike, UNLIKE_EARLIER_RUNS, SIZED_BY_PHASES))
    return reasons


def _find_open_runs(runs: RecentRuns, started: FloatColumn, now: float) -> _OpenRuns:
    """The runs to size: all runs of each row that go on, the newest last; the next one if there is no pod."""
    has_pod = ~np.isnan(started)[:, np.newaxis]
    newest = np.abs(runs.begin - started[:, np.newaxis]) <= SAME_RUN_SECONDS
    is_open = has_pod & (newest | ((runs.last >= now - SILENCE_SECONDS) & (runs.begin < started[:, np.newaxis])))
    row, run = np.nonzero(is_open[:, ::-1])  # seen are the newest first
    run = runs.begin.shape[1] - 1 - run
    silent = np.flatnonzero(~newest.any(axis=1))
    begin = np.concatenate([runs.begin[row, run], np.where(np.isnan(started[silent]), np.inf, started[silent])])
    row = np.concatenate([row, silent])
    run = np.concatenate([run, np.full(len(silent), -1)])
    order = np.lexsort((begin, row))
    row, run, begin = row[order], run[order], begin[order]
    age = np.where(np.isinf(begin), 0.0, np.maximum(now - begin, 0.0))
    interval = np.floor(np.nan_to_num(age / runs.width[row])).astype(np.int64)
    return _OpenRuns(row, run, begin, interval)


def _find_recent_usage(highest: Ring, open_runs: _OpenRuns, lengths: IntColumn) -> FloatColumn:
    """(runs, resources): what a run used at most in its last intervals; NaN if it was not sampled yet."""
    run_usage = highest[open_runs.row, open_runs.run]
    length = lengths[np.arange(len(open_runs.row)), open_runs.run][:, np.newaxis, np.newaxis]
    intervals = np.arange(run_usage.shape[-1])
    recent = (intervals >= length - _RECENT_INTERVALS) & (open_runs.run >= 0)[:, np.newaxis, np.newaxis]
    usage: FloatColumn = np.fmax.reduce(np.where(recent, run_usage, np.float32(np.nan)), axis=-1).astype(np.float64)
    return usage


def _find_usage_ahead(
    used: Ring, at: RunAlignment, lengths: IntColumn, settings: PhaseSettings, width: FloatColumn
) -> tuple[FloatColumn, FloatColumn]:
    """(runs, earlier runs, resources): what was used at most until the horizon, and until the end."""
    intervals = np.arange(used.shape[-1])
    last = np.maximum(lengths - 1, 0)
    begin = np.minimum(np.minimum(at.interval, at.phase_last_interval), last)[..., np.newaxis]
    horizons = np.array([settings.horizon, settings.memory_horizon])
    steps = np.ceil(horizons / width[:, np.newaxis])[:, np.newaxis]
    end = np.maximum(at.interval, begin[..., 0])[..., np.newaxis] + steps
    is_ahead = intervals >= begin[..., np.newaxis]
    until_end = np.where(is_ahead, used, np.float32(np.nan))
    until_horizon = np.where(intervals <= end[..., np.newaxis], until_end, np.float32(np.nan))
    return np.fmax.reduce(until_horizon, axis=-1).astype(np.float64), np.fmax.reduce(until_end, axis=-1).astype(
        np.float64
    )


def _compute_bounds(
    until_horizon: FloatColumn, until_end: FloatColumn, current_usage: FloatColumn, settings: PhaseSettings
) -> FloatColumn:
    """(bounds, resources, runs). A pod is too small with less than what is coming, so that it is resized before.

    It is too large with more than the rest of the run takes: what is given away between two peaks may be gone when it
    is needed again.
    """
    margins = np.array([settings.recommendation_margin_fraction, settings.memory_margin_fraction])[:, np.newaxis]
    needed = np.stack(
        [
            _compute_quantile(until_horizon[..., CPU], settings.target_cpu_percentile),
            np.fmax.reduce(until_horizon[..., MEMORY], 1),
        ]
    )
    target = np.where(np.isnan(needed), np.nan, np.fmax(needed, current_usage.T))
    highest = np.fmax(np.fmax.reduce(until_end, axis=1).T, target)
    return np.stack([target, target * (1.0 + margins), np.where(np.isnan(target), np.nan, highest * (1.0 + margins))])


def _compute_quantile(values: FloatColumn, fraction: float) -> FloatColumn:
    """A quantile of the known values of each row; NaN if none is known."""
    order = np.sort(values, axis=1)  # what is not known comes last
    count = (~np.isnan(values)).sum(axis=1)
    at = np.clip(np.ceil(fraction * count).astype(np.int64) - 1, 0, None)
    quantile: FloatColumn = order[np.arange(len(order)), at]
    return quantile


def _find_rises(used: Ring, at: RunAlignment, current_usage: FloatColumn, width: FloatColumn) -> FloatColumn:
    """The seconds until the first of the earlier runs used more than current usage."""
    intervals = np.arange(used.shape[-1])
    is_rise: BoolColumn = np.any(used > _RISE * current_usage[:, np.newaxis, :, np.newaxis], axis=2)
    is_rise &= intervals > np.minimum(at.interval, at.phase_last_interval)[..., np.newaxis]
    steps = np.where(is_rise, np.maximum(intervals - at.interval[..., np.newaxis], 0), np.inf).min(
        axis=(1, 2), initial=np.inf
    )
    seconds: FloatColumn = np.where(np.isinf(steps), np.nan, np.nan_to_num(steps, posinf=0.0) * np.nan_to_num(width))
    return seconds


def _combine_open_runs(bounds: FloatColumn, row: IntColumn, rows: int) -> FloatColumn:
    """The bounds of rows: where several of its runs go on, what the one takes that needs most."""
    highest = np.full((*bounds.shape[:2], rows), np.nan)
    for row_bounds, run_bounds in zip(highest.reshape(-1, rows), bounds.reshape(-1, len(row)), strict=True):
        np.fmax.at(row_bounds, row, run_bounds)
    return highest


def _find_expiry(
    open_runs: _OpenRuns, runs: RecentRuns, started: FloatColumn, settings: PhaseSettings, now: float
) -> FloatColumn:
    """The time when the next interval begins, a run has been silent for long enough, or has become too long."""
    expiry_times = np.full(len(started), np.inf)
    next_interval = np.nan_to_num(open_runs.begin + (open_runs.interval + 1) * runs.width[open_runs.row], nan=np.inf)
    np.minimum.at(expiry_times, open_runs.row, next_interval)
    silent = runs.last + SILENCE_SECONDS
    expiry_times = np.minimum(expiry_times, np.where(silent >= now, silent, np.inf).min(axis=1, initial=np.inf))
    longest = started + settings.longest_run
    expiry: FloatColumn = np.minimum(expiry_times, np.where(longest >= now, longest, np.inf))
    return expiry


ComputePhases: TypeAlias = Callable[[IntColumn], PhaseForecast]

_ROWS_AT_ONCE = 512  # 40 KB each are worked with
_BOUNDS = 6
_WIDTH = _BOUNDS + 6


class PhaseForecastCache:
    """Forecasts, by the number of a row in the run history."""

    def __init__(self) -> None:
        self._runs: RunHistory | None = None
        self._reset()

    def get_forecasts(self, rows: Rows, now: float, compute: ComputePhases) -> PhaseForecast:
        """The forecasts of all rows: `compute` computes those of positions where something is new."""
        runs, numbers = rows.usage.runs, rows.usage.run_rows
        if runs is not self._runs:
            self._runs = runs
            self._reset()
        with_runs = np.flatnonzero(numbers >= 0)
        forecast = _build_empty_forecast(len(rows))
        if not len(with_runs):
            return forecast
        numbers = numbers[with_runs]
        self._reserve(int(numbers.max()) + 1)
        revisions, started = runs.revisions(numbers), rows.started[with_runs]
        is_current = (
            (self._revisions[numbers] == revisions) & ~(now < self._since[numbers]) & (now < self._until[numbers])
        )
        is_current &= (self._started[numbers] == started) | (np.isnan(self._started[numbers]) & np.isnan(started))
        new = np.flatnonzero(~is_current)
        for begin in range(0, len(new), _ROWS_AT_ONCE):
            part = new[begin : begin + _ROWS_AT_ONCE]
            self._columns[:, numbers[part]] = _pack(compute(with_runs[part]))
        self._revisions[numbers[new]], self._started[numbers[new]] = revisions[new], started[new]
        self._since[numbers[new]], self._until[numbers[new]] = now, self._columns[-1, numbers[new]]
        return _unpack(self._columns[:, numbers], with_runs, forecast)

    def _reset(self) -> None:
        self._revisions: IntColumn = np.zeros(0, dtype=np.int64)
        self._started: FloatColumn = np.zeros(0)
        self._since: FloatColumn = np.zeros(0)
        self._until: FloatColumn = np.zeros(0)
        self._columns: FloatColumn = np.zeros((_WIDTH, 0))

    def _reserve(self, size: int) -> None:
        self._revisions = grow_column(self._revisions, size, -1)
        self._started = grow_column(self._started, size, np.nan)
        self._since = grow_column(self._since, size, np.inf)
        self._until = grow_column(self._until, size, -np.inf)
        self._columns = grow_column(self._columns, size, 0.0)


def _build_empty_forecast(rows: int) -> PhaseForecast:
    """The forecast of rows without recorded runs: too few runs."""
    return PhaseForecast(
        bounds=np.full((3, 2, rows), np.nan),
        reasons=np.full(rows, TOO_FEW_RUNS),
        runs=np.zeros(rows, dtype=np.int64),
        alike=np.zeros(rows, dtype=np.int64),
        phase=np.zeros(rows, dtype=np.int64),
        seconds_to_rise=np.full(rows, np.nan),
        expires_at=np.full(rows, np.inf),
    )


def _pack(forecast: PhaseForecast) -> FloatColumn:
    counts = (forecast.reasons, forecast.runs, forecast.alike, forecast.phase)
    return np.concatenate(
        [
            forecast.bounds.reshape(_BOUNDS, -1),
            *(column[np.newaxis] for column in (*counts, forecast.seconds_to_rise, forecast.expires_at)),
        ]
    )


def _unpack(columns: FloatColumn, positions: IntColumn, into: PhaseForecast) -> PhaseForecast:
    into.bounds[:, :, positions] = columns[:_BOUNDS].reshape(3, 2, -1)
    for column, values in zip(into[1:], columns[_BOUNDS:], strict=True):
        column[positions] = values
    return into


_REASON_TEXTS: Final = {
    SIZED_BY_PHASES: "phases",
    TOO_FEW_RUNS: "too few runs",
    UNLIKE_EARLIER_RUNS: "unlike earlier runs",
    TOO_LONG_RUN: "runs for too long",
}
_NOT_SAMPLED: Final = "not sampled"


class PhasesRecommender:
    """Sizes by what earlier runs used after the phase that a run is in."""

    name = "phases"
    needs_history = False
    needs_runs = True

    def __init__(self, fallback: Recommender, settings: DefaultSettings | None = None) -> None:
        self.parameters: tuple[Parameter, ...] = declare_phase_parameters(settings or DefaultSettings())
        self._fallback = fallback
        self._caches: SettingsCache[PhaseSettings, PhaseForecastCache] = SettingsCache(_create_cache)

    def estimate(self, rows: Rows, values: ParameterValues, now: float, /) -> Estimates:
        """Estimate the need from now until the horizon."""
        settings = read_phase_settings(values)

        def compute(positions: IntColumn) -> PhaseForecast:
            most = min(settings.runs + 1, RUNS)
            runs = rows.runs(positions, longest=settings.longest_run, most=most)
            return forecast_phases(runs, rows.started[positions], settings, now)

        forecast = self._caches.get(settings).get_forecasts(rows, now, compute)
        minimums = share_pod_minimums(
            settings.pod_recommendation_min_cpu_millicores, settings.pod_recommendation_min_memory_mb, rows.containers
        )
        fallback_estimates = estimate_fallback(self._fallback, rows, values, now)
        sized = HistoryBounds(
            forecast.bounds[:, CPU], forecast.bounds[:, MEMORY], forecast.runs.astype(np.float64)[np.newaxis]
        )
        return overlay_bounds(fallback_estimates, sized, minimums, _explain(forecast))


def _create_cache(_figures: PhaseSettings) -> PhaseForecastCache:
    return PhaseForecastCache()


def _explain(forecast: PhaseForecast) -> Explanations:
    """The origin of each row's bounds, and its known runs."""
    texts = [_REASON_TEXTS[reason] for reason in forecast.reasons.tolist()]
    unknown = np.isnan(forecast.bounds[MIDDLE])
    sized = forecast.reasons == SIZED_BY_PHASES
    cpu, memory = (
        [
            _NOT_SAMPLED if is_unknown else text
            for is_unknown, text in zip((sized & column).tolist(), texts, strict=True)
        ]
        for column in unknown
    )
    return {
        "cpu": cpu,
        "memory": memory,
        "runs": forecast.runs.astype(np.float64),
        "alike": forecast.alike.astype(np.float64),
        "phase": forecast.phase.astype(np.float64),
        "seconds-to-rise": forecast.seconds_to_rise,
    }
