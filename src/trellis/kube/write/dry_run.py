"""Dry runs: whether the API server would accept an object, by a server-side apply that is not stored.

Everything that admits an object takes part: the schema, the rules in the CRD, webhooks, quotas, RBAC.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from trellis.api.kube.pods import Pod
from trellis.api.registry import Kind
from trellis.base.errors import KubeError
from trellis.kube.client import Client
from trellis.kube.resources import PODS, build_resource
from trellis.kube.transport.requests import build_create, build_patch
from trellis.kube.write.patches import apply_patch

# Fields of stored objects that an apply must not have: the server sets them, or refuses them.
_SERVER_FIELDS: Final = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink")


async def dry_run(client: Client, kind: Kind, document: Mapping[str, Any], namespace: str) -> KubeError | None:
    """The error with which the API server refuses a document, or None. An unknown field is refused."""
    metadata = document.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    metadata_fields = {name: value for name, value in named.items() if name not in _SERVER_FIELDS}
    resource, manager, requested = (
        build_resource(kind, kind.struct),
        client.field_manager,
        {**document, "metadata": metadata_fields},
    )
    name = metadata_fields.get("name")
    if name:
        patch = apply_patch(requested, force=True)
        request = build_patch(resource, str(name), patch, namespace, field_manager=manager, dry_run=True)
    else:  # an apply needs a name; what asks for a generated one can only be created
        request = build_create(resource, requested, namespace, field_manager=manager, dry_run=True)
    request = msgspec.structs.replace(request, query=(*request.query, ("fieldValidation", "Strict")))
    try:
        await client.send(request)
    except KubeError as error:
        return error
    return None


async def dry_run_pod(client: Client, document: Mapping[str, Any], namespace: str) -> Pod | KubeError:
    """The pod that the API server would create from a document, or its error."""
    try:
        return await client.create(PODS, document, namespace, dry_run=True)
    except KubeError as error:
        return error
