"""The window recommender: a moving window in which usage counts by the load it was, as in Autopilot.

CPU is a percentile of the last hours, each counting less than the next, in which a sample counts as often as it is
large: that fraction of the work was done within the target. Memory is sized by how well the workload tolerates
out-of-memory kills. (Rzadca et al., Autopilot: workload autoscaling at Google, EuroSys 2020.) It follows what happens
and forecasts nothing: for workloads with a daily rhythm the seasonal recommender is better.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec
import numpy as np

from trellis.core.recommend.amounts import CPU, MEMORY
from trellis.core.recommend.forecast.caches import HourlyCache, SettingsCache
from trellis.core.recommend.forecast.candidates import HistoryAtMoments, RecentHours, WeightedHistory
from trellis.core.recommend.forecast.hourly_forecast import HistoryBounds
from trellis.core.recommend.forecast.normalized_history import normalize_hours, trim_unknown_hours
from trellis.core.recommend.parameters import (
    Parameter,
    ParameterKind,
    ParameterValues,
    declare_pod_minimums,
    share_pod_minimums,
)
from trellis.core.recommend.protocol import Estimates, Recommender, Rows
from trellis.core.recommend.recommenders.fallback import estimate_fallback, explain_origins, overlay_bounds
from trellis.core.recommend.settings import DAY, DefaultSettings
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.history.hours import HOUR, MAXIMUM, Ring


class OomTolerance(StrEnum):
    """How well a workload tolerates out-of-memory kills."""

    MINIMAL = "minimal"
    LOW = "low"
    INTERMEDIATE = "intermediate"


class WindowSettings(msgspec.Struct, frozen=True):
    """The values; times in seconds."""

    cpu_half_life: float
    target_cpu_percentile: float
    recommendation_margin_fraction: float
    oom_tolerance: OomTolerance
    memory_window: float
    memory_half_life: float
    memory_margin_fraction: float
    history_needed: float
    pod_recommendation_min_cpu_millicores: float
    pod_recommendation_min_memory_mb: float


def declare_window_parameters(settings: DefaultSettings) -> tuple[Parameter, ...]:
    """The parameters; what a pod is to have at least is the same for all recommenders."""
    return (
        Parameter(
            "cpu-half-life",
            ParameterKind.DURATION,
            "Half-life of history: an hour this long ago has half the weight of the last one.",
            *(12 * HOUR, "seconds", HOUR, 7 * DAY),
        ),
        Parameter(
            "target-cpu-percentile",
            ParameterKind.NUMBER,
            "Fraction of the CPU time that was used while usage was below the target.",
            *(0.9, "fraction", 0.0, 1.0),
        ),
        Parameter(
            "recommendation-margin-fraction",
            ParameterKind.NUMBER,
            "Safety margin of CPU, as a fraction of the percentile.",
            *(0.15, "fraction", 0.0, 100.0),
        ),
        Parameter(
            "oom-tolerance",
            ParameterKind.CHOICE,
            "How much risk of out-of-memory kills is acceptable: memory is the highest peak, nearly the "
            "highest, or the usual one, and at least half the highest.",
            OomTolerance.MINIMAL.value,
            choices=tuple(tolerance.value for tolerance in OomTolerance),
        ),
        Parameter(
            "memory-window",
            ParameterKind.DURATION,
            "Length of history in which memory peaks count.",
            *(7 * DAY, "seconds", DAY, 35 * DAY),
        ),
        Parameter(
            "memory-half-life",
            ParameterKind.DURATION,
            "Half-life of usual peaks: an hour this long ago has half the weight of the last one.",
            *(2 * DAY, "seconds", HOUR, 14 * DAY),
        ),
        Parameter(
            "memory-margin-fraction",
            ParameterKind.NUMBER,
            "Safety margin of memory, as a fraction.",
            *(0.10, "fraction", 0.0, 100.0),
        ),
        Parameter(
            "history-needed",
            ParameterKind.DURATION,
            "History that a container needs; with less it is sized as by `default`.",
            *(DAY, "seconds", HOUR, 35 * DAY),
        ),
        *declare_pod_minimums(settings),
    )


def read_window_settings(values: ParameterValues) -> WindowSettings:
    """The settings, from a value for every parameter."""
    fields = WindowSettings.__struct_fields__
    return msgspec.convert({field: values[field.replace("_", "-")] for field in fields}, WindowSettings)


_MEDIAN: Final = 0.5
# Where kills are borne rarely, and where they are borne: above usage for so much of the time.
_RARELY, _OFTEN = 0.98, 0.6
_BOUNDS: Final = 3
_WIDTH: Final = 2 * _BOUNDS + 2  # bounds of each resource, and how many hours of each are known


class WindowRecommender:
    """Sizes by the last hours."""

    name = "window"
    needs_history = True

    def __init__(self, fallback: Recommender, settings: DefaultSettings | None = None) -> None:
        self.parameters: tuple[Parameter, ...] = declare_window_parameters(settings or DefaultSettings())
        self._fallback = fallback
        self._caches: SettingsCache[WindowSettings, HourlyCache] = SettingsCache(_create_cache)

    def estimate(self, rows: Rows, values: ParameterValues, now: float, /) -> Estimates:
        """Estimate by the hours before this one."""
        settings = read_window_settings(values)

        def compute(positions: IntColumn) -> FloatColumn:
            return _compute_columns(rows.hours(now, positions), settings)

        columns = self._caches.get(settings).get_columns(rows, now, np.zeros(len(rows), dtype=np.int64), compute)
        sized_cpu, sized_memory, known_hours = np.split(columns, [_BOUNDS, 2 * _BOUNDS])
        known_hours = np.nan_to_num(known_hours)
        has_enough = known_hours >= settings.history_needed / HOUR
        cpu, memory = np.where(has_enough[CPU], sized_cpu, np.nan), np.where(has_enough[MEMORY], sized_memory, np.nan)
        sized = HistoryBounds(cpu, memory, known_hours)
        minimums = share_pod_minimums(
            settings.pod_recommendation_min_cpu_millicores, settings.pod_recommendation_min_memory_mb, rows.containers
        )
        fallback_estimates = estimate_fallback(self._fallback, rows, values, now)
        return overlay_bounds(fallback_estimates, sized, minimums, explain_origins(sized, ["window"] * len(rows)))


def _create_cache(_figures: WindowSettings) -> HourlyCache:
    return HourlyCache(_WIDTH)


def _compute_columns(summaries: Ring, settings: WindowSettings) -> FloatColumn:
    """The bounds of CPU and of memory, and the known hours of each, by row."""
    known_hours = (~np.isnan(summaries[:, :, 0])).sum(axis=2).T
    return np.concatenate(
        [_size_cpu(summaries[:, CPU], settings), _size_memory(summaries[:, MEMORY], settings), known_hours]
    )


def _size_cpu(summaries: Ring, settings: WindowSettings) -> FloatColumn:
    past = normalize_hours(trim_unknown_hours(summaries), change_share=0.0)
    history = WeightedHistory("window", ((RecentHours(settings.cpu_half_life / HOUR), 1.0),))
    histograms = HistoryAtMoments(past, np.array([past.hours])).build_histograms(history)
    lower, target, upper = histograms.weigh_by_load().quantiles((_MEDIAN, settings.target_cpu_percentile, 1.0))[:, :, 0]
    margin_factor = 1.0 + settings.recommendation_margin_fraction
    return np.stack([np.minimum(lower, target), target * margin_factor, upper * margin_factor])


def _size_memory(summaries: Ring, settings: WindowSettings) -> FloatColumn:
    """Lower bound, target and upper bound: what kills cost decides how near to the highest peak the target is."""
    window = round(settings.memory_window / HOUR)
    peaks = summaries[:, MAXIMUM, -window:].astype(np.float64)
    highest = np.fmax.reduce(peaks, axis=1)
    median, rarely, often = _compute_weighted_quantiles(
        peaks, settings.memory_half_life / HOUR, (_MEDIAN, _RARELY, _OFTEN)
    )
    target = {
        OomTolerance.MINIMAL: highest,
        OomTolerance.LOW: rarely,
        OomTolerance.INTERMEDIATE: np.maximum(often, highest / 2.0),
    }[settings.oom_tolerance]
    margin_factor = 1.0 + settings.memory_margin_fraction
    return np.stack(
        [
            np.minimum(median, target),
            target * margin_factor,
            np.maximum(highest, target) * margin_factor * margin_factor,
        ]
    )


def _compute_weighted_quantiles(values: FloatColumn, half_life: float, fractions: tuple[float, ...]) -> FloatColumn:
    """(fractions, rows) of hourly values (rows, hours), each counting less than the next; NaN where none is known."""
    ages = np.arange(values.shape[1], 0, -1.0)
    order = np.argsort(values, axis=1)  # what is not known comes last
    ordered = np.take_along_axis(values, order, axis=1)
    weights = np.where(np.isnan(ordered), 0.0, np.exp2(-ages / half_life)[order])
    sums = np.cumsum(weights, axis=1)
    rows = np.arange(len(values))
    return np.stack(
        [ordered[rows, (sums < fraction * sums[:, -1:]).sum(axis=1)] for fraction in fractions],
    )
