"""Informers of the admission controller: everything that decides about a pod, before the pod is created.

VPAs and Hvpas are compiled as they change, workloads are reduced by their transform, LimitRanges are kept by namespace,
nodes as columns. Pods are not watched: the webhook sees each of them once, which is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange
from trellis.core.admission.decisions import GovernorIndex
from trellis.core.admission.starting_cpu import find_cpu_ceiling
from trellis.core.boost.boosted_size import CpuCeiling
from trellis.core.cluster.owners import ObjectLookup
from trellis.core.cluster.store import BY_NAMESPACE, index_by_namespace
from trellis.core.fit import NodeTable
from trellis.core.recommend.capping import NamespaceLimits, read_limit_ranges
from trellis.core.sizing.governors import get_governor
from trellis.kube.resources import HVPAS, LIMIT_RANGES, NODES, VPAS, Resource
from trellis.kube.watch.cache import ObjectChange
from trellis.kube.watch.informer import Informer
from trellis.runtime.cached_kinds import OWNING_WORKLOADS, SIZING_HVPAS, SIZING_VPAS, follow_in
from trellis.runtime.informers import Informers
from trellis.runtime.optional_kinds import OptionalKind
from trellis.runtime.settings.component import ScopeSettings
from trellis.runtime.shared_informers import FollowedKind


class BoostCeilings:
    """All nodes, kept current by a watch. With `must_fit` a boost is cut to what fits, else that is only mentioned."""

    def __init__(self, *, must_fit: bool) -> None:
        self._table = NodeTable()
        self._must_fit = must_fit

    def node_changed(self, change: ObjectChange[Node]) -> None:
        """A node is new, has changed or is gone."""
        if change.new is None:
            self._table.remove(change.key[1])
        else:
            self._table.update(change.new)

    def ceiling(self, pod: Pod) -> CpuCeiling | None:
        """The most that this pod could request; None if no node takes it, whatever it requests: then CPU is not why."""
        return find_cpu_ceiling(self._table, pod, must_fit=self._must_fit)


# Upstream's role has no rule for them.
_NO_HVPAS: Final = OptionalKind("pods are not sized by Hvpas")
# An installation for some namespaces may have Roles only, and none for kinds without a namespace.
_NO_NODES: Final = OptionalKind("startup boosts are not limited by the capacity of nodes")

_UNLIMITED: Final = NamespaceLimits()


def list_followed_kinds(scope: ScopeSettings) -> tuple[FollowedKind, ...]:
    """The kinds that admission follows and others of its process may follow as well."""
    return follow_in(scope.vpa_object_namespace, SIZING_VPAS, SIZING_HVPAS, *OWNING_WORKLOADS)


class AdmissionInformers:
    """The informers of admission, and the indexes that they feed."""

    def __init__(
        self,
        informers: Informers,
        scope: ScopeSettings,
        *,
        hvpas_served: bool,
        boost_ceilings: BoostCeilings | None,
        on_new_target: Callable[[], None] = lambda: None,
    ) -> None:
        self.governors = GovernorIndex()
        self._scope = scope
        self._limits: dict[str, NamespaceLimits] = {}
        # Called when an object is new, and its target perhaps as well.
        self._on_new_target = on_new_target
        self.vpas: Informer[VerticalPodAutoscaler] = informers.follow(SIZING_VPAS)
        self.limit_ranges: Informer[LimitRange] = informers.follow(
            LIMIT_RANGES, indexes={BY_NAMESPACE: index_by_namespace}
        )
        self.workloads: dict[str, Informer[Any]] = {
            kind.resource.kind: informers.follow(kind) for kind in OWNING_WORKLOADS
        }
        self.hvpas: Informer[Hvpa] = informers.follow(SIZING_HVPAS, dispensable=_NO_HVPAS, served=hvpas_served)
        self.nodes: Informer[Node] | None = None
        if boost_ceilings is not None:
            self.nodes = informers.follow(NODES, dispensable=_NO_NODES if scope.vpa_object_namespace else None)
        self._subscribe(boost_ceilings)

    def limits(self, namespace: str) -> NamespaceLimits:
        """The limits that LimitRanges set in a namespace."""
        return self._limits.get(namespace, _UNLIMITED)

    def lookups(self) -> dict[str, tuple[Resource[Any], ObjectLookup]]:
        """The resources and the lookups of workloads in the caches, by kind."""
        return {kind: (informer.resource, informer.get) for kind, informer in self.workloads.items()}

    def _subscribe(self, ceilings: BoostCeilings | None) -> None:
        self.vpas.subscribe(self._vpa_changed)
        self.limit_ranges.subscribe(self._limits_changed)
        for kind, informer in self.workloads.items():
            informer.subscribe(self._workload_changed(kind))
        self.hvpas.subscribe(self._hvpa_changed)
        if self.nodes is not None and ceilings is not None:
            self.nodes.subscribe(ceilings.node_changed)

    def _vpa_changed(self, change: ObjectChange[VerticalPodAutoscaler]) -> None:
        if self._scope.covers(change.key[0]):
            self.governors.put(VPAS.kind, *change.key, get_governor(change.new))
            if change.old is None:
                self._on_new_target()

    def _hvpa_changed(self, change: ObjectChange[Hvpa]) -> None:
        if self._scope.covers(change.key[0]):
            self.governors.put(HVPAS.kind, *change.key, get_governor(change.new))
            if change.old is None:
                self._on_new_target()

    def _limits_changed(self, change: ObjectChange[LimitRange]) -> None:
        namespace = change.key[0]
        ranges = self.limit_ranges.snapshot().by_index(BY_NAMESPACE, namespace)
        if ranges:
            self._limits[namespace] = read_limit_ranges(ranges)
        else:
            self._limits.pop(namespace, None)

    def _workload_changed(self, kind: str) -> Callable[[ObjectChange[Any]], None]:
        def changed(change: ObjectChange[Any]) -> None:
            self.governors.drop_selector(kind, *change.key)

        return changed
