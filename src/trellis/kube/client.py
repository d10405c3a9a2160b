"""The client: a resource and a name in, a typed object out.

Thin on purpose: it builds a request, sends it by the transport and decodes the response. It retries nothing but a list
whose continue token has expired. Its callers, the writer and the reflector, handle conflicts and 429.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar, Unpack

import msgspec

from trellis.api.kube.decoder import DecodedList, Rejected
from trellis.api.kube.scaling import Scale
from trellis.api.registry import Kind
from trellis.base.errors import Expired, InternalError, NotFound
from trellis.kube import discovery
from trellis.kube.discovery import Served, ServerVersion
from trellis.kube.resources import Resource, build_resource
from trellis.kube.transport import requests, responses
from trellis.kube.transport.availability import ServerAvailability
from trellis.kube.transport.protocol import Stream, Transport
from trellis.kube.transport.requests import PAGE_SIZE, ListOptions, Request, WatchOptions, build_list
from trellis.kube.transport.responses import Response
from trellis.kube.watch.watch_events import WatchEvent, decode_line

T = TypeVar("T", bound=msgspec.Struct)


class Client:
    """Reads from the API server, and sends the requests of a `Writer`. Raises errors of the `KubeError` tree.

    `field_manager` is the name under which writes are noted in `managedFields`. `availability` learns of every
    response.
    """

    def __init__(self, transport: Transport, field_manager: str = "trellis") -> None:
        self.transport = transport
        self.field_manager = field_manager
        self.availability = ServerAvailability()

    def write_as(self, field_manager: str) -> Client:
        """A client with the same connections, whose writes are noted under another name."""
        client = Client(self.transport, field_manager)
        client.availability = self.availability
        return client

    async def close(self) -> None:
        """Close every connection."""
        await self.transport.close()

    async def send(self, request: Request) -> Response:
        """Send a request and return its response; raises the error that the response stands for."""
        response = await self.transport.send(request)
        responses.raise_for_error(response)
        self.availability.wake_waiting()
        return response

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """Read one object by name."""
        return responses.read_object(await self.send(requests.build_get(resource, name, namespace)), resource)

    async def list_pages(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        limit: int = PAGE_SIZE,
        **options: Unpack[ListOptions],
    ) -> AsyncIterator[DecodedList[T]]:
        """A list page by page, all of one version; raises `Expired` if it takes longer than the server remembers.

        That is five minutes by default. What was yielded before is then half a list: use `list_all` unless half a list
        is of use.
        """
        token = ""
        while True:
            request = requests.build_list(resource, namespace, limit=limit, continue_from=token, **options)
            page = responses.read_page(await self.send(request), resource)
            yield page
            token = page.continue_token
            if not token:
                return

    async def list_all(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        limit: int = PAGE_SIZE,
        **options: Unpack[ListOptions],
    ) -> DecodedList[T]:
        """A whole list, fetched in pages. If a continue token expires on the way, it begins anew, in one piece.

        In one piece, because a cluster whose pages took too long once will take as long again.
        """
        for size in (limit, 0):
            try:
                return await join_pages(self.list_pages(resource, namespace, limit=size, **options))
            except Expired:
                # A list in one piece has no token: then it is the version asked for that is too old.
                if size == 0:
                    raise
        raise InternalError("the unpaged list neither succeeded nor failed")

    @asynccontextmanager
    async def watch(
        self, resource: Resource[T], namespace: str = "", **options: Unpack[WatchOptions]
    ) -> AsyncIterator[AsyncIterator[WatchEvent[T]]]:
        """Events after a version, until the server ends the stream or the connection breaks (`Unreachable`).

            async with client.watch(PODS, resource_version=version) as events:
                async for event in events: ...

        Raises at once if the server refuses; a version it no longer knows may also be the `error` of an event.
        """
        async with self.transport.stream(requests.build_watch(resource, namespace, **options)) as stream:
            if stream.status != 200:
                body = b"\n".join([line async for line in stream.lines()])
                raise responses.build_error(Response(stream.status, stream.headers, body))
            self.availability.wake_waiting()
            yield _read_events(stream, resource)

    async def create(self, resource: Resource[T], document: object, namespace: str = "", *, dry_run: bool = False) -> T:
        """Create an object from a document or a struct, and return it as it is stored."""
        request = requests.build_create(
            resource, document, namespace, field_manager=self.field_manager, dry_run=dry_run
        )
        return responses.read_object(await self.send(request), resource)

    async def get_scale(self, resource: Resource[T], name: str, namespace: str) -> Scale:
        """The scale of an object."""
        request = requests.build_get(resource, name, namespace, "scale")
        return responses.read_as(await self.send(request), Scale)

    async def version(self) -> ServerVersion:
        """The version of the API server."""
        return responses.read_as(await self.send(requests.build_raw_get("/version")), ServerVersion)

    async def discover(self) -> Served:
        """Every kind that the server has, and the groups that it could not list."""
        return await discovery.discover(self.send)


async def _read_events(stream: Stream, resource: Resource[T]) -> AsyncIterator[WatchEvent[T]]:
    async for line in stream.lines():
        yield decode_line(line, resource)


async def join_pages(pages: AsyncIterator[DecodedList[T]]) -> DecodedList[T]:
    """One list of all pages. A rejected object's index counts from the first page on."""
    items: list[T] = []
    rejected: list[Rejected] = []
    version = ""
    async for page in pages:
        earlier_items = len(items) + len(rejected)
        rejected += (
            msgspec.structs.replace(rejection, index=earlier_items + rejection.index) for rejection in page.rejected
        )
        items += page.items
        version = page.resource_version
    return DecodedList(tuple(items), version, rejected=tuple(rejected))


async def iterate_stored_objects(client: Client, kind: Kind) -> AsyncIterator[dict[str, Any]]:
    """Every object of a kind in the cluster, page by page; none if the cluster does not have the kind."""
    resource = build_resource(kind, kind.struct)
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
