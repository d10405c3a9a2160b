"""Validation rules of the Hvpa."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any

from trellis.api.buckets import RESOURCES, find_falling_totals, find_gaps
from trellis.api.kinds.hvpa import (
    AmountRange,
    Bucket,
    HpaTemplateSpec,
    HvpaSpec,
    ReplicaRange,
    VpaTemplateSpec,
    VpaTemplateUpdatePolicy,
)
from trellis.api.problems import FORBIDDEN, INVALID, SUSPICIOUS, ValidationProblem
from trellis.api.rules.vpa import (
    ONE_REQUIREMENT_PER_RESOURCE,
    ONE_REQUIREMENT_PER_RESOURCE_CEL,
    find_repeated_requirements,
)
from trellis.api.schema.fields import Rule, rule
from trellis.base.quantities import NANOS_PER_UNIT, Quantity

_WORDS = {"cpu": "CPU", "memory": "memory"}
_FORBIDDEN_IN_TEMPLATE = ("updateMode", "evictionRequirements", "evictAfterOOMSeconds")


@rule(ReplicaRange, "min", "max", message="replicas.min must not be above replicas.max", cel="self.min <= self.max")
def replica_range_is_not_empty(replicas: ReplicaRange) -> Iterator[ValidationProblem]:
    """A bucket without a count says nothing."""
    if replicas.min is not None and replicas.max is not None and replicas.min > replicas.max:
        yield ValidationProblem(("max",), INVALID, f"must not be below min, which is {replicas.min}", replicas.max)


@rule(
    AmountRange,
    "min",
    "max",
    message="min must not be above max",
    cel="quantity(string(self.min)).compareTo(quantity(string(self.max))) <= 0",
)
def amount_range_is_not_empty(amounts: AmountRange) -> Iterator[ValidationProblem]:
    """A bucket that no size satisfies says nothing."""
    if amounts.min is None or amounts.max is None:
        return
    if Quantity.parse(amounts.min) > Quantity.parse(amounts.max):
        yield ValidationProblem(("max",), INVALID, f"must not be below min, which is {amounts.min}", amounts.max)


@rule(
    HvpaSpec,
    "buckets",
    message="buckets must ascend in replicas and not overlap",
    cel=(
        "self.buckets.map(b, b.replicas.min).isSorted() && self.buckets.all(b, self.buckets.filter(c, "
        "c.replicas.min <= b.replicas.max && b.replicas.min <= c.replicas.max).size() == 1)"
    ),
)
def buckets_ascend(spec: HvpaSpec) -> Iterator[ValidationProblem]:
    """A replica count belongs to one bucket, and the buckets are read from low to high."""
    for index, (lower, upper) in enumerate(pairwise(spec.buckets or ()), start=1):
        start, end = upper.replicas.min or 0, lower.replicas.max or 0
        if start <= end:
            rule_text = f"must be above replicas.max of the bucket before, which is {end}"
            yield ValidationProblem(("buckets", index, "replicas", "min"), INVALID, rule_text, start)


@rule(HvpaSpec, "buckets", message="totals must not fall from one replica count to the next")
def totals_do_not_fall(spec: HvpaSpec) -> Iterator[ValidationProblem]:
    """More replicas that hold less in total would make the count jump back and forth."""
    if not _are_ordered(spec.buckets or []):
        return
    for resource in RESOURCES:
        for index, bound in find_falling_totals(spec.buckets or (), resource):
            words = {"max": "largest", "min": "smallest"}[bound]
            rule_text = f"the {words} total must not be lower than in the bucket before"
            value = getattr(getattr((spec.buckets or [])[index], resource), bound)
            yield ValidationProblem(("buckets", index, resource, bound), INVALID, rule_text, value)


@rule(HvpaSpec, "buckets", message="buckets should not leave gaps")
def buckets_leave_no_gaps(spec: HvpaSpec) -> Iterator[ValidationProblem]:
    """Gaps are allowed, and the later bucket serves them. They are rarely intended."""
    buckets = spec.buckets or []
    if not _are_ordered(buckets):
        return
    for index, (lower, upper) in enumerate(pairwise(buckets), start=1):
        end, start = lower.replicas.max or 0, upper.replicas.min or 0
        if start > end + 1:
            between = f"{end + 1}" if start == end + 2 else f"{end + 1} to {start - 1}"
            yield ValidationProblem(
                ("buckets", index, "replicas"), SUSPICIOUS, f"leaves a gap: no bucket has the replica count {between}"
            )
    for resource in RESOURCES:
        for index, below, above in find_gaps(buckets, resource):
            like = getattr(buckets[index], resource).min
            between = f"{_WORDS[resource]} between {_format_like(below, like)} and {_format_like(above, like)}"
            rule_text = f"{between} in total is in the gap between two buckets; this bucket is used for it"
            yield ValidationProblem(("buckets", index, resource), SUSPICIOUS, rule_text)


@rule(
    HvpaSpec,
    "hpa",
    "buckets",
    message="hpa.template.spec.minReplicas and maxReplicas must not be narrower than the buckets",
    cel=(
        "!has(self.hpa) || !has(self.hpa.template) || !has(self.hpa.template.spec) || "
        "((!has(self.hpa.template.spec.minReplicas) || "
        "self.hpa.template.spec.minReplicas <= self.buckets[0].replicas.min) && "
        "(!has(self.hpa.template.spec.maxReplicas) || "
        "self.hpa.template.spec.maxReplicas >= self.buckets[size(self.buckets) - 1].replicas.max))"
    ),
)
def hpa_reaches_every_bucket(spec: HvpaSpec) -> Iterator[ValidationProblem]:
    """An HPA that cannot ask for a count would keep the workload out of its bucket for ever."""
    template = spec.hpa.template.spec if spec.hpa and spec.hpa.template else None
    if not template or not spec.buckets:
        return
    place = ("hpa", "template", "spec")
    fewest, most = spec.buckets[0].replicas.min or 1, spec.buckets[-1].replicas.max or 1
    low, high = template.get("minReplicas"), template.get("maxReplicas")
    if low is not None and low > fewest:
        yield ValidationProblem(
            (*place, "minReplicas"),
            INVALID,
            f"must not be above the first bucket's replicas.min, {fewest}",
            low,
        )
    if high is not None and high < most:
        yield ValidationProblem(
            (*place, "maxReplicas"),
            INVALID,
            f"must not be below the last bucket's replicas.max, {most}",
            high,
        )


@rule(
    HvpaSpec,
    "scaleUp",
    "scaleDown",
    "maintenanceWindow",
    message="updateMode MaintenanceWindow requires maintenanceWindow",
)
def maintenance_window_is_set_where_used(spec: HvpaSpec) -> Iterator[ValidationProblem]:
    """Without a window the mode `MaintenanceWindow` is the mode `Off`."""
    if spec.maintenance_window is not None:
        return
    for name, policy in (("scaleUp", spec.scale_up), ("scaleDown", spec.scale_down)):
        if policy is not None and policy.update_mode == "MaintenanceWindow":
            rule_text = "requires spec.maintenanceWindow: without it no step is ever taken"
            yield ValidationProblem((name, "updateMode"), SUSPICIOUS, rule_text)


@rule(
    HpaTemplateSpec,
    "scaleTargetRef",
    message="scaleTargetRef is set by the Hvpa and must not be given",
    cel="!has(self.scaleTargetRef)",
)
def hpa_has_no_target(spec: HpaTemplateSpec) -> Iterator[ValidationProblem]:
    """An owned HPA always drives the Hvpa's own scale."""
    if spec.scale_target_ref is not None:
        yield ValidationProblem(("scaleTargetRef",), FORBIDDEN, "is set by the Hvpa and must not be given")


@rule(
    VpaTemplateSpec,
    "targetRef",
    message="targetRef is set by the Hvpa and must not be given",
    cel="!has(self.targetRef)",
)
def vpa_has_no_target(spec: VpaTemplateSpec) -> Iterator[ValidationProblem]:
    """An owned VPA always has the Hvpa's target."""
    if spec.target_ref is not None:
        yield ValidationProblem(("targetRef",), FORBIDDEN, "is set by the Hvpa and must not be given")


@rule(
    VpaTemplateUpdatePolicy,
    *_FORBIDDEN_IN_TEMPLATE,
    message="only actuationRequirements and minReplicas may be given in a template; the mode is Off",
    cel=" && ".join(f"!has(self.{name})" for name in _FORBIDDEN_IN_TEMPLATE),
)
def template_sets_no_update_mode(policy: VpaTemplateUpdatePolicy) -> Iterator[ValidationProblem]:
    """The Hvpa applies its own recommendation, so the owned VPA only recommends."""
    settings = (policy.update_mode, policy.eviction_requirements, policy.evict_after_oom_seconds)
    for name, value in zip(_FORBIDDEN_IN_TEMPLATE, settings, strict=True):
        if value is not None:
            rule_text = "only actuationRequirements and minReplicas may be given in a template; the mode is Off"
            yield ValidationProblem((name,), FORBIDDEN, rule_text)


@rule(
    VpaTemplateUpdatePolicy,
    "actuationRequirements",
    message=ONE_REQUIREMENT_PER_RESOURCE,
    cel=ONE_REQUIREMENT_PER_RESOURCE_CEL,
)
def template_requirements_are_unique_per_resource(policy: VpaTemplateUpdatePolicy) -> Iterator[ValidationProblem]:
    """As in a VPA."""
    yield from find_repeated_requirements(policy.actuation_requirements)


def _are_ordered(buckets: list[Bucket]) -> bool:
    """Whether the buckets are sound enough for their totals to mean anything."""
    sound = all((b.replicas.min or 0) <= (b.replicas.max or 0) for b in buckets)
    return sound and all((a.replicas.max or 0) < (b.replicas.min or 0) for a, b in pairwise(buckets))


def _format_like(total: Fraction, like: str | int | None) -> Quantity:
    """A total as a quantity that prints like another; at the seams of buckets it is one exactly."""
    return Quantity(int(total * NANOS_PER_UNIT), Quantity.parse(like or 0).format)


HVPA_RULES: tuple[Rule[Any], ...] = (
    replica_range_is_not_empty,
    amount_range_is_not_empty,
    buckets_ascend,
    totals_do_not_fall,
    buckets_leave_no_gaps,
    hpa_reaches_every_bucket,
    maintenance_window_is_set_where_used,
    hpa_has_no_target,
    vpa_has_no_target,
    template_sets_no_update_mode,
    template_requirements_are_unique_per_resource,
)
