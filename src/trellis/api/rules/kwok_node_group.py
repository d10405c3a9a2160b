"""Validation rules of the KwokNodeGroup, and of the nodes that are made from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trellis.api.kinds.kwok_node_group import (
    GROUP_LABEL,
    KWOK_KEY,
    STARTING_TAINT,
    GroupFailure,
    GroupFailureMode,
    KwokNodeGroupSpec,
)
from trellis.api.problems import DUPLICATE, FORBIDDEN, INVALID, REQUIRED, MapKey, Path, ValidationProblem
from trellis.api.schema.fields import Rule, rule
from trellis.base.durations import parse_span
from trellis.base.errors import InvalidInput
from trellis.base.names import check_dns_label, check_dns_subdomain, check_label_key, check_label_value
from trellis.base.quantities import Quantity

# A node is called after its group, with a dash and a number of at most seven digits, and its label
# `kubernetes.io/hostname` has room for 63 characters.
MAX_NAME_LENGTH: Final = 55
MAX_BOOT_TIME: Final = "1d"

_REQUIRED_RESOURCES: Final = ("cpu", "memory")
_ALLOWED_RESOURCES: Final = ("cpu", "memory", "pods", "ephemeral-storage")
_RESERVED_LABELS: Final = (GROUP_LABEL, "kubernetes.io/hostname", KWOK_KEY)


def check_group_name(metadata: object) -> list[ValidationProblem]:
    """What is wrong with a group's name beyond the rules for all names."""
    written = metadata if isinstance(metadata, Mapping) else {}
    name = written.get("name")
    if not isinstance(name, str) or not name:
        if "generateName" not in written:
            return []
        return [
            ValidationProblem(("metadata", "name"), REQUIRED, "name must be given: the names of nodes begin with it")
        ]
    problem = check_dns_label(name) if check_dns_subdomain(name) is None else None
    if problem is None and len(name) > MAX_NAME_LENGTH:
        problem = f"must have at most {MAX_NAME_LENGTH} characters, because the names of nodes begin with it"
    return [ValidationProblem(("metadata", "name"), INVALID, problem, name)] if problem else []


@rule(KwokNodeGroupSpec, "resources", message="a node has CPU and memory, and only valid resources")
def node_has_resources(spec: KwokNodeGroupSpec) -> Iterator[ValidationProblem]:
    """A node on which nothing fits is of no use."""
    yield from _check_resources(("resources",), spec.resources or {})


@rule(KwokNodeGroupSpec, "minSize", "maxSize", message="minSize is above maxSize")
def sizes_are_in_order(spec: KwokNodeGroupSpec) -> Iterator[ValidationProblem]:
    """No size would do."""
    if spec.max_size is not None and (spec.min_size or 0) > spec.max_size:
        yield ValidationProblem(
            ("minSize",), INVALID, f"must not be above maxSize, which is {spec.max_size}", spec.min_size
        )


@rule(KwokNodeGroupSpec, "labels", message="labels must be valid, and not be labels that every node gets")
def labels_are_for_all_nodes(spec: KwokNodeGroupSpec) -> Iterator[ValidationProblem]:
    """A group is recognised by a label, and a node by its name."""
    for key, value in (spec.labels or {}).items():
        place: Path = ("labels", MapKey(key))
        if key in _RESERVED_LABELS:
            yield ValidationProblem(place, FORBIDDEN, "is set on each node and must not be given")
        for problem, text in ((check_label_key(key), key), (check_label_value(value), value)):
            if problem:
                yield ValidationProblem(place, INVALID, problem, text)


@rule(KwokNodeGroupSpec, "taints", message="taints must be valid, each key and effect once")
def taints_are_possible(spec: KwokNodeGroupSpec) -> Iterator[ValidationProblem]:
    """The API server refuses nodes with others."""
    taints: set[tuple[str, str]] = set()
    for index, taint in enumerate(spec.taints or ()):
        for name, problem, text in (
            ("key", check_label_key(taint.key), taint.key),
            ("value", check_label_value(taint.value or ""), taint.value),
        ):
            if problem:
                yield ValidationProblem(("taints", index, name), INVALID, problem, text)
        if taint.key == STARTING_TAINT:
            yield ValidationProblem(
                ("taints", index, "key"), FORBIDDEN, "is set while a node starts and must not be given"
            )
        if (taint.key, taint.effect) in taints:
            rule_text = f"there is already a taint {taint.key} with effect {taint.effect}"
            yield ValidationProblem(("taints", index), DUPLICATE, rule_text, taint.key)
        taints.add((taint.key, taint.effect))


@rule(KwokNodeGroupSpec, "bootTime", message="bootTime is longer than a day")
def boots_within_a_day(spec: KwokNodeGroupSpec) -> Iterator[ValidationProblem]:
    """A longer value is a mistake."""
    if spec.boot_time is not None and parse_span(spec.boot_time) > parse_span(MAX_BOOT_TIME):
        yield ValidationProblem(("bootTime",), INVALID, f"must be at most {MAX_BOOT_TIME}", spec.boot_time)


@rule(GroupFailure, "how", "resources", message="resources must be given with OtherShape, and only with it")
def failure_resources_match_its_mode(failure: GroupFailure) -> Iterator[ValidationProblem]:
    """Only nodes of another shape need one."""
    if failure.how == GroupFailureMode.OTHER_SHAPE:
        if failure.resources is None:
            yield ValidationProblem(("resources",), REQUIRED, f"must be given with how: {GroupFailureMode.OTHER_SHAPE}")
        else:
            yield from _check_resources(("resources",), failure.resources)
    elif failure.resources is not None:
        yield ValidationProblem(("resources",), FORBIDDEN, f"is allowed only with how: {GroupFailureMode.OTHER_SHAPE}")


def _check_resources(place: Path, resources: Mapping[str, object]) -> Iterator[ValidationProblem]:
    for name in _REQUIRED_RESOURCES:
        if name not in resources:
            yield ValidationProblem((*place, MapKey(name)), REQUIRED, f"{name} must be given")
        elif _is_zero(resources[name]):
            yield ValidationProblem((*place, MapKey(name)), INVALID, "must be above zero", resources[name])
    for name in resources:
        problem = check_label_key(name)
        if problem is None and name not in _ALLOWED_RESOURCES and "/" not in name and not name.startswith("hugepages-"):
            names = ", ".join(_ALLOWED_RESOURCES)
            problem = f"must be one of {names}, hugepages-<size>, or have a domain, as in example.com/gpu"
        if problem:
            yield ValidationProblem((*place, MapKey(name)), INVALID, problem, name)
        elif name not in ("cpu", "memory") and not _is_whole(resources[name]):
            yield ValidationProblem((*place, MapKey(name)), INVALID, "must be a whole number", resources[name])


def _is_zero(amount: object) -> bool:
    read = _parse_amount(amount)
    return read is not None and not read


def _is_whole(amount: object) -> bool:
    read = _parse_amount(amount)
    return read is None or read.is_whole_unit


def _parse_amount(amount: object) -> Quantity | None:
    """What it is; None where its own field has said already that it is nothing."""
    try:
        return Quantity.parse(amount)
    except InvalidInput:
        return None


KWOK_NODE_GROUP_RULES: tuple[Rule[Any], ...] = (
    node_has_resources,
    sizes_are_in_order,
    labels_are_for_all_nodes,
    taints_are_possible,
    boots_within_a_day,
    failure_resources_match_its_mode,
)
