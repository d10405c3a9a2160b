"""Objects as they are stored, every field of them: for questions about what a schema keeps and what it loses."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec

from trellis.api.kinds import Kind
from trellis.base.errors import NotFound
from trellis.kube.client import Client
from trellis.kube.requests import build_list
from trellis.kube.resources import resource_of


async def stored_objects(client: Client, kind: Kind) -> AsyncIterator[dict[str, Any]]:
    """Every object of a kind in the cluster, page by page; none if the cluster does not have the kind."""
    resource = resource_of(kind, kind.struct)
    token = ""
    while True:
        try:
            response = await client.send(build_list(resource, continue_from=token))
        except NotFound:
            return
        page = msgspec.json.decode(response.body)
        for document in page.get("items") or ():
            yield document
        token = page.get("metadata", {}).get("continue") or ""
        if not token:
            return
