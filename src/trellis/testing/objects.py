"""Hypothesis strategies for the JSON of our kinds, made from the same declaration as everything else.

`shaped_specs` follow the schema and may break rules over several fields; `valid_specs` break none; `flawed_specs` are
valid except for one flaw, because a second flaw would hide the message about the first. Pools of values are small, so
that rules over several fields are met as often as they are broken.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from trellis.api.problems import REQUIRED, Path, ValidationProblem
from trellis.api.registry import Kind
from trellis.api.schema.fields import DURATION_PATTERN, Field
from trellis.api.schema.tree import JsonShape, SchemaNode, build_schema_tree
from trellis.api.validation import validate

QUANTITIES = ("0", "1", "2", "500m", "250m", "1.5", "1G", "2Gi", "5120Mi", "1e3", "+3", ".5", 0, 1, 4, 40)
DURATIONS = ("0s", "10s", "2m", "1h30m", "1.5h", "100ms")
TEXTS = (
    "a",
    "app",
    "*",
    "web",
    "apps/v1",
    "Deployment",
    "NodePool",
    "0 8 * * 1-5",
    "UTC",
    "buffer.x-k8s.io/x",
    "a/b/c",
)
# Values of every JSON type, numbers at their limits, and near misses of each text form.
ODD_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 2, 1.5, 2.0, 2**31, 2**63, [], {}, [None], {"a": None}, {"a": "b"}, [1], "", "x", "é", "*" * 300,
    "-1", "0.5m", "1e1.5", "1Kg", "NaN", " 1", "1" * 33, "1e9999", "0.0000000001", "-5s", "10", "1d", "999999h999999h",
    ".5s", "1µs", "5s5", "220000-0000", "Off", "cpu", "CPU", "TargetHigherThanRequests", "0 8 * * 1-5", "UTC",
)  # fmt: skip


def shaped_specs(kind: Kind) -> st.SearchStrategy[Any]:
    """Specs that follow the schema."""
    return _values(build_schema_tree(kind.spec))


def valid_specs(kind: Kind) -> st.SearchStrategy[Any]:
    """Specs that are accepted."""
    return (
        shaped_specs(kind).map(lambda spec: repair_spec(kind, spec)).filter(lambda spec: not find_refusals(kind, spec))
    )


def flawed_specs(kind: Kind) -> st.SearchStrategy[Any]:
    """Valid specs with one change: a value replaced, removed, repeated, or a field too many."""
    return valid_specs(kind).flatmap(_add_flaw)


def find_refusals(kind: Kind, spec: object) -> list[ValidationProblem]:
    """The errors of a spec."""
    document = {"metadata": {"name": "x"}, "spec": spec}
    return [problem for problem in validate(kind, document) if problem.is_error]


def repair_spec(kind: Kind, spec: Any) -> Any:
    """The spec with offending values removed and missing ones filled in, as far as the schema tells."""
    schema, spec = build_schema_tree(kind.spec), copy.deepcopy(spec)
    for _ in range(30):
        wrong = find_refusals(kind, spec)
        if not wrong:
            break
        # One at a time, because repairing the first may move or remove the others.
        first, path = wrong[0], wrong[0].path[1:]
        lacking = first.reason is REQUIRED or first.value == []
        if not (lacking and _fill_in(schema, spec, path)):
            _remove(schema, spec, path)
    return spec


def _fill_in(node: SchemaNode, value: Any, path: Path) -> bool:
    """Fill in a missing or empty value at a path; in an object, its first missing field."""
    for step in path:
        below = node.items if isinstance(step, int) else node.members.get(step)
        if below is None:
            return False
        if isinstance(value, dict) and value.get(str(step)) in (None, []):
            value[step] = smallest_value(below)
            return True
        node, value = below, value[step]
    absent = [name for name in node.members if name not in value] if isinstance(value, dict) else []
    if absent:
        value[absent[0]] = smallest_value(node.members[absent[0]])
    return bool(absent)


def smallest_value(node: SchemaNode) -> Any:
    """The smallest value that follows the schema."""
    match node.shape:
        case JsonShape.OBJECT:
            return {name: smallest_value(node.members[name]) for name in node.required}
        case JsonShape.LIST if node.items is not None:
            return [smallest_value(node.items) for _ in range(node.field.min_items or 0)]
        case JsonShape.MAP | JsonShape.LIST:
            return {}
        case _:
            return _scalars(node)[-1]


def _remove(node: SchemaNode, value: Any, path: Path) -> None:
    """Remove the innermost removable part of a path: a list's item, or an optional field."""
    removable: tuple[Any, str | int] | None = None
    for step in path:
        if isinstance(value, list) and isinstance(step, int) and step < len(value) and node.items is not None:
            removable, node = (value, step), node.items
        elif isinstance(value, dict) and isinstance(step, str) and step in value:
            member = node.members.get(step) or node.items
            if member is None or step not in node.required:
                removable = (value, step)
            node = member or node
        else:
            break
        value = value[step]
    if removable is not None:
        del removable[0][removable[1]]


@st.composite
def _add_flaw(draw: st.DrawFn, valid: Any) -> Any:
    spec = copy.deepcopy(valid)
    holder, key = draw(st.sampled_from(list(_iterate_places(spec)) or [({"spec": spec}, "spec")]))
    match draw(st.sampled_from(("replace", "replace", "replace", "remove", "repeat", "add"))):
        case "remove":
            del holder[key]
        case "repeat" if isinstance(holder, list):
            holder.append(holder[key])
        case "add" if isinstance(holder, dict):
            holder["surprise"] = copy.deepcopy(draw(st.sampled_from(ODD_VALUES)))
        case _:
            holder[key] = copy.deepcopy(draw(st.sampled_from(ODD_VALUES)))
    return spec


def _iterate_places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a value, as its container and the key in it."""
    pairs = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    for key, below in pairs:
        yield value, key
        yield from _iterate_places(below)


def _values(node: SchemaNode) -> st.SearchStrategy[Any]:
    match node.shape:
        case JsonShape.OBJECT:
            return _objects(node)
        case JsonShape.LIST if node.items is not None:
            least, most = node.field.min_items or 0, min(node.field.max_items or 3, 3)
            return st.lists(_values(node.items), min_size=least, max_size=most)
        case JsonShape.MAP if node.items is not None and not node.field.opaque:
            keys = st.sampled_from(("cpu", "memory", "app", "example.com/gpu"))
            return st.dictionaries(keys, _values(node.items), max_size=3)
        case JsonShape.MAP:
            return st.dictionaries(st.sampled_from(("a", "b")), st.sampled_from((0, "x", True)), max_size=2)
        case _:
            return st.sampled_from(_scalars(node))


def _objects(node: SchemaNode) -> st.SearchStrategy[Any]:
    required = {name: _values(node.members[name]) for name in node.required}
    optional = {name: _values(member) for name, member in node.members.items() if name not in required}
    return st.fixed_dictionaries(required, optional=optional)


def _scalars(node: SchemaNode) -> tuple[Any, ...]:
    field = node.field
    match node.shape:
        case JsonShape.QUANTITY:
            return QUANTITIES
        case JsonShape.INTEGER:
            return tuple(sorted({_clamp(number, field) for number in (0, 1, 2, 3, 8, 10, 100, 2**31 - 1)}))
        case JsonShape.NUMBER:
            return (0, 1, 0.5, -2.25)
        case JsonShape.BOOLEAN:
            return (True, False)
        case _ if field.enum:
            return field.enum
        case _ if field.pattern == DURATION_PATTERN:
            return DURATIONS
        case _ if field.format == "date-time":
            return ("2026-11-15T18:00:00Z", "2026-11-15T18:00:00.5+01:00")
        case _ if field.pattern is not None:
            return ("220000-0000", "063000+0530")
        case _:
            return tuple(text for text in TEXTS if _fits(text, field))


def _clamp(number: int, field: Field) -> int:
    low = number if field.minimum is None else max(number, field.minimum)
    return low if field.maximum is None else min(low, field.maximum)


def _fits(text: str, field: Field) -> bool:
    return (field.min_length or 0) <= len(text) <= (field.max_length or len(text))
