"""The cache of an informer that lists and watches several namespaces, each by itself. No I/O.

RBAC grants a list of a namespace, or of all, never of some. Each namespace has a cache of its own, whose changes are
those of the whole. It has synced once all namespaces have.

A namespace may be forbidden while others are not: it was deleted with its Roles, or has none yet. It is given up once
it has been refused for some seconds: its objects are gone, and nothing waits for it. Its reflector goes on trying, at
its longest wait, and the namespace is taken up again when it is granted. If no namespace is allowed, none is given up:
an API server that has just started forbids everything for a moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, Generic

import msgspec

from trellis.api.kube.decoder import Rejected
from trellis.base.errors import Forbidden, KubeError, UnreadableObject
from trellis.core.cluster.store import IndexFunction, ObjectKey, T
from trellis.kube.watch.cache import InformerCache, ObjectChange
from trellis.kube.watch.incidents import Incident, IncidentKind, IncidentLog, ServerContact, Staleness
from trellis.kube.watch.watch_events import EventKind, WatchEvent

# How long a namespace is refused until it is given up: longer than an API server that has just started takes to read
# the Roles of one namespace after those of another.
_REFUSED_SECONDS: Final = 3.0


class NamespacedCache(InformerCache[T]):
    """The objects of several namespaces. `parts` are their caches, which reflectors fill."""

    def __init__(
        self,
        namespaces: Iterable[str],
        indexes: Mapping[str, IndexFunction[T]] | None,
        log: IncidentLog,
        transform: Callable[[T], T] | None = None,
    ) -> None:
        super().__init__(indexes, log, transform)
        self.parts = {name: NamespaceCache(name, self, log, transform) for name in namespaces}
        self.contact = _JoinedContact(self.parts)
        for part in self.parts.values():
            part.handlers.append(partial(self._take, part))

    @property
    def refused(self) -> frozenset[str]:
        """The namespaces that are given up."""
        return frozenset(name for name, part in self.parts.items() if part.is_refused)

    async def empty(self) -> None:
        for cache in (self, *self.derived):
            cache.synced.clear()
        for name, part in self.parts.items():
            await part.empty()
            self.update_rejected(name, {})

    def is_allowed_elsewhere(self, namespace: str) -> bool:
        """Whether another namespace is being watched."""
        return any(part.contact.connected for name, part in self.parts.items() if name != namespace)

    def note_part_ready(self) -> None:
        """Note that a namespace has been listed or given up."""
        self.lists = sum(part.lists for part in self.parts.values())
        if all(part.synced.is_set() or part.is_refused for part in self.parts.values()):
            self.synced.set()
            for cache in self.derived:
                cache.synced.set()

    def update_rejected(self, namespace: str, rejected: Mapping[ObjectKey, str]) -> None:
        """Take over which objects of a namespace cannot be read."""
        for key in [key for key in self.store.rejected if key[0] == namespace and key not in rejected]:
            self.store.accept(key)
            for cache in self.derived:
                cache.store.accept(key)
        for key, why in rejected.items():
            self.store.reject(key, why)
            for cache in self.derived:
                cache.take_rejected(EventKind.MODIFIED, Rejected(0, *key, why))

    def _take(self, part: NamespaceCache[T], change: ObjectChange[T]) -> None:
        self.events = sum(part.events for part in self.parts.values())
        if change.new is None:
            self.store.remove(change.key)
        else:
            self.store.put(change.key, change.new)
        self._notify(change, tuple(self.handlers))
        kind, current = EventKind.MODIFIED, change.new
        if current is None:
            kind, current = EventKind.DELETED, change.old
        for cache in self.derived:
            cache.apply_change(kind, current, part.store.resource_version)


class NamespaceCache(InformerCache[T], Generic[T]):
    """The objects of one namespace of several. `is_refused` is whether it is given up."""

    def __init__(
        self, namespace: str, whole: NamespacedCache[T], log: IncidentLog, transform: Callable[[T], T] | None
    ) -> None:
        super().__init__(None, _NamespaceLog(namespace, log), transform)
        self.is_refused = False
        self._namespace = namespace
        self._whole = whole
        self._refused_since: float | None = None
        self._giving_up: asyncio.Task[None] | None = None

    async def end_list(self, resource_version: str) -> None:
        await super().end_list(resource_version)
        self._whole.update_rejected(self._namespace, self.store.rejected)
        self._whole.note_part_ready()

    def apply_event(self, event: WatchEvent[T], at: float) -> None:
        super().apply_event(event, at)
        if event.rejected is not None or self._whole.store.rejected:
            self._whole.update_rejected(self._namespace, self.store.rejected)

    def on_watch_opened(self, at: float) -> None:
        self._refused_since = None
        self.is_refused = False
        super().on_watch_opened(at)

    def failed(self, error: KubeError | UnreadableObject, wait: float, at: float) -> None:
        if not isinstance(error, Forbidden) or not self._whole.is_allowed_elsewhere(self._namespace):
            if not self.is_refused:
                self._refused_since = None
                super().failed(error, wait, at)
            return
        self.contact.lost()
        self._forbidden = True
        self._refused_since = at if self._refused_since is None else self._refused_since
        if not self.is_refused and at - self._refused_since >= _REFUSED_SECONDS:
            self.is_refused = True
            self._log.note(Incident(IncidentKind.REFUSED, f"{error}; its objects are ignored", at, error=error))
            self._giving_up = asyncio.create_task(self.clear(), name=f"give up {self._namespace}")

    async def clear(self) -> None:
        """Take it that there are no objects."""
        self.begin_list()
        await super().end_list("")
        self.synced.clear()
        self._whole.update_rejected(self._namespace, {})
        self._whole.note_part_ready()


class _NamespaceLog(IncidentLog):
    """Notes incidents of a namespace in the log of the whole."""

    def __init__(self, namespace: str, whole: IncidentLog) -> None:
        super().__init__()
        self._namespace = namespace
        self._whole = whole

    def note(self, incident: Incident) -> None:
        message = f"namespace {self._namespace}: {incident.message}"
        self._whole.note(msgspec.structs.replace(incident, message=message))


class _JoinedContact(ServerContact):
    """As old as the oldest contact of a namespace that is not given up."""

    def __init__(self, parts: Mapping[str, NamespaceCache[T]]) -> None:
        self._parts = parts
        super().__init__()

    @property
    def connected(self) -> bool:
        return all(part.contact.connected for part in self._parts.values() if not part.is_refused)

    @connected.setter
    def connected(self, value: bool) -> None:
        """A namespace alone is connected or not."""

    def lost(self) -> None:
        for part in self._parts.values():
            part.contact.lost()

    def staleness(self, now: float, *, synced: bool) -> Staleness:
        parts = [part for part in self._parts.values() if not part.is_refused]
        all_parts = [part.contact.staleness(now, synced=synced) for part in parts]
        contact_ages = [part.contact_age for part in all_parts]
        event_ages = [part.event_age for part in all_parts if part.event_age is not None]
        oldest = None if None in contact_ages else max(filter(None, contact_ages), default=0.0)
        return Staleness(synced, self.connected, oldest, min(event_ages, default=None))
