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
    """What a metric should be."""

    type: Annotated[
        str,
        Field("Which one of the others counts.", required=True, enum=("Utilization", "AverageValue")),
    ] = ""
    average_utilization: Annotated[
        int | None, Field("Usage in percent of what the pods request.", minimum=1, maximum=INT32_MAX)
    ] = None
    average_value: Annotated[AmountText | None, Field("Usage of a pod, on average.")] = None


class HpaResourceMetric(ApiStruct, frozen=True):
    """Usage of all containers of a pod."""

    name: Annotated[str, _RESOURCE] = ""
    target: Annotated[HpaMetricTarget, Field("What it should be.", required=True)] = HpaMetricTarget()


class HpaContainerMetric(ApiStruct, frozen=True):
    """Usage of one container of each pod."""

    name: Annotated[str, _RESOURCE] = ""
    container: Annotated[str, Field("The container.", required=True, min_length=1, max_length=63)] = ""
    target: Annotated[HpaMetricTarget, Field("What it should be.", required=True)] = HpaMetricTarget()


class HpaMetric(ApiStruct, frozen=True):
    """A metric. Those of pods, of objects and from outside there are none of in a simulation."""

    type: Annotated[
        str, Field("Which one of the others is there.", required=True, enum=("Resource", "ContainerResource"))
    ] = ""
    resource: Annotated[HpaResourceMetric | None, Field("Usage of all containers of a pod.")] = None
    container_resource: Annotated[HpaContainerMetric | None, Field("Usage of one container of each pod.")] = None


class HpaScalingPolicy(ApiStruct, frozen=True):
    """How much may change within a time."""

    type: Annotated[str, Field("What `value` counts.", required=True, enum=("Pods", "Percent"))] = ""
    value: Annotated[int | None, Field("At most so many.", required=True, minimum=1, maximum=INT32_MAX)] = None
    period_seconds: Annotated[int | None, Field("Within so long.", required=True, minimum=1, maximum=1800)] = None


class HpaScalingRules(ApiStruct, frozen=True):
    """How fast one direction may go."""

    stabilization_window_seconds: Annotated[
        int | None,
        Field("Proposals of so long are looked at. Absent: 0 on the way up, 300 down.", minimum=0, maximum=3600),
    ] = None
    select_policy: Annotated[
        str | None,
        Field("Whether the policy counts that permits most or least. Absent: `Max`.", enum=("Max", "Min", "Disabled")),
    ] = None
    policies: Annotated[list[HpaScalingPolicy] | None, Field("As in an HPA.", max_items=100)] = None
    tolerance: Annotated[AmountText | None, Field("How far off a metric may be. Absent: 0.1.")] = None


class HpaBehavior(ApiStruct, frozen=True):
    """How fast it may go."""

    scale_up: Annotated[HpaScalingRules | None, Field("On the way up.")] = None
    scale_down: Annotated[HpaScalingRules | None, Field("On the way down.")] = None


class HpaSpec(ApiStruct, frozen=True):
    """The spec of an autoscaling/v2 HorizontalPodAutoscaler."""

    min_replicas: Annotated[int | None, Field("As in an HPA. Absent: 1.", minimum=1, maximum=INT32_MAX)] = None
    max_replicas: Annotated[int | None, Field("As in an HPA.", required=True, minimum=1, maximum=INT32_MAX)] = None
    metrics: Annotated[
        list[HpaMetric] | None, Field("The highest proposal wins. Absent: CPU at 80 % of requests.", max_items=100)
    ] = None
    behavior: Annotated[HpaBehavior | None, Field("As in an HPA.")] = None
    scale_target_ref: Annotated[Opaque | None, Field("What it scales.")] = None


class PolicyHpaSpec(HpaSpec, frozen=True):
    """A HorizontalPodAutoscaler spec without its target."""

    scale_target_ref: Annotated[Opaque | None, Field("Refused: the target is each workload in turn.")] = None


class PolicyHvpaSpec(HvpaSpec, frozen=True):
    """An Hvpa spec without its target."""

    # No rule of an Hvpa reads it.
    target_ref: Annotated[Opaque | None, Field("Refused: the target is each workload in turn.")] = None  # type: ignore[assignment]
