"""Forecasts what a run needs next, from earlier runs that were alike.

Of each such run, what it used from where this one is now until the horizon; of those, a high fraction for CPU and the
highest for memory. What is being used now is covered in any case. Before a run has begun, and until it can be told from
others, all earlier runs count by the clock: so the next pod begins with what the first phase needs.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
import numpy as np

from trellis.core.recommend.amounts import CPU, MEMORY
from trellis.core.recommend.forecast.phase_alignment import (
    RunAlignment,
    align_runs,
    find_negligible_differences,
    locate_runs,
    split_into_phases,
)
from trellis.core.recommend.parameters import Parameter, ParameterKind, ParameterValues
from trellis.core.recommend.pod_minimums import pod_minimum_parameters
from trellis.core.recommend.settings import DAY, DefaultSettings
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.core.usage.history.hours import Ring
from trellis.core.usage.history.runs import HIGHEST, MEAN, RUNS, SAME_RUN_SECONDS, RecentRuns

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


def phase_parameters(settings: DefaultSettings) -> tuple[Parameter, ...]:
    """The parameters; what a pod is to have at least is the same for all recommenders."""
    return (
        Parameter(
            "horizon",
            ParameterKind.DURATION,
            "CPU is sized for what earlier runs used from here until then. Pods that are not resized in place need a "
            "horizon longer than a run.",
            *(10 * _MINUTE, "seconds", 2 * _MINUTE, 7 * DAY),
        ),
        Parameter(
            "memory-horizon",
            ParameterKind.DURATION,
            "The same for memory: longer, because what comes too late is a kill and not a delay.",
            *(30 * _MINUTE, "seconds", 2 * _MINUTE, 7 * DAY),
        ),
        Parameter(
            "target-cpu-percentile",
            ParameterKind.NUMBER,
            "This fraction of the earlier runs that are alike stayed below the target of CPU. Memory is sized by all.",
            *(0.9, "fraction", 0.0, 1.0),
        ),
        Parameter(
            "recommendation-margin-fraction",
            ParameterKind.NUMBER,
            "Added to CPU, as a fraction of it.",
            *(0.15, "fraction", 0.0, 100.0),
        ),
        Parameter(
            "memory-margin-fraction",
            ParameterKind.NUMBER,
            "Added to memory, as a fraction of it.",
            *(0.15, "fraction", 0.0, 100.0),
        ),
        Parameter(
            "runs",
            ParameterKind.WHOLE,
            "So many of the newest runs are looked at: fewer forget an old version of a program sooner.",
            *(8, "", 1, RUNS - 1),
        ),
        Parameter(
            "runs-needed",
            ParameterKind.WHOLE,
            "With fewer earlier runs than this, a container is sized as by default.",
            *(3, "", 1, RUNS - 1),
        ),
        Parameter(
            "longest-run",
            ParameterKind.DURATION,
            "A pod that lasts longer is no run: it is sized as by default, and nothing is learned from it.",
            *(DAY, "seconds", 10 * _MINUTE, 35 * DAY),
        ),
        *pod_minimum_parameters(settings),
    )


def read_phase_settings(values: ParameterValues) -> PhaseSettings:
    """The settings, from a value for every parameter."""
    fields = PhaseSettings.__struct_fields__
    return msgspec.convert({field: values[field.replace("_", "-")] for field in fields}, PhaseSettings)


SILENCE_SECONDS: Final = 180.0  # seconds after which a run that has not been sampled is taken to be over
_RISE: Final = 1.2  # what is this many times more than now is a rise
_RECENT_PLACES: Final = 2  # places of which usage counts as what is used now

# Why a row is not sized by its runs; 0 if it is.
SIZED_BY_PHASES, TOO_FEW_RUNS, UNLIKE_EARLIER_RUNS, TOO_LONG_RUN = range(4)


class PhaseForecast(NamedTuple):
    """By row: lower bound, target and upper bound (3, resources, rows), NaN without a forecast; and the reasons.

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
    in which place of time it is. Those of a row are side by side, the newest last.
    """

    row: IntColumn
    run: IntColumn
    begin: FloatColumn
    place: IntColumn


def forecast_phases(recent: RecentRuns, started: FloatColumn, settings: PhaseSettings, now: float) -> PhaseForecast:
    """For rows whose newest pod started at a time, NaN if there is none."""
    open_runs = _find_open_runs(recent, started, now)
    means, highest = recent.values[:, :, :, MEAN], recent.values[:, :, :, HIGHEST]
    rows, runs = recent.begin.shape
    negligible = find_negligible_differences(means)
    phases = split_into_phases(means.reshape(rows * runs, 2, -1), np.repeat(negligible, runs, axis=0))
    running = locate_runs(
        phases, np.where(open_runs.run >= 0, open_runs.row * runs + open_runs.run, -1), open_runs.place
    )
    earlier = phases.select_rows(runs, open_runs.row)
    compared = (recent.begin[open_runs.row] < open_runs.begin[:, np.newaxis] - SAME_RUN_SECONDS) & (earlier.lengths > 0)
    compared &= np.cumsum(compared, axis=1) <= settings.runs
    at = align_runs(running, earlier, negligible[open_runs.row])
    alike = at.alike & compared
    used = np.where(alike[..., np.newaxis, np.newaxis], highest[open_runs.row], np.float32(np.nan))
    current_usage = _recent_usage(highest, open_runs, earlier.lengths)
    width = recent.width[open_runs.row]
    bounds = _bounds(*_usage_ahead(used, at, earlier.lengths, settings, width), current_usage, settings)
    counts = compared.sum(axis=1), alike.sum(axis=1)
    reasons = _judge(*counts, settings)
    bounds[:, :, reasons != SIZED_BY_PHASES] = np.nan
    newest = np.flatnonzero(
        np.append(open_runs.row[1:] != open_runs.row[:-1], np.ones(min(len(open_runs.row), 1), dtype=np.bool_))
    )
    reasons = np.where(now - started > settings.longest_run, TOO_LONG_RUN, reasons[newest])
    return PhaseForecast(
        bounds=np.where(reasons == SIZED_BY_PHASES, _highest(bounds, open_runs.row, rows), np.nan),
        reasons=reasons,
        runs=counts[0][newest],
        alike=counts[1][newest],
        phase=running.phase[newest] + 1,
        seconds_to_rise=_find_rises(used, at, current_usage, width)[newest],
        expires_at=_find_expiry(open_runs, recent, started, settings, now),
    )


def _judge(known: IntColumn, alike: IntColumn, settings: PhaseSettings) -> IntColumn:
    """Whether enough earlier runs are known, and enough of them are alike: one of as few as are needed may be odd."""
    few, unlike = known < settings.runs_needed, alike < max(settings.runs_needed - 1, 1)
    reasons: IntColumn = np.where(few, TOO_FEW_RUNS, np.where(unlike, UNLIKE_EARLIER_RUNS, SIZED_BY_PHASES))
    return reasons


def _find_open_runs(runs: RecentRuns, started: FloatColumn, now: float) -> _OpenRuns:
    """What is to be sized: of each row all runs that go on, the newest last; the one to come if there is no pod."""
    has_pod = ~np.isnan(started)[:, np.newaxis]
    newest = np.abs(runs.begin - started[:, np.newaxis]) <= SAME_RUN_SECONDS
    goes_on = has_pod & (newest | ((runs.last >= now - SILENCE_SECONDS) & (runs.begin < started[:, np.newaxis])))
    row, run = np.nonzero(goes_on[:, ::-1])  # seen are the newest first
    run = runs.begin.shape[1] - 1 - run
    silent = np.flatnonzero(~newest.any(axis=1))
    begin = np.concatenate([runs.begin[row, run], np.where(np.isnan(started[silent]), np.inf, started[silent])])
    row = np.concatenate([row, silent])
    run = np.concatenate([run, np.full(len(silent), -1)])
    order = np.lexsort((begin, row))
    row, run, begin = row[order], run[order], begin[order]
    age = np.where(np.isinf(begin), 0.0, np.maximum(now - begin, 0.0))
    place = np.floor(np.nan_to_num(age / runs.width[row])).astype(np.int64)
    return _OpenRuns(row, run, begin, place)


def _recent_usage(highest: Ring, open_runs: _OpenRuns, lengths: IntColumn) -> FloatColumn:
    """(runs, resources): what a run used at most in its last places; NaN if it was not sampled yet."""
    mine = highest[open_runs.row, open_runs.run]
    length = lengths[np.arange(len(open_runs.row)), open_runs.run][:, np.newaxis, np.newaxis]
    places = np.arange(mine.shape[-1])
    recent = (places >= length - _RECENT_PLACES) & (open_runs.run >= 0)[:, np.newaxis, np.newaxis]
    usage: FloatColumn = np.fmax.reduce(np.where(recent, mine, np.float32(np.nan)), axis=-1).astype(np.float64)
    return usage


def _usage_ahead(
    used: Ring, at: RunAlignment, lengths: IntColumn, settings: PhaseSettings, width: FloatColumn
) -> tuple[FloatColumn, FloatColumn]:
    """(runs, earlier runs, resources): what was used at most until the horizon, and until the end."""
    places = np.arange(used.shape[-1])
    last = np.maximum(lengths - 1, 0)
    begin = np.minimum(np.minimum(at.place, at.last_of_phase), last)[..., np.newaxis]
    horizons = np.array([settings.horizon, settings.memory_horizon])
    steps = np.ceil(horizons / width[:, np.newaxis])[:, np.newaxis]
    end = np.maximum(at.place, begin[..., 0])[..., np.newaxis] + steps
    is_ahead = places >= begin[..., np.newaxis]
    rest = np.where(is_ahead, used, np.float32(np.nan))
    need = np.where(places <= end[..., np.newaxis], rest, np.float32(np.nan))
    return np.fmax.reduce(need, axis=-1).astype(np.float64), np.fmax.reduce(rest, axis=-1).astype(np.float64)


def _bounds(need: FloatColumn, rest: FloatColumn, current_usage: FloatColumn, settings: PhaseSettings) -> FloatColumn:
    """(bounds, resources, runs). A pod is too small with less than what is coming, so that it is resized before.

    It is too large with more than the rest of the run takes: what is given away between two peaks may be gone when it
    is needed again.
    """
    margins = np.array([settings.recommendation_margin_fraction, settings.memory_margin_fraction])[:, np.newaxis]
    needed = np.stack([_fraction(need[..., CPU], settings.target_cpu_percentile), np.fmax.reduce(need[..., MEMORY], 1)])
    target = np.where(np.isnan(needed), np.nan, np.fmax(needed, current_usage.T))
    highest = np.fmax(np.fmax.reduce(rest, axis=1).T, target)
    return np.stack([target, target * (1.0 + margins), np.where(np.isnan(target), np.nan, highest * (1.0 + margins))])


def _fraction(values: FloatColumn, fraction: float) -> FloatColumn:
    """What so many of the known values of each row are not above; NaN if none is known."""
    order = np.sort(values, axis=1)  # what is not known comes last
    count = (~np.isnan(values)).sum(axis=1)
    at = np.clip(np.ceil(fraction * count).astype(np.int64) - 1, 0, None)
    quantile: FloatColumn = order[np.arange(len(order)), at]
    return quantile


def _find_rises(used: Ring, at: RunAlignment, current_usage: FloatColumn, width: FloatColumn) -> FloatColumn:
    """In how many seconds the first of the earlier runs used more than is used now."""
    places = np.arange(used.shape[-1])
    more: BoolColumn = np.any(used > _RISE * current_usage[:, np.newaxis, :, np.newaxis], axis=2)
    more &= places > np.minimum(at.place, at.last_of_phase)[..., np.newaxis]
    steps = np.where(more, np.maximum(places - at.place[..., np.newaxis], 0), np.inf).min(axis=(1, 2), initial=np.inf)
    seconds: FloatColumn = np.where(np.isinf(steps), np.nan, np.nan_to_num(steps, posinf=0.0) * np.nan_to_num(width))
    return seconds


def _highest(bounds: FloatColumn, row: IntColumn, rows: int) -> FloatColumn:
    """The bounds of rows: where several of its runs go on, what the one takes that needs most."""
    highest = np.full((*bounds.shape[:2], rows), np.nan)
    for mine, theirs in zip(highest.reshape(-1, rows), bounds.reshape(-1, len(row)), strict=True):
        np.fmax.at(mine, row, theirs)
    return highest


def _find_expiry(
    open_runs: _OpenRuns, runs: RecentRuns, started: FloatColumn, settings: PhaseSettings, now: float
) -> FloatColumn:
    """When the next place begins, or a run has been silent for long enough, or has become too long."""
    until = np.full(len(started), np.inf)
    next_place = np.nan_to_num(open_runs.begin + (open_runs.place + 1) * runs.width[open_runs.row], nan=np.inf)
    np.minimum.at(until, open_runs.row, next_place)
    silent = runs.last + SILENCE_SECONDS
    until = np.minimum(until, np.where(silent >= now, silent, np.inf).min(axis=1, initial=np.inf))
    longest = started + settings.longest_run
    expiry: FloatColumn = np.minimum(until, np.where(longest >= now, longest, np.inf))
    return expiry
