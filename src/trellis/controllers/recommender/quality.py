"""How good are the recommendations? Each usage sample against the recommendation in force when it came, as metrics.

The recommendation is the uncapped one, as upstream compares it: a policy that cuts it says nothing of the estimate.
Samples of containers that are not to be sized say nothing of it either.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from trellis.controllers.recommender.metrics import (
    CPU_ADVICE,
    CPU_OVER,
    CPU_UNDER,
    MEMORY_ADVICE,
    MEMORY_OVER,
    MEMORY_UNDER,
    MISSING,
    RELATIVE_CHANGES,
    RELATIVE_DIFFS,
)
from trellis.core.recommend.amounts import RESOURCES
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.runtime.metrics import Metrics

# From 2^20 pods on all VPAs are of one size, as upstream has it.
_LARGEST: Final = 20
_TRUE, _FALSE = "true", "false"


class Compared(msgspec.Struct, frozen=True):
    """Samples beside their recommendations: cores or bytes, NaN where there is none.

    `modes` has for each the number of its VPA's update mode in `names`.
    """

    usage: FloatColumn
    recommended: FloatColumn
    modes: IntColumn
    names: Sequence[str]


def observe_usage(metrics: Metrics, resource: str, compared: Compared, *, oom: bool = False) -> None:
    """Take samples of one resource into the metrics, a column for each update mode."""
    sampled = ~np.isnan(compared.usage)
    for number, mode in enumerate(compared.names):
        chosen = sampled & (compared.modes == number)
        if chosen.any():
            usage, recommended = compared.usage[chosen], compared.recommended[chosen]
            _observe(metrics, (resource, mode, _TRUE if oom else _FALSE), usage, recommended)


def _observe(metrics: Metrics, labels: tuple[str, str, str], usage: FloatColumn, recommended: FloatColumn) -> None:
    resource, mode, oom = labels
    is_cpu = resource == "cpu"
    over, under, advice = (CPU_OVER, CPU_UNDER, CPU_ADVICE) if is_cpu else (MEMORY_OVER, MEMORY_UNDER, MEMORY_ADVICE)
    more = () if is_cpu else (oom,)
    missing = ~(recommended > 0)
    if missing.any():
        metrics.add(MISSING, float(missing.sum()), mode, resource, oom)
        metrics.observe_all(under, usage[missing], mode, _TRUE, *more)
    usage, recommended = usage[~missing], recommended[~missing]
    if not len(usage):
        return
    metrics.observe_all(RELATIVE_DIFFS, (usage - recommended) / recommended, mode, resource, oom)
    metrics.observe_all(advice, recommended, mode, *more)
    higher = recommended > usage
    if higher.any():
        metrics.observe_all(over, (recommended - usage)[higher], mode, _FALSE, *more)
    if not higher.all():
        metrics.observe_all(under, (usage - recommended)[~higher], mode, _FALSE, *more)


def observe_changes(
    metrics: Metrics,
    moved: tuple[FloatColumn, FloatColumn],
    modes: IntColumn,
    pods: IntColumn,
    names: Sequence[str],
) -> None:
    """Take in by how much targets moved, from and to (resource, container); a first one has not moved."""
    before, after = moved
    sizes = np.minimum(np.frexp(np.maximum(pods, 1).astype(np.float64))[1] - 1, _LARGEST)
    labels = modes * (_LARGEST + 1) + sizes
    for label in np.unique(labels).tolist():
        mode, size = divmod(label, _LARGEST + 1)
        for number, resource in enumerate(RESOURCES):
            chosen = (labels == label) & (before[number] > 0) & ~np.isnan(after[number])
            if chosen.any():
                changes = (after[number] - before[number])[chosen] / before[number][chosen]
                metrics.observe_all(RELATIVE_CHANGES, changes, names[mode], resource, str(size))
