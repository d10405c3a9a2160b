"""What does the admission controller know of the cluster? Everything that decides about a pod, before the pod comes.

VPAs and Hvpas are compiled as they change, workloads are kept as small as they can be, LimitRanges by namespace, nodes
as columns. Pods are not watched: a webhook is shown each of them once, and that is enough.
"""

from __future__ import annotations

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
from trellis.kube.changes import Change
from trellis.kube.informer import Informer
from trellis.kube.resources import (
    HVPAS,
    LIMIT_RANGES,
    NODES,
    OBSERVED_WORKLOADS,
    VPAS,
    Resource,
)
from trellis.runtime.component_settings import ScopeSettings
from trellis.runtime.informers import Informers
from trellis.runtime.unseen import Dispensable

# Upstream's role has no rule for them.
_NO_HVPAS: Final = Dispensable("Hvpas do not size pods")

_UNLIMITED: Final = NamespaceLimits()


class Watching:
    """All that is followed, and what is made of it."""

    def __init__(self, informers: Informers, scope: ScopeSettings, *, hvpas_served: bool, rooms: Rooms | None) -> None:
        self.governors = Governors()
        self._scope = scope
        self._limits: dict[str, NamespaceLimits] = {}
        # Called when an object is new, and its target perhaps as well.
        self.on_new_target: Callable[[], None] = lambda: None
        self.vpas: Informer[VerticalPodAutoscaler] = informers.follow(VPAS, slim_vpa)
        self.limit_ranges: Informer[LimitRange] = informers.follow(LIMIT_RANGES, indexes={BY_NAMESPACE: in_namespace})
        self.workloads: dict[str, Informer[Any]] = {
            each.kind: informers.follow(each, WorkloadSlimmer().slim) for each in OBSERVED_WORKLOADS
        }
        self.hvpas: Informer[Hvpa] = informers.follow(HVPAS, slim_hvpa, dispensable=_NO_HVPAS, served=hvpas_served)
        self.nodes: Informer[Node] | None = informers.follow(NODES) if rooms is not None else None
        self._subscribe(rooms)

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
