"""Validation rules of the VerticalPodAutoscaler.

Where upstream's admission has the same rule, its words are used: scripts and people look for them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from trellis.api.kinds.vpa import (
    ANY_CONTAINER,
    ActuationRequirement,
    ContainerResourcePolicy,
    CPUBoost,
    PodResourcePolicy,
    PodUpdatePolicy,
)
from trellis.api.problems import (
    DEPRECATED,
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    REQUIRED,
    SUSPICIOUS,
    MapKey,
    Path,
    ValidationProblem,
)
from trellis.api.schema.fields import Rule, rule
from trellis.base.quantities import Quantity

# Whole units of a resource, as the kubelet can set them. Others (hugepages, devices) have rules of their own.
_WHOLE_UNITS = {"cpu": "must be a whole number of milli CPUs", "memory": "must be a whole number of bytes"}


@rule(
    CPUBoost,
    "type",
    "factor",
    message="factor is required when type is Factor and forbidden otherwise",
    cel="(self.type == 'Factor') == has(self.factor)",
)
def factor_matches_its_type(boost: CPUBoost) -> Iterator[ValidationProblem]:
    """A factor belongs to `type: Factor` and to no other."""
    if boost.type == "Factor" and boost.factor is None:
        yield ValidationProblem(("factor",), REQUIRED, "required when type is Factor")
    if boost.type != "Factor" and boost.factor is not None:
        yield ValidationProblem(("factor",), FORBIDDEN, f"only with type Factor, not with {boost.type}", boost.factor)


@rule(
    CPUBoost,
    "type",
    "quantity",
    message="quantity is required when type is Quantity and forbidden otherwise",
    cel="(self.type == 'Quantity') == has(self.quantity)",
)
def quantity_matches_its_type(boost: CPUBoost) -> Iterator[ValidationProblem]:
    """A quantity belongs to `type: Quantity` and to no other."""
    if boost.type == "Quantity" and boost.quantity is None:
        yield ValidationProblem(("quantity",), REQUIRED, "required when type is Quantity")
    if boost.type != "Quantity" and boost.quantity is not None:
        yield ValidationProblem(
            ("quantity",), FORBIDDEN, f"only with type Quantity, not with {boost.type}", boost.quantity
        )


@rule(CPUBoost, "quantity", message="quantity must be a whole number of milli CPUs")
def boost_is_whole_milli_cpus(boost: CPUBoost) -> Iterator[ValidationProblem]:
    """Finer than a milli-CPU cannot be set on a pod."""
    if boost.quantity is not None and not Quantity.parse(boost.quantity).is_whole_milli:
        yield ValidationProblem(("quantity",), INVALID, _WHOLE_UNITS["cpu"], boost.quantity)


@rule(
    CPUBoost,
    "duration",
    "durationSeconds",
    message="duration and durationSeconds mean the same: give one of them",
    cel="!(has(self.duration) && has(self.durationSeconds))",
)
def duration_is_written_once(boost: CPUBoost) -> Iterator[ValidationProblem]:
    """Two spellings of one field could disagree."""
    if boost.duration is not None and boost.duration_seconds is not None:
        rule_text = "means the same as duration: give one of them"
        yield ValidationProblem(("durationSeconds",), FORBIDDEN, rule_text, boost.duration_seconds)


@rule(
    ActuationRequirement,
    "resources",
    message="a resource must not be listed twice",
    cel="size(self.resources) < 2 || self.resources[0].lowerAscii() != self.resources[1].lowerAscii()",
)
def requirement_resources_are_unique(requirement: ActuationRequirement) -> Iterator[ValidationProblem]:
    """`cpu` and `CPU` are one resource."""
    resources: set[str] = set()
    for index, resource in enumerate(requirement.resources or ()):
        if resource.lower() in resources:
            yield ValidationProblem(("resources", index), DUPLICATE, "must not be listed twice", resource)
        resources.add(resource.lower())


ONE_REQUIREMENT_PER_RESOURCE = "a resource may be listed in one requirement only"
ONE_REQUIREMENT_PER_RESOURCE_CEL = (
    "!has(self.actuationRequirements) || size(self.actuationRequirements) < 2 || "
    "!self.actuationRequirements[0].resources.exists(a, "
    "self.actuationRequirements[1].resources.exists(b, a.lowerAscii() == b.lowerAscii()))"
)


def find_repeated_requirements(requirements: list[ActuationRequirement] | None) -> Iterator[ValidationProblem]:
    """Pairs of requirements about one resource: both could never hold, or one says nothing."""
    numbered = enumerate(requirements or ())
    for (first, one), (second, other) in combinations(numbered, 2):
        shared = {name.lower() for name in one.resources or ()} & {name.lower() for name in other.resources or ()}
        for resource in sorted(shared):
            both = f"actuationRequirements[{first}] and actuationRequirements[{second}]"
            rule_text = f"{both} both list {resource}: {ONE_REQUIREMENT_PER_RESOURCE}"
            yield ValidationProblem(("actuationRequirements", second), DUPLICATE, rule_text, resource)


@rule(
    PodUpdatePolicy,
    "actuationRequirements",
    message=ONE_REQUIREMENT_PER_RESOURCE,
    cel=ONE_REQUIREMENT_PER_RESOURCE_CEL,
)
def requirements_are_unique_per_resource(policy: PodUpdatePolicy) -> Iterator[ValidationProblem]:
    """Two requirements about one resource are refused, equal ones included."""
    yield from find_repeated_requirements(policy.actuation_requirements)


@rule(
    PodUpdatePolicy,
    "actuationRequirements",
    "evictionRequirements",
    message="evictionRequirements is another spelling of actuationRequirements: give one of them",
    cel="!(has(self.actuationRequirements) && has(self.evictionRequirements))",
)
def requirements_are_written_once(policy: PodUpdatePolicy) -> Iterator[ValidationProblem]:
    """The alias governs eviction alone; beside the other it would be unclear which rules."""
    if policy.actuation_requirements is not None and policy.eviction_requirements is not None:
        rule_text = "is another spelling of actuationRequirements: give one of them"
        yield ValidationProblem(("evictionRequirements",), FORBIDDEN, rule_text)


@rule(
    PodUpdatePolicy, "evictionRequirements", message="resources in evictionRequirements should be known and not repeat"
)
def odd_eviction_requirements(policy: PodUpdatePolicy) -> Iterator[ValidationProblem]:
    """Upstream accepts these, so they are warnings, not errors."""
    places: dict[str, int] = {}
    for index, requirement in enumerate(policy.eviction_requirements or ()):
        place: Path = ("evictionRequirements", index, "resources")
        if not requirement.resources:
            yield ValidationProblem(place, SUSPICIOUS, "no resource is listed, so no pod is ever evicted")
        for resource in requirement.resources or ():
            name = resource.lower()
            if name not in _WHOLE_UNITS:
                yield ValidationProblem(
                    place, SUSPICIOUS, f'"{resource}" is never recommended, so the requirement never holds'
                )
            elif name in places:
                before = f"evictionRequirements[{places[name]}]"
                yield ValidationProblem(place, SUSPICIOUS, f"{name} is listed before, in {before}")
            places.setdefault(name, index)


@rule(
    PodUpdatePolicy,
    "updateMode",
    "actuationRequirements",
    "evictionRequirements",
    message="requirements have no effect in a mode that does not change running pods",
)
def requirements_have_an_effect(policy: PodUpdatePolicy) -> Iterator[ValidationProblem]:
    """`Off` and `Initial` never touch a running pod, so there is nothing to require."""
    written = {
        "actuationRequirements": policy.actuation_requirements,
        "evictionRequirements": policy.eviction_requirements,
    }
    for name, requirements in written.items():
        if requirements and policy.update_mode in {"Off", "Initial"}:
            rule_text = f"has no effect: the mode {policy.update_mode} does not change running pods"
            yield ValidationProblem((name,), SUSPICIOUS, rule_text)


@rule(PodUpdatePolicy, "updateMode", message="updateMode should be given and not be deprecated")
def update_mode_is_current(policy: PodUpdatePolicy) -> Iterator[ValidationProblem]:
    """`Auto` is on its way out; upstream's admission wants the mode spelled out."""
    if policy.update_mode == "Auto":
        yield ValidationProblem(
            ("updateMode",),
            DEPRECATED,
            '"Auto" mode is deprecated and means Recreate today: write "Recreate" or "InPlaceOrRecreate"',
        )
    if policy.update_mode is None:
        rule_text = "no updateMode is given, so Recreate is used; upstream's admission would refuse the object"
        yield ValidationProblem((), SUSPICIOUS, rule_text)


@rule(
    ContainerResourcePolicy,
    "mode",
    "controlledValues",
    message="controlledValues shouldn't be specified if container scaling mode is off",
    cel=(
        "!(has(self.mode) && self.mode == 'Off' && "
        "has(self.controlledValues) && self.controlledValues == 'RequestsAndLimits')"
    ),
)
def no_limits_without_scaling(policy: ContainerResourcePolicy) -> Iterator[ValidationProblem]:
    """A container that is not scaled has no values to control (upstream allows `RequestsOnly`)."""
    if policy.mode == "Off" and policy.controlled_values == "RequestsAndLimits":
        rule_text = "controlledValues shouldn't be specified if container scaling mode is off"
        yield ValidationProblem(("controlledValues",), FORBIDDEN, rule_text)


# Not in CEL: over a list without a limit, as containerPolicies is upstream, the rule costs 2.4 times what the API
# server allows.
@rule(ContainerResourcePolicy, "minAllowed", "maxAllowed", message="maxAllowed must not be below minAllowed")
def allowed_range_is_not_empty(policy: ContainerResourcePolicy) -> Iterator[ValidationProblem]:
    """No recommendation could satisfy a maximum below the minimum."""
    low, high = policy.min_allowed or {}, policy.max_allowed or {}
    for resource in sorted(low.keys() & high.keys()):
        if Quantity.parse(high[resource]) < Quantity.parse(low[resource]):
            rule_text = f'max resource for {resource} is lower than min of "{low[resource]}"'
            yield ValidationProblem(("maxAllowed", MapKey(resource)), INVALID, rule_text, high[resource])


@rule(ContainerResourcePolicy, "minAllowed", "maxAllowed", message="bounds must be whole milli CPUs and whole bytes")
def allowed_amounts_are_whole_units(policy: ContainerResourcePolicy) -> Iterator[ValidationProblem]:
    """Bounds that no request can equal would be rounded silently."""
    for field, amounts in (("minAllowed", policy.min_allowed), ("maxAllowed", policy.max_allowed)):
        for resource, text in (amounts or {}).items():
            amount = Quantity.parse(text)
            is_whole = amount.is_whole_milli if resource == "cpu" else amount.is_whole_unit
            if resource in _WHOLE_UNITS and not is_whole:
                yield ValidationProblem((field, MapKey(resource)), INVALID, _WHOLE_UNITS[resource], text)


@rule(
    ContainerResourcePolicy,
    "oomBumpUpRatio",
    message="oomBumpUpRatio must be greater than or equal to 1.0",
    cel="!has(self.oomBumpUpRatio) || quantity(string(self.oomBumpUpRatio)).compareTo(quantity('1')) >= 0",
)
def bump_up_ratio_grows(policy: ContainerResourcePolicy) -> Iterator[ValidationProblem]:
    """A ratio below one would answer an out-of-memory kill with less memory."""
    ratio = policy.oom_bump_up_ratio
    if ratio is not None and Quantity.parse(ratio) < Quantity.parse(1):
        yield ValidationProblem(
            ("oomBumpUpRatio",), INVALID, "must be greater than or equal to 1.0", _format_like_upstream(ratio)
        )


@rule(
    ContainerResourcePolicy,
    "oomMinBumpUp",
    message="oomMinBumpUp must be greater than or equal to 0",
    cel="!has(self.oomMinBumpUp) || quantity(string(self.oomMinBumpUp)).compareTo(quantity('0')) >= 0",
)
def bump_up_is_not_negative(policy: ContainerResourcePolicy) -> Iterator[ValidationProblem]:
    """The same for the least step."""
    step = policy.oom_min_bump_up
    if step is not None and Quantity.parse(step) < Quantity.parse(0):
        yield ValidationProblem(
            ("oomMinBumpUp",), INVALID, "must be greater than or equal to 0", _format_like_upstream(step)
        )


def _format_like_upstream(text: str | int) -> float | str | int:
    """As a number, which is how upstream's message has it; an amount with a fraction of a milli-unit stays a text."""
    amount = Quantity.parse(text)
    if not amount.is_whole_milli:
        return text
    return amount.milli // 1000 if amount.milli % 1000 == 0 else amount.milli / 1000


@rule(PodResourcePolicy, "containerPolicies", message="a container should have one policy")
def container_policies_are_unique(policy: PodResourcePolicy) -> Iterator[ValidationProblem]:
    """Upstream accepts two (the first counts, of `*` the last); that is hardly ever meant."""
    places: dict[str, int] = {}
    for index, container in enumerate(policy.container_policies or ()):
        name = container.container_name
        if name in places:
            winner = "last" if name == ANY_CONTAINER else "first"
            rule_text = f'"{name}" already has a policy, in containerPolicies[{places[name]}]: the {winner} one is used'
            yield ValidationProblem(("containerPolicies", index, "containerName"), SUSPICIOUS, rule_text)
        places.setdefault(name, index)


VPA_RULES: tuple[Rule[Any], ...] = (
    factor_matches_its_type,
    quantity_matches_its_type,
    boost_is_whole_milli_cpus,
    duration_is_written_once,
    requirement_resources_are_unique,
    requirements_are_unique_per_resource,
    requirements_are_written_once,
    odd_eviction_requirements,
    requirements_have_an_effect,
    update_mode_is_current,
    no_limits_without_scaling,
    allowed_range_is_not_empty,
    allowed_amounts_are_whole_units,
    bump_up_ratio_grows,
    bump_up_is_not_negative,
    container_policies_are_unique,
)
