"""How does the recommender see the cluster? Through informers, which say what is there and what has changed."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from trellis.api.hvpa import Hvpa
from trellis.api.kube.coordination import Event
from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.core.model.keys import BY_NAMESPACE, in_namespace
from trellis.core.recommend.seen import Noticing, Seen
from trellis.kube.backoff import Draw
from trellis.kube.changes import Change
from trellis.kube.client import Client
from trellis.kube.informer import Informer
from trellis.kube.reflector import Selection
from trellis.kube.resources import (
    EVENTS,
    HVPAS,
    OBSERVED_CRON_JOBS,
    OBSERVED_DAEMON_SETS,
    OBSERVED_DEPLOYMENTS,
    OBSERVED_JOBS,
    OBSERVED_PODS,
    OBSERVED_REPLICA_SETS,
    OBSERVED_REPLICATION_CONTROLLERS,
    OBSERVED_STATEFUL_SETS,
    VPAS,
    Resource,
)
from trellis.runtime.unseen import Dispensable, Unseen

# The kinds whose selector is read from their own spec; any other must have a scale.
WORKLOADS: Final[tuple[Resource[Any], ...]] = (
    OBSERVED_DEPLOYMENTS,
    OBSERVED_REPLICA_SETS,
    OBSERVED_STATEFUL_SETS,
    OBSERVED_DAEMON_SETS,
    OBSERVED_JOBS,
    OBSERVED_CRON_JOBS,
    OBSERVED_REPLICATION_CONTROLLERS,
)

# A pod that is Pending runs nothing; evictions by the kubelet are the only events of interest.
_RUNNING: Final = "status.phase!=Pending"
_EVICTIONS: Final = "reason=Evicted,involvedObject.kind=Pod"

# Upstream's role has no rule for them.
_NO_HVPAS: Final = Dispensable("no totals are written to Hvpas")

# After so long without contact what is known of the VPAs is no longer trusted.
TRUSTED_SECONDS: Final = 5.0


class Watching:
    """All informers of the recommender. `run` in a task of its own; everything else from the same event loop."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        hvpas_served: bool,
        draw: Draw,
        unseen: Unseen,
    ) -> None:
        def informer(
            resource: Resource[Any], field_selector: str = "", dispensable: Dispensable | None = None
        ) -> Informer[Any]:
            return Informer(
                client,
                resource,
                draw=draw,
                indexes={BY_NAMESPACE: in_namespace},
                selection=Selection(namespace=namespace, field_selector=field_selector),
                report=unseen.reporting(resource, dispensable),
            )

        self.vpas: Informer[VerticalPodAutoscaler] = informer(VPAS)
        unseen.after(self.vpas)
        self.pods: Informer[ObservedPod] = informer(OBSERVED_PODS, _RUNNING)
        self.evictions: Informer[Event] = informer(EVENTS, _EVICTIONS)
        self.hvpas: Informer[Hvpa] = informer(HVPAS, dispensable=_NO_HVPAS)
        self.workloads: dict[str, Informer[Any]] = {resource.kind: informer(resource) for resource in WORKLOADS}
        self._hvpas_served = hvpas_served
        self._unseen = unseen
        self._noticing = Noticing()
        self._subscribe()

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """All that are followed. An informer of a kind that the cluster does not serve would ask for ever."""
        always: tuple[Informer[Any], ...] = (self.vpas, self.pods, self.evictions, *self.workloads.values())
        return (*always, self.hvpas) if self._hvpas_served else always

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self.informers:
                group.create_task(informer.run(), name=f"watch {informer.resource.full_name}")

    async def wait_until_synced(self) -> None:
        """Return once everything has been seen that may be."""
        for informer in self.informers:
            await self._unseen.wait_for(informer)

    def unseen(self) -> list[str]:
        """The kinds of which not everything has been seen that may be."""
        return self._unseen.not_yet_seen(self.informers)

    def why_not_trusted(self) -> str | None:
        """Why a pass must not go by what is known of the VPAs, if it must not."""
        staleness = self.vpas.staleness()
        if not staleness.synced:
            latest = self.vpas.incidents.latest
            return f"VPAs could not be listed yet: {latest[-1].message if latest else 'no answer so far'}"
        age = staleness.contact_age or 0.0
        if not staleness.connected and age > TRUSTED_SECONDS:
            return f"VPAs could not be listed for {age:.0f} s"
        return None

    def look(self) -> Seen:
        """The state as it is now; what has changed is told once."""
        return Seen(
            vpas=self.vpas.snapshot(),
            pods=self.pods.snapshot(),
            hvpas=self.hvpas.snapshot(),
            workloads={kind: informer.snapshot() for kind, informer in self.workloads.items()},
            news=self._noticing.take(),
        )

    def look_again(self, seen: Seen) -> None:
        """Tell once more what was told: the pass that it was told to has failed."""
        self._noticing.give_back(seen.news)

    def _subscribe(self) -> None:
        noticing = self._noticing
        self.vpas.subscribe(lambda change: noticing.vpa(change.key, change.old, change.new))
        self.pods.subscribe(lambda change: noticing.pod(change.key, change.old, change.new))
        self.evictions.subscribe(self._event_came)
        self.hvpas.subscribe(lambda change: noticing.hvpa(change.key))
        for informer in self.workloads.values():
            informer.subscribe(lambda change: noticing.workload(change.key, change.old, change.new))

    def _event_came(self, change: Change[Event]) -> None:
        if change.new is not None:
            self._noticing.event(change.new, self.pods.snapshot())
