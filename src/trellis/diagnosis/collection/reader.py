"""Reads objects for a diagnosis: the answer, or why there is none. Never raises for a missing right."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from trellis.base.errors import Forbidden, KubeError, NotFound, Unreachable, UnreadableObject
from trellis.diagnosis.unread import Unread, build_unread
from trellis.kube.client import Client
from trellis.kube.resources import Resource
from trellis.kube.transport.requests import Request
from trellis.kube.transport.responses import Response

T = TypeVar("T", bound=msgspec.Struct)

# A proxy waits this long for a pod that does not answer.
PROXY_SECONDS = 5.0


class FactReader:
    """Reads by one client. An API server that stops answering raises `Unreachable`."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def list(
        self, resource: Resource[T], namespace: str = "", *, what: str = "", label_selector: str = ""
    ) -> tuple[T, ...] | Unread:
        """All objects of a kind, in one namespace or in all."""
        where = f" in {namespace}" if namespace else ""
        title = what or f"{resource.plural}{where}"
        try:
            return (await self.client.list_all(resource, namespace, label_selector=label_selector)).items
        except Unreachable:
            raise
        except (KubeError, UnreadableObject) as error:
            return build_unread(error, title, verb="list", resource=resource.full_name, namespace=namespace)

    async def get(self, resource: Resource[T], name: str, namespace: str = "", *, what: str = "") -> T | Unread | None:
        """One object; None if it does not exist."""
        title = what or f"{resource.kind} {f'{namespace}/' if namespace else ''}{name}"
        try:
            return await self.client.get(resource, name, namespace)
        except NotFound:
            return None
        except Unreachable:
            raise
        except (KubeError, UnreadableObject) as error:
            return build_unread(error, title, verb="get", resource=resource.full_name, namespace=namespace)

    async def send(
        self, request: Request, what: str, *, verb: str = "get", resource: str = "", namespace: str = ""
    ) -> Response | Unread:
        """The response to any request, such as one through a proxy: there an answer that never comes is unknown too."""
        try:
            return await self.client.send(request)
        except Forbidden as error:
            # Behind a proxy, the other server may refuse too; RBAC names the resource.
            if resource and resource not in error.message:
                return Unread(what, f"no answer through the API server: {' '.join(error.message.split())}")
            return build_unread(error, what, verb=verb, resource=resource, namespace=namespace)
        except (KubeError, UnreadableObject) as error:
            return build_unread(error, what, verb=verb, resource=resource, namespace=namespace)
