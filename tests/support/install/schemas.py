"""JSON Schemas of all kinds that an API server serves, in files as kubeconform looks them up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from support.install.helm import Manifest
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.waiting import until

_GVK: Final = "x-kubernetes-group-version-kind"
_REFERENCE: Final = "#/components/schemas/"


def write_schemas(cluster: Cluster, directory: Path, definitions: list[Manifest]) -> Path:
    """Write a file for each kind, once the definitions are published in `/openapi/v3`."""
    groups = {f"apis/{it['spec']['group']}/{it['spec']['versions'][0]['name']}" for it in definitions}
    paths = until(
        "the definitions to be published",
        lambda: paths if groups <= (paths := cluster.api.get("/openapi/v3")["paths"]).keys() else None,
    )
    for served in paths.values():
        address, _, query = served["serverRelativeURL"].partition("?")
        document = cluster.api.get(address, **dict(part.split("=", 1) for part in query.split("&") if part))
        _write_kinds(document.get("components", {}).get("schemas", {}), directory)
    return directory


def _write_kinds(schemas: Json, directory: Path) -> None:
    for schema in schemas.values():
        for kind in schema.get(_GVK, ()):
            # kubeconform calls the version the group where there is no group.
            group = kind["group"] or kind["version"]
            name = f"{kind['kind']}-{group}-{kind['version']}".lower()
            text = json.dumps(_resolve(schema, schemas, ()))
            (directory / f"{name}.json").write_text(text)


def _resolve(schema: Any, schemas: Json, outer: tuple[str, ...]) -> Any:
    """The schema with what it refers to in place. Fields that no schema names are refused."""
    if not isinstance(schema, dict):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str):
        name = reference.removeprefix(_REFERENCE)
        # A schema that contains itself, such as that of schemas.
        return {} if name in outer else _resolve(schemas[name], schemas, (*outer, name))
    resolved = dict(schema)
    if "properties" in schema:
        resolved["properties"] = {name: _resolve(part, schemas, outer) for name, part in schema["properties"].items()}
    for keyword in ("items", "additionalProperties"):
        if keyword in schema:
            resolved[keyword] = _resolve(schema[keyword], schemas, outer)
    for part in resolved.pop("allOf", ()):
        # How OpenAPI adds a description to a reference.
        resolved |= _resolve(part, schemas, outer)
    is_open = resolved.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in resolved
    if "properties" in resolved and not is_open:
        resolved["additionalProperties"] = False
    if resolved.get("format") == "int-or-string" or resolved.get("x-kubernetes-int-or-string"):
        resolved.pop("type", None)
    return resolved
