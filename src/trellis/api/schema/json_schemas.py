"""JSON Schemas of our kinds, for editors: the schemas of the CRDs in the words of JSON Schema draft 7.

What only an API server understands is left out, and a misspelled field is an error, as in `trellis check`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from trellis.api.registry import ALL_KINDS, Kind
from trellis.api.schema.crds import build_object_schema, build_openapi_schema
from trellis.api.schema.tree import SchemaNode

_DRAFT: Final = "http://json-schema.org/draft-07/schema#"
_OPEN: Final = "x-kubernetes-preserve-unknown-fields"


def build_json_schema(kind: Kind) -> dict[str, Any]:
    """The schema of a manifest of one kind."""
    return {"$schema": _DRAFT, "title": kind.name, **_build_manifest_schema(kind)}


def build_combined_schema(
    kinds: Sequence[Kind] = ALL_KINDS, formats: Mapping[tuple[str, str], SchemaNode] = MappingProxyType({})
) -> dict[str, Any]:
    """One schema for files with objects of any kind: ours are validated, and others may be anything.

    `formats` are the trees of file formats that are no kinds, by apiVersion and kind.
    """
    names = [*((kind.api_version, kind.name) for kind in kinds), *formats]
    rules = [
        {
            "if": {
                "properties": {"apiVersion": {"const": api_version}, "kind": {"const": name}},
                "required": ["apiVersion", "kind"],
            },
            "then": {"$ref": f"#/definitions/{name}"},
        }
        for api_version, name in names
    ]
    definitions = {kind.name: _build_manifest_schema(kind) for kind in kinds}
    return {
        "$schema": _DRAFT,
        "title": "Objects of Trellis",
        "type": "object",
        "allOf": rules,
        "definitions": definitions | {name: _convert_tree(tree) for (_, name), tree in formats.items()},
    }


def build_format_schema(name: str, tree: SchemaNode) -> dict[str, Any]:
    """The schema of a file of one format that is no kind."""
    return {"$schema": _DRAFT, "title": name, **_convert_tree(tree)}


def _convert_tree(tree: SchemaNode) -> dict[str, Any]:
    return _convert(build_openapi_schema(tree, {}))


def _build_manifest_schema(kind: Kind) -> dict[str, Any]:
    schema = _convert(build_object_schema(kind))
    properties = schema["properties"]
    properties["apiVersion"]["const"] = kind.api_version
    properties["kind"]["const"] = kind.name
    properties["metadata"] = {
        "description": "Name, namespace, labels and annotations.",
        "type": "object",
        "properties": {"name": {"type": "string"}, "namespace": {"type": "string"}},
    }
    required = ["apiVersion", "kind", *(["spec"] if kind.spec_required else [])]
    return {**schema, "required": required}


def _convert(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of a CRD as JSON Schema."""
    converted = {name: value for name, value in schema.items() if not name.startswith("x-kubernetes-")}
    if converted.pop("nullable", False) and "type" in converted:
        converted["type"] = [converted["type"], "null"]
    if "properties" in schema:
        converted["properties"] = {name: _convert(member) for name, member in schema["properties"].items()}
        if not schema.get(_OPEN):
            converted["additionalProperties"] = False
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            converted[name] = _convert(schema[name])
    # Kubernetes' names of number formats mean nothing to an editor.
    if converted.get("format") in ("int32", "int64", "double"):
        del converted["format"]
    return converted
