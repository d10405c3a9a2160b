"""The CustomResourceDefinitions of our kinds, from the structs that declare them."""

from __future__ import annotations

from typing import Any

from trellis.api.kinds import KINDS, RULES, Column, Kind
from trellis.api.openapi import openapi
from trellis.api.schema import schema_of

_TYPE_META = {
    "apiVersion": "Group and version of this object's schema.",
    "kind": "The kind of this object.",
}


def crds() -> list[dict[str, Any]]:
    """One CustomResourceDefinition per kind."""
    return [crd(kind) for kind in KINDS]


def crd(kind: Kind) -> dict[str, Any]:
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
            "versions": [_version(kind), *(_retired(kind, version) for version in kind.retired)],
        },
    }


def _version(kind: Kind) -> dict[str, Any]:
    version: dict[str, Any] = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": object_schema(kind)},
    }
    if kind.columns:
        version["additionalPrinterColumns"] = [_column(column) for column in kind.columns]
    subresources = _subresources(kind)
    if subresources:
        version["subresources"] = subresources
    return version


def object_schema(kind: Kind) -> dict[str, Any]:
    """The schema of a whole object of a kind."""
    properties: dict[str, Any] = {name: {"description": text, "type": "string"} for name, text in _TYPE_META.items()}
    properties["metadata"] = {"type": "object"}
    for name, struct in (("spec", kind.spec), ("status", kind.status)):
        if struct is None:
            continue
        text = (struct.__doc__ or "").split("\n\n", maxsplit=1)[0].strip()
        properties[name] = {"description": text, **openapi(schema_of(struct), RULES)}
    schema = {"description": kind.doc, "type": "object", "properties": properties}
    return {**schema, "required": ["spec"]} if kind.spec_required else schema


def _retired(kind: Kind, version: str) -> dict[str, Any]:
    """A version that is served no more: it must be there while `status.storedVersions` names it, and lose nothing."""
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


def _column(column: Column) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": column.name, "type": column.type, "jsonPath": column.path}
    if column.description:
        shown["description"] = column.description
    if column.priority:
        shown["priority"] = column.priority
    return shown


def _subresources(kind: Kind) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if kind.status_subresource:
        found["status"] = {}
    if kind.scale:
        found["scale"] = {
            "specReplicasPath": kind.scale.spec_replicas,
            "statusReplicasPath": kind.scale.status_replicas,
        }
        if kind.scale.selector:
            found["scale"]["labelSelectorPath"] = kind.scale.selector
    return found
