"""What is a container to have at least? Its share of what a pod is to have."""

from __future__ import annotations

import numpy as np

from trellis.core.recommend.amounts import MILLICORES, whole
from trellis.core.recommend.settings import MEBIBYTE
from trellis.core.usage.columns import FloatColumn


def minimums(pod_millicores: float, pod_mebibytes: float, containers: FloatColumn) -> FloatColumn:
    """(CPU, MEMORY; row): what is to be had by a pod, divided by how many containers of it are recommended for."""
    share = 1.0 / np.maximum(containers, 1.0)
    # By way of cores and of a fraction, as upstream does it: a millicore may be lost to rounding, here as there.
    pod = (pod_millicores * 0.001 * MILLICORES, pod_mebibytes * MEBIBYTE)
    return np.stack([whole(np.trunc(amount) * share) for amount in pod])
