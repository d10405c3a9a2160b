"""By what does an HPA scale, as far as sizes have to do with it?"""

from __future__ import annotations

import math
from typing import Final

from trellis.api.kube.scaling import HorizontalPodAutoscaler, Metric
from trellis.core.advice.surveyed import HpaTarget, SurveyedHpa
from trellis.core.model.pods import cpu_millicores, memory_bytes
from trellis.core.recommend.amounts import RESOURCES

_READ: Final = {"cpu": cpu_millicores, "memory": memory_bytes}


def surveyed_hpa(hpa: HorizontalPodAutoscaler) -> SurveyedHpa:
    """What counts of an HPA."""
    targets = [target for metric in hpa.spec.metrics if (target := _target(metric)) is not None]
    spec = hpa.spec
    return SurveyedHpa(
        name=hpa.metadata.name,
        least=1 if spec.min_replicas is None else spec.min_replicas,
        most=spec.max_replicas,
        replicas=hpa.status.current_replicas,
        targets=tuple(targets),
        others=len(spec.metrics) - len(targets),
    )


def _target(metric: Metric) -> HpaTarget | None:
    source = metric.resource or metric.container_resource
    if source is None or source.name not in RESOURCES:
        return None
    percent = source.target.average_utilization
    return HpaTarget(
        resource=source.name,
        utilization=math.nan if percent is None else float(percent),
        average=_READ[source.name](source.target.average_value),
        container=source.container,
    )
