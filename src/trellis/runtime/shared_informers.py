"""The informers of a process: one list and one watch for each kind, shared by all components that follow it.

shared = SharedInformers((*UPDATER_KINDS, *NODE_KINDS), WIDEST_KINDS)
updater = Informers(client, UnreadableKinds(metrics, log), draw=random.random, shared=shared)
nodes = Informers(client, UnreadableKinds(metrics, log), draw=random.random, shared=shared)

Components read different slices and selections of a kind. What is listed and watched is the narrowest that has all of
them. A component whose slice it serves reads its very objects; any other reads what is derived from them.

An informer runs while one of the components that follow it runs. The last one to leave takes it with it.

Optional CRDs: a kind that is not served is looked for once a minute, and followed from then on in the best version
there is. When a list or a watch does not find a kind any more, discovery is asked. If the API server serves it no
longer, its cache is emptied and nothing waits for it; a single 404 proves nothing. A component that needs the kind
waits for it, while others of the same process go on without.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, Generic, Protocol

import msgspec

from trellis.base.errors import KubeError, NotFound, UnreadableObject
from trellis.core.cluster.store import T
from trellis.kube.client import Client
from trellis.kube.discovery import Served
from trellis.kube.flow_control import Draw
from trellis.kube.resources import Resource
from trellis.kube.watch.incidents import Incident
from trellis.kube.watch.informer import DerivedInformer, Informer, WatchInformer
from trellis.kube.watch.selection import Selection, widen_all

# How often a kind is looked for that is not served.
_ABSENT_SECONDS: Final = 60.0
# How often discovery is asked about a kind that was not found, though it should be there.
_MISSING_SECONDS: Final = 5.0
# For how long a kind that a component needs must not be served before its objects count as gone: an API server that has
# just started does not serve custom resources yet, and the component would forget what it knows of them.
_NEEDED_SECONDS: Final = 60.0


class CachedKind(msgspec.Struct, Generic[T], frozen=True):
    """A slice of a kind. `transform` makes what cuts its objects, one for each cache; without it they stay as decoded.

    `narrower` are the slices of the same kind for which this one stands in, because it has all that they have.
    `projections` are slices in another form that can be made from it.
    """

    resource: Resource[T]
    transform: Callable[[], Callable[[T], T]] | None = None
    narrower: tuple[CachedKind[Any], ...] = ()
    projections: tuple[Projection[Any], ...] = ()

    def serves(self, other: CachedKind[Any]) -> bool:
        """Whether a cache of this slice has all that a follower of the other reads."""
        return self == other or any(kind.serves(other) for kind in self.narrower)

    def project(self, other: CachedKind[Any]) -> Projection[Any] | None:
        """How the other slice, or one that serves it, is made from this one; None if it cannot be."""
        if self.serves(other):
            return Projection(other, _unchanged)
        fitting = (projection for projection in self.projections if projection.kind.serves(other))
        inherited = (kind.project(other) for kind in self.narrower)
        return next(fitting, None) or next(filter(None, inherited), None)


class Projection(msgspec.Struct, Generic[T], frozen=True):
    """A slice that is made from a wider one, by what `make` returns; one for each cache."""

    kind: CachedKind[T]
    make: Callable[[], Callable[[Any], T]]


def _unchanged() -> Callable[[T], T]:
    return lambda cached: cached


class FollowedKind(msgspec.Struct, frozen=True):
    """A slice of a kind, and the selection of its objects, that a component follows."""

    kind: CachedKind[Any]
    selection: Selection = Selection()

    def provides(self, other: FollowedKind) -> bool:
        """Whether the other can be read, or made, from what this one holds."""
        return self.selection.covers(other.selection) and self.kind.project(other.kind) is not None


class Follower(Protocol):
    """A component that follows informers. `report` gets every incident of an informer that it follows."""

    client: Client

    def report(self, informer: Informer[Any], incident: Incident) -> None: ...
    def on_kind_served(self, resource: Resource[Any]) -> None: ...
    def on_kind_removed(self, resource: Resource[Any]) -> None: ...


class _Reader:
    """An informer and its followers: one that watches, or one that is derived from it."""

    def __init__(self, informer: Informer[Any], followed: FollowedKind) -> None:
        self.informer = informer
        self.followed = followed
        self.followers: list[Follower] = []

    def serves(self, other: FollowedKind) -> bool:
        return self.followed.selection == other.selection and self.followed.kind.serves(other.kind)


class SharedInformer(_Reader):
    """An informer that watches, with those that are derived from it.

    `is_absent` is whether its kind is known not to be served.
    """

    informer: WatchInformer[Any]

    def __init__(self, informer: WatchInformer[Any], followed: FollowedKind) -> None:
        super().__init__(informer, followed)
        self.is_absent = False
        self._derived: list[_Reader] = []
        # Followers that go on without the kind, and for how long it must not be served before it counts as gone.
        self.patience: dict[Follower, float] = {}
        # The versions that will do, the best one first.
        self.versions: Sequence[Resource[Any]] = (followed.kind.resource,)
        # Since when it has not been found.
        self.missing_since: float | None = None
        self.task: asyncio.Task[None] | None = None

    def is_followed_by(self, follower: Follower) -> bool:
        """Whether a follower has to wait for it: not while an optional kind is absent."""
        return not (self.is_absent and follower in self.patience)

    @property
    def removal_grace(self) -> float:
        """For how long it must not be served before it counts as gone, in seconds."""
        is_needed = any(follower not in self.patience for follower in self.followers)
        return max([*self.patience.values(), _NEEDED_SECONDS if is_needed else 0.0])

    def add_follower(self, follower: Follower, followed: FollowedKind) -> Informer[Any]:
        """The informer that a follower reads: this one, or one derived from it."""
        readers = (reader for reader in (self, *self._derived) if reader.serves(followed))
        reader = next(readers, None) or self._derive(followed)
        for joined in {self, reader}:
            if follower not in joined.followers:
                joined.followers.append(follower)
        return reader.informer

    def remove_follower(self, follower: Follower) -> None:
        self.patience.pop(follower, None)
        for reader in (self, *self._derived):
            reader.followers = [member for member in reader.followers if member is not follower]
        for reader in self._derived:
            if not reader.followers and isinstance(reader.informer, DerivedInformer):
                self.informer.drop(reader.informer)
        self._derived = [reader for reader in self._derived if reader.followers]

    def _derive(self, followed: FollowedKind) -> _Reader:
        projection = self.followed.kind.project(followed.kind)
        assert projection is not None, "an informer is shared only by components it was declared for"  # noqa: S101

        def report(incident: Incident) -> None:
            for member in tuple(reader.followers):
                if self.is_followed_by(member):
                    member.report(reader.informer, incident)

        resource = projection.kind.resource
        informer = self.informer.derive(resource, followed.selection, projection.make(), report)
        reader = _Reader(informer, FollowedKind(projection.kind, followed.selection))
        self._derived.append(reader)
        return reader


class SharedInformers:
    """All informers of a process. `expected` is what its components will follow.

    Of each kind that is expected the narrowest slice is cached that provides for all of them: one of theirs, or one of
    `widest`. What is not expected gets an informer of its own, unless one that is there provides for it.
    """

    def __init__(self, expected: Iterable[FollowedKind] = (), widest: Iterable[CachedKind[Any]] = ()) -> None:
        self._expected = tuple(expected)
        self._widest = tuple(widest)
        self._all: list[SharedInformer] = []
        # The runs of followers; the error of an informer ends those that follow it.
        self._runs: dict[Follower, asyncio.Future[None]] = {}
        self._discovery: asyncio.Task[None] | None = None
        self._woken = asyncio.Event()
        self._must_discover = False

    def expect(self, expected: Iterable[FollowedKind]) -> None:
        """Take over what the components will follow from now on; what is followed already stays as it is."""
        self._expected = tuple(expected)

    def __iter__(self) -> Iterator[WatchInformer[Any]]:
        return (shared.informer for shared in self._all)

    def follow(
        self,
        follower: Follower,
        followed: FollowedKind,
        *,
        draw: Draw,
        served: bool | None = None,
        versions: Sequence[Resource[Any]] = (),
        removal_grace: float = 0.0,
    ) -> tuple[Informer[Any], SharedInformer]:
        """Get the informer to read, and the one that watches; a kind is optional if it is known if it is `served`."""
        fitting = (shared for shared in self._all if shared.followed.provides(followed))
        shared = next(fitting, None) or self._make(follower, self._find_shareable(followed), draw)
        informer = shared.add_follower(follower, self._find_widest(followed, shared))
        shared.versions = versions or shared.versions
        if served is not None:
            shared.patience[follower] = removal_grace
            shared.is_absent |= served is False and not shared.informer.synced
        return informer, shared

    async def run(self, follower: Follower) -> None:
        """Run what a follower follows until cancelled; an error of an informer is raised here."""
        run = self._runs[follower] = asyncio.get_running_loop().create_future()
        try:
            for shared in self._followed(follower):
                self._start(shared)
            if self._discovery is None:
                self._discovery = self._create_task(self._watch_kinds(), "optional kinds", lambda: self._runs)
            self._woken.set()
            await run
        finally:
            del self._runs[follower]
            await self.leave(follower)

    def note(self, shared: SharedInformer, incident: Incident) -> None:
        """Ask discovery about an optional kind that was not found."""
        is_news = shared.missing_since is None and not shared.is_absent
        if isinstance(incident.error, NotFound) and shared.patience and is_news:
            shared.missing_since = asyncio.get_running_loop().time()
            self._must_discover = True
            self._woken.set()

    def _find_shareable(self, followed: FollowedKind) -> FollowedKind:
        """What has to be watched so that all that is expected of the kind can be read; else this slice alone."""
        name = followed.kind.resource.full_name
        same = [expected for expected in self._expected if expected.kind.resource.full_name == name]
        if not any(expected.provides(followed) for expected in same):
            return followed
        selection = widen_all([expected.selection for expected in same])
        kinds = [expected.kind for expected in same] + [
            kind for kind in self._widest if kind.resource.full_name == name
        ]
        wide = (FollowedKind(kind, selection) for kind in kinds)
        return next((option for option in wide if all(map(option.provides, same))), followed)

    def _find_widest(self, followed: FollowedKind, shared: SharedInformer) -> FollowedKind:
        """The widest slice that is expected with this selection and serves this one: one derived cache for both."""
        same = (expected for expected in self._expected if expected.selection == followed.selection)
        options = [followed, *(expected for expected in same if expected.kind.serves(followed.kind))]
        fitting = [option for option in options if shared.followed.provides(option)]
        return next(option for option in fitting if all(option.kind.serves(other.kind) for other in fitting))

    def _make(self, follower: Follower, followed: FollowedKind, draw: Draw) -> SharedInformer:
        def report(incident: Incident) -> None:
            for member in tuple(shared.followers):
                if shared.is_followed_by(member):
                    member.report(informer, incident)
            self.note(shared, incident)

        kind = followed.kind
        informer = WatchInformer(
            follower.client,
            kind.resource,
            draw=draw,
            selection=followed.selection,
            report=report,
            transform=kind.transform() if kind.transform is not None else None,
        )
        shared = SharedInformer(informer, followed)
        self._all.append(shared)
        return shared

    def _followed(self, follower: Follower) -> Collection[SharedInformer]:
        return [shared for shared in self._all if follower in shared.followers]

    def _start(self, shared: SharedInformer) -> None:
        """Run an informer if a running follower follows it."""
        if shared.task is None and any(
            shared.is_followed_by(member) for member in shared.followers if member in self._runs
        ):
            name = f"watch {shared.informer.resource.full_name}"
            shared.task = self._create_task(shared.informer.run(), name, lambda: shared.followers)

    @staticmethod
    async def _stop(*informers: SharedInformer) -> None:
        tasks = {shared.task for shared in informers if shared.task is not None}
        for shared in informers:
            shared.task = None
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def leave(self, follower: Follower) -> None:
        """Stop informers without other followers; the others go on with the client of one of those.

        A follower that has run has left.
        """
        left, passed_on = [], []
        for shared in self._followed(follower):
            shared.remove_follower(follower)
            if not shared.followers:
                self._all.remove(shared)
                left.append(shared)
            elif all(member.client is not shared.informer.client for member in shared.followers):
                passed_on.append(shared)
        await self._stop(*left, *passed_on)
        for shared in passed_on:
            # The others may have left meanwhile, and then took the informer with them.
            if shared.followers:
                shared.informer.client = shared.followers[0].client
                self._start(shared)
        if not self._runs and self._discovery is not None:
            discovery, self._discovery = self._discovery, None
            discovery.cancel()
            await asyncio.wait({discovery})

    def _create_task(self, work: Any, name: str, list_affected: Callable[[], Iterable[Follower]]) -> asyncio.Task[None]:
        """Run a task whose error ends the runs of the followers that it affects."""
        task: asyncio.Task[None] = asyncio.create_task(work, name=name)
        task.add_done_callback(partial(self._ended, list_affected))
        return task

    def _ended(self, list_affected: Callable[[], Iterable[Follower]], task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        for follower in list_affected():
            run = self._runs.get(follower)
            if run is not None and not run.done():
                run.set_exception(error)

    async def _watch_kinds(self) -> None:
        """Find out which optional kinds have come and gone, until cancelled."""
        while True:
            is_due = await self._wait_for_discovery_time()
            running = next(iter(self._runs), None)
            if not is_due or running is None:
                continue
            try:
                served = await running.client.discover()
            except (KubeError, UnreadableObject):
                continue
            for shared in tuple(self._all):
                if shared.missing_since is not None:
                    await self._confirm_removal(shared, served)
            for shared in tuple(self._all):
                if shared.is_absent:
                    self._follow_if_served(shared, served)

    async def _wait_for_discovery_time(self) -> bool:
        """Return True when discovery is to be asked, False if only what is followed has changed."""
        is_missing = any(shared.missing_since is not None for shared in self._all)
        absent = any(shared.is_absent for shared in self._all)
        try:
            async with asyncio.timeout(_MISSING_SECONDS if is_missing else _ABSENT_SECONDS if absent else None):
                await self._woken.wait()
        except TimeoutError:
            self._must_discover = True
        self._woken.clear()
        must_discover, self._must_discover = self._must_discover, False
        return must_discover

    async def _confirm_removal(self, shared: SharedInformer, served: Served) -> None:
        """Give up a kind that is not there any more. A group whose server does not answer proves nothing."""
        informer = shared.informer
        if shared.missing_since is None or not shared.patience or informer.staleness().connected:
            shared.missing_since = None
            return
        if asyncio.get_running_loop().time() - shared.missing_since < shared.removal_grace:
            return
        if not served.serves(informer.resource) and informer.resource.api_version not in served.stale:
            shared.missing_since = None
            await self._stop(shared)
            shared.is_absent = True
            for follower in tuple(shared.patience):
                follower.on_kind_removed(informer.resource)
            await informer.empty()
            self._start(shared)

    def _follow_if_served(self, shared: SharedInformer, served: Served) -> None:
        """Follow a kind that is there now."""
        served_version = next((version for version in shared.versions if served.serves(version)), None)
        if served_version is not None:
            shared.is_absent = False
            if shared.task is None:
                shared.informer.resource = served_version
            for follower in tuple(shared.patience):
                follower.on_kind_served(served_version)
            self._start(shared)
