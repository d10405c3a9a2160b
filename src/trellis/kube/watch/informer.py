"""The informer: a watch-fed cache of one kind, shared by all its readers.

Handlers get every change, in order; a pass takes a snapshot. An informer knows how far it can be trusted: whether its
cache has synced, how long ago it last heard from the server, and which objects it could not read.

    pods = WatchInformer(client, PODS, draw=Random().random, indexes={BY_NODE: on_node})
    pods.subscribe(lambda change: queue.add(change.key))
    task = asyncio.create_task(pods.run())
    await pods.wait_until_synced()
    for pod in pods.snapshot().by_index(BY_NODE, "node-1"): ...

Another slice or selection of the same objects needs no watch of its own:

    running = pods.derive(PODS, Selection(field_selector="status.phase=Running"), project=lambda pod: pod)
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

from trellis.core.cluster.store import AnyObject, IndexFunction, Snapshot, T
from trellis.kube.client import Client
from trellis.kube.flow_control import Draw, RetryBackoff
from trellis.kube.resources import Resource
from trellis.kube.watch.cache import DerivedCache, Handler, InformerCache
from trellis.kube.watch.incidents import Incident, IncidentLog, ServerContact, Staleness
from trellis.kube.watch.namespaced_cache import NamespacedCache
from trellis.kube.watch.reflector import Reflector
from trellis.kube.watch.selection import Selection

U = TypeVar("U", bound=AnyObject)


class Informer(ABC, Generic[T]):
    """One kind, or a selection of it, as its readers see it: on the event loop, but for snapshots."""

    def __init__(self, cache: InformerCache[T], incidents: IncidentLog) -> None:
        self._cache = cache
        self.incidents = incidents

    @property
    @abstractmethod
    def resource(self) -> Resource[T]:
        """The kind, and the struct that its objects are read as."""

    @property
    @abstractmethod
    def contact(self) -> ServerContact:
        """When the server last answered."""

    @property
    @abstractmethod
    def events(self) -> int:
        """How many changes the watch has brought."""

    @property
    @abstractmethod
    def lists(self) -> int:
        """How many lists it took: more than one means that a watch could not be resumed."""

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Index all objects in one more way."""
        self._cache.add_index(name, function)

    def subscribe(self, handler: Handler[T]) -> Callable[[], None]:
        """Call a handler with everything there is, then with every change, until the returned function is called.

        The handler must be quick: it runs inside the watch.
        """
        self._cache.notify_of_all(handler)
        self._cache.handlers.append(handler)
        return partial(self._cache.remove_handler, handler)

    def shares_cache(self, other: Informer[Any]) -> bool:
        """Whether the other informer reads the very same objects."""
        return self._cache is other._cache

    @property
    def synced(self) -> bool:
        """Whether the cache has synced once. It stays so while the kind is served: only staleness changes."""
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

    @property
    def refused_namespaces(self) -> frozenset[str]:
        """The namespaces that are given up because RBAC does not allow reading them, while it allows others."""
        return self._cache.refused

    def staleness(self) -> Staleness:
        """How far all this can be trusted now."""
        return self.contact.staleness(asyncio.get_running_loop().time(), synced=self.synced)


class WatchInformer(Informer[T]):
    """An informer that lists and watches: all namespaces at once, or some, each by itself. `run` it in a task.

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
        incidents = IncidentLog(report)
        selections = selection.split()
        if len(selections) == 1:
            cache = InformerCache(indexes, incidents, transform)
            self._sinks: dict[Selection, InformerCache[T]] = {selection: cache}
        else:
            cache = namespaced = NamespacedCache(selection.namespaces, indexes, incidents, transform)
            self._sinks = {each: namespaced.parts[each.namespace] for each in selections}
        super().__init__(cache, incidents)
        self.client = client
        self._resource = resource
        self._make_reflector = partial(Reflector[T], draw=draw, backoff=backoff)

    @property
    def resource(self) -> Resource[T]:
        return self._resource

    @resource.setter
    def resource(self, version: Resource[T]) -> None:
        self._resource = version

    @property
    def contact(self) -> ServerContact:
        return self._cache.contact

    @property
    def events(self) -> int:
        return self._cache.events

    @property
    def lists(self) -> int:
        return self._cache.lists

    async def run(self) -> None:
        """Follow the cluster until cancelled. What is known stays readable after that, and grows stale."""
        try:
            first, *others = (
                self._make_reflector(self.client, self.resource, sink, selection=selection)
                for selection, sink in self._sinks.items()
            )
            if not others:
                await first.run()
            async with asyncio.TaskGroup() as group:
                for reflector in (first, *others):
                    group.create_task(reflector.run())
        finally:
            self._cache.contact.lost()

    async def empty(self) -> None:
        """Take it that there is nothing: the kind itself is gone. Not while it runs, and it has to sync anew."""
        await self._cache.empty()

    def derive(
        self,
        resource: Resource[U],
        selection: Selection,
        project: Callable[[Any], U],
        report: Callable[[Incident], None] | None = None,
    ) -> DerivedInformer[U]:
        """An informer of what `project` makes of the objects of a selection, until it is dropped."""
        incidents = IncidentLog(report)
        cache = DerivedCache(incidents, selection, project)
        self._cache.add_derived(cache)
        return DerivedInformer(self, resource, cache, incidents)

    def drop(self, derived: DerivedInformer[Any]) -> None:
        """Feed a derived informer no longer."""
        self._cache.derived.remove(derived.cache)


class DerivedInformer(Informer[T]):
    """An informer that is fed by another one. Incidents of the watch are those of its source."""

    def __init__(
        self, source: WatchInformer[Any], resource: Resource[T], cache: DerivedCache[T], incidents: IncidentLog
    ) -> None:
        super().__init__(cache, incidents)
        self.cache = cache
        self._source = source
        self._resource = resource

    @property
    def resource(self) -> Resource[T]:
        version = self._source.resource.version
        return self._resource if version == self._resource.version else self._resource.in_version(version)

    @property
    def contact(self) -> ServerContact:
        return self._source.contact

    @property
    def refused_namespaces(self) -> frozenset[str]:
        return self._source.refused_namespaces

    @property
    def events(self) -> int:
        return self._source.events

    @property
    def lists(self) -> int:
        return self._source.lists


class InformerView(Informer[T]):
    """An informer as one of its readers sees it: what the reader has subscribed ends with `close`."""

    def __init__(self, source: Informer[T]) -> None:
        super().__init__(source._cache, source.incidents)
        self._source = source
        self._subscriptions: list[Callable[[], None]] = []

    @property
    def resource(self) -> Resource[T]:
        return self._source.resource

    @property
    def contact(self) -> ServerContact:
        return self._source.contact

    @property
    def refused_namespaces(self) -> frozenset[str]:
        return self._source.refused_namespaces

    @property
    def events(self) -> int:
        return self._source.events

    @property
    def lists(self) -> int:
        return self._source.lists

    def subscribe(self, handler: Handler[T]) -> Callable[[], None]:
        unsubscribe = super().subscribe(handler)
        self._subscriptions.append(unsubscribe)
        return unsubscribe

    def close(self) -> None:
        """Call the handlers of this reader no longer."""
        subscriptions, self._subscriptions = self._subscriptions, []
        for unsubscribe in subscriptions:
            unsubscribe()
