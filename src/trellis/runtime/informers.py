"""The informers of a component: started, awaited and trusted together.

informers = Informers(client, UnreadableKinds(metrics, log), draw=random.random)
pods = informers.follow(PODS, indexes={BY_NODE: on_node})
hpas = informers.follow(HPAS, dispensable=OptionalKind("HPAs are not taken into account"))
following = asyncio.create_task(informers.run())
await informers.wait_until_synced()
if informers.find_staleness_problem() is None: ...

Components of one process share their informers: those that are given the same `SharedInformers` make one list and one
watch for each kind, and read the same objects, or slices that are derived from them. Each decides for itself which
kinds it can do without.

An optional CRD may come and go while a component runs. A component that works without it says at the start whether it
is served. While it is not, its cache is empty, and everything else goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from trellis.base.errors import NotFound
from trellis.core.cluster.store import IndexFunction, T
from trellis.kube.client import Client
from trellis.kube.flow_control import Draw
from trellis.kube.resources import Resource
from trellis.kube.watch.incidents import Incident
from trellis.kube.watch.informer import Informer, InformerView
from trellis.kube.watch.selection import Selection
from trellis.runtime.optional_kinds import INSTALL_CRDS, OptionalKind, UnreadableKinds
from trellis.runtime.shared_informers import CachedKind, FollowedKind, SharedInformer, SharedInformers
from trellis.runtime.tasks import run_all
from trellis.runtime.telemetry.cluster_metrics import observe_informer
from trellis.runtime.telemetry.metrics import Metrics

# Seconds without contact after which the cache is too old to act on.
_TRUSTED_SECONDS: Final = 5.0


class Informers:
    """All informers of one component, those of some namespaces if it is given any. `run` in a task of its own.

    The first kind that is followed is the one that the component is there for: no refusal of another is believed before
    it is watched.
    """

    def __init__(
        self,
        client: Client,
        unreadable: UnreadableKinds,
        *,
        draw: Draw,
        namespaces: tuple[str, ...] = (),
        shared: SharedInformers | None = None,
    ) -> None:
        self.client = client
        self._unreadable = unreadable
        self._draw = draw
        self._namespaces = namespaces
        self._shared = shared if shared is not None else SharedInformers()
        # Each informer as this component reads it, and the one that watches for it.
        self._informers: dict[InformerView[Any], SharedInformer] = {}
        self._essential: InformerView[Any] | None = None
        self._removal = asyncio.Event()

    def create_set(self, unreadable: UnreadableKinds, *, namespaces: tuple[str, ...] = ()) -> Informers:
        """More informers of the same component, which run apart from these and share their caches."""
        return Informers(self.client, unreadable, draw=self._draw, namespaces=namespaces, shared=self._shared)

    def __iter__(self) -> Iterator[InformerView[Any]]:
        return (informer for informer, shared in self._informers.items() if shared.is_followed_by(self))

    def follow(
        self,
        kind: CachedKind[T] | Resource[T],
        *,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        namespaces: tuple[str, ...] | None = None,
        field_selector: str = "",
        dispensable: OptionalKind | None = None,
        served: bool | None = None,
        versions: Sequence[Resource[T]] = (),
        removal_grace: float = 0.0,
    ) -> Informer[T]:
        """Follow one more kind. One that is known to be `served` or not comes and goes, in any of its `versions`.

        It is looked for once a minute. It counts as gone, and its objects with it, once it has not been served for
        `removal_grace` seconds: an API server that has just started does not serve custom resources yet.
        """
        cached = kind if isinstance(kind, CachedKind) else CachedKind(kind)
        resource = cached.resource
        own = self._namespaces if namespaces is None else namespaces
        selection = Selection(own if resource.namespaced else (), field_selector=field_selector)
        followed, shared = self._shared.follow(
            self,
            FollowedKind(cached, selection),
            draw=self._draw,
            served=served,
            versions=versions,
            removal_grace=removal_grace,
        )
        informer: InformerView[T] = InformerView(followed)
        for name, function in (indexes or {}).items():
            informer.add_index(name, function)
        self._unreadable.register(resource, dispensable)
        if served is not False and not self._informers:
            self._essential = informer
            self._unreadable.set_essential(informer)
        self._informers[informer] = shared
        return informer

    def is_available(self, informer: Informer[Any]) -> bool:
        """Whether the kind is there, and its cache has synced."""
        shared = next((shared for view, shared in self._informers.items() if view is informer), None)
        return shared is not None and shared.is_followed_by(self) and informer.synced and shared.missing_since is None

    def is_lacking(self, informer: Informer[Any]) -> bool:
        """Whether the kind is there and may not be read, so that the component goes on without it."""
        return self._unreadable.is_lacking(informer)

    async def run(self) -> None:
        """Follow the cluster until cancelled. Handlers of this component are not called any more after that."""
        try:
            await self._shared.run(self)
        finally:
            self._close_views()

    async def leave(self) -> None:
        """End what was followed and has not run."""
        await self._shared.leave(self)
        self._close_views()

    def _close_views(self) -> None:
        for view in self._informers:
            view.close()

    async def wait_until_synced(self) -> None:
        """Return once the caches of all kinds have synced that may be read."""
        for informer, shared in tuple(self._informers.items()):
            while shared.is_followed_by(self) and self._unreadable.list_unsynced([informer]):
                await run_all(self._unreadable.wait_for(informer), self._removal.wait())

    @property
    def synced(self) -> bool:
        """Whether the caches of all kinds have synced that may be read."""
        return not self._unreadable.list_unsynced(self)

    def find_readiness_problem(self) -> str | None:
        """The kinds whose caches have not synced, as probes report them."""
        unsynced = self._unreadable.list_unsynced(self)
        if not unsynced:
            return self._find_refusal()
        unserved = [informer.resource.full_name for informer in self if self._is_unserved(informer)]
        why = f"; the API server does not serve {', '.join(unserved)}: {INSTALL_CRDS}" if unserved else ""
        return f"caches not synced: {', '.join(unsynced)}{why}"

    def _is_unserved(self, informer: InformerView[Any]) -> bool:
        """Whether the last attempt to list a kind that is waited for has not found it."""
        latest = self._informers[informer].informer.incidents.latest
        return not informer.synced and bool(latest) and isinstance(latest[-1].error, NotFound)

    def find_staleness_problem(self) -> str | None:
        """Why nothing may be done by what is known, if so: a component must not change what it no longer observes."""
        readable = (informer for informer in self if not self._unreadable.is_lacking(informer))
        stale = next((problem for informer in readable if (problem := find_staleness_problem(informer))), None)
        return stale or self._find_refusal()

    def _find_refusal(self) -> str | None:
        """A kind that may not be read in a namespace that is served, if there is one.

        Where not even the objects may be read that the component is there for, it serves none: the namespace is gone,
        or has no Role yet.
        """
        unserved = self._essential.refused_namespaces if self._essential is not None else frozenset()
        for informer in self:
            beyond = informer.refused_namespaces - unserved
            if beyond and not self._unreadable.is_optional(informer):
                names = ", ".join(sorted(beyond))
                return f"RBAC does not allow reading {informer.resource.full_name} in namespaces: {names}"
        return None

    def remarks(self) -> Sequence[str]:
        """What probes report of the kinds that the component goes on without."""
        refused = [(informer.resource.full_name, sorted(informer.refused_namespaces)) for informer in self]
        by_namespace = [f"{name} not watched in namespaces: {', '.join(names)}" for name, names in refused if names]
        return [*self._unreadable.remarks(), *by_namespace]

    def export(self, metrics: Metrics) -> None:
        """Set the metrics of all informers."""
        for informer, shared in self._informers.items():
            if shared.is_followed_by(self) or informer.lists:
                observe_informer(metrics, informer)

    def report(self, informer: Informer[Any], incident: Incident) -> None:
        """Note an incident of an informer that this component follows."""
        self._unreadable.report(informer.resource, incident)

    def on_kind_served(self, resource: Resource[Any]) -> None:
        """Note that an optional kind has been installed."""
        self._unreadable.report_installed(resource)

    def on_kind_removed(self, resource: Resource[Any]) -> None:
        """Note that an optional kind has been removed."""
        self._unreadable.report_removed(resource)
        self._removal.set()
        self._removal = asyncio.Event()


def find_staleness_problem(informer: Informer[Any]) -> str | None:
    """Why nothing may be done by what one informer knows, if so."""
    staleness, name = informer.staleness(), informer.resource.full_name
    if not staleness.synced:
        latest = informer.incidents.latest
        return f"{name} could not be listed yet: {latest[-1].message if latest else 'no response yet'}"
    age = staleness.contact_age or 0.0
    if not staleness.connected and age > _TRUSTED_SECONDS:
        return f"{name} could not be watched for {age:.0f} s"
    return None
