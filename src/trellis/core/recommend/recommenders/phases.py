"""The phases recommender: sizes a run for its next phase, for what repeats: training, Spark, CronJobs.

A run is located in earlier runs by its current phase and by the time since its start, and is given what those used from
there until the horizon: so it is raised before the next phase begins, and not when that is short. Phases may last
longer or shorter than before. Where there are too few earlier runs, where this one is like none of them, and where pods
run on for days, a row gets the estimate of the fallback.

A forecast is cached until something of the row's runs has changed, another pod has started, or the run has reached
another place of time. Between two runs that can be days.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from trellis.core.recommend.amounts import CPU, MEMORY, MIDDLE
from trellis.core.recommend.forecast.caches import SettingsCache, grow_column
from trellis.core.recommend.forecast.hourly_forecast import HistoryBounds
from trellis.core.recommend.forecast.phase_forecast import (
    SIZED_BY_PHASES,
    TOO_FEW_RUNS,
    TOO_LONG_RUN,
    UNLIKE_EARLIER_RUNS,
    PhaseForecast,
    PhaseSettings,
    forecast_phases,
    phase_parameters,
    read_phase_settings,
)
from trellis.core.recommend.parameters import Parameter, ParameterValues
from trellis.core.recommend.pod_minimums import share_pod_minimums
from trellis.core.recommend.protocol import Estimates, Explanations, Recommender, Rows
from trellis.core.recommend.recommenders.fallback import estimate_fallback, overlay_bounds
from trellis.core.recommend.settings import DefaultSettings
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.history.runs import RUNS, RunHistory

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
        forecast = _no_forecast(len(rows))
        if not len(with_runs):
            return forecast
        numbers = numbers[with_runs]
        self._reserve(int(numbers.max()) + 1)
        revisions, started = runs.revisions(numbers), rows.started[with_runs]
        same = (self._revisions[numbers] == revisions) & ~(now < self._since[numbers]) & (now < self._until[numbers])
        same &= (self._started[numbers] == started) | (np.isnan(self._started[numbers]) & np.isnan(started))
        new = np.flatnonzero(~same)
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


def _no_forecast(rows: int) -> PhaseForecast:
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


_WHY_TEXTS: Final = {
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
        self.parameters: tuple[Parameter, ...] = phase_parameters(settings or DefaultSettings())
        self._fallback = fallback
        self._caches: SettingsCache[PhaseSettings, PhaseForecastCache] = SettingsCache(_new_cache)

    def estimate(self, rows: Rows, values: ParameterValues, now: float, /) -> Estimates:
        """For what comes from now until the horizon."""
        settings = read_phase_settings(values)

        def compute(positions: IntColumn) -> PhaseForecast:
            most = min(settings.runs + 1, RUNS)
            runs = rows.runs(positions, longest=settings.longest_run, most=most)
            return forecast_phases(runs, rows.started[positions], settings, now)

        forecast = self._caches.get(settings).get_forecasts(rows, now, compute)
        least = share_pod_minimums(
            settings.pod_recommendation_min_cpu_millicores, settings.pod_recommendation_min_memory_mb, rows.containers
        )
        fallback_estimates = estimate_fallback(self._fallback, rows, values, now)
        sized = HistoryBounds(
            forecast.bounds[:, CPU], forecast.bounds[:, MEMORY], forecast.runs.astype(np.float64)[np.newaxis]
        )
        return overlay_bounds(fallback_estimates, sized, least, _explain(forecast))


def _new_cache(_figures: PhaseSettings) -> PhaseForecastCache:
    return PhaseForecastCache()


def _explain(forecast: PhaseForecast) -> Explanations:
    """Where each row's sizes come from, and what is known of its runs."""
    texts = [_WHY_TEXTS[reason] for reason in forecast.reasons.tolist()]
    unknown = np.isnan(forecast.bounds[MIDDLE])
    sized = forecast.reasons == SIZED_BY_PHASES
    cpu, memory = (
        [_NOT_SAMPLED if lacks else text for lacks, text in zip((sized & column).tolist(), texts, strict=True)]
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
