"""What does the recommender see of the cluster? Informers, and what has changed since somebody last looked.

Changes are kept as names of namespaces, not as objects: a pass looks again at the namespaces in which something
happened, and takes everything else as it was. Out-of-memory kills are read from each change as it comes, because the
pod may be gone, or restarted again, before a pass looks.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from trellis.api.hvpa import Hvpa
from trellis.api.kube.coordination import Event
from trellis.api.kube.observed_pods import ObservedPod
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.core.model.ooms import OomKill, evicted, observed
from trellis.kube.backoff import Draw
from trellis.kube.changes import Change
from trellis.kube.client import Client
from trellis.kube.incidents import Incident
from trellis.kube.informer import Informer
from trellis.kube.keys import BY_NAMESPACE, Key, in_namespace
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
from trellis.kube.store import Snapshot

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

# Kills that wait for a pass. A pass takes all of them, so that this many within a minute would be a cluster on fire.
_MOST_KILLS: Final = 5_000

# A pod that is Pending runs nothing; evictions by the kubelet are the only events of interest.
_RUNNING: Final = "status.phase!=Pending"
_EVICTIONS: Final = "reason=Evicted,involvedObject.kind=Pod"

# After so long without contact what is known of the VPAs is no longer trusted.
TRUSTED_SECONDS: Final = 5.0


class Kill(msgspec.Struct, frozen=True):
    """A container killed for its memory, and its pod as it was then, if that is known: it may be gone by now."""

    what: OomKill
    pod: ObservedPod | None


class Seen(msgspec.Struct, frozen=True):
    """One state of the cluster, and what has changed since the one before."""

    vpas: Snapshot[VerticalPodAutoscaler]
    pods: Snapshot[ObservedPod]
    hvpas: Snapshot[Hvpa]
    workloads: Mapping[str, Snapshot[Any]]
    changed_vpas: frozenset[Key]
    changed_namespaces: frozenset[str]
    kills: tuple[Kill, ...]


class Watching:
    """All informers of the recommender. `run` in a task of its own; everything else from the same event loop."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        hvpas_served: bool,
        draw: Draw,
        report: Callable[[str, Incident], None],
    ) -> None:
        def informer(resource: Resource[Any], field_selector: str = "") -> Informer[Any]:
            return Informer(
                client,
                resource,
                draw=draw,
                indexes={BY_NAMESPACE: in_namespace},
                selection=Selection(namespace=namespace, field_selector=field_selector),
                report=lambda incident: report(resource.full_name, incident),
            )

        self.vpas: Informer[VerticalPodAutoscaler] = informer(VPAS)
        self.pods: Informer[ObservedPod] = informer(OBSERVED_PODS, _RUNNING)
        self.evictions: Informer[Event] = informer(EVENTS, _EVICTIONS)
        self.hvpas: Informer[Hvpa] = informer(HVPAS)
        self.workloads: dict[str, Informer[Any]] = {resource.kind: informer(resource) for resource in WORKLOADS}
        self._hvpas_served = hvpas_served
        self._changed_vpas: set[Key] = set()
        self._changed_namespaces: set[str] = set()
        self._kills: deque[Kill] = deque(maxlen=_MOST_KILLS)
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
        """Return once everything has been seen."""
        for informer in self.informers:
            await informer.wait_until_synced()

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
        seen = Seen(
            vpas=self.vpas.snapshot(),
            pods=self.pods.snapshot(),
            hvpas=self.hvpas.snapshot(),
            workloads={kind: informer.snapshot() for kind, informer in self.workloads.items()},
            changed_vpas=frozenset(self._changed_vpas),
            changed_namespaces=frozenset(self._changed_namespaces),
            kills=tuple(self._kills),
        )
        self._changed_vpas.clear()
        self._changed_namespaces.clear()
        self._kills.clear()
        return seen

    def look_again(self, seen: Seen) -> None:
        """Tell once more what was told: the pass that it was told to has failed."""
        self._changed_vpas |= seen.changed_vpas
        self._changed_namespaces |= seen.changed_namespaces
        self._kills.extendleft(reversed(seen.kills))

    def _subscribe(self) -> None:
        self.vpas.subscribe(self._vpa_changed)
        self.pods.subscribe(self._pod_changed)
        self.evictions.subscribe(self._event_came)
        self.hvpas.subscribe(self._hvpa_changed)
        for informer in self.workloads.values():
            informer.subscribe(self._workload_changed)

    def _vpa_changed(self, change: Change[VerticalPodAutoscaler]) -> None:
        self._changed_vpas.add(change.key)
        # Our own writes come back as changes of status, which say nothing about whose pods are whose.
        if change.old is None or change.new is None or change.old.spec != change.new.spec:
            self._changed_namespaces.add(change.key[0])

    def _pod_changed(self, change: Change[ObservedPod]) -> None:
        self._changed_namespaces.add(change.key[0])
        if change.new is not None:
            self._kills.extend(Kill(kill, change.new) for kill in observed(change.old, change.new))
        elif change.old is not None:
            # The last word on a pod that is gone may be the only one that shows its kill. The model counts each once.
            self._kills.extend(Kill(kill, change.old) for kill in observed(None, change.old))

    def _event_came(self, change: Change[Event]) -> None:
        if change.new is not None:
            for kill in evicted(change.new):
                self._kills.append(Kill(kill, self.pods.snapshot().get(kill.namespace, kill.pod)))

    def _hvpa_changed(self, change: Change[Hvpa]) -> None:
        self._changed_namespaces.add(change.key[0])

    def _workload_changed(self, change: Change[Any]) -> None:
        old, new = change.old, change.new
        # A rollout changes a status many times a second; only selectors and owners are of interest.
        if old is None or new is None or old.spec != new.spec or old.metadata.controller != new.metadata.controller:
            self._changed_namespaces.add(change.key[0])
