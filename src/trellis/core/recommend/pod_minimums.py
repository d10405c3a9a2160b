"""The minimum CPU and memory of a pod, shared by its containers: parameters that every recommender has."""

from __future__ import annotations

import numpy as np

from trellis.core.recommend.amounts import MILLICORES_PER_CORE, truncate_amounts
from trellis.core.recommend.parameters import Parameter, ParameterKind
from trellis.core.recommend.settings import MEBIBYTE, DefaultSettings
from trellis.core.usage.columns import FloatColumn

_LARGEST_POD = 1e9  # a million cores, or a pebibyte


def pod_minimum_parameters(settings: DefaultSettings) -> tuple[Parameter, Parameter]:
    """The parameters that say what a pod is to have; those of every recommender have these names."""
    return (
        Parameter(
            "pod-recommendation-min-cpu-millicores",
            ParameterKind.NUMBER,
            "The least CPU of a whole pod, shared by its containers.",
            *(settings.pod_min_cpu_millicores, "millicores", 0.0, _LARGEST_POD),
        ),
        Parameter(
            "pod-recommendation-min-memory-mb",
            ParameterKind.NUMBER,
            "The least memory of a whole pod, shared by its containers.",
            *(settings.pod_min_memory_mebibytes, "MiB", 0.0, _LARGEST_POD),
        ),
    )


def share_pod_minimums(pod_millicores: float, pod_mebibytes: float, containers: FloatColumn) -> FloatColumn:
    """(CPU, MEMORY; row): what is to be had by a pod, divided by how many containers of it are recommended for."""
    share = 1.0 / np.maximum(containers, 1.0)
    # By way of cores and of a fraction, as upstream does it: a millicore may be lost to rounding, here as there.
    pod = (pod_millicores * 0.001 * MILLICORES_PER_CORE, pod_mebibytes * MEBIBYTE)
    return np.stack([truncate_amounts(np.trunc(amount) * share) for amount in pod])
