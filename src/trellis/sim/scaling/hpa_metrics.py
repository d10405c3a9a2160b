"""What does one metric of an HPA ask for? Its target beside what pods use, or why that cannot be told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from trellis.api.kube.scaling import (
    HorizontalPodAutoscalerSpec,
    Metric,
    MetricSource,
    MetricTarget,
    MetricValue,
)
from trellis.base.errors import InvalidQuantity
from trellis.base.quantity import Quantity
from trellis.sim.scaling.pod_metrics import RESOURCES, Gathered
from trellis.sim.scaling.proposals import Aim, Tolerance, proposed

_RESOURCE, _CONTAINER = "Resource", "ContainerResource"
# What the API server fills in where no metric is given.
_USUAL: Final = Metric(
    type=_RESOURCE,
    resource=MetricSource(name="cpu", target=MetricTarget(type="Utilization", average_utilization=80)),
)


class Answer(msgspec.Struct, frozen=True):
    """The count that a metric asks for, and the metric as the status shows it."""

    replicas: int
    current: Metric


class Failure(msgspec.Struct, frozen=True):
    """Why a metric has no answer, as the condition ScalingActive says it."""

    reason: str
    message: str


def metrics_of(spec: HorizontalPodAutoscalerSpec) -> tuple[Metric, ...]:
    """The metrics of an HPA; CPU at 80 % if it names none."""
    return spec.metrics or (_USUAL,)


def why_not_simulated(metric: Metric) -> str:
    """What keeps a metric from being answered here at all; "" if nothing does."""
    source = metric.resource or metric.container_resource
    if metric.type not in (_RESOURCE, _CONTAINER) or source is None:
        return f"metrics of type {metric.type or 'none'} do not exist in a simulation; take {_RESOURCE}, {_CONTAINER}"
    if source.name not in RESOURCES:
        return f"the resource {source.name!r} is not measured; take {' or '.join(RESOURCES)}"
    if metric.type == _CONTAINER and not source.container:
        return "the metric names no container"
    return "" if _aim(source.target) is not None else "the metric needs averageUtilization or averageValue above zero"


def answered(
    metric: Metric, pods: Gathered, workloads: Sequence[int], current: int, tolerance: Tolerance
) -> Answer | Failure:
    """What a metric asks for now."""
    failed = f"FailedGet{metric.type}Metric"
    wrong, source = why_not_simulated(metric), metric.source
    aim = _aim(source.target) if source is not None else None
    if wrong or source is None or aim is None:
        return Failure(failed, wrong)
    seen = pods.seen(workloads, source.name, source.container)
    if seen is None:
        return Failure(failed, f"container {source.container} not present in the pods")
    if not seen.counted.pods:
        return Failure(failed, f"no metrics of {source.name} for the pods (pods might be unready)")
    bare = pods.without_request(workloads, source.name, source.container) if aim.percent is not None else ""
    if bare:
        return Failure(failed, f"missing request for {source.name} in container {bare}")
    average = str(Quantity.from_milli(seen.counted.used // seen.counted.pods))
    percent = aim.utilization(seen.counted) if aim.percent is not None else None
    shown = msgspec.structs.replace(
        source, target=MetricTarget(), current=MetricValue(average_value=average, average_utilization=percent)
    )
    told = Metric(metric.type, resource=shown) if metric.resource else Metric(metric.type, container_resource=shown)
    return Answer(proposed(seen, aim, current, tolerance), told)


def _aim(target: MetricTarget) -> Aim | None:
    if target.average_utilization:
        return Aim(percent=target.average_utilization)
    try:
        average = Quantity.parse(target.average_value).milli if target.average_value else 0
    except InvalidQuantity:
        return None
    return Aim(average=average) if average > 0 else None
