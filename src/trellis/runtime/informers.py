"""The informers of a component: started, awaited and trusted together.

informers = Informers(client, UnreadableKinds(metrics, log), draw=random.random)
pods = informers.follow(PODS, indexes={BY_NODE: on_node})
hpas = informers.follow(HPAS, dispensable=OptionalKind("HPAs are not taken into account"))
following = asyncio.create_task(informers.run())
await informers.wait_until_synced()
if informers.why_not_trusted() is None: ...

An optional CRD may come and go while a component runs. A component that works without it says at the start whether it
is served. While it is not, its cache is empty, and everything else goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from trellis.core.cluster.store import IndexFunction, T
from trellis.kube.client import Client
from trellis.kube.flow_control import Draw
from trellis.kube.resources import Resource
from trellis.kube.watch.incidents import Incident
from trellis.kube.watch.informer import Informer
from trellis.kube.watch.reflector import Selection
from trellis.runtime.optional_kinds import OptionalCrds, OptionalKind, UnreadableKinds
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
        unseen: UnreadableKinds,
        *,
        draw: Draw,
        namespace: str = "",
    ) -> None:
        self._client = client
        self._unseen = unseen
        self._draw = draw
        self._namespace = namespace
        self._kinds = OptionalCrds(client, unseen)

    def __iter__(self) -> Iterator[Informer[Any]]:
        return iter(self._kinds.followed)

    def follow(
        self,
        resource: Resource[T],
        slim: Callable[[T], T] | None = None,
        *,
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        namespace: str | None = None,
        field_selector: str = "",
        dispensable: OptionalKind | None = None,
        served: bool | None = None,
        versions: Sequence[Resource[T]] = (),
        gone_after: float = 0.0,
    ) -> Informer[T]:
        """One more kind. One that is told to be `served` or not comes and goes, in any of its `versions`.

        It is looked for once a minute. It counts as gone, and its objects with it, once it has not been served for
        `gone_after` seconds: an API server that has just started does not serve custom resources yet.
        """
        own = self._namespace if namespace is None else namespace
        report = self._unseen.reporting(resource, dispensable)

        def noted(incident: Incident) -> None:
            report(incident)
            self._kinds.note(informer, incident)

        informer: Informer[T] = Informer(
            self._client,
            resource,
            draw=self._draw,
            indexes=indexes,
            selection=Selection(namespace=own if resource.namespaced else "", field_selector=field_selector),
            report=noted,
            slim=slim,
        )
        if served is not False and not self._kinds.followed:
            self._unseen.after(informer)
        self._kinds.add(informer, served, versions or (resource,), gone_after)
        return informer

    def sees(self, informer: Informer[Any]) -> bool:
        """Whether the kind is there, and all of it has been seen."""
        return self._kinds.sees(informer)

    def is_lacking(self, informer: Informer[Any]) -> bool:
        """Whether the kind is there and may not be read, so that the component goes on without it."""
        return self._unseen.is_lacking(informer)

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        await self._kinds.run()

    async def wait_until_synced(self) -> None:
        """Return once everything has been seen that may be."""
        for informer in tuple(self._kinds.followed):
            await self._unseen.wait_for(informer)

    @property
    def synced(self) -> bool:
        """Whether everything has been seen that may be."""
        return not self._unseen.not_yet_seen(self._kinds.followed)

    def why_not_ready(self) -> str | None:
        """What probes are told while not everything has been seen."""
        unseen = self._unseen.not_yet_seen(self._kinds.followed)
        return f"not yet seen: {', '.join(unseen)}" if unseen else None

    def why_not_trusted(self) -> str | None:
        """Why nothing may be done by what is known, if so: who has lost sight of something must not change it."""
        seen = (each for each in self._kinds.followed if not self._unseen.is_lacking(each))
        return next((why for each in seen if (why := why_not_trusted(each))), None)

    def remarks(self) -> Sequence[str]:
        """What probes are told of the kinds that are done without."""
        return self._unseen.remarks()

    def export(self, metrics: Metrics) -> None:
        """Say how all of them are doing now."""
        gone = (each for each in self._kinds.absent if each.synced)
        for informer in (*self._kinds.followed, *gone):
            observe_informer(metrics, informer)


def why_not_trusted(informer: Informer[Any]) -> str | None:
    """Why nothing may be done by what one of them knows, if so."""
    staleness, name = informer.staleness(), informer.resource.full_name
    if not staleness.synced:
        latest = informer.incidents.latest
        return f"{name} could not be listed yet: {latest[-1].message if latest else 'no answer so far'}"
    age = staleness.contact_age or 0.0
    if not staleness.connected and age > _TRUSTED_SECONDS:
        return f"{name} could not be watched for {age:.0f} s"
    return None
