"""What would upstream recommend? A percentile of usage with a margin, bounds by confidence, and a least size per pod.

The arithmetic is upstream's, to the digit: amounts are whole numbers after every step. Three things are ours. A
resource without any sample gets no recommendation, where upstream recommends the minimum to who never measured
anything; so a container with samples of one resource gets that resource alone. A bound never lies on the wrong side of
the target, whatever percentiles were chosen. And the histories of whole workloads are read like the others, without
bounds.
"""

from __future__ import annotations

import numpy as np

from trellis.core.recommend.amounts import CPU, LOWER, MEMORY, MIDDLE, MILLICORES, UPPER, whole
from trellis.core.recommend.confidence import confidence, lower_factor, upper_factor
from trellis.core.recommend.default_parameters import declared_parameters, figures_from
from trellis.core.recommend.parameters import Parameter, ParameterValues
from trellis.core.recommend.pod_minimums import minimums
from trellis.core.recommend.protocol import Estimates, Rows
from trellis.core.recommend.settings import DefaultSettings
from trellis.core.usage.bank import Bank
from trellis.core.usage.columns import FloatColumn, IntColumn


class DefaultRecommender:
    """Upstream's algorithm; what its flags set is a parameter, with the settings as defaults."""

    needs_history = False

    def __init__(self, settings: DefaultSettings | None = None, name: str = "default") -> None:
        self.name = name
        self.parameters: tuple[Parameter, ...] = declared_parameters(settings or DefaultSettings())

    def estimate(self, rows: Rows, values: ParameterValues, _now: float, /) -> Estimates:
        """Percentile, margin, confidence, minimum: in this order. Histories decay by the times of their samples."""
        figures, usage = figures_from(values), rows.usage
        least = minimums(figures.pod_min_cpu_millicores, figures.pod_min_memory_mebibytes, rows.containers)
        trust = np.stack(
            [
                confidence(usage.first, usage.last, usage.count, interval)
                for interval in (figures.confidence_interval_cpu, figures.confidence_interval_memory)
            ]
        )
        cpu = (figures.lower_bound_cpu_percentile, figures.target_cpu_percentile, figures.upper_bound_cpu_percentile)
        memory = (
            figures.lower_bound_memory_percentile,
            figures.target_memory_percentile,
            figures.upper_bound_memory_percentile,
        )
        bounds, used = np.empty((3, 2, len(rows))), np.empty((2, len(rows)))
        for resource, bank, fractions, scale in (
            (CPU, usage.cpu, cpu, MILLICORES),
            (MEMORY, usage.memory, memory, 1.0),
        ):
            percentiles = bank.percentiles(fractions, usage.rows) * scale
            found = with_margin(percentiles, figures.margin_fraction)
            found[LOWER] = whole(found[LOWER] * lower_factor(trust[resource]))
            with np.errstate(invalid="ignore"):  # nothing used, times no confidence
                found[UPPER] = whole(found[UPPER] * upper_factor(trust[resource]))
            np.maximum(found, least[resource], out=found)
            np.minimum(found[LOWER], found[MIDDLE], out=found[LOWER])
            np.maximum(found[UPPER], found[MIDDLE], out=found[UPPER])
            found[:, bank.empty(usage.rows)] = percentiles[:, bank.empty(usage.rows)] = np.nan
            bounds[:, resource], used[resource] = found, percentiles[MIDDLE]
        # What the margin was added to, and what the target is at least: the two that make it.
        why = {
            "cpu-used": used[CPU],
            "memory-used": used[MEMORY],
            "least-cpu": least[CPU],
            "least-memory": least[MEMORY],
        }
        return Estimates(bounds, _totals(rows, figures, least), trust.min(axis=0), why)


def with_margin(amounts: FloatColumn, fraction: float) -> FloatColumn:
    """Percentiles in millicores or bytes, as whole amounts, with the safety margin on top."""
    base = whole(amounts)
    return base + whole(base * fraction)


def _totals(rows: Rows, figures: DefaultSettings, least: FloatColumn) -> FloatColumn | None:
    usage = rows.usage
    kept = np.flatnonzero(usage.total_rows >= 0)
    if not len(kept):
        return None
    totals = np.full((2, len(rows)), np.nan)
    at = usage.total_rows[kept]
    totals[CPU, kept] = _total(usage.cpu_total, at, figures.target_cpu_percentile, MILLICORES, figures)
    totals[MEMORY, kept] = _total(usage.memory_total, at, figures.target_memory_percentile, 1.0, figures)
    np.maximum(totals, least, out=totals)
    return totals


def _total(bank: Bank, rows: IntColumn, fraction: float, scale: float, figures: DefaultSettings) -> FloatColumn:
    found = with_margin(bank.percentiles([fraction], rows)[0] * scale, figures.margin_fraction)
    found[bank.empty(rows)] = np.nan
    return found
