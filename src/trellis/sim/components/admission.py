"""The admission controller in a simulation: the core's decision, called by the model's API server for each new pod."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Final

from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.slices import Labels
from trellis.core.admission.decisions import GovernorIndex, PodAdmitter
from trellis.core.admission.starting_cpu import find_cpu_ceiling
from trellis.core.boost.boosted_size import CpuCeiling
from trellis.core.cluster.owners import WELL_KNOWN_KINDS, Owners, TargetRef, build_controller_ref
from trellis.core.cluster.store import ObjectKey
from trellis.core.fit import NodeTable
from trellis.core.nodes.state.recommended_sizes import GovernorKey, SizingSources
from trellis.core.recommend.capping import NamespaceLimits, read_limit_ranges
from trellis.core.sizing.governors import Governor
from trellis.sim.cluster.api_server import apply_patch
from trellis.sim.components.settings import SimulationSettings

_UNLIMITED: Final = NamespaceLimits()


class SimulatedAdmission:
    """Sizes and boosts new pods."""

    def __init__(self, limits: Iterable[LimitRange], settings: SimulationSettings) -> None:
        self._governors = GovernorIndex()
        self._governor_objects: dict[GovernorKey, Governor] = {}
        self._nodes = NodeTable()
        self._must_fit = settings.updates.require_fit
        self._boosts = settings.boosts
        self._workloads: dict[str, dict[ObjectKey, KubeObject]] = {kind: {} for kind in WELL_KNOWN_KINDS}
        by_namespace: defaultdict[str, list[LimitRange]] = defaultdict(list)
        for limit in limits:
            by_namespace[limit.metadata.namespace].append(limit)
        self._ranges = by_namespace
        self._limits = {namespace: read_limit_ranges(ranges) for namespace, ranges in by_namespace.items()}
        self._owners = Owners({kind: partial(self._find_workload, kind) for kind in WELL_KNOWN_KINDS}, {})
        self._decisions = PodAdmitter(self._governors, self.get_limits, settings.boosts, self._find_ceiling)

    def put_governor(self, kind: str, key: ObjectKey, governor: Governor | None) -> None:
        """Add or replace an object that sizes pods."""
        self._governors.put(kind, *key, governor)
        if governor is not None:
            self._governor_objects[kind, *key] = governor
        else:
            self._governor_objects.pop((kind, *key), None)

    def on_workload(self, kind: str, key: ObjectKey, new: KubeObject | None) -> None:
        """Handle a change of a controller."""
        if new is not None:
            self._workloads[kind][key] = new
        else:
            self._workloads[kind].pop(key, None)
        self._governors.drop_selector(kind, *key)

    def on_node(self, name: str, new: Node | None) -> None:
        """Handle a change of a node."""
        if new is not None:
            self._nodes.update(new)
        else:
            self._nodes.remove(name)

    def admit(self, pod: Pod) -> Pod:
        """Admit a pod; returns it as it is stored."""
        namespace = pod.metadata.namespace
        controller = build_controller_ref(namespace, pod.metadata.controller)
        if controller is None or not self._governors.governs_namespace(namespace):
            return pod
        chain = self._owners.follow(controller)
        decision = self._decisions.decide(pod, namespace, chain, self._owners)
        return apply_patch(pod, decision.patch) if decision.patch else pod

    def find_governor(self, target: TargetRef, labels: Labels) -> Governor | None:
        """The object that sizes pods of a target with these labels."""
        if not self._governors.governs_namespace(target.namespace):
            return None
        result = self._governors.find(self._owners.follow(target).topmost or target, labels, self._owners)
        return result if isinstance(result, Governor) else None

    def build_sizing_sources(self) -> SizingSources:
        """What sizes of pods depend on, as it is now."""
        return SizingSources(
            partial(tuple, self._governor_objects.items()),
            {kind: partial(self._find_workload, kind) for kind in WELL_KNOWN_KINDS},
            lambda namespace: self._ranges.get(namespace, ()),
            self._boosts,
        )

    def get_limits(self, namespace: str) -> NamespaceLimits:
        """The LimitRanges of a namespace."""
        return self._limits.get(namespace, _UNLIMITED)

    def _find_workload(self, kind: str, namespace: str, name: str) -> KubeObject | None:
        return self._workloads[kind].get((namespace, name))

    def _find_ceiling(self, pod: Pod) -> CpuCeiling | None:
        return find_cpu_ceiling(self._nodes, pod, must_fit=self._must_fit)
