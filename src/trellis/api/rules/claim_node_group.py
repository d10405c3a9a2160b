"""Validation rules of the ClaimNodeGroup. They include what the API server requires of the NodeClaims of a group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from trellis.api.kinds.claim_node_group import (
    CAPACITY_TYPE_LABEL,
    CLAIM_GROUP_LABEL,
    KARPENTER_DOMAIN,
    OPERATORS_WITH_VALUES,
    OPERATORS_WITHOUT_VALUES,
    ClaimNodeGroupSpec,
    ClaimRequirement,
    NodeClassReference,
)
from trellis.api.problems import DUPLICATE, FORBIDDEN, INVALID, REQUIRED, Path, ValidationProblem
from trellis.api.rules.node_group import build_node_group_rules, check_taints
from trellis.api.schema.fields import Rule, rule
from trellis.base.names import check_label_key, check_label_value

_RESERVED_LABELS: Final = (CLAIM_GROUP_LABEL, "kubernetes.io/hostname")


def _check_label(key: str) -> str | None:
    if key in _RESERVED_LABELS:
        return "is set on each node and must not be given"
    return _check_domain(key) if key != CAPACITY_TYPE_LABEL else None


def _check_domain(key: str) -> str | None:
    """Karpenter takes what has its labels for its own: a label of a NodePool would give it the node."""
    domain = key.partition("/")[0] if "/" in key else ""
    is_karpenters = domain == KARPENTER_DOMAIN or domain.endswith(f".{KARPENTER_DOMAIN}")
    return f"belongs to Karpenter: the domain {KARPENTER_DOMAIN} must not be used" if is_karpenters else None


@rule(ClaimNodeGroupSpec, "startupTaints", "taints", message="startupTaints must be valid, and not be among taints")
def startup_taints_are_possible(spec: ClaimNodeGroupSpec) -> Iterator[ValidationProblem]:
    """A node never becomes ready while it has a startup taint."""
    yield from check_taints("startupTaints", spec.startup_taints or (), _check_domain)
    lasting = {(taint.key, taint.effect) for taint in spec.taints or ()}
    for index, taint in enumerate(spec.startup_taints or ()):
        if (taint.key, taint.effect) in lasting:
            text = f"{taint.key} with effect {taint.effect} is already one of taints, which stay"
            yield ValidationProblem(("startupTaints", index), DUPLICATE, text, taint.key)


@rule(ClaimRequirement, "key", message="key must be a label that Karpenter does not set itself")
def requirement_key_is_allowed(requirement: ClaimRequirement) -> Iterator[ValidationProblem]:
    """The API server refuses NodeClaims with others."""
    place: Path = ("key",)
    if problem := check_label_key(requirement.key):
        yield ValidationProblem(place, INVALID, problem, requirement.key)
    elif forbidden := _check_label(requirement.key):
        yield ValidationProblem(place, FORBIDDEN, forbidden)


@rule(ClaimRequirement, "operator", "values", "minValues", message="values must be as many as the operator takes")
def requirement_values_match_the_operator(requirement: ClaimRequirement) -> Iterator[ValidationProblem]:
    """The API server refuses NodeClaims with others."""
    place: Path = ("values",)
    operator, values = requirement.operator, requirement.values or []
    for index, value in enumerate(values):
        if problem := check_label_value(value):
            yield ValidationProblem((*place, index), INVALID, problem, value)
    if operator in OPERATORS_WITH_VALUES:
        if not values:
            yield ValidationProblem(place, REQUIRED, f"must be given with operator {operator}")
    elif operator in OPERATORS_WITHOUT_VALUES:
        if values:
            yield ValidationProblem(place, FORBIDDEN, f"must not be given with operator {operator}")
    elif len(values) != 1 or not (values[0].isascii() and values[0].isdigit()):
        yield ValidationProblem(place, INVALID, f"must be one whole number with operator {operator}", values)
    if operator == "In" and requirement.min_values is not None and len(values) < requirement.min_values:
        text = f"must not be above the number of values, which is {len(values)}"
        yield ValidationProblem(("minValues",), INVALID, text, requirement.min_values)


@rule(NodeClassReference, "group", message="group must be an API group without a version")
def node_class_group_has_no_version(reference: NodeClassReference) -> Iterator[ValidationProblem]:
    """A version is a common mistake, and the API server refuses it."""
    if "/" in reference.group:
        group = reference.group.partition("/")[0]
        yield ValidationProblem(("group",), INVALID, f"must be without a version: {group}", reference.group)


CLAIM_NODE_GROUP_RULES: tuple[Rule[Any], ...] = (
    *build_node_group_rules(ClaimNodeGroupSpec, _check_label, _check_domain),
    startup_taints_are_possible,
    requirement_key_is_allowed,
    requirement_values_match_the_operator,
    node_class_group_has_no_version,
)
