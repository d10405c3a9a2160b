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
    """By uid of the pod. Times are seconds since 1970."""

    def __init__(self) -> None:
        self._evicted: dict[str, float] = {}
        self._written: dict[str, str] = {}

    def expect_eviction(self, uid: str, until: float = math.inf) -> None:
        """A pod was evicted; with `until`, perhaps it was, and by then its end has been seen or will not come."""
        self._evicted[uid] = until

    def expect_write(self, uid: str, resource_version: str) -> None:
        """A pod was changed, and has this version since."""
        self._written[uid] = resource_version

    def is_awaited(self, pod: Pod) -> bool:
        """Whether what we wrote to the pod is still to come."""
        version = self._written.get(pod.metadata.uid)
        return version is not None and _is_older(pod.metadata.resource_version, version)

    def apply_to(self, pod: Pod, now: float) -> Pod:
        """The pod; one that we have evicted is on its way out."""
        until = self._evicted.get(pod.metadata.uid, -math.inf)
        if until <= now or pod.metadata.deletion_timestamp is not None:
            return pod
        going = msgspec.structs.replace(pod.metadata, deletion_timestamp=datetime.fromtimestamp(now, UTC))
        return msgspec.structs.replace(pod, metadata=going)

    def observe(self, pod: Pod) -> None:
        """The pod has changed: what it shows needs no memory."""
        if not self.is_awaited(pod):
            self._written.pop(pod.metadata.uid, None)
        if pod.metadata.deletion_timestamp is not None:
            self._evicted.pop(pod.metadata.uid, None)

    def forget(self, uid: str) -> None:
        """The pod does not exist any more."""
        self._evicted.pop(uid, None)
        self._written.pop(uid, None)


def _is_older(observed: str, written: str) -> bool:
    """Whether a version comes before another. They are numbers (Kubernetes 1.35 says so); others cannot be compared."""
    if observed.isdecimal() and written.isdecimal():
        return int(observed) < int(written)
    return False


_POD: Final = "Pod"
# What such a target selects is known: no pods. After any other problem it may be known later.
_SELECTS_NONE: Final = (TARGET_NOT_TOPMOST, TARGET_SELECTS_NOTHING)


class WorkloadSnapshot(msgspec.Struct, frozen=True):
    """What is known of one workload; a plan adds what is remembered of it. `groups` are all controllers below it.

    `missed` are the uids of pods whose last resize was written while a container was down.
    A boosted pod that no object governs is a workload of its own, under `NO_GOVERNOR`.
    """

    workload: WorkloadKey
    governor: Governor
    pods: tuple[Pod, ...]
    groups: frozenset[ControllerKey]
    configured: Mapping[ControllerKey, int]
    limits: NamespaceLimits
    hpa: frozenset[str]
    frozen: Freeze | None
    missed: frozenset[str] = frozenset()

    @property
    def live(self) -> int:
        """How many of the pods have a node and are not on their way out: those that upstream counts."""
        return sum(bool(pod.spec.node_name) and not is_inactive(pod) for pod in self.pods)


class WorkloadCache:
    """What was put, by the workload that it concerns; with `knows_rooms` also what changed on nodes, for `Rooms`.

    In each `put`, `old` is what was last put under that name, and None as `new` says that it is gone.

    `on_change` is called with each workload that a change concerns, and `on_new_target` when an object is new: the
    scale of its target may have to be read. `withdraws_in` says whether boosts without an object are taken back in a
    namespace.
    """

    def __init__(
        self,
        *,
        knows_rooms: bool = True,
        on_change: Callable[[WorkloadKey], None] = lambda _workload: None,
        on_new_target: Callable[[], None] = lambda: None,
        withdraws_in: Callable[[str], bool] = lambda _namespace: True,
        echoes: PendingPodWrites | None = None,
    ) -> None:
        self.governed = WorkloadGovernors()
        self.echoes = echoes if echoes is not None else PendingPodWrites()
        self.nodes: dict[str, ResourceAmounts] = {}
        self.scales: dict[TargetRef, ScaleInfo] = {}
        self._on_change = on_change
        self._on_new_target = on_new_target
        self._withdraws_in = withdraws_in
        self._knows_rooms = knows_rooms
        # What has happened to nodes and pods since rooms were last brought up to date.
        self._changed_nodes: dict[str, Node | None] = {}
        self._changed_pods: dict[ObjectKey, Pod | None] = {}
        self._workloads: dict[WorkloadKey, KubeObject] = {}
        self._family = OwnerIndex(self._workloads.get)
        # Boosted pods by namespace and name: few of all pods, and for a short time each.
        self._boosted: dict[str, dict[str, Pod]] = {}
        self._surroundings = WorkloadConstraints()
        self._selections: dict[WorkloadKey, Selector] = {}
        self._missed = MissedResizes()
        self._owners = Owners({kind: partial(self._named, kind) for kind in WELL_KNOWN_KINDS}, self.scales)

    def gather(self, workload: WorkloadKey, now: float) -> WorkloadSnapshot | None:
        """What is known of a workload; None if nothing governs it, or its pods cannot be told."""
        governing = self.governed.find(workload)
        if governing is None:
            return self._gather_ungoverned(workload, now)
        selection = self._selection(workload, governing.governor.claim.target)
        if not isinstance(selection, Selector):
            return None
        below = list(self._family.below(workload))
        pods = tuple(
            self.echoes.apply_to(pod, now)
            for each in below
            for pod in self._family.pods_of(each)
            if selection.matches(pod.metadata.labels)
        )
        namespace = workload[0]
        return WorkloadSnapshot(
            workload,
            governing.governor,
            pods,
            frozenset(ControllerKey(kind, name) for _, kind, name in below),
            dict(self._configured(below)),
            self._surroundings.limits(namespace),
            self._surroundings.scaled_by(workload),
            self.frozen(namespace, governing),
            frozenset(pod.metadata.uid for pod in pods if pod.metadata.uid in self._missed),
        )

    def ungoverned(self, namespace: str | None = None) -> tuple[WorkloadKey, ...]:
        """Boosted pods that no object governs, each as a workload of its own; those of one namespace, or all."""
        places = (namespace,) if namespace is not None else tuple(self._boosted)
        return tuple(
            pod_workload_key(pod)
            for place in places
            if place in self._boosted and self._withdraws_in(place)
            for pod in self._boosted[place].values()
            if not self._may_be_governed(pod)
        )

    def plannable(self, workloads: Iterable[WorkloadKey]) -> Iterator[WorkloadKey]:
        """Those of them for which plans may be made: not all boosts without an object are taken back here."""
        return (each for each in workloads if each[1] != _POD or each in self.governed or self._withdraws_in(each[0]))

    def _gather_ungoverned(self, workload: WorkloadKey, now: float) -> WorkloadSnapshot | None:
        """The pod that is called so, if it is boosted and no object governs it."""
        namespace, kind, name = workload
        pod = self._boosted.get(namespace, {}).get(name) if kind == _POD else None
        if pod is None or self._may_be_governed(pod):
            return None
        return WorkloadSnapshot(
            workload,
            NO_GOVERNOR,
            (self.echoes.apply_to(pod, now),),
            frozenset(),
            {},
            self._surroundings.limits(namespace),
            frozenset(),
            self._surroundings.frozen(namespace, NOTHING),
            frozenset({pod.metadata.uid} if pod.metadata.uid in self._missed else ()),
        )

    def _may_be_governed(self, pod: Pod) -> bool:
        """Whether an object governs a pod, or names a controller over it of which the pods cannot be told now."""
        metadata = pod.metadata
        for workload in self._family.above(metadata.namespace, metadata.controller):
            governing = self.governed.find(workload)
            if governing is None:
                continue
            selection = self._selection(workload, governing.governor.claim.target)
            if isinstance(selection, Selector):
                if selection.matches(metadata.labels):
                    return True
            elif selection.reason not in _SELECTS_NONE:
                return True
        return False

    def is_awaited(self, gathered: WorkloadSnapshot) -> bool:
        """Whether the watch has still to show what we did to one of the pods; its change will wake the workload."""
        return any(map(self.echoes.is_awaited, gathered.pods))

    def frozen(self, namespace: str, governing: AnnotatedGovernor) -> Freeze | None:
        """Who has stopped changes to the pods of an object there."""
        return self._surroundings.frozen(namespace, governing.annotations)

    def take_changes(self) -> tuple[dict[str, Node | None], dict[ObjectKey, Pod | None]]:
        """What has happened to nodes and pods since this was last asked."""
        changes = self._changed_nodes, self._changed_pods
        self._changed_nodes, self._changed_pods = {}, {}
        return changes

    def put_governor(self, kind: str, key: ObjectKey, governor: Governor | None, annotations: Labels = NOTHING) -> None:
        """An object that sizes pods, of this kind; without a governor it sizes none."""
        known = len(self.governed)
        governing = AnnotatedGovernor(governor, annotations) if governor is not None else None
        for workload in self.governed.put(kind, *key, governing):
            self._on_change(workload)
            if workload not in self.governed:
                self._selections.pop(workload, None)
                self._concern_boosted(key[0])
        if len(self.governed) > known:
            self._on_new_target()

    def put_pod(self, key: ObjectKey, old: Pod | None, new: Pod | None) -> None:
        """A pod."""
        if self._knows_rooms:
            self._changed_pods[key] = new
        awaited = old is not None and self.echoes.is_awaited(old)
        self._family.put_pod(key[1], old, new)
        self._put_boosted(key, old, new)
        if new is not None:
            self.echoes.observe(new)
            self._missed.put(new)
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._missed.forget(old.metadata.uid)
        if old is not None and new is None:
            self.echoes.forget(old.metadata.uid)
        if awaited or old is None or new is None or not _is_alike(old, new):
            self._concern_above(key[0], old, new)

    def put_workload(self, kind: str, key: ObjectKey, old: KubeObject | None, new: KubeObject | None) -> None:
        """A controller of a well-known kind."""
        namespace, name = key
        itself = (namespace, kind, name)
        if new is not None:
            self._workloads[itself] = new
        else:
            self._workloads.pop(itself, None)
        if old is not None and new is not None and _is_same(old, new):
            return
        self._selections.pop(itself, None)
        self._family.put_workload(itself, old, new)
        self._concern((itself,))
        self._concern_above(namespace, old, new)

    def put_limits(self, namespace: str, ranges: Iterable[LimitRange]) -> None:
        """All LimitRanges of a namespace."""
        self._surroundings.put_limits(namespace, ranges)
        self._concern(self.governed.in_namespace(namespace))
        self._concern_boosted(namespace)

    def put_node(self, name: str, node: Node | None) -> None:
        """A node."""
        if self._knows_rooms:
            self._changed_nodes[name] = node
        offered = parse_amounts(node.status.allocatable) if node is not None else None
        if offered != self.nodes.get(name):
            # Not changed in place: a plan may be reading it.
            others = {each: offers for each, offers in self.nodes.items() if each != name}
            self.nodes = others if offered is None else {**others, name: offered}

    def put_namespace(self, name: str, annotations: Labels) -> None:
        """What is written on a namespace; nothing is written on one that is gone."""
        if self._surroundings.put_namespace(name, annotations):
            self._concern(self.governed.in_namespace(name))
            self._concern_boosted(name)

    def put_hpa(self, key: ObjectKey, old: HorizontalPodAutoscaler | None, new: HorizontalPodAutoscaler | None) -> None:
        """An HPA."""
        self._concern(self._surroundings.put_hpa(key, old, new))

    def put_switch(self, data: Mapping[str, str] | None) -> None:
        """What the ConfigMap says that freezes the cluster; None if there is none."""
        self._surroundings.put_switch(data)
        self._concern(self.governed.workloads())
        self._concern_boosted()

    def put_scales(self, found: Mapping[TargetRef, ScaleInfo]) -> None:
        """All answers of scales: what their targets select may be something else now."""
        changed = [each for each in {**self.scales, **found} if found.get(each) != self.scales.get(each)]
        self.scales.clear()
        self.scales.update(found)
        for target in changed:
            workload = (target.namespace, target.kind, target.name)
            governing = self.governed.find(workload)
            if governing is not None and governing.governor.claim.target == target:
                before = self._selections.pop(workload, None)
                if self._selection(workload, target) != before:
                    self._on_change(workload)

    def _selection(self, workload: WorkloadKey, target: TargetRef) -> SelectorOrProblem:
        """What a target selects. A problem is not remembered: it may go away without a change of the target itself."""
        found: SelectorOrProblem | None = self._selections.get(workload)
        if found is None:
            found = resolve_selector(target, self._owners)
            if isinstance(found, Selector):
                self._selections[workload] = found
        return found

    def _named(self, kind: str, namespace: str, name: str) -> KubeObject | None:
        return self._workloads.get((namespace, kind, name))

    def _concern(self, workloads: Iterable[WorkloadKey]) -> None:
        """Tell those of them that something governs."""
        for workload in workloads:
            if workload in self.governed:
                self._on_change(workload)

    def _concern_above(self, namespace: str, *found: KubeObject | None) -> None:
        """Tell the controllers over something."""
        controllers = [each.metadata.controller for each in found if each is not None]
        self._concern({each: None for one in controllers for each in self._family.above(namespace, one)})

    def _put_boosted(self, key: ObjectKey, old: Pod | None, new: Pod | None) -> None:
        """Keep the index of boosted pods, and tell of one that no object governs."""
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
            self._on_change(pod_workload_key(pod))

    def _concern_boosted(self, namespace: str | None = None) -> None:
        """Tell of boosted pods that no object governs."""
        for workload in self.ungoverned(namespace):
            self._on_change(workload)

    def _configured(self, below: Iterable[WorkloadKey]) -> Iterator[tuple[ControllerKey, int]]:
        for workload in below:
            found = self._workloads.get(workload)
            count = read_configured_replicas(found) if found is not None else None
            if count is not None:
                yield ControllerKey(*workload[1:]), count


def pod_workload_key(pod: Pod) -> WorkloadKey:
    """A pod that no object governs, as a workload of its own."""
    return pod.metadata.namespace, _POD, pod.metadata.name


def _is_same(old: Any, new: Any) -> bool:
    """Whether only what is not kept has changed: a rollout changes a status many times a second."""
    same = old.spec == new.spec and old.metadata.controller == new.metadata.controller
    return same and getattr(old, "status", None) == getattr(new, "status", None)


def _is_alike(old: Pod, new: Pod) -> bool:
    """Whether nothing has changed that a plan looks at."""
    was, now = old.metadata, new.metadata
    return (
        old.status == new.status
        and old.spec == new.spec
        and (was.labels, was.annotations, was.deletion_timestamp, was.owner_references)
        == (now.labels, now.annotations, now.deletion_timestamp, now.owner_references)
    )
