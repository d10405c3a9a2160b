"""Horizontal autoscalers of a Scenario: HPAs as far as they can be simulated, and Hvpas without a target.

The HPA is not a kind of ours. Only what a simulation supports is declared here, so that everything else is refused
when a Scenario is read.
"""

from __future__ import annotations

from typing import Annotated

from trellis.api.kinds.hvpa import HvpaSpec
from trellis.api.kinds.parts import ApiStruct
from trellis.api.schema.fields import INT32_MAX, AmountText, Field, Opaque

_RESOURCE = Field("The resource.", required=True, enum=("cpu", "memory"))


class HpaMetricTarget(ApiStruct, frozen=True):
    """The target value of a metric."""

    type: Annotated[
        str,
        Field(
            "Type of the target value: `averageUtilization` or `averageValue`.",
            required=True,
            enum=("Utilization", "AverageValue"),
        ),
    ] = ""
    average_utilization: Annotated[
        int | None, Field("Target usage, in percent of the pods' requests.", minimum=1, maximum=INT32_MAX)
    ] = None
    average_value: Annotated[AmountText | None, Field("Target usage per pod, averaged over the pods.")] = None


class HpaResourceMetric(ApiStruct, frozen=True):
    """Usage of all containers of a pod."""

    name: Annotated[str, _RESOURCE] = ""
    target: Annotated[HpaMetricTarget, Field("The target value of the metric.", required=True)] = HpaMetricTarget()


class HpaContainerMetric(ApiStruct, frozen=True):
    """Usage of one container of each pod."""

    name: Annotated[str, _RESOURCE] = ""
    container: Annotated[str, Field("Name of the container.", required=True, min_length=1, max_length=63)] = ""
    target: Annotated[HpaMetricTarget, Field("The target value of the metric.", required=True)] = HpaMetricTarget()


class HpaMetric(ApiStruct, frozen=True):
    """A metric. A simulation has no metrics of type Pods, Object or External."""

    type: Annotated[
        str,
        Field(
            "Type of the metric: `resource` or `containerResource` is given.",
            required=True,
            enum=("Resource", "ContainerResource"),
        ),
    ] = ""
    resource: Annotated[HpaResourceMetric | None, Field("Usage of all containers of a pod.")] = None
    container_resource: Annotated[HpaContainerMetric | None, Field("Usage of one container of each pod.")] = None


class HpaScalingPolicy(ApiStruct, frozen=True):
    """A limit on the change of the replica count within a period."""

    type: Annotated[
        str,
        Field("Unit of `value`: pods, or percent of the current replicas.", required=True, enum=("Pods", "Percent")),
    ] = ""
    value: Annotated[
        int | None, Field("Maximum change within `periodSeconds`.", required=True, minimum=1, maximum=INT32_MAX)
    ] = None
    period_seconds: Annotated[
        int | None, Field("Length of the period, in seconds.", required=True, minimum=1, maximum=1800)
    ] = None


class HpaScalingRules(ApiStruct, frozen=True):
    """Limits on scaling in one direction."""

    stabilization_window_seconds: Annotated[
        int | None,
        Field("Stabilization window, in seconds. Absent: 0 for scale-up, 300 for scale-down.", minimum=0, maximum=3600),
    ] = None
    select_policy: Annotated[
        str | None,
        Field(
            "Which policy applies: `Max`: the one that allows the largest change; `Min`: the smallest; "
            "`Disabled`: no scaling in this direction. Absent: `Max`.",
            enum=("Max", "Min", "Disabled"),
        ),
    ] = None
    policies: Annotated[list[HpaScalingPolicy] | None, Field("As in an HPA.", max_items=100)] = None
    tolerance: Annotated[
        AmountText | None,
        Field("Deviation of the metric from its target, as a fraction, up to which nothing changes. Absent: 0.1."),
    ] = None


class HpaBehavior(ApiStruct, frozen=True):
    """Limits on scaling up and down."""

    scale_up: Annotated[HpaScalingRules | None, Field("Limits on scale-up.")] = None
    scale_down: Annotated[HpaScalingRules | None, Field("Limits on scale-down.")] = None


class HpaSpec(ApiStruct, frozen=True):
    """The spec of an autoscaling/v2 HorizontalPodAutoscaler."""

    min_replicas: Annotated[int | None, Field("As in an HPA. Absent: 1.", minimum=1, maximum=INT32_MAX)] = None
    max_replicas: Annotated[int | None, Field("As in an HPA.", required=True, minimum=1, maximum=INT32_MAX)] = None
    metrics: Annotated[
        list[HpaMetric] | None,
        Field(
            "The metrics; the highest of their replica counts is used. Absent: CPU at 80 % of requests.", max_items=100
        ),
    ] = None
    behavior: Annotated[HpaBehavior | None, Field("As in an HPA.")] = None
    scale_target_ref: Annotated[Opaque | None, Field("The target.")] = None


class PolicyHpaSpec(HpaSpec, frozen=True):
    """A HorizontalPodAutoscaler spec without its target."""

    scale_target_ref: Annotated[Opaque | None, Field("Not allowed: the target is each matching workload.")] = None


class PolicyHvpaSpec(HvpaSpec, frozen=True):
    """An Hvpa spec without its target."""

    # No rule of an Hvpa reads it.
    target_ref: Annotated[Opaque | None, Field("Not allowed: the target is each matching workload.")] = None  # type: ignore[assignment]
