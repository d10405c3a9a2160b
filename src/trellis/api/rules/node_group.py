"""Validation rules that all declared node groups share: names, resources, sizes, labels and taints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from trellis.api.kinds.node_group import NodeGroupSpec
from trellis.api.kinds.parts import NodeTaint
from trellis.api.problems import DUPLICATE, FORBIDDEN, INVALID, REQUIRED, MapKey, Path, ValidationProblem
from trellis.api.schema.fields import Rule
from trellis.base.errors import InvalidInput
from trellis.base.names import check_dns_label, check_dns_subdomain, check_label_key, check_label_value
from trellis.base.quantities import Quantity

# A node, or what stands for it, is called after its group, with a dash and a number of at most seven digits, and the
# label `kubernetes.io/hostname` has room for 63 characters.
MAX_NAME_LENGTH: Final = 55

_REQUIRED_RESOURCES: Final = ("cpu", "memory")
_ALLOWED_RESOURCES: Final = ("cpu", "memory", "pods", "ephemeral-storage")

S = TypeVar("S", bound=NodeGroupSpec)
# What is wrong with a label or taint of this key, if anything.
CheckKey = Callable[[str], str | None]


def build_node_group_rules(spec: type[S], check_label: CheckKey, check_taint: CheckKey) -> tuple[Rule[Any], ...]:
    """The shared rules for the spec of one kind; `check_label` and `check_taint` are what it forbids beyond them."""
    return (
        Rule(spec, ("resources",), _node_has_resources, "a node must have CPU and memory, and only valid resources"),
        Rule(spec, ("minSize", "maxSize"), _sizes_are_in_order, "minSize must not be above maxSize"),
        Rule(
            spec,
            ("devices",),
            _check_devices,
            "devices must have valid names, each class once",
        ),
        Rule(
            spec,
            ("labels",),
            lambda group: _check_labels(group, check_label),
            "labels must be valid, and not be labels that Trellis sets on each node",
        ),
        Rule(
            spec,
            ("taints",),
            lambda group: check_taints("taints", group.taints or (), check_taint),
            "taints must be valid, each key and effect once",
        ),
    )


def check_group_name(metadata: object) -> list[ValidationProblem]:
    """What is wrong with a group's name beyond the rules for all names."""
    written = metadata if isinstance(metadata, Mapping) else {}
    name = written.get("name")
    if not isinstance(name, str) or not name:
        if "generateName" not in written:
            return []
        return [
            ValidationProblem(
                ("metadata", "name"), REQUIRED, "name must be given: it is the prefix of the names of nodes"
            )
        ]
    problem = check_dns_label(name) if check_dns_subdomain(name) is None else None
    if problem is None and len(name) > MAX_NAME_LENGTH:
        problem = f"must have at most {MAX_NAME_LENGTH} characters, because it is the prefix of the names of nodes"
    return [ValidationProblem(("metadata", "name"), INVALID, problem, name)] if problem else []


def _node_has_resources(spec: NodeGroupSpec) -> Iterator[ValidationProblem]:
    """A node on which nothing fits is of no use."""
    yield from check_resources(("resources",), spec.resources or {})


def _sizes_are_in_order(spec: NodeGroupSpec) -> Iterator[ValidationProblem]:
    """No size would do."""
    if spec.max_size is not None and (spec.min_size or 0) > spec.max_size:
        yield ValidationProblem(
            ("minSize",), INVALID, f"must not be above maxSize, which is {spec.max_size}", spec.min_size
        )


def _check_devices(spec: NodeGroupSpec) -> Iterator[ValidationProblem]:
    """A class with two counts would have neither."""
    classes: set[str] = set()
    for index, devices in enumerate(spec.devices or ()):
        for name, text in (("deviceClass", devices.device_class), ("driver", devices.driver)):
            problem = check_dns_subdomain(text) if text else None
            if problem:
                yield ValidationProblem(("devices", index, name), INVALID, problem, text)
        if devices.device_class in classes:
            rule_text = "the class is already declared"
            yield ValidationProblem(("devices", index, "deviceClass"), DUPLICATE, rule_text, devices.device_class)
        classes.add(devices.device_class)


def _check_labels(spec: NodeGroupSpec, check_key: CheckKey) -> Iterator[ValidationProblem]:
    """A group is recognised by a label, and a node by its name."""
    for key, value in (spec.labels or {}).items():
        place: Path = ("labels", MapKey(key))
        if forbidden := check_key(key):
            yield ValidationProblem(place, FORBIDDEN, forbidden)
        for problem, text in ((check_label_key(key), key), (check_label_value(value), value)):
            if problem:
                yield ValidationProblem(place, INVALID, problem, text)


def check_taints(field: str, written: Sequence[NodeTaint], check_key: CheckKey) -> Iterator[ValidationProblem]:
    """The API server refuses nodes with other taints."""
    taints: set[tuple[str, str]] = set()
    for index, taint in enumerate(written):
        for name, problem, text in (
            ("key", check_label_key(taint.key), taint.key),
            ("value", check_label_value(taint.value or ""), taint.value),
        ):
            if problem:
                yield ValidationProblem((field, index, name), INVALID, problem, text)
        if forbidden := check_key(taint.key):
            yield ValidationProblem((field, index, "key"), FORBIDDEN, forbidden)
        if (taint.key, taint.effect) in taints:
            rule_text = f"there is already a taint {taint.key} with effect {taint.effect}"
            yield ValidationProblem((field, index), DUPLICATE, rule_text, taint.key)
        taints.add((taint.key, taint.effect))


def check_resources(place: Path, resources: Mapping[str, object]) -> Iterator[ValidationProblem]:
    """What is wrong with the resources of a node."""
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
