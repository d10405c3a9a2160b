"""The informer: a watch-fed cache of one kind, shared by all its readers.

Handlers get every change, in order; a pass takes a snapshot. An informer knows how far it can be trusted: whether its
cache has synced, how long ago it last heard from the server, and which objects it could not read.

    pods = Informer(client, PODS, draw=Random().random, indexes={BY_NODE: on_node})
    pods.subscribe(lambda change: queue.add(change.key))
    task = asyncio.create_task(pods.run())
    await pods.wait_until_synced()
    for pod in pods.snapshot().by(BY_NODE, "node-1"): ...
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

    `slim` makes of an object, as it comes, the one that is kept and told of: the same but for what nobody will ask. It
    must leave its name, and it raises for no object. One whose version it does not leave counts as new in every list.
    Between two runs `resource` may be set to another version of the same kind.
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
        slim: Callable[[T], T] | None = None,
    ) -> None:
        self.resource = resource
        self.incidents = IncidentLog(report)
        self._mirror: InformerCache[T] = InformerCache(indexes, self.incidents, slim)
        self._reflected = partial(
            Reflector[T], client, sink=self._mirror, draw=draw, selection=selection, backoff=backoff
        )

    async def run(self) -> None:
        """Follow the cluster until cancelled. What is known stays readable after that, and grows stale."""
        try:
            await self._reflected(self.resource).run()
        finally:
            self._mirror.contact.lost()

    async def empty(self) -> None:
        """Take it that there is nothing: the kind itself is gone. Not while it runs."""
        self._mirror.contact = ServerContact()
        self._mirror.list_began()
        await self._mirror.list_ended("")

    def subscribe(self, handler: Handler[T]) -> None:
        """Tell a handler of everything there is, then of every change. It must be quick: it runs inside the watch."""
        self._mirror.tell_all(handler)
        self._mirror.handlers.append(handler)

    @property
    def synced(self) -> bool:
        """Whether everything has been seen once. It stays so: afterwards ask how stale it is."""
        return self._mirror.synced.is_set()

    async def wait_until_synced(self) -> None:
        """Return once everything has been seen and every handler told."""
        await self._mirror.synced.wait()

    def snapshot(self) -> Snapshot[T]:
        """The state as it is now; take one per pass, and nothing in it will change."""
        return self._mirror.store.snapshot()

    def get(self, namespace: str, name: str) -> T | None:
        """One object as it is now; for several, take a snapshot."""
        return self._mirror.store.get((namespace, name))

    def by(self, index: str, group: str) -> tuple[T, ...]:
        """The objects of a group as they are now. A question for each change is cheap here, as no snapshot is."""
        found = map(self._mirror.store.get, self._mirror.store.group(index, group))
        return tuple(each for each in found if each is not None)

    def count(self, index: str, group: str) -> int:
        """How many objects a group has now."""
        return len(self._mirror.store.group(index, group))

    def staleness(self) -> Staleness:
        """How far all this can be trusted now."""
        return self._mirror.contact.staleness(asyncio.get_running_loop().time(), synced=self.synced)

    @property
    def events(self) -> int:
        """How many changes the watch has brought."""
        return self._mirror.events

    @property
    def lists(self) -> int:
        """How many lists it took: more than one means that a watch could not be resumed."""
        return self._mirror.lists
