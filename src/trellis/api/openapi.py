"""A kind's tree as the structural OpenAPI schema that a CRD carries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from trellis.api.fields import Field, Rule
from trellis.api.schema import Node, Shape

Rules = Mapping[type[msgspec.Struct], tuple[Rule[Any], ...]]


def openapi(node: Node, rules: Rules) -> dict[str, Any]:
    """The schema of a node and of everything below it."""
    schema: dict[str, Any] = {}
    if node.field.doc:
        schema["description"] = node.field.doc
    schema |= _type(node, rules) | _limits(node.field) | _list_and_map_kinds(node.field)
    if node.field.opaque or (node.shape is Shape.MAP and node.items is None):
        schema["x-kubernetes-preserve-unknown-fields"] = True
    in_cel = [rule for rule in rules.get(node.struct, ()) if rule.cel is not None] if node.struct else []
    if in_cel:
        schema["x-kubernetes-validations"] = [{"rule": rule.cel, "message": rule.says} for rule in in_cel]
    return schema


def _type(node: Node, rules: Rules) -> dict[str, Any]:
    match node.shape:
        case Shape.OBJECT:
            schema: dict[str, Any] = {"type": "object"}
            if node.required:
                schema["required"] = list(node.required)
            if node.members:
                schema["properties"] = {name: openapi(member, rules) for name, member in node.members.items()}
            return schema
        case Shape.MAP if node.items is not None and not node.field.opaque:
            return {"type": "object", "additionalProperties": openapi(node.items, rules)}
        case Shape.MAP:
            return {"type": "object"}
        case Shape.LIST if node.items is not None:
            return {"type": "array", "items": openapi(node.items, rules)}
        case Shape.QUANTITY:
            return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
        case _:
            return {"type": str(node.shape)}


def _limits(field: Field) -> dict[str, Any]:
    values: dict[str, Any] = {
        "enum": list(field.enum) or None,
        "format": field.format,
        "maxItems": field.max_items,
        "maxLength": field.max_length,
        "maxProperties": field.max_properties,
        "maximum": field.maximum,
        "minItems": field.min_items,
        "minLength": field.min_length,
        "minimum": field.minimum,
        "nullable": field.nullable or None,
        "pattern": field.pattern,
    }
    return {name: value for name, value in values.items() if value is not None}


def _list_and_map_kinds(field: Field) -> dict[str, Any]:
    kinds: dict[str, Any] = {}
    if field.list_type is not None:
        kinds["x-kubernetes-list-type"] = field.list_type
    if field.list_keys:
        kinds["x-kubernetes-list-map-keys"] = list(field.list_keys)
    if field.atomic_map:
        kinds["x-kubernetes-map-type"] = "atomic"
    return kinds
