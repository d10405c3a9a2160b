"""Overlays bounds from history on the estimates of the fallback recommender."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from trellis.core.recommend.amounts import CPU, LOWER, MEMORY, MIDDLE, UPPER
from trellis.core.recommend.forecast.hourly_forecast import HistoryBounds
from trellis.core.recommend.parameters import ParameterValues
from trellis.core.recommend.protocol import Estimates, Explanations, Recommender, Rows
from trellis.core.usage.columns import FloatColumn

TOO_LITTLE_HISTORY = "too little history"


def estimate_fallback(fallback: Recommender, rows: Rows, values: ParameterValues, now: float) -> Estimates:
    """The estimates of the fallback recommender: with its own parameters, but for what a pod is to have at least."""
    defaults = {parameter.name: parameter.default for parameter in fallback.parameters}
    shared = {name: value for name, value in values.items() if name in defaults and name.startswith("pod-")}
    return fallback.estimate(rows, defaults | shared, now)


def overlay_bounds(
    fallback_estimates: Estimates, sized: HistoryBounds, minimums: FloatColumn, explanation: Explanations
) -> Estimates:
    """The estimates with better known bounds; no bound is less than `minimums`, (CPU, MEMORY; row).

    What another recommender says about whole workloads stays, and so does how sure it is of rows that are its own.
    """
    bounds = fallback_estimates.bounds.copy()
    for resource, resource_bounds in ((CPU, sized.cpu), (MEMORY, sized.memory)):
        is_known = ~np.isnan(resource_bounds[MIDDLE])
        raised = np.maximum(resource_bounds[:, is_known], minimums[resource, is_known])
        raised[LOWER] = np.minimum(raised[LOWER], raised[MIDDLE])
        raised[UPPER] = np.maximum(raised[UPPER], raised[MIDDLE])
        bounds[:, resource, is_known] = raised
    confidence = fallback_estimates.confidence
    if confidence is not None:
        confidence = np.where(np.isnan(sized.cpu[MIDDLE]), confidence, np.maximum(confidence, 1.0))
    return msgspec.structs.replace(fallback_estimates, bounds=bounds, confidence=confidence, explanation=explanation)


def explain_origins(sized: HistoryBounds, candidates: Sequence[str]) -> dict[str, FloatColumn | Sequence[str]]:
    """The origin of each row's bounds, the days of history, and the memory cycle that is followed."""
    has_too_little = np.isnan(np.stack([sized.cpu[MIDDLE], sized.memory[MIDDLE]]))
    explanation: dict[str, FloatColumn | Sequence[str]] = {
        "cpu": [
            TOO_LITTLE_HISTORY if is_short else name
            for is_short, name in zip(has_too_little[CPU].tolist(), candidates, strict=True)
        ],
        "memory": [TOO_LITTLE_HISTORY if is_short else "peaks" for is_short in has_too_little[MEMORY].tolist()],
        "days": sized.known_hours.max(axis=0) / 24.0,
    }
    if sized.cycle is not None:
        cycle, until_peak = np.where(has_too_little[MEMORY], np.nan, sized.cycle)
        has_cycles = (~np.isnan(cycle)).tolist()
        explanation["memory"] = [
            "cycle" if has_cycle else text for text, has_cycle in zip(explanation["memory"], has_cycles, strict=True)
        ]
        explanation |= {"memory-cycle-days": cycle, "memory-peak-in-days": until_peak}
    return explanation
