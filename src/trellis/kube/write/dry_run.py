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
from trellis.kube.resources import PODS, resource_of
from trellis.kube.transport.requests import build_create, build_patch
from trellis.kube.write.patches import apply_patch

# What a stored object carries and an apply must not: the server fills it in, or refuses to be told.
_SERVERS_OWN: Final = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink")


async def dry_run(client: Client, kind: Kind, document: Mapping[str, Any], namespace: str) -> KubeError | None:
    """Why the API server refuses a document, or None if it would take it. An unknown field is a refusal."""
    metadata = document.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    own_metadata = {name: value for name, value in named.items() if name not in _SERVERS_OWN}
    resource, manager, requested = (
        resource_of(kind, kind.struct),
        client.field_manager,
        {**document, "metadata": own_metadata},
    )
    name = own_metadata.get("name")
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
    """The pod that the API server would make of a document, or why it would not."""
    try:
        return await client.create(PODS, document, namespace, dry_run=True)
    except KubeError as error:
        return error
