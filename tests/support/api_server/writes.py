"""Writes as tests want them: one request, its answer read. Controllers write through a `Writer`, with preconditions."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from trellis.kube.client import Client
from trellis.kube.resources import PODS, Resource
from trellis.kube.transport import requests, responses
from trellis.kube.transport.requests import Preconditions
from trellis.kube.write.patches import Patch

T = TypeVar("T", bound=msgspec.Struct)


async def patch(
    client: Client,
    resource: Resource[T],
    name: str,
    change: Patch,
    namespace: str,
    *,
    subresource: str = "",
    dry_run: bool = False,
) -> T:
    """The object after a change of it, or of one of its subresources that answers with it."""
    request = requests.build_patch(
        resource,
        name,
        change,
        namespace,
        subresource=subresource,
        field_manager=client.field_manager,
        dry_run=dry_run,
    )
    return responses.read_object(await client.send(request), resource)


async def delete(
    client: Client, resource: Resource[T], name: str, namespace: str, preconditions: Preconditions | None = None
) -> None:
    """Delete one object."""
    await client.send(requests.build_delete(resource, name, namespace, preconditions=preconditions))


async def evict(client: Client, name: str, namespace: str, preconditions: Preconditions | None = None) -> None:
    """Ask for a pod to go."""
    await client.send(requests.build_eviction(PODS, name, namespace, preconditions=preconditions))
