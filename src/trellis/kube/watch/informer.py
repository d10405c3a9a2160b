"""The informer: a watch-fed cache of one kind, shared by all its readers.

Handlers get every change, in order; a pass takes a snapshot. An informer knows how far it can be trusted: whether its
cache has synced, how long ago it last heard from the server, and which objects it could not read.

    pods = Informer(client, PODS, draw=Random().random, indexes={BY_NODE: on_node})
    pods.subscribe(lambda change: queue.add(change.key))
    task = asyncio.create_task(pods.run())
    await pods.wait_until_synced()
    for pod in pods.snapshot().by_index(BY_NODE, "node-1"): ...
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Generic

from trellis.core.cluster.store import IndexFunction, Snapshot, T
from trellis.kube.client import Client
from trellis.kube.flow_control import Draw, RetryBackoff
from trellis.kube.resources import Resource
from trellis.kube.watch.cache import Handler, InformerCache
from trellis.kube.watch.incidents import Incident, IncidentLog, ServerContact, Staleness
from trellis.kube.watch.reflector import Reflector, Selection


class Informer(Generic[T]):
    """One kind, or a selection of it. `run` in a task of its own; everything else from the same event loop.

    `transform` cuts each object to what is kept of it. It keeps the name, and raises for no object. An object whose
    version it does not keep counts as new in every list.
    Between two runs `resource` may be set to another version of the same kind, and `client` to another client.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        *,
        draw: Draw,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        selection: Selection = Selection(),  # noqa: B008 - frozen
        backoff: RetryBackoff = RetryBackoff(),  # noqa: B008 - frozen
        report: Callable[[Incident], None] | None = None,
        transform: Callable[[T], T] | None = None,
    ) -> None:
        self.client = client
        self.resource = resource
        self.incidents = IncidentLog(report)
        self._cache: InformerCache[T] = InformerCache(indexes, self.incidents, transform)
        self._make_reflector = partial(Reflector[T], sink=self._cache, draw=draw, selection=selection, backoff=backoff)

    async def run(self) -> None:
        """Follow the cluster until cancelled. What is known stays readable after that, and grows stale."""
        try:
            await self._make_reflector(self.client, self.resource).run()
        finally:
            self._cache.contact.lost()

    async def empty(self) -> None:
        """Take it that there is nothing: the kind itself is gone. Not while it runs."""
        self._cache.contact = ServerContact()
        self._cache.list_began()
        await self._cache.list_ended("")

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Index all objects in one more way."""
        self._cache.add_index(name, function)

    def subscribe(self, handler: Handler[T]) -> Callable[[], None]:
        """Call a handler with everything there is, then with every change, until the returned function is called.

        The handler must be quick: it runs inside the watch.
        """
        self._cache.tell_all(handler)
        self._cache.handlers.append(handler)
        return partial(self._cache.remove_handler, handler)

    @property
    def synced(self) -> bool:
        """Whether the cache has synced once. It stays so: afterwards only staleness changes."""
        return self._cache.synced.is_set()

    async def wait_until_synced(self) -> None:
        """Return once the cache has synced and every handler has received its objects."""
        await self._cache.synced.wait()

    def snapshot(self) -> Snapshot[T]:
        """The state as it is now; take one per pass, and nothing in it will change."""
        return self._cache.store.snapshot()

    def get(self, namespace: str, name: str) -> T | None:
        """One object as it is now; for several, take a snapshot."""
        return self._cache.store.get((namespace, name))

    def by_index(self, index: str, group: str) -> tuple[T, ...]:
        """The objects of a group as they are now. A question for each change is cheap here, as no snapshot is."""
        objects = map(self._cache.store.get, self._cache.store.index_keys(index, group))
        return tuple(member for member in objects if member is not None)

    def count(self, index: str, group: str) -> int:
        """How many objects a group has now."""
        return len(self._cache.store.index_keys(index, group))

    def staleness(self) -> Staleness:
        """How far all this can be trusted now."""
        return self._cache.contact.staleness(asyncio.get_running_loop().time(), synced=self.synced)

    @property
    def events(self) -> int:
        """How many changes the watch has brought."""
        return self._cache.events

    @property
    def lists(self) -> int:
        """How many lists it took: more than one means that a watch could not be resumed."""
        return self._cache.lists
