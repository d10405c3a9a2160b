"""What does a new pod get? The admission controller of the core, called by the model's API server for each pod."""

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
from trellis.core.admission.ceilings import cpu_ceiling
from trellis.core.admission.decisions import Decisions
from trellis.core.admission.governors import Governors
from trellis.core.admission.starting import starting_boosts, unboosted
from trellis.core.boost.raising import CpuCeiling
from trellis.core.fit import NodeTable
from trellis.core.model.keys import Key
from trellis.core.model.owners import WELL_KNOWN, Owners, TargetRef, controller_in
from trellis.core.recommend.capping import NamespaceLimits, read_limit_ranges
from trellis.core.recommend.capping.limit_ranges import Counts
from trellis.core.sizing.governors import Governor
from trellis.sim.cluster.patching import patched
from trellis.sim.figures import Figures

_UNLIMITED: Final = NamespaceLimits()


class Admitting:
    """Sizes and boosts new pods."""

    def __init__(self, limits: Iterable[LimitRange], figures: Figures) -> None:
        self._governors = Governors()
        self._nodes = NodeTable()
        self._must_fit = figures.updates.require_fit
        self._boosts = figures.boosts
        self._workloads: dict[str, dict[Key, KubeObject]] = {kind: {} for kind in WELL_KNOWN}
        by_namespace: defaultdict[str, list[LimitRange]] = defaultdict(list)
        for each in limits:
            by_namespace[each.metadata.namespace].append(each)
        self._limits = {namespace: read_limit_ranges(ranges) for namespace, ranges in by_namespace.items()}
        self._owners = Owners({kind: partial(self._named, kind) for kind in WELL_KNOWN}, {})
        self._decisions = Decisions(self._governors, self.limits_of, figures.boosts, self._ceiling)

    def put_governor(self, kind: str, key: Key, governor: Governor | None) -> None:
        """An object that sizes pods."""
        self._governors.put(kind, *key, governor)

    def workload(self, kind: str, key: Key, new: KubeObject | None) -> None:
        """A controller changed."""
        if new is not None:
            self._workloads[kind][key] = new
        else:
            self._workloads[kind].pop(key, None)
        self._governors.target_changed(kind, *key)

    def node(self, name: str, new: Node | None) -> None:
        """A node changed."""
        if new is not None:
            self._nodes.update(new)
        else:
            self._nodes.remove(name)

    def admit(self, pod: Pod) -> Pod:
        """The pod as it is stored."""
        namespace = pod.metadata.namespace
        controller = controller_in(namespace, pod.metadata.controller)
        if controller is None or not self._governors.rules_in(namespace):
            return pod
        chain = self._owners.follow(controller)
        verdict = self._decisions.decide(pod, namespace, chain, self._owners)
        return patched(pod, verdict.patch) if verdict.patch else pod

    def governor_of(self, target: TargetRef, labels: Labels) -> Governor | None:
        """What sizes pods of a target that have these labels."""
        if not self._governors.rules_in(target.namespace):
            return None
        found = self._governors.find(self._owners.follow(target).topmost or target, labels, self._owners)
        return found if isinstance(found, Governor) else None

    def starts(self, pod: Pod) -> Counts:
        """By container, the millicores with which the successor of a pod would start, if it would be boosted."""
        namespace = pod.metadata.namespace
        controller = controller_in(namespace, pod.metadata.controller)
        governor = self.governor_of(controller, pod.metadata.labels) if controller is not None else None
        if governor is None:
            return {}
        return starting_boosts(unboosted(pod).spec, governor, self.limits_of(namespace), self._boosts)

    def limits_of(self, namespace: str) -> NamespaceLimits:
        """What bounds the pods of a namespace."""
        return self._limits.get(namespace, _UNLIMITED)

    def _named(self, kind: str, namespace: str, name: str) -> KubeObject | None:
        return self._workloads[kind].get((namespace, name))

    def _ceiling(self, pod: Pod) -> CpuCeiling | None:
        return cpu_ceiling(self._nodes, pod, must_fit=self._must_fit)
