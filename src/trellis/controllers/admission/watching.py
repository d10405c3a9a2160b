"""What does the admission controller know of the cluster? Everything that decides about a pod, before the pod comes.

VPAs and Hvpas are compiled as they change, workloads are kept as small as they can be, LimitRanges by namespace, nodes
as columns. Pods are not watched: a webhook is shown each of them once, and that is enough.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from trellis.api.hvpa import Hvpa
from trellis.api.kube.nodes import Node
from trellis.api.kube.policies import LimitRange
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.controllers.admission.rooms import Rooms
from trellis.controllers.admission.slimming import GoverningHvpa, GoverningVpa, WorkloadSlimmer, slim_hvpa, slim_vpa
from trellis.core.admission.governors import Governors
from trellis.core.model.keys import BY_NAMESPACE, in_namespace
from trellis.core.model.owners import Lookup
from trellis.core.recommend.capping import NamespaceLimits, read_limit_ranges
from trellis.core.sizing.governors import Governor
from trellis.kube.backoff import Draw
from trellis.kube.changes import Change
from trellis.kube.client import Client
from trellis.kube.informer import Informer
from trellis.kube.reflector import Selection
from trellis.kube.resources import (
    HVPAS,
    LIMIT_RANGES,
    NODES,
    OBSERVED_CRON_JOBS,
    OBSERVED_DAEMON_SETS,
    OBSERVED_DEPLOYMENTS,
    OBSERVED_JOBS,
    OBSERVED_REPLICA_SETS,
    OBSERVED_REPLICATION_CONTROLLERS,
    OBSERVED_STATEFUL_SETS,
    VPAS,
    Resource,
)
from trellis.runtime.component_settings import ScopeSettings
from trellis.runtime.unseen import Dispensable, Unseen

WORKLOADS: Final[tuple[Resource[Any], ...]] = (
    OBSERVED_DEPLOYMENTS,
    OBSERVED_REPLICA_SETS,
    OBSERVED_STATEFUL_SETS,
    OBSERVED_DAEMON_SETS,
    OBSERVED_JOBS,
    OBSERVED_CRON_JOBS,
    OBSERVED_REPLICATION_CONTROLLERS,
)

# Upstream's role has no rule for them.
_NO_HVPAS: Final = Dispensable("Hvpas do not size pods")

_UNLIMITED: Final = NamespaceLimits()


class Watching:
    """All informers, and what is made of them. `run` in a task of its own."""

    def __init__(
        self,
        client: Client,
        scope: ScopeSettings,
        *,
        hvpas_served: bool,
        rooms: Rooms | None,
        draw: Draw,
        unseen: Unseen,
    ) -> None:
        def informer(
            resource: Resource[Any],
            slim: Callable[[Any], Any] | None = None,
            dispensable: Dispensable | None = None,
        ) -> Informer[Any]:
            return Informer(
                client,
                resource,
                draw=draw,
                indexes={BY_NAMESPACE: in_namespace} if resource is LIMIT_RANGES else None,
                selection=Selection(namespace=scope.vpa_object_namespace if resource.namespaced else ""),
                report=unseen.reporting(resource, dispensable),
                slim=slim,
            )

        self.governors = Governors()
        self._unseen = unseen
        self._scope = scope
        self._limits: dict[str, NamespaceLimits] = {}
        # Called when an object is new, and its target perhaps as well.
        self.on_new_target: Callable[[], None] = lambda: None
        self.vpas: Informer[VerticalPodAutoscaler] = informer(VPAS, slim_vpa)
        unseen.after(self.vpas)
        self.limit_ranges: Informer[LimitRange] = informer(LIMIT_RANGES)
        self.workloads = {each.kind: informer(each, WorkloadSlimmer().slim) for each in WORKLOADS}
        self.hvpas: Informer[Hvpa] | None = informer(HVPAS, slim_hvpa, _NO_HVPAS) if hvpas_served else None
        self.nodes: Informer[Node] | None = informer(NODES) if rooms is not None else None
        self._subscribe(rooms)

    @property
    def informers(self) -> tuple[Informer[Any], ...]:
        """All that are followed."""
        sometimes = tuple(each for each in (self.hvpas, self.nodes) if each is not None)
        return (self.vpas, self.limit_ranges, *self.workloads.values(), *sometimes)

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

    def limits(self, namespace: str) -> NamespaceLimits:
        """What LimitRanges say there."""
        return self._limits.get(namespace, _UNLIMITED)

    def lookups(self) -> dict[str, tuple[Resource[Any], Lookup]]:
        """How a workload is asked for and found, by kind."""
        return {kind: (informer.resource, informer.get) for kind, informer in self.workloads.items()}

    def _subscribe(self, rooms: Rooms | None) -> None:
        self.vpas.subscribe(self._vpa_changed)
        self.limit_ranges.subscribe(self._limits_changed)
        for kind, informer in self.workloads.items():
            informer.subscribe(self._workload_changed(kind))
        if self.hvpas is not None:
            self.hvpas.subscribe(self._hvpa_changed)
        if self.nodes is not None and rooms is not None:
            self.nodes.subscribe(rooms.node_changed)

    def _vpa_changed(self, change: Change[VerticalPodAutoscaler]) -> None:
        if self._scope.covers(change.key[0]):
            self.governors.put(VPAS.kind, *change.key, _governor(change.new))
            if change.old is None:
                self.on_new_target()

    def _hvpa_changed(self, change: Change[Hvpa]) -> None:
        if self._scope.covers(change.key[0]):
            self.governors.put(HVPAS.kind, *change.key, _governor(change.new))
            if change.old is None:
                self.on_new_target()

    def _limits_changed(self, change: Change[LimitRange]) -> None:
        namespace = change.key[0]
        ranges = self.limit_ranges.snapshot().by(BY_NAMESPACE, namespace)
        if ranges:
            self._limits[namespace] = read_limit_ranges(ranges)
        else:
            self._limits.pop(namespace, None)

    def _workload_changed(self, kind: str) -> Callable[[Change[Any]], None]:
        def changed(change: Change[Any]) -> None:
            self.governors.target_changed(kind, *change.key)

        return changed


def _governor(found: VerticalPodAutoscaler | Hvpa | None) -> Governor | None:
    return found.governor if isinstance(found, GoverningVpa | GoverningHvpa) else None
