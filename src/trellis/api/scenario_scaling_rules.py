"""What HPAs and Hvpas of a scenario must be, beyond their fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from trellis.api import hvpa_rules
from trellis.api.fields import Rule, rule
from trellis.api.hvpa import HvpaSpec
from trellis.api.problems import FORBIDDEN, INVALID, REQUIRED, Problem
from trellis.api.scenario_scaling import HpaMetric, HpaMetricTarget, HpaSpec, PolicyHpaSpec, PolicyHvpaSpec
from trellis.base.quantity import Quantity

T = TypeVar("T", bound=msgspec.Struct)

_NOT_GIVEN = "is set for each workload and must not be given"


@rule(HpaMetric, "type", "resource", "containerResource", says="a metric lacks what its type names")
def metric_has_its_source(metric: HpaMetric) -> Iterator[Problem]:
    """The type says which of the others is read."""
    name, found = ("resource", metric.resource)
    if metric.type == "ContainerResource":
        name, found = ("containerResource", metric.container_resource)  # type: ignore[assignment]
    if found is None:
        yield Problem((name,), REQUIRED, f"must be given for a metric of type {metric.type}")


@rule(HpaMetricTarget, "type", "averageUtilization", "averageValue", says="a target lacks what its type names")
def target_has_its_figure(target: HpaMetricTarget) -> Iterator[Problem]:
    """The type says which of the others is read."""
    if target.type == "Utilization" and target.average_utilization is None:
        yield Problem(("averageUtilization",), REQUIRED, "must be given for a target of type Utilization")
    if target.type == "AverageValue":
        if target.average_value is None:
            yield Problem(("averageValue",), REQUIRED, "must be given for a target of type AverageValue")
        elif not Quantity.parse(target.average_value):
            yield Problem(("averageValue",), INVALID, "must be above zero", target.average_value)


@rule(HpaSpec, "minReplicas", "maxReplicas", says="minReplicas is above maxReplicas")
def bounds_are_not_empty(spec: HpaSpec) -> Iterator[Problem]:
    """No count would do."""
    if spec.max_replicas is not None and (spec.min_replicas or 1) > spec.max_replicas:
        rule_text = f"must not be below minReplicas, which is {spec.min_replicas}"
        yield Problem(("maxReplicas",), INVALID, rule_text, spec.max_replicas)


@rule(PolicyHpaSpec, "scaleTargetRef", says="scaleTargetRef is set for each workload and must not be given")
def hpa_has_no_target(spec: PolicyHpaSpec) -> Iterator[Problem]:
    """The target is what the template is repeated for."""
    if spec.scale_target_ref is not None:
        yield Problem(("scaleTargetRef",), FORBIDDEN, _NOT_GIVEN)


@rule(PolicyHvpaSpec, "targetRef", says="targetRef is set for each workload and must not be given")
def hvpa_has_no_target(spec: PolicyHvpaSpec) -> Iterator[Problem]:
    """The target is what the template is repeated for."""
    if spec.target_ref is not None:
        yield Problem(("targetRef",), FORBIDDEN, _NOT_GIVEN)


def _also(rules: tuple[Rule[Any], ...], struct: type[T], on: type[msgspec.Struct]) -> Iterator[Rule[Any]]:
    """The rules of a struct for one that is made from it; no CRD has to say them."""
    yield from (msgspec.structs.replace(each, on=struct, cel=None) for each in rules if each.on is on)


RULES: tuple[Rule[Any], ...] = (
    metric_has_its_source,
    target_has_its_figure,
    bounds_are_not_empty,
    hpa_has_no_target,
    hvpa_has_no_target,
    *_also((bounds_are_not_empty,), PolicyHpaSpec, HpaSpec),
    *_also(hvpa_rules.RULES, PolicyHvpaSpec, HvpaSpec),
)
