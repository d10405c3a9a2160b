"""The default recommender, upstream's: a percentile of usage with a margin, bounds by confidence, a minimum per pod.

The arithmetic is upstream's, to the digit: amounts are whole numbers after every step. Three things are ours. A
resource without any sample gets no recommendation, where upstream recommends the minimum for what was never measured;
so a container with samples of one resource gets that resource alone. A bound never lies on the wrong side of the
target, whatever percentiles were chosen. And the histories of whole workloads are read like the others, without bounds.

Confidence is upstream's measure: days of history at a sample a minute. It counts CPU samples alone, for memory too. The
upper bound is multiplied by 1 + 1/c and the lower one divided by (1 + 0.001/c) squared, so that little history keeps
running pods from being touched: with none, the bounds are zero and infinity.

Parameters are all that upstream's flags set, under the same names. Half-lives and windows are not among them: they
shape the histograms, which are kept before a recommender reads them.
"""

from __future__ import annotations

import msgspec
import numpy as np

from trellis.core.recommend.amounts import CPU, LOWER, MEMORY, MIDDLE, MILLICORES_PER_CORE, UPPER, truncate_amounts
from trellis.core.recommend.parameters import Parameter, ParameterKind, ParameterValues, share_pod_minimums
from trellis.core.recommend.protocol import Estimates, Rows
from trellis.core.recommend.settings import DefaultSettings
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.histograms.decaying_histograms import HistogramBank

_LOWER_MULTIPLIER = 0.001


def compute_confidence(first: FloatColumn, last: FloatColumn, count: IntColumn, interval: float) -> FloatColumn:
    """Confidence from the first and last sample's times and the count; `interval`, in seconds, is 1.

    No sample at all is no confidence.
    """
    span = (last - first) / interval
    density = count / (interval / 60.0)
    confidence: FloatColumn = np.nan_to_num(np.clip(np.minimum(span, density), 0.0, None), nan=0.0)
    return confidence


def compute_lower_bound_factor(confidence: FloatColumn) -> FloatColumn:
    """The factor of the lower bound."""
    with np.errstate(divide="ignore"):
        width = 1.0 + _LOWER_MULTIPLIER / confidence
    return 1.0 / (width * width)


def compute_upper_bound_factor(confidence: FloatColumn) -> FloatColumn:
    """The factor of the upper bound; infinite without any confidence."""
    with np.errstate(divide="ignore"):
        return 1.0 + 1.0 / confidence


_LONGEST_INTERVAL = 365 * 86400.0
_LARGEST_POD = 1e9  # a million cores, or a pebibyte

_FIELDS_BY_PARAMETER = {
    "target-cpu-percentile": "target_cpu_percentile",
    "recommendation-lower-bound-cpu-percentile": "lower_bound_cpu_percentile",
    "recommendation-upper-bound-cpu-percentile": "upper_bound_cpu_percentile",
    "target-memory-percentile": "target_memory_percentile",
    "recommendation-lower-bound-memory-percentile": "lower_bound_memory_percentile",
    "recommendation-upper-bound-memory-percentile": "upper_bound_memory_percentile",
    "recommendation-margin-fraction": "margin_fraction",
    "confidence-interval-cpu": "confidence_interval_cpu",
    "confidence-interval-memory": "confidence_interval_memory",
    "pod-recommendation-min-cpu-millicores": "pod_min_cpu_millicores",
    "pod-recommendation-min-memory-mb": "pod_min_memory_mebibytes",
}


def declare_default_parameters(settings: DefaultSettings) -> tuple[Parameter, ...]:
    """The parameters, with the settings as defaults."""
    return tuple(_declare(name, getattr(settings, field)) for name, field in _FIELDS_BY_PARAMETER.items())


def read_default_settings(values: ParameterValues) -> DefaultSettings:
    """The settings, from a value for every parameter."""
    return msgspec.convert({field: values[name] for name, field in _FIELDS_BY_PARAMETER.items()}, DefaultSettings)


def _declare(name: str, default: float) -> Parameter:
    resource = "CPU" if "cpu" in name else "memory"
    if name.endswith("percentile"):
        bound = "target" if name.startswith("target") else "lower bound" if "lower" in name else "upper bound"
        meaning = f"Percentile of {resource} usage for the {bound}, as a fraction."
        return Parameter(name, ParameterKind.NUMBER, meaning, default, "fraction", minimum=0, maximum=1)
    if name.startswith("confidence"):
        meaning = f"Length of history with which the upper bound of {resource} is twice what usage alone gives."
        return Parameter(
            name, ParameterKind.DURATION, meaning, default, "seconds", minimum=60, maximum=_LONGEST_INTERVAL
        )
    if name.startswith("pod"):
        unit = "millicores" if resource == "CPU" else "MiB"
        meaning = f"Minimum {resource} of a pod, divided by its number of containers."
        return Parameter(name, ParameterKind.NUMBER, meaning, default, unit, minimum=0, maximum=_LARGEST_POD)
    meaning = "Safety margin, as a fraction of each percentile."
    return Parameter(name, ParameterKind.NUMBER, meaning, default, "fraction", minimum=0, maximum=100)


class DefaultRecommender:
    """Upstream's algorithm; what its flags set is a parameter, with the settings as defaults."""

    needs_history = False

    def __init__(self, settings: DefaultSettings | None = None, name: str = "default") -> None:
        self.name = name
        self.parameters: tuple[Parameter, ...] = declare_default_parameters(settings or DefaultSettings())

    def estimate(self, rows: Rows, values: ParameterValues, _now: float, /) -> Estimates:
        """Percentile, margin, confidence, minimum: in this order. Histories decay by the times of their samples."""
        settings, usage = read_default_settings(values), rows.usage
        minimums = share_pod_minimums(
            settings.pod_min_cpu_millicores, settings.pod_min_memory_mebibytes, rows.containers
        )
        confidence = np.stack(
            [
                compute_confidence(usage.first, usage.last, usage.count, interval)
                for interval in (settings.confidence_interval_cpu, settings.confidence_interval_memory)
            ]
        )
        cpu = (settings.lower_bound_cpu_percentile, settings.target_cpu_percentile, settings.upper_bound_cpu_percentile)
        memory = (
            settings.lower_bound_memory_percentile,
            settings.target_memory_percentile,
            settings.upper_bound_memory_percentile,
        )
        bounds, used = np.empty((3, 2, len(rows))), np.empty((2, len(rows)))
        for resource, bank, fractions, scale in (
            (CPU, usage.cpu, cpu, MILLICORES_PER_CORE),
            (MEMORY, usage.memory, memory, 1.0),
        ):
            percentiles = bank.percentiles(fractions, usage.rows) * scale
            sized = add_margin(percentiles, settings.margin_fraction)
            sized[LOWER] = truncate_amounts(sized[LOWER] * compute_lower_bound_factor(confidence[resource]))
            with np.errstate(invalid="ignore"):  # nothing used, times no confidence
                sized[UPPER] = truncate_amounts(sized[UPPER] * compute_upper_bound_factor(confidence[resource]))
            np.maximum(sized, minimums[resource], out=sized)
            np.minimum(sized[LOWER], sized[MIDDLE], out=sized[LOWER])
            np.maximum(sized[UPPER], sized[MIDDLE], out=sized[UPPER])
            sized[:, bank.is_empty(usage.rows)] = percentiles[:, bank.is_empty(usage.rows)] = np.nan
            bounds[:, resource], used[resource] = sized, percentiles[MIDDLE]
        # What the margin was added to, and what the target is at least: the two that make it.
        explanation = {
            "cpu-used": used[CPU],
            "memory-used": used[MEMORY],
            "least-cpu": minimums[CPU],
            "least-memory": minimums[MEMORY],
        }
        return Estimates(bounds, _estimate_totals(rows, settings, minimums), confidence.min(axis=0), explanation)


def add_margin(amounts: FloatColumn, fraction: float) -> FloatColumn:
    """Percentiles in millicores or bytes, as whole amounts, with the safety margin on top."""
    base = truncate_amounts(amounts)
    return base + truncate_amounts(base * fraction)


def _estimate_totals(rows: Rows, settings: DefaultSettings, minimums: FloatColumn) -> FloatColumn | None:
    usage = rows.usage
    with_totals = np.flatnonzero(usage.total_rows >= 0)
    if not len(with_totals):
        return None
    totals = np.full((2, len(rows)), np.nan)
    at = usage.total_rows[with_totals]
    totals[CPU, with_totals] = _estimate_total(
        usage.cpu_total, at, settings.target_cpu_percentile, MILLICORES_PER_CORE, settings
    )
    totals[MEMORY, with_totals] = _estimate_total(
        usage.memory_total, at, settings.target_memory_percentile, 1.0, settings
    )
    np.maximum(totals, minimums, out=totals)
    return totals


def _estimate_total(
    bank: HistogramBank, rows: IntColumn, fraction: float, scale: float, settings: DefaultSettings
) -> FloatColumn:
    total = add_margin(bank.percentiles([fraction], rows)[0] * scale, settings.margin_fraction)
    total[bank.is_empty(rows)] = np.nan
    return total
