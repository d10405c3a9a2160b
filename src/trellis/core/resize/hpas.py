"""By the utilization of which resources do HPAs scale a workload?

Utilization is usage as a share of requests, so that who changes a request changes what the HPA does: a lower request is
a higher utilization, more replicas, less usage each, and a lower recommendation. Average values do not look at
requests, and get along with whatever sizes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.core.recommend.amounts import RESOURCES

_UTILIZATION: Final = "Utilization"


def scaled_by(hpas: Iterable[HorizontalPodAutoscaler]) -> frozenset[str]:
    """Those of CPU and memory by whose utilization any of these scales; of one container is enough."""
    sources = (each.resource or each.container_resource for hpa in hpas for each in hpa.spec.metrics)
    return frozenset(
        source.name
        for source in sources
        if source is not None and source.target.type == _UTILIZATION and source.name in RESOURCES
    )
