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

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from trellis.core.cluster.store import IndexFunction, T
from trellis.kube.client import Client
from trellis.kube.flow_control import Draw
from trellis.kube.resources import Resource
from trellis.kube.watch.incidents import Incident
from trellis.kube.watch.informer import Informer
from trellis.kube.watch.selection import Selection
from trellis.runtime.optional_kinds import OptionalKind, UnreadableKinds
from trellis.runtime.shared_informers import CachedKind, FollowedKind, SharedInformer, SharedInformers
from trellis.runtime.telemetry.cluster_metrics import observe_informer
from trellis.runtime.telemetry.metrics import Metrics

# After so long without contact what is known is no longer acted on.
_TRUSTED_SECONDS: Final = 5.0


class Informers:
    """All informers of one component, those of a namespace if it is given one. `run` in a task of its own.

    The first kind that is followed is the one that the component is there for: no refusal of another is believed before
    it is watched.
    """

    def __init__(
        self,
        client: Client,
        unreadable: UnreadableKinds,
        *,
        draw: Draw,
        namespace: str = "",
        shared: SharedInformers | None = None,
    ) -> None:
        self.client = client
        self._unreadable = unreadable
        self._draw = draw
        self._namespace = namespace
        self._shared = shared if shared is not None else SharedInformers()
        # Each informer, and the one that watches for it.
        self._informers: dict[Informer[Any], SharedInformer] = {}

    def create_set(self, unreadable: UnreadableKinds, *, namespace: str = "") -> Informers:
        """More informers of the same component, which run apart from these and share their caches."""
        return Informers(self.client, unreadable, draw=self._draw, namespace=namespace, shared=self._shared)

    def __iter__(self) -> Iterator[Informer[Any]]:
        return (informer for informer, shared in self._informers.items() if shared.is_followed_by(self))

    def follow(
        self,
        kind: CachedKind[T] | Resource[T],
        *,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        namespace: str | None = None,
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
        own = self._namespace if namespace is None else namespace
        selection = Selection(namespace=own if resource.namespaced else "", field_selector=field_selector)
        informer, shared = self._shared.follow(
            self,
            FollowedKind(cached, selection),
            draw=self._draw,
            served=served,
            versions=versions,
            removal_grace=removal_grace,
        )
        for name, function in (indexes or {}).items():
            informer.add_index(name, function)
        self._unreadable.register(resource, dispensable)
        if served is not False and not self._informers:
            self._unreadable.set_essential(informer)
        self._informers[informer] = shared
        return informer

    def is_available(self, informer: Informer[Any]) -> bool:
        """Whether the kind is there, and its cache has synced."""
        shared = self._informers.get(informer)
        return shared is not None and not shared.is_absent and informer.synced and shared.missing_since is None

    def is_lacking(self, informer: Informer[Any]) -> bool:
        """Whether the kind is there and may not be read, so that the component goes on without it."""
        return self._unreadable.is_lacking(informer)

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        await self._shared.run(self)

    async def wait_until_synced(self) -> None:
        """Return once the caches of all kinds have synced that may be read."""
        for informer in tuple(self):
            await self._unreadable.wait_for(informer)

    @property
    def synced(self) -> bool:
        """Whether the caches of all kinds have synced that may be read."""
        return not self._unreadable.list_unsynced(self)

    def find_readiness_problem(self) -> str | None:
        """The kinds whose caches have not synced, as probes report them."""
        unsynced = self._unreadable.list_unsynced(self)
        return f"caches not synced: {', '.join(unsynced)}" if unsynced else None

    def find_staleness_problem(self) -> str | None:
        """Why nothing may be done by what is known, if so: a component must not change what it no longer observes."""
        readable = (informer for informer in self if not self._unreadable.is_lacking(informer))
        return next((problem for informer in readable if (problem := find_staleness_problem(informer))), None)

    def remarks(self) -> Sequence[str]:
        """What probes report of the kinds that the component goes on without."""
        return self._unreadable.remarks()

    def export(self, metrics: Metrics) -> None:
        """Set the metrics of all informers."""
        for informer, shared in self._informers.items():
            if shared.is_followed_by(self) or informer.synced:
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
