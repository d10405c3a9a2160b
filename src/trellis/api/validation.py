"""Validates objects of our kinds: the one validator, for the webhook, `trellis check` and the tests alike.

It takes the JSON as written, not a decoded object, so that unknown fields, wrong types and broken rules are all
reported at once, in the API server's terms, each with its field, its value and the rule.

The walk along the schema returns the value as the API server would store it, without nulls and unknown fields, and
leaves out what is wrong, so that rules over several fields still run on everything that is right.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from trellis.api.feature_gates import FeatureGates, find_gated_uses
from trellis.api.problems import (
    DUPLICATE,
    INVALID,
    REQUIRED,
    TOO_MANY,
    UNKNOWN_FIELD,
    UNSUPPORTED,
    WRONG_TYPE,
    MapKey,
    Path,
    ValidationProblem,
    describe_supported_values,
)
from trellis.api.registry import CHECKPOINT, NODE_GROUP_KINDS, RULES, VPA, Kind
from trellis.api.rules.metadata import METADATA_RULES, Metadata
from trellis.api.rules.node_group import check_group_name
from trellis.api.scenario.autoscalers import HpaSpec
from trellis.api.schema.fields import Field, Rule
from trellis.api.schema.tree import JsonShape, SchemaNode, build_schema_tree
from trellis.base.errors import InvalidInput
from trellis.base.names import suggest_name
from trellis.base.quantities import Quantity
from trellis.base.times import parse_time

# How a JSON type is called in messages.
_JSON_NAMES: Final = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}


class _InvalidValue(Exception):
    """The value cannot be used; its problem has been recorded."""


class SchemaValidator:
    """Walks one object along its schema: collects problems and runs the rules of each struct."""

    def __init__(self, rules: Mapping[type[msgspec.Struct], tuple[Rule[Any], ...]]) -> None:
        self._rules = rules
        self.problems: list[ValidationProblem] = []

    def walk(self, node: SchemaNode, value: object, path: Path) -> Any:
        """The value as it would be stored; raises `_Wrong` after recording why it cannot be."""
        return _WALKS[node.shape](self, node, value, path)

    def check(self, node: SchemaNode, value: object, path: Path) -> list[ValidationProblem]:
        """Every problem of the value and of everything below it."""
        with contextlib.suppress(_InvalidValue):  # recorded where it was found
            self.walk(node, value, path)
        return self.problems

    def _refuse(self, problem: ValidationProblem) -> None:
        self.problems.append(problem)

    def _wrong_type(self, path: Path, value: object, expected: str, *other_types: str) -> _InvalidValue:
        actual = "null" if value is None else _JSON_NAMES[type(value)]
        rule = "; ".join((f"must be of type {expected}, not {actual}", *other_types))
        self._refuse(ValidationProblem(path, WRONG_TYPE, rule, value, in_crd=True))
        return _InvalidValue()

    def _object(self, node: SchemaNode, value: object, path: Path) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._wrong_type(path, value, "object")
        values: dict[str, Any] = {}
        broken: set[str] = set()
        for name, items in value.items():
            member = node.members.get(name)
            if member is None:
                if not node.field.opaque:
                    self._refuse(_build_unknown_field(node, path, name))
            elif items is None:
                continue  # the API server drops a null where null means nothing
            else:
                try:
                    values[name] = self.walk(member, items, (*path, name))
                except _InvalidValue:
                    broken.add(name)
        for name in node.required:
            if name not in values and name not in broken:
                self._refuse(ValidationProblem((*path, name), REQUIRED, f"{name} must be given", in_crd=True))
                broken.add(name)
        self._run_rules(node, values, broken, path)
        if broken:
            raise _InvalidValue
        return values

    def _run_rules(self, node: SchemaNode, values: dict[str, Any], broken: set[str], path: Path) -> None:
        if node.struct is None:
            return
        for rule in self._rules.get(node.struct, ()):
            if broken.isdisjoint(rule.reads):
                arguments = {name: values[name] for name in rule.reads if name in values}
                part = msgspec.convert(arguments, node.struct)
                self.problems.extend(problem.with_prefix(path) for problem in rule.problems(part))

    def _map(self, node: SchemaNode, value: object, path: Path) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._wrong_type(path, value, "object")
        limit = node.field.max_properties
        if limit is not None and len(value) > limit:
            self._refuse(
                ValidationProblem(path, TOO_MANY, f"must have at most {limit} entries", len(value), in_crd=True)
            )
        if node.items is None or node.field.opaque:
            return value
        items = ((MapKey(key), items) for key, items in value.items() if items is not None)
        return self._validate_items(items, node.items, path)

    def _list(self, node: SchemaNode, value: object, path: Path) -> list[Any]:
        if not isinstance(value, list) or node.items is None:
            raise self._wrong_type(path, value, "array")
        field, size = node.field, len(value)
        if field.max_items is not None and size > field.max_items:
            noun = "item" if field.max_items == 1 else "items"
            self._refuse(
                ValidationProblem(path, TOO_MANY, f"must have at most {field.max_items} {noun}", size, in_crd=True)
            )
        if field.min_items is not None and size < field.min_items:
            noun = "item" if field.min_items == 1 else "items"
            self._refuse(
                ValidationProblem(path, INVALID, f"must have at least {field.min_items} {noun}", value, in_crd=True)
            )
        items = self._validate_items(enumerate(value), node.items, path)
        if field.list_type == "map":
            self._unique_keys(field.list_keys, items, path)
        return list(items.values())

    def _validate_items(self, items: Any, node: SchemaNode, path: Path) -> dict[Any, Any]:
        """Walk every item before refusing the container, so that no item hides another."""
        values: dict[Any, Any] = {}
        wrong = False
        for key, item in items:
            try:
                values[key] = self.walk(node, item, (*path, key))
            except _InvalidValue:
                wrong = True
        if wrong:
            raise _InvalidValue
        return values

    def _unique_keys(self, keys: tuple[str, ...], items: dict[Any, Any], path: Path) -> None:
        identities: set[tuple[Any, ...]] = set()
        for index, item in items.items():
            identity = tuple(item.get(key) for key in keys)
            if identity in identities:
                shown = item.get(keys[0])
                self._refuse(
                    ValidationProblem((*path, index), DUPLICATE, f"{keys[0]} must be unique", shown, in_crd=True)
                )
            identities.add(identity)

    def _string(self, node: SchemaNode, value: object, path: Path) -> str:
        if not isinstance(value, str):
            raise self._wrong_type(path, value, "string")
        before = len(self.problems)
        self.problems.extend(_check_text(node.field, value, path))
        if len(self.problems) > before:
            raise _InvalidValue
        return value

    def _integer(self, node: SchemaNode, value: object, path: Path) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float) or not _is_integral(value):
            raise self._wrong_type(path, value, "integer")
        problem = _check_int64(value, path) or _check_range(node.field, int(value), path)
        if problem is not None:
            self._refuse(problem)
            raise _InvalidValue
        return int(value)

    def _number(self, node: SchemaNode, value: object, path: Path) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self._wrong_type(path, value, "number")
        problem = _check_range(node.field, value, path)
        if problem is not None:
            self._refuse(problem)
            raise _InvalidValue
        return value

    def _boolean(self, _node: SchemaNode, value: object, path: Path) -> bool:
        if not isinstance(value, bool):
            raise self._wrong_type(path, value, "boolean")
        return value

    def _quantity(self, node: SchemaNode, value: object, path: Path) -> str | int:
        if isinstance(value, float) and not _is_integral(value):
            rule = f'must be text or a whole number: write "{value:g}", in quotes'
            self._refuse(ValidationProblem(path, WRONG_TYPE, rule, value, in_crd=True))
            raise _InvalidValue
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self._wrong_type(path, value, "string or integer", node.field.pattern_message or "must be a quantity")
        problem = None if isinstance(value, str) else _check_int64(value, path)
        problem = problem or _check_quantity(node.field, value if isinstance(value, str) else int(value), path)
        if problem is not None:
            self._refuse(problem)
            raise _InvalidValue
        return value if isinstance(value, str) else int(value)


_WALKS: Final[dict[JsonShape, Callable[[SchemaValidator, SchemaNode, object, Path], Any]]] = {
    JsonShape.OBJECT: SchemaValidator._object,
    JsonShape.MAP: SchemaValidator._map,
    JsonShape.LIST: SchemaValidator._list,
    JsonShape.STRING: SchemaValidator._string,
    JsonShape.INTEGER: SchemaValidator._integer,
    JsonShape.NUMBER: SchemaValidator._number,
    JsonShape.BOOLEAN: SchemaValidator._boolean,
    JsonShape.QUANTITY: SchemaValidator._quantity,
}


@functools.lru_cache(maxsize=64)
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    # RE2's `$` is the end of the text; Python's also matches before a last newline.
    return re.compile(pattern.replace("$", r"\Z"), re.ASCII)


def _build_unknown_field(node: SchemaNode, path: Path, name: str) -> ValidationProblem:
    guess = suggest_name(name, tuple(node.members))
    return ValidationProblem((*path, name), UNKNOWN_FIELD, f'there is no field "{name}" here', suggestion=guess)


def _check_text(field: Field, value: str, path: Path) -> Iterator[ValidationProblem]:
    if field.enum and value not in field.enum:
        guess = suggest_name(value, field.enum)
        yield ValidationProblem(
            path, UNSUPPORTED, describe_supported_values(field.enum), value, in_crd=True, suggestion=guess
        )
    if field.min_length is not None and len(value) < field.min_length:
        if value:
            rule = f"must be at least {field.min_length} characters long"
            yield ValidationProblem(path, INVALID, rule, value, in_crd=True)
        else:
            yield ValidationProblem(path, REQUIRED, "must not be empty", value, in_crd=True)
    if field.max_length is not None and len(value) > field.max_length:
        rule = f"must be at most {field.max_length} characters long"
        yield ValidationProblem(path, TOO_MANY, rule, len(value), in_crd=True)
    elif field.pattern is not None and not _compile_pattern(field.pattern).search(value):
        yield ValidationProblem(
            path, INVALID, field.pattern_message or f"must match {field.pattern}", value, in_crd=True
        )
    if field.format == "date-time":
        try:
            parse_time(value)
        except InvalidInput as error:
            yield ValidationProblem(path, INVALID, error.rule, value, in_crd=True)


def _is_integral(value: float) -> bool:
    return isinstance(value, int) or value.is_integer()


def _check_int64(value: float, path: Path) -> ValidationProblem | None:
    """JSON numbers that Kubernetes reads as floats, although they are whole: 2.0, and what needs more than 64 bits.

    The schema accepts some of them as integers, CEL and Go's decoders none, so the CRD alone is not enough.
    """
    if not isinstance(value, int):
        return ValidationProblem(path, WRONG_TYPE, f"must be written without a decimal point: {value:.0f}", value)
    if not -(2**63) <= value < 2**63:
        return ValidationProblem(path, WRONG_TYPE, "must fit into 64 bits", value)
    return None


def _check_range(field: Field, value: float, path: Path) -> ValidationProblem | None:
    if field.minimum is not None and value < field.minimum:
        rule_text = field.minimum_message or f"must be greater than or equal to {field.minimum}"
        return ValidationProblem(path, INVALID, rule_text, value, in_crd=True)
    if field.maximum is not None and value > field.maximum:
        return ValidationProblem(path, INVALID, f"must be less than or equal to {field.maximum}", value, in_crd=True)
    return None


def _check_quantity(field: Field, value: str | int, path: Path) -> ValidationProblem | None:
    if isinstance(value, int):
        return _check_range(field, value, path)
    problem = next(_check_text(field, value, path), None)
    if problem is not None:
        return problem
    try:
        Quantity.parse(value)
    except InvalidInput as error:
        return ValidationProblem(path, INVALID, error.rule, value)
    return None


HPA_VERSION = "autoscaling/v2"
_TOP = ("apiVersion", "kind", "metadata", "spec", "status")


def validate(
    kind: Kind,
    document: Mapping[str, Any],
    old: Mapping[str, Any] | None = None,
    gates: FeatureGates | None = None,
) -> list[ValidationProblem]:
    """Every problem of an object of one of our kinds, errors and warnings, in the order of its fields.

    `old` is the stored object on an update: a use that a disabled feature gate forbids is tolerated where it is stored
    already. `status` is validated only where it is written together with the spec; elsewhere the server drops it.
    """
    top = _TOP if kind.status is not None else _TOP[:-1]
    problems = [_build_unknown_top_field(name, top) for name in document if name not in top]
    problems += validate_metadata(document.get("metadata"))
    if kind in NODE_GROUP_KINDS:
        problems += check_group_name(document.get("metadata"))
    spec = document.get("spec")
    if spec is not None:
        problems += SchemaValidator(RULES).check(build_schema_tree(kind.spec), spec, ("spec",))
    elif kind.spec_required:
        problems.append(ValidationProblem(("spec",), REQUIRED, "spec must be given", in_crd=True))
    if kind is CHECKPOINT and kind.status is not None and document.get("status") is not None:
        problems += SchemaValidator(RULES).check(build_schema_tree(kind.status), document["status"], ("status",))
    if kind is VPA:
        problems += find_gated_uses(spec, old.get("spec") if old else None, gates or FeatureGates())
    return problems


def validate_simulated_hpa(document: Mapping[str, Any]) -> list[ValidationProblem]:
    """Every problem of a HorizontalPodAutoscaler, a kind of Kubernetes' own, for a simulation."""
    problems = [_build_unknown_top_field(name, _TOP) for name in document if name not in _TOP]
    if document.get("apiVersion") != HPA_VERSION:
        problems.append(
            ValidationProblem(("apiVersion",), INVALID, f"must be {HPA_VERSION}", document.get("apiVersion"))
        )
    problems += validate_metadata(document.get("metadata"))
    spec = document.get("spec")
    if spec is None:
        return [*problems, ValidationProblem(("spec",), REQUIRED, "spec must be given")]
    return problems + SchemaValidator(RULES).check(build_schema_tree(HpaSpec), spec, ("spec",))


def validate_metadata(metadata: object) -> list[ValidationProblem]:
    """The problems of an object's metadata; the rules are those of every kind."""
    return SchemaValidator({Metadata: METADATA_RULES}).check(
        build_schema_tree(Metadata), {} if metadata is None else metadata, ("metadata",)
    )


def _build_unknown_top_field(name: str, top: tuple[str, ...]) -> ValidationProblem:
    return ValidationProblem(
        (name,), UNKNOWN_FIELD, f'there is no field "{name}" here', suggestion=suggest_name(name, top)
    )
