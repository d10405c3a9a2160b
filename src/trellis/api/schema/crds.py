"""CustomResourceDefinitions of our kinds, with their structural OpenAPI schemas, from the structs that declare them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from trellis.api.registry import KINDS, RULES, Kind, PrinterColumn
from trellis.api.schema.fields import Field, Rule
from trellis.api.schema.tree import JsonShape, SchemaNode, build_schema_tree

Rules = Mapping[type[msgspec.Struct], tuple[Rule[Any], ...]]


def build_openapi_schema(node: SchemaNode, rules: Rules) -> dict[str, Any]:
    """The schema of a node and of everything below it."""
    schema: dict[str, Any] = {}
    if node.field.doc:
        schema["description"] = node.field.doc
    schema |= _build_type(node, rules) | _build_limits(node.field) | _build_list_and_map_kinds(node.field)
    if node.field.opaque or (node.shape is JsonShape.MAP and node.items is None):
        schema["x-kubernetes-preserve-unknown-fields"] = True
    in_cel = [rule for rule in rules.get(node.struct, ()) if rule.cel is not None] if node.struct else []
    if in_cel:
        schema["x-kubernetes-validations"] = [{"rule": rule.cel, "message": rule.message} for rule in in_cel]
    return schema


def _build_type(node: SchemaNode, rules: Rules) -> dict[str, Any]:
    match node.shape:
        case JsonShape.OBJECT:
            schema: dict[str, Any] = {"type": "object"}
            if node.required:
                schema["required"] = list(node.required)
            if node.members:
                schema["properties"] = {
                    name: build_openapi_schema(member, rules) for name, member in node.members.items()
                }
            return schema
        case JsonShape.MAP if node.items is not None and not node.field.opaque:
            return {"type": "object", "additionalProperties": build_openapi_schema(node.items, rules)}
        case JsonShape.MAP:
            return {"type": "object"}
        case JsonShape.LIST if node.items is not None:
            return {"type": "array", "items": build_openapi_schema(node.items, rules)}
        case JsonShape.QUANTITY:
            return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
        case _:
            return {"type": str(node.shape)}


def _build_limits(field: Field) -> dict[str, Any]:
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


def _build_list_and_map_kinds(field: Field) -> dict[str, Any]:
    kinds: dict[str, Any] = {}
    if field.list_type is not None:
        kinds["x-kubernetes-list-type"] = field.list_type
    if field.list_keys:
        kinds["x-kubernetes-list-map-keys"] = list(field.list_keys)
    if field.atomic_map:
        kinds["x-kubernetes-map-type"] = "atomic"
    return kinds


_TYPE_META = {
    "apiVersion": "Group and version of this object's schema.",
    "kind": "The kind of this object.",
}


def build_crds() -> list[dict[str, Any]]:
    """One CustomResourceDefinition per kind."""
    return [build_crd(kind) for kind in KINDS]


def build_crd(kind: Kind) -> dict[str, Any]:
    """The CustomResourceDefinition of one kind."""
    metadata: dict[str, Any] = {"name": f"{kind.plural}.{kind.group}"}
    if kind.approval:
        metadata["annotations"] = {"api-approved.kubernetes.io": kind.approval}
    names = {"kind": kind.name, "listKind": f"{kind.name}List", "plural": kind.plural}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {
            "group": kind.group,
            "names": {**names, "shortNames": list(kind.short_names), "singular": kind.name.lower()},
            "scope": "Namespaced",
            "versions": [
                _build_version(kind),
                *(_build_retired_version(kind, version) for version in kind.retired_versions),
            ],
        },
    }


def _build_version(kind: Kind) -> dict[str, Any]:
    version: dict[str, Any] = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": build_object_schema(kind)},
    }
    if kind.columns:
        version["additionalPrinterColumns"] = [_build_column(column) for column in kind.columns]
    subresources = _build_subresources(kind)
    if subresources:
        version["subresources"] = subresources
    return version


def build_object_schema(kind: Kind) -> dict[str, Any]:
    """The schema of a whole object of a kind."""
    properties: dict[str, Any] = {name: {"description": text, "type": "string"} for name, text in _TYPE_META.items()}
    properties["metadata"] = {"type": "object"}
    for name, struct in (("spec", kind.spec), ("status", kind.status)):
        if struct is None:
            continue
        text = (struct.__doc__ or "").split("\n\n", maxsplit=1)[0].strip()
        properties[name] = {"description": text, **build_openapi_schema(build_schema_tree(struct), RULES)}
    schema = {"description": kind.doc, "type": "object", "properties": properties}
    return {**schema, "required": ["spec"]} if kind.spec_required else schema


def _build_retired_version(kind: Kind, version: str) -> dict[str, Any]:
    """A version that is no longer served. It must exist while `status.storedVersions` names it, and prune nothing."""
    keep_all = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    retired: dict[str, Any] = {
        "name": version,
        "served": False,
        "storage": False,
        "deprecated": True,
        "deprecationWarning": f"{kind.group}/{version} API is deprecated",
        "schema": {"openAPIV3Schema": keep_all},
    }
    if kind.status_subresource:
        retired["subresources"] = {"status": {}}
    return retired


def _build_column(column: PrinterColumn) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        shown["description"] = column.description
    if column.priority:
        shown["priority"] = column.priority
    return shown


def _build_subresources(kind: Kind) -> dict[str, Any]:
    subresources: dict[str, Any] = {}
    if kind.status_subresource:
        subresources["status"] = {}
    if kind.scale:
        subresources["scale"] = {
            "specReplicasPath": kind.scale.spec_replicas,
            "statusReplicasPath": kind.scale.status_replicas,
        }
        if kind.scale.selector:
            subresources["scale"]["labelSelectorPath"] = kind.scale.selector
    return subresources
