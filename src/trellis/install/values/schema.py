"""The schema of the values as JSON Schema draft 7, by which Helm refuses wrong values."""

from __future__ import annotations

from typing import Any, Final

from trellis.api.schema.tree import JsonShape, SchemaNode, build_schema_tree
from trellis.install.values.declarations import InstallValues
from trellis.install.values.rules import FIXED_LABELS, LABEL_PATHS, RESERVED_SETTINGS

_DRAFT: Final = "http://json-schema.org/draft-07/schema#"


def build_values_schema() -> dict[str, Any]:
    """The schema of `values.yaml`. Helm adds `global` to the values of a chart that is part of another one."""
    schema = _build(build_schema_tree(InstallValues))
    schema["properties"]["global"] = {"type": "object"}
    forbidden = dict.fromkeys(LABEL_PATHS, FIXED_LABELS) | {"configuration": tuple(RESERVED_SETTINGS)}
    for path, names in forbidden.items():
        # Not `propertyNames`: the validator of Helm names another value in its message then.
        schema["properties"][path]["properties"] = {name: {"not": {}} for name in names}
    return {"$schema": _DRAFT, "title": "Values of Trellis", **schema}


def _build(node: SchemaNode) -> dict[str, Any]:
    field = node.field
    schema: dict[str, Any] = {"description": field.doc} if field.doc else {}
    match node.shape:
        case JsonShape.OBJECT:
            schema["type"] = "object"
            schema["properties"] = {name: _build(member) for name, member in node.members.items()}
            schema["additionalProperties"] = False
            schema["required"] = list(node.required)
        case JsonShape.MAP:
            schema["type"] = "object"
            if node.items is not None:
                schema["additionalProperties"] = _build(node.items)
        case JsonShape.LIST:
            schema["type"] = "array"
            if node.items is not None:
                schema["items"] = _build(node.items)
        case shape:
            schema["type"] = str(shape)
    limits = {
        "enum": list(field.enum) or None,
        "minimum": field.minimum,
        "maximum": field.maximum,
        "pattern": field.pattern,
        "minLength": field.min_length,
        "maxLength": field.max_length,
        "maxItems": field.max_items,
    }
    return schema | {name: limit for name, limit in limits.items() if limit is not None}
