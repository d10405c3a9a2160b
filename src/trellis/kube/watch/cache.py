"""The cache of an informer: lists and watch events become a state, and handlers get its changes. No I/O.

- A list is filled into a store of its own and takes over whole, so that no snapshot shows half of it. An object of the
  same version keeps the one that is there: after a broken watch only what has changed is held twice.
- An object that cannot be read is recorded as rejected. It exists, so its last known state stays.
- A handler's error is recorded, and the next handler runs. A handler that could end the watch would blind all others.
- A cache may feed derived caches: other slices, or selections, of the same objects. They receive the same lists and
  events, so that they replace their state at the same moments.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, TypeAlias

import msgspec

from trellis.api.kube.decoder import DecodedList, Rejected
from trellis.base.errors import Forbidden, KubeError, UnreadableObject
from trellis.core.cluster.store import IndexFunction, ObjectKey, ObjectStore, Snapshot, T, key_of
from trellis.kube.watch.incidents import Incident, IncidentKind, IncidentLog, ServerContact
from trellis.kube.watch.selection import Selection
from trellis.kube.watch.watch_events import EventKind, WatchEvent


class ObjectChange(msgspec.Struct, Generic[T], frozen=True):
    """`old` is None for an object that was not known, `new` for one that is gone.

    Between two looks there is one change: a list after a broken watch brings the last state and none before it.
    """

    key: ObjectKey
    old: T | None
    new: T | None


def diff_snapshots(before: Snapshot[T], after: Snapshot[T]) -> Iterator[ObjectChange[T]]:
    """Every change from one state to the other: first what is gone, so that a name is free before it is used again."""
    for key, old in before.objects.items():
        new = after.objects.get(key)
        if new is None or new.metadata.uid != old.metadata.uid:
            yield ObjectChange(key, old, None)
    for key, new in after.objects.items():
        previous = before.objects.get(key)
        if previous is new:
            continue
        same = previous is not None and previous.metadata.uid == new.metadata.uid
        yield ObjectChange(key, previous if same else None, new)


Handler: TypeAlias = Callable[[ObjectChange[T]], None]

# Objects after which other tasks get their turn: 100,000 at once would keep the event loop for a third of a second.
_CHANGES_IN_A_ROW: Final = 1_000


class InformerCache(Generic[T]):
    """The sink behind an informer. `derived` are the caches that it feeds."""

    def __init__(
        self,
        indexes: Mapping[str, IndexFunction[T]] | None,
        log: IncidentLog,
        transform: Callable[[T], T] | None = None,
    ) -> None:
        self.store: ObjectStore[T] = ObjectStore(indexes)
        self.handlers: list[Handler[T]] = []
        self.contact = ServerContact()
        self.synced = asyncio.Event()
        self.lists = 0
        self.events = 0
        self.derived: list[DerivedCache[Any]] = []
        self._log = log
        self.transform = transform
        self._listed: ObjectStore[T] = self.store.create_empty()
        self._nameless = 0
        self._forbidden = False

    @property
    def refused(self) -> frozenset[str]:
        """The namespaces that are given up because RBAC does not allow reading them."""
        return frozenset()

    def add_index(self, name: str, function: IndexFunction[T]) -> None:
        """Index all objects in one more way, those of a list that is being filled in as well."""
        self.store.add_index(name, function)
        self._listed.add_index(name, function)

    def begin_list(self) -> None:
        """Whatever an earlier list brought and did not finish is void."""
        self._listed = self.store.create_empty()
        self._nameless = 0
        for cache in self.derived:
            cache.begin_list()

    def add_page(self, page: DecodedList[T], at: float) -> None:
        """Fill in a part of the list."""
        self._note_contact(at)
        items = page.items if self.transform is None else tuple(map(self.transform, page.items))
        self._fill_in(items, page.rejected)
        for rejected in page.rejected:
            self._note_rejected(rejected, at)
        for cache in self.derived:
            cache.fill_in(items, page.rejected)

    async def end_list(self, resource_version: str) -> None:
        """Replace the store by the list, and pass the changes to handlers."""
        await self._replace_store(resource_version)
        self.lists += 1
        self.synced.set()
        for cache in tuple(self.derived):
            await cache.end_list(resource_version)

    async def empty(self) -> None:
        """Take it that there is nothing, and that the server was never heard. The cache has to sync anew."""
        self.contact = ServerContact()
        self.synced.clear()
        self.begin_list()
        await self._replace_store("")
        for cache in tuple(self.derived):
            await cache.empty()

    async def _replace_store(self, resource_version: str) -> None:
        self._retain_unnamed()
        before = self.store.snapshot()
        self.store, self._listed = self._listed, self.store.create_empty()
        self.store.resource_version = resource_version
        # A handler that is added meanwhile receives all objects, and not these changes as well.
        handlers = tuple(self.handlers)
        for count, change in enumerate(diff_snapshots(before, self.store.snapshot()), 1):
            self._notify(change, handlers)
            if count % _CHANGES_IN_A_ROW == 0:
                await asyncio.sleep(0)

    def on_watch_opened(self, at: float) -> None:
        """From here on silence means that nothing happens."""
        self._note_contact(at)
        self.contact.connected = True
        if self._forbidden:
            self._forbidden = False
            self._log.note(Incident(IncidentKind.GRANTED, "no longer forbidden; watching it", at))

    def apply_event(self, event: WatchEvent[T], at: float) -> None:
        """One change, or a bookmark."""
        self.contact.heard(at, event=event.kind is not EventKind.BOOKMARK)
        self.store.resource_version = event.resource_version or self.store.resource_version
        if event.object is not None:
            self.events += 1
            transformed = self.transform(event.object) if self.transform else event.object
            self._notify(self._change(event.kind, transformed), tuple(self.handlers))
            for cache in self.derived:
                cache.apply_change(event.kind, transformed, self.store.resource_version)
        elif event.rejected is not None:
            self.events += 1
            if event.kind is not EventKind.DELETED:
                self._note_rejected(event.rejected, at)
            self.take_rejected(event.kind, event.rejected)
            for cache in self.derived:
                cache.take_rejected(event.kind, event.rejected)

    def failed(self, error: KubeError | UnreadableObject, wait: float, at: float) -> None:
        """No list, or no watch any more."""
        self.contact.lost()
        self._forbidden |= isinstance(error, Forbidden)
        message = f"{error}; next attempt in {wait:.1f} s"
        self._log.note(Incident(IncidentKind.TROUBLE, message, at, error=error))

    def remove_handler(self, handler: Handler[T]) -> None:
        """Call a handler no longer; one that is not there any more is no error."""
        if handler in self.handlers:
            self.handlers.remove(handler)

    def notify_of_all(self, handler: Handler[T]) -> None:
        """Pass every cached object to a handler."""
        for key, current in self.store.snapshot().objects.items():
            self._notify(ObjectChange(key, None, current), (handler,))

    def add_derived(self, cache: DerivedCache[Any]) -> None:
        """Feed one more cache, from what is stored and from what a list has brought so far."""
        state = self.store.snapshot()
        cache.begin_list()
        cache.fill_in(state.objects.values(), ())
        cache.begin_with(state.rejected, state.resource_version, synced=self.synced.is_set())
        listed = self._listed.snapshot()
        cache.fill_in(listed.objects.values(), ())
        cache.resume_list(listed.rejected, self._nameless)
        self.derived.append(cache)

    def _fill_in(self, items: Iterable[T], rejected: Iterable[Rejected]) -> None:
        put, stored = self._listed.put, self.store.get
        for listed in items:
            key = key_of(listed)
            put(key, _keep_same_version(listed, stored(key)))
        for unreadable in rejected:
            self._reject(self._listed, unreadable)

    def _change(self, kind: EventKind, current: T) -> ObjectChange[T]:
        key = key_of(current)
        if kind is EventKind.DELETED:
            # The last state comes with the deletion, and may be newer than the one known.
            self.store.remove(key)
            return ObjectChange(key, current, None)
        return ObjectChange(key, self.store.put(key, current), current)

    def take_rejected(self, kind: EventKind, rejected: Rejected) -> None:
        """The newest version of an object cannot be read, or one that could not be read is gone."""
        key = (rejected.namespace, rejected.name)
        if kind is not EventKind.DELETED:
            self._reject(self.store, rejected)
        elif (old := self.store.remove(key)) is not None:
            # What it was is known well enough to say that it is gone.
            self._notify(ObjectChange(key, old, None), tuple(self.handlers))

    def _note_rejected(self, rejected: Rejected, at: float) -> None:
        key = (rejected.namespace, rejected.name) if rejected.name else None
        self._log.note(Incident(IncidentKind.REJECTED, rejected.message, at, key))

    def _reject(self, store: ObjectStore[T], rejected: Rejected) -> None:
        key = (rejected.namespace, rejected.name)
        if not rejected.name:
            self._nameless += 1
            return
        stored = self.store.get(key)
        if stored is not None and store is not self.store:
            store.put(key, stored)
        store.reject(key, rejected.message)

    def _retain_unnamed(self) -> None:
        """An object whose very name cannot be read may be any of those that are missing: none of them is deleted."""
        if not self._nameless:
            return
        problem = f"missing in the last list, which had {self._nameless} objects without a readable name"
        for key, stored in self.store.snapshot().objects.items():
            if self._listed.get(key) is None:
                self._listed.put(key, stored)
                self._listed.reject(key, problem)

    def _note_contact(self, at: float) -> None:
        gap = self.contact.heard(at)
        if gap is not None:
            message = f"reconnected after {gap:.1f} s"
            self._log.note(Incident(IncidentKind.RECOVERED, message, at, seconds=gap))

    def _notify(self, change: ObjectChange[T], handlers: Sequence[Handler[T]]) -> None:
        for handler in handlers:
            try:
                handler(change)
            except Exception as error:  # noqa: BLE001 - anything at all: a handler is not ours, and the watch goes on
                message = f"a handler failed on {'/'.join(change.key)}: {error!r}"
                self._log.note(Incident(IncidentKind.HANDLER, message, _now(), change.key, error=error))


class DerivedCache(InformerCache[T]):
    """A cache of what another one holds: of the objects of a selection, what `project` makes of them.

    An object that no longer belongs to the selection is gone from here, as the API server would say of a watch.
    """

    def __init__(self, log: IncidentLog, selection: Selection, project: Callable[[Any], T]) -> None:
        super().__init__(None, log)
        self._selection = selection
        self._project = project

    def fill_in(self, items: Iterable[Any], rejected: Iterable[Rejected]) -> None:
        """Fill in a part of a list of the other cache, which reports what is rejected."""
        self._fill_in(map(self._project, filter(self._selection.matches, items)), rejected)

    def begin_with(self, rejected: Mapping[ObjectKey, str], resource_version: str, *, synced: bool) -> None:
        """Take what has been filled in as the state."""
        self.store, self._listed = self._listed, self.store.create_empty()
        self.store.resource_version = resource_version
        self._reject_all(self.store, rejected)
        if synced:
            self.synced.set()

    def resume_list(self, rejected: Mapping[ObjectKey, str], nameless: int) -> None:
        """Take over what a list has shown so far to be unreadable."""
        self._reject_all(self._listed, rejected)
        self._nameless = nameless

    def apply_change(self, kind: EventKind, current: Any, resource_version: str) -> None:
        """A change of the other cache."""
        self.store.resource_version = resource_version
        key = key_of(current)
        if self._selection.matches(current):
            self._notify(self._change(kind, self._project(current)), tuple(self.handlers))
        elif (old := self.store.remove(key)) is not None:
            self._notify(ObjectChange(key, old, None), tuple(self.handlers))

    def _reject_all(self, store: ObjectStore[T], rejected: Mapping[ObjectKey, str]) -> None:
        for key, why in rejected.items():
            if self._selection.covers_namespaces((key[0],)):
                store.reject(key, why)

    def _reject(self, store: ObjectStore[T], rejected: Rejected) -> None:
        if self._selection.covers_namespaces((rejected.namespace,)):
            super()._reject(store, rejected)


def _keep_same_version(received: T, stored: T | None) -> T:
    """The object that is held already, if it is the same version of the same object; without a version none is."""
    if stored is None:
        return received
    old, new = stored.metadata, received.metadata
    same = new.resource_version and old.resource_version == new.resource_version and old.uid == new.uid
    return stored if same else received


def _now() -> float:
    return asyncio.get_running_loop().time()
