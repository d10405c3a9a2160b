"""Cache of the cluster by workload, from which plans get snapshots of the workloads they are made for.

Changes are put as they are observed, and the cache reports which workloads they concern. Everything is found by
indexes and never by a walk over all pods. The snapshots handed to plans are frozen.

Snapshots also show the pending writes: evictions and changes of pods whose echo the watch has not delivered yet. A plan
that is made a moment after an eviction must not count the evicted pod, or it would evict its neighbour as well. And a
resize must have been observed before the pod is planned for again, or it would be written twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec

from trellis.api.kube.meta import KubeObject
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.kube.slices import NOTHING, Labels
from trellis.base.selectors import Selector
from trellis.core.boost.annotation import is_boosted
from trellis.core.cluster.missed_resizes import MissedResizes
from trellis.core.cluster.owners import WELL_KNOWN_KINDS, Owners, ScaleInfo, TargetRef
from trellis.core.cluster.store import ObjectKey
from trellis.core.cluster.target_problems import TARGET_NOT_TOPMOST, TARGET_SELECTS_NOTHING
from trellis.core.cluster.target_selectors import SelectorOrProblem, resolve_selector
from trellis.core.recommend.amounts import ResourceAmounts, parse_amounts
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.resize.actions import ControllerKey
from trellis.core.resize.freeze import Freeze
from trellis.core.resize.state.indexes import (
    AnnotatedGovernor,
    OwnerIndex,
    WorkloadConstraints,
    WorkloadGovernors,
    WorkloadKey,
)
from trellis.core.resize.view import is_inactive, read_configured_replicas
from trellis.core.sizing.governors import NO_GOVERNOR, Governor


class PendingPodWrites:
    """Pending writes by uid of the pod. Times are seconds since 1970."""

    def __init__(self) -> None:
        self._evicted: dict[str, float] = {}
        self._written: dict[str, str] = {}

    def expect_eviction(self, uid: str, until: float = math.inf) -> None:
        """Expect the end of an evicted pod; with `until` the eviction is uncertain, and expected until then."""
        self._evicted[uid] = until

    def expect_write(self, uid: str, resource_version: str) -> None:
        """Expect this version of a pod after a write."""
        self._written[uid] = resource_version

    def is_pending(self, pod: Pod) -> bool:
        """Whether the watch has not shown the write to the pod yet."""
        version = self._written.get(pod.metadata.uid)
        return version is not None and _is_older(pod.metadata.resource_version, version)

    def apply_to(self, pod: Pod, now: float) -> Pod:
        """The pod with its pending eviction applied."""
        until = self._evicted.get(pod.metadata.uid, -math.inf)
        if until <= now or pod.metadata.deletion_timestamp is not None:
            return pod
        going = msgspec.structs.replace(pod.metadata, deletion_timestamp=datetime.fromtimestamp(now, UTC))
        return msgspec.structs.replace(pod, metadata=going)

    def observe(self, pod: Pod) -> None:
        """Drop the pending writes that the watch has shown."""
        if not self.is_pending(pod):
            self._written.pop(pod.metadata.uid, None)
        if pod.metadata.deletion_timestamp is not None:
            self._evicted.pop(pod.metadata.uid, None)

    def forget(self, uid: str) -> None:
        """Drop the pending writes of a deleted pod."""
        self._evicted.pop(uid, None)
        self._written.pop(uid, None)


def _is_older(observed: str, written: str) -> bool:
    """Whether a resource version is older than another. They are numbers (Kubernetes 1.35)."""
    if observed.isdecimal() and written.isdecimal():
        return int(observed) < int(written)
    return False


_POD: Final = "Pod"
# What such a target selects is known: no pods. After any other problem it may be known later.
_SELECTS_NONE: Final = (TARGET_NOT_TOPMOST, TARGET_SELECTS_NOTHING)


class WorkloadSnapshot(msgspec.Struct, frozen=True):
    """The state of one workload, without earlier attempts. `controllers` are all controllers below it.

    `missed_resizes` are the uids of pods whose last resize was written while a container was down.
    A boosted pod that no object governs is a workload of its own, under `NO_GOVERNOR`.
    """

    workload: WorkloadKey
    governor: Governor
    pods: tuple[Pod, ...]
    controllers: frozenset[ControllerKey]
    configured_replicas: Mapping[ControllerKey, int]
    limits: NamespaceLimits
    hpa_resources: frozenset[str]
    freeze: Freeze | None
    missed_resizes: frozenset[str] = frozenset()

    @property
    def live_pods(self) -> int:
        """How many of the pods have a node and are not terminating: those that upstream counts."""
        return sum(bool(pod.spec.node_name) and not is_inactive(pod) for pod in self.pods)


class WorkloadCache:
    """Objects by the workload that they belong to; with `tracks_headroom` also changes of nodes, for `NodeHeadroom`.

    In each `put`, `old` is the previous version under that name, and `new` is None if the object is deleted.

    `on_change` is called with each workload that a change affects, and `on_new_target` when an object is new: the scale
    of its target may have to be read. `withdraws_in` says whether boosts without an object are ended in a namespace.
    """

    def __init__(
        self,
        *,
        tracks_headroom: bool = True,
        on_change: Callable[[WorkloadKey], None] = lambda _workload: None,
        on_new_target: Callable[[], None] = lambda: None,
        withdraws_in: Callable[[str], bool] = lambda _namespace: True,
        pending_writes: PendingPodWrites | None = None,
    ) -> None:
        self.governors = WorkloadGovernors()
        self.pending_writes = pending_writes if pending_writes is not None else PendingPodWrites()
        self.nodes: dict[str, ResourceAmounts] = {}
        self.scales: dict[TargetRef, ScaleInfo] = {}
        self._on_change = on_change
        self._on_new_target = on_new_target
        self._withdraws_in = withdraws_in
        self._tracks_headroom = tracks_headroom
        # Changes of nodes and pods since the headroom was last updated.
        self._changed_nodes: dict[str, Node | None] = {}
        self._changed_pods: dict[ObjectKey, Pod | None] = {}
        self._workloads: dict[WorkloadKey, KubeObject] = {}
        self._owner_index = OwnerIndex(self._workloads.get)
        # Boosted pods by namespace and name: few of all pods, and for a short time each.
        self._boosted: dict[str, dict[str, Pod]] = {}
        self._constraints = WorkloadConstraints()
        self._selectors: dict[WorkloadKey, Selector] = {}
        self._missed_resizes = MissedResizes()
        self._owners = Owners({kind: partial(self._find_workload, kind) for kind in WELL_KNOWN_KINDS}, self.scales)

    def build_snapshot(self, workload: WorkloadKey, now: float) -> WorkloadSnapshot | None:
        """The snapshot of a workload; None if no object governs it, or its selector is not known."""
        governing = self.governors.find(workload)
        if governing is None:
            return self._build_ungoverned_snapshot(workload, now)
        selector = self._find_selector(workload, governing.governor.claim.target)
        if not isinstance(selector, Selector):
            return None
        owners = list(self._owner_index.walk_down(workload))
        pods = tuple(
            self.pending_writes.apply_to(pod, now)
            for owner in owners
            for pod in self._owner_index.list_pods(owner)
            if selector.matches(pod.metadata.labels)
        )
        namespace = workload[0]
        return WorkloadSnapshot(
            workload,
            governing.governor,
            pods,
            frozenset(ControllerKey(kind, name) for _, kind, name in owners),
            dict(self._list_configured_replicas(owners)),
            self._constraints.get_limits(namespace),
            self._constraints.get_hpa_resources(workload),
            self.find_freeze(namespace, governing),
            frozenset(pod.metadata.uid for pod in pods if pod.metadata.uid in self._missed_resizes),
        )

    def list_ungoverned(self, namespace: str | None = None) -> tuple[WorkloadKey, ...]:
        """Boosted pods that no object governs, each as a workload; those of one namespace, or all."""
        namespaces = (namespace,) if namespace is not None else tuple(self._boosted)
        return tuple(
            get_pod_key(pod)
            for place in namespaces
            if place in self._boosted and self._withdraws_in(place)
            for pod in self._boosted[place].values()
            if not self._may_be_governed(pod)
        )

    def select_plannable(self, workloads: Iterable[WorkloadKey]) -> Iterator[WorkloadKey]:
        """The workloads for which plans may be made: boosts without an object are not ended in every namespace."""
        return (
            workload
            for workload in workloads
            if workload[1] != _POD or workload in self.governors or self._withdraws_in(workload[0])
        )

    def _build_ungoverned_snapshot(self, workload: WorkloadKey, now: float) -> WorkloadSnapshot | None:
        """The snapshot of a boosted pod that no object governs."""
        namespace, kind, name = workload
        pod = self._boosted.get(namespace, {}).get(name) if kind == _POD else None
        if pod is None or self._may_be_governed(pod):
            return None
        return WorkloadSnapshot(
            workload,
            NO_GOVERNOR,
            (self.pending_writes.apply_to(pod, now),),
            frozenset(),
            {},
            self._constraints.get_limits(namespace),
            frozenset(),
            self._constraints.find_freeze(namespace, NOTHING),
            frozenset({pod.metadata.uid} if pod.metadata.uid in self._missed_resizes else ()),
        )

    def _may_be_governed(self, pod: Pod) -> bool:
        """Whether an object governs a pod, or targets a controller of it whose selector is not known now."""
        metadata = pod.metadata
        for workload in self._owner_index.walk_up(metadata.namespace, metadata.controller):
            governing = self.governors.find(workload)
            if governing is None:
                continue
            selector = self._find_selector(workload, governing.governor.claim.target)
            if isinstance(selector, Selector):
                if selector.matches(metadata.labels):
                    return True
            elif selector.reason not in _SELECTS_NONE:
                return True
        return False

    def has_pending_writes(self, snapshot: WorkloadSnapshot) -> bool:
        """Whether the watch has not shown a write to one of the pods yet; when it does, the workload is requeued."""
        return any(map(self.pending_writes.is_pending, snapshot.pods))

    def find_freeze(self, namespace: str, governing: AnnotatedGovernor) -> Freeze | None:
        """The freeze that holds for the pods of an object."""
        return self._constraints.find_freeze(namespace, governing.annotations)

    def drain_changes(self) -> tuple[dict[str, Node | None], dict[ObjectKey, Pod | None]]:
        """The changes of nodes and pods since the last call."""
        changes = self._changed_nodes, self._changed_pods
        self._changed_nodes, self._changed_pods = {}, {}
        return changes

    def put_governor(self, kind: str, key: ObjectKey, governor: Governor | None, annotations: Labels = NOTHING) -> None:
        """Add, replace or (without a governor) remove an object that sizes pods."""
        governed_before = len(self.governors)
        governing = AnnotatedGovernor(governor, annotations) if governor is not None else None
        for workload in self.governors.put(kind, *key, governing):
            self._on_change(workload)
            if workload not in self.governors:
                self._selectors.pop(workload, None)
                self._notify_boosted(key[0])
        if len(self.governors) > governed_before:
            self._on_new_target()

    def put_pod(self, key: ObjectKey, old: Pod | None, new: Pod | None) -> None:
        """Add, replace or remove a pod."""
        if self._tracks_headroom:
            self._changed_pods[key] = new
        was_pending = old is not None and self.pending_writes.is_pending(old)
        self._owner_index.put_pod(key[1], old, new)
        self._put_boosted(key, old, new)
        if new is not None:
            self.pending_writes.observe(new)
            self._missed_resizes.put(old, new)
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._missed_resizes.forget(old.metadata.uid)
        if old is not None and new is None:
            self.pending_writes.forget(old.metadata.uid)
        if was_pending or old is None or new is None or not _is_unchanged_pod(old, new):
            self._notify_above(key[0], old, new)

    def put_workload(self, kind: str, key: ObjectKey, old: KubeObject | None, new: KubeObject | None) -> None:
        """Add, replace or remove a controller of a well-known kind."""
        namespace, name = key
        workload = (namespace, kind, name)
        if new is not None:
            self._workloads[workload] = new
        else:
            self._workloads.pop(workload, None)
        if old is not None and new is not None and _is_unchanged_workload(old, new):
            return
        self._selectors.pop(workload, None)
        self._owner_index.put_workload(workload, old, new)
        self._notify((workload,))
        self._notify_above(namespace, old, new)

    def put_limits(self, namespace: str, ranges: Iterable[LimitRange]) -> None:
        """Replace the LimitRanges of a namespace."""
        self._constraints.put_limits(namespace, ranges)
        self._notify(self.governors.list_in_namespace(namespace))
        self._notify_boosted(namespace)

    def put_node(self, name: str, node: Node | None) -> None:
        """Add, replace or remove a node."""
        if self._tracks_headroom:
            self._changed_nodes[name] = node
        allocatable = parse_amounts(node.status.allocatable) if node is not None else None
        if allocatable != self.nodes.get(name):
            # Not changed in place: a plan may be reading it.
            others = {node_name: amounts for node_name, amounts in self.nodes.items() if node_name != name}
            self.nodes = others if allocatable is None else {**others, name: allocatable}

    def put_namespace(self, name: str, annotations: Labels) -> None:
        """Replace the annotations of a namespace; those of a deleted one are empty."""
        if self._constraints.put_namespace(name, annotations):
            self._notify(self.governors.list_in_namespace(name))
            self._notify_boosted(name)

    def put_hpa(self, key: ObjectKey, old: HorizontalPodAutoscaler | None, new: HorizontalPodAutoscaler | None) -> None:
        """Add, replace or remove an HPA."""
        self._notify(self._constraints.put_hpa(key, old, new))

    def put_freeze_config(self, data: Mapping[str, str] | None) -> None:
        """Replace the data of the ConfigMap that freezes the cluster; None if there is none."""
        self._constraints.put_freeze_config(data)
        self._notify(self.governors.list_workloads())
        self._notify_boosted()

    def put_scales(self, scales: Mapping[TargetRef, ScaleInfo]) -> None:
        """Replace all scales, and report the workloads whose selector changes with them."""
        changed = [target for target in {**self.scales, **scales} if scales.get(target) != self.scales.get(target)]
        self.scales.clear()
        self.scales.update(scales)
        for target in changed:
            workload = (target.namespace, target.kind, target.name)
            governing = self.governors.find(workload)
            if governing is not None and governing.governor.claim.target == target:
                before = self._selectors.pop(workload, None)
                if self._find_selector(workload, target) != before:
                    self._on_change(workload)

    def _find_selector(self, workload: WorkloadKey, target: TargetRef) -> SelectorOrProblem:
        """The selector of a target. Problems are not cached: they may end without a change of the target itself."""
        selector: SelectorOrProblem | None = self._selectors.get(workload)
        if selector is None:
            selector = resolve_selector(target, self._owners)
            if isinstance(selector, Selector):
                self._selectors[workload] = selector
        return selector

    def _find_workload(self, kind: str, namespace: str, name: str) -> KubeObject | None:
        return self._workloads.get((namespace, kind, name))

    def _notify(self, workloads: Iterable[WorkloadKey]) -> None:
        """Report the governed ones of these workloads as changed."""
        for workload in workloads:
            if workload in self.governors:
                self._on_change(workload)

    def _notify_above(self, namespace: str, *versions: KubeObject | None) -> None:
        """Report the workloads above an object, in both of its versions, as changed."""
        controllers = [each.metadata.controller for each in versions if each is not None]
        self._notify(
            {each: None for controller in controllers for each in self._owner_index.walk_up(namespace, controller)}
        )

    def _put_boosted(self, key: ObjectKey, old: Pod | None, new: Pod | None) -> None:
        """Update the index of boosted pods, and report a pod that no object governs as changed."""
        namespace, name = key
        if new is not None and is_boosted(new.metadata.annotations):
            self._boosted.setdefault(namespace, {})[name] = new
        elif name in self._boosted.get(namespace, ()):
            del self._boosted[namespace][name]
            if not self._boosted[namespace]:
                del self._boosted[namespace]
        else:
            return
        pod = new if new is not None else old
        if pod is not None and self._withdraws_in(namespace) and not self._may_be_governed(pod):
            self._on_change(get_pod_key(pod))

    def _notify_boosted(self, namespace: str | None = None) -> None:
        """Report boosted pods that no object governs as changed."""
        for workload in self.list_ungoverned(namespace):
            self._on_change(workload)

    def _list_configured_replicas(self, workloads: Iterable[WorkloadKey]) -> Iterator[tuple[ControllerKey, int]]:
        for workload in workloads:
            controller = self._workloads.get(workload)
            count = read_configured_replicas(controller) if controller is not None else None
            if count is not None:
                yield ControllerKey(*workload[1:]), count


def get_pod_key(pod: Pod) -> WorkloadKey:
    """The key of a pod that no object governs, which is a workload of its own."""
    return pod.metadata.namespace, _POD, pod.metadata.name


def _is_unchanged_workload(old: Any, new: Any) -> bool:
    """Whether nothing that the cache reads has changed: a rollout changes a status many times a second."""
    same = old.spec == new.spec and old.metadata.controller == new.metadata.controller
    return same and getattr(old, "status", None) == getattr(new, "status", None)


def _is_unchanged_pod(old: Pod, new: Pod) -> bool:
    """Whether nothing that a plan reads has changed."""
    was, now = old.metadata, new.metadata
    return (
        old.status == new.status
        and old.spec == new.spec
        and (was.labels, was.annotations, was.deletion_timestamp, was.owner_references)
        == (now.labels, now.annotations, now.deletion_timestamp, now.owner_references)
    )
