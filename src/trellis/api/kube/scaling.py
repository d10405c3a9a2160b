"""The scale subresource and the HorizontalPodAutoscaler (autoscaling/v2)."""

from __future__ import annotations

from trellis.api.kube.meta import Condition, KubeObject, LabelSelector
from trellis.api.kube.slices import QuantityText, Slice, Time


class ScaleSpec(Slice, frozen=True):
    """The requested count."""

    replicas: int = 0


class ScaleStatus(Slice, frozen=True):
    """The current count, and the selector of the counted pods, in its text form."""

    replicas: int = 0
    selector: str = ""


class Scale(KubeObject, frozen=True):
    """The `/scale` of an object. Its `metadata` is that of the scaled object."""

    spec: ScaleSpec = ScaleSpec()
    status: ScaleStatus = ScaleStatus()


class CrossVersionObjectReference(Slice, frozen=True):
    """The object an autoscaler works on, in its own namespace."""

    kind: str = ""
    name: str = ""
    api_version: str = ""


class MetricIdentifier(Slice, frozen=True):
    """A metric by name, and optionally by labels."""

    name: str = ""
    selector: LabelSelector | None = None


class MetricTarget(Slice, frozen=True):
    """`type` says which one of the others counts: Utilization, Value or AverageValue."""

    type: str = ""
    value: QuantityText = ""
    average_value: QuantityText = ""
    average_utilization: int | None = None


class MetricValue(Slice, frozen=True):
    """The last observed value; `average_utilization` is in percent of the requests."""

    value: QuantityText = ""
    average_value: QuantityText = ""
    average_utilization: int | None = None


class MetricSource(Slice, frozen=True):
    """One metric of any type: a spec fills `target`, a status `current`.

    `name` is a resource's, and `container` goes with it for ContainerResource; Pods, Object and External
    metrics have `metric` instead. One slice for all of them, because they are only ever read by "which, how
    much, of how much".
    """

    name: str = ""
    container: str = ""
    described_object: CrossVersionObjectReference | None = None
    metric: MetricIdentifier | None = None
    target: MetricTarget = MetricTarget()
    current: MetricValue = MetricValue()


class Metric(Slice, frozen=True):
    """`type` says which one of the others is there."""

    type: str = ""
    object: MetricSource | None = None
    pods: MetricSource | None = None
    resource: MetricSource | None = None
    container_resource: MetricSource | None = None
    external: MetricSource | None = None

    @property
    def source(self) -> MetricSource | None:
        """The source that is set, whatever its type."""
        return self.resource or self.container_resource or self.pods or self.object or self.external


class ScalingPolicy(Slice, frozen=True):
    """At most `value` pods, or percent of them, within `period_seconds`."""

    type: str = ""
    value: int = 0
    period_seconds: int = 0


class ScalingRules(Slice, frozen=True):
    """How fast one direction may go. Without a window of its own, scaling down waits five minutes."""

    stabilization_window_seconds: int | None = None
    select_policy: str = ""
    policies: tuple[ScalingPolicy, ...] = ()
    tolerance: QuantityText = ""


class ScalingBehavior(Slice, frozen=True):
    """The rules for both directions."""

    scale_up: ScalingRules | None = None
    scale_down: ScalingRules | None = None


class HorizontalPodAutoscalerSpec(Slice, frozen=True):
    """What is scaled, between which counts, by which metrics."""

    scale_target_ref: CrossVersionObjectReference = CrossVersionObjectReference()
    min_replicas: int | None = None
    max_replicas: int = 0
    metrics: tuple[Metric, ...] = ()
    behavior: ScalingBehavior | None = None


class HorizontalPodAutoscalerStatus(Slice, frozen=True):
    """The last observation and decision. `currentMetrics` is null until the first observation."""

    observed_generation: int = 0
    last_scale_time: Time | None = None
    current_replicas: int = 0
    desired_replicas: int = 0
    current_metrics: tuple[Metric, ...] = ()
    conditions: tuple[Condition, ...] = ()


class HorizontalPodAutoscaler(KubeObject, frozen=True):
    """A HorizontalPodAutoscaler."""

    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()
    status: HorizontalPodAutoscalerStatus = HorizontalPodAutoscalerStatus()
