"""Which containers want whole CPUs? Those that an annotation of their VerticalPodAutoscaler names.

`vpa-post-processor.kubernetes.io/<container>_integerCPU: "true"` is upstream's, for nodes whose CPU manager pins
containers to cores. It is heeded only where a setting of the recommender says so.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from trellis.core.recommend.amounts import MILLICORES
from trellis.core.usage.columns import FloatColumn

PREFIX = "vpa-post-processor.kubernetes.io/"
SUFFIX = "_integerCPU"


def wants_integer_cpu(annotations: Mapping[str, str], container: str) -> bool:
    """Whether the annotation is there."""
    return annotations.get(f"{PREFIX}{container}{SUFFIX}") == "true"


def whole_cores(millicores: FloatColumn) -> FloatColumn:
    """The next whole core above."""
    return np.ceil(millicores / MILLICORES) * MILLICORES
