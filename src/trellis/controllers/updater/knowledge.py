"""What is known of a workload now? Everything a plan asks for, found by indexes and never by a walk over all pods.

Changes come in on the event loop and are passed on to the workloads that they concern. What is handed to a plan is
frozen.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from trellis.api.hvpa import Hvpa
from trellis.api.kube.meta import KubeObject, OwnerReference
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.kube.slices import NOTHING
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.base.selectors import Selector
from trellis.controllers.updater.echoes import Echoes
from trellis.controllers.updater.family import Family, leave
from trellis.controllers.updater.governed import Governed, Governing, Workload
from trellis.controllers.updater.slimming import GoverningHvpa, GoverningVpa
from trellis.controllers.updater.watching import Watching
from trellis.core.model.owners import Owners, ScaleAnswer, TargetRef
from trellis.core.model.selection import Selection, select
from trellis.core.recommend.capping import NamespaceLimits, read_limit_ranges
from trellis.core.recommend.capping.limit_ranges import Counts, counts
from trellis.core.resize.actions import GroupKey
from trellis.core.resize.freezing import Freeze, freeze_of
from trellis.core.resize.hpas import scaled_by
from trellis.core.resize.views import configured_of
from trellis.core.sizing.governors import Governor
from trellis.kube.changes import Change
from trellis.kube.keys import BY_NAMESPACE, Key
from trellis.kube.resources import HVPAS, VPAS
from trellis.runtime.component_settings import ScopeSettings

_UNLIMITED: Final = NamespaceLimits()


class Gathered(msgspec.Struct, frozen=True):
    """What is known of one workload; a plan adds what is remembered of it. `groups` are all controllers below it."""

    workload: Workload
    governor: Governor
    pods: tuple[Pod, ...]
    groups: frozenset[GroupKey]
    configured: Mapping[GroupKey, int]
    limits: NamespaceLimits
    hpa: frozenset[str]
    frozen: Freeze | None


class Knowledge:
    """Follows the informers, and tells whom a change concerns."""

    def __init__(self, watching: Watching, scope: ScopeSettings) -> None:
        self.governed = Governed()
        self.echoes = Echoes()
        self.nodes: dict[str, Counts] = {}
        # What has happened to nodes and pods since rooms were last brought up to date.
        self.changed_nodes: dict[str, Node | None] = {}
        self.changed_pods: dict[Key, Pod | None] = {}
        self.scales: dict[TargetRef, ScaleAnswer] = {}
        # Called with each workload that a change concerns.
        self.on_change: Callable[[Workload], None] = lambda _workload: None
        # Called when an object is new: its target's scale may have to be asked for.
        self.on_new_target: Callable[[], None] = lambda: None
        self._watching = watching
        self._scope = scope
        self._family = Family(self._find)
        self._limits: dict[str, NamespaceLimits] = {}
        self._selections: dict[Workload, Selector] = {}
        self._hpas: defaultdict[Workload, dict[str, frozenset[str]]] = defaultdict(dict)
        self._switch: Mapping[str, str] | None = None
        self.owners = Owners({kind: each.get for kind, each in watching.workloads.items()}, self.scales)
        self._subscribe()

    def gather(self, workload: Workload, now: float) -> Gathered | None:
        """What is known of a workload; None if nothing governs it, or its pods cannot be told."""
        governing = self.governed.find(workload)
        if governing is None:
            return None
        selection = self._selection(workload, governing.governor.claim.target)
        if not isinstance(selection, Selector):
            return None
        below = list(self._family.below(workload))
        pods = tuple(
            self.echoes.as_it_will_be(pod, now)
            for each in below
            for pod in self._family.pods_of(each)
            if selection.matches(pod.metadata.labels)
        )
        namespace = workload[0]
        return Gathered(
            workload,
            governing.governor,
            pods,
            frozenset(GroupKey(kind, name) for _, kind, name in below),
            dict(self._configured(below)),
            self._limits.get(namespace, _UNLIMITED),
            frozenset().union(*self._hpas[workload].values()) if workload in self._hpas else frozenset(),
            self.frozen(namespace, governing),
        )

    def is_awaited(self, gathered: Gathered) -> bool:
        """Whether the watch has still to show what we did to one of the pods; its change will wake the workload."""
        return any(map(self.echoes.is_awaited, gathered.pods))

    def pod(self, namespace: str, name: str) -> Pod | None:
        """A pod as it is now."""
        return self._watching.pods.get(namespace, name)

    def scales_known(self, targets: Iterable[TargetRef]) -> None:
        """Scales were asked: what their targets select may be something else now."""
        for target in targets:
            workload = (target.namespace, target.kind, target.name)
            before = self._selections.pop(workload, None)
            if self._selection(workload, target) != before:
                self.on_change(workload)

    def _selection(self, workload: Workload, target: TargetRef) -> Selection:
        """What a target selects. A problem is not remembered: it may go away without a change of the target itself."""
        found: Selection | None = self._selections.get(workload)
        if found is None:
            found = select(target, self.owners)
            if isinstance(found, Selector):
                self._selections[workload] = found
        return found

    def _find(self, workload: Workload) -> KubeObject | None:
        namespace, kind, name = workload
        informer = self._watching.workloads.get(kind)
        return informer.get(namespace, name) if informer is not None else None

    def _concerns(self, namespace: str, controllers: Iterable[OwnerReference | None]) -> None:
        """Tell the governed controllers over something."""
        above = {each for controller in controllers for each in self._family.above(namespace, controller)}
        for workload in above:
            if workload in self.governed:
                self.on_change(workload)

    def _configured(self, below: Iterable[Workload]) -> Iterator[tuple[GroupKey, int]]:
        for workload in below:
            found = self._find(workload)
            count = configured_of(found) if found is not None else None
            if count is not None:
                yield GroupKey(*workload[1:]), count

    def frozen(self, namespace: str, governing: Governing) -> Freeze | None:
        """Who has stopped changes to the pods of an object there."""
        there = self._watching.namespaces.get("", namespace)
        annotations = there.metadata.annotations if there is not None else NOTHING
        return freeze_of(self._switch, annotations, governing.annotations)

    def _subscribe(self) -> None:
        watching = self._watching
        watching.vpas.subscribe(self._vpa_changed)
        if watching.hvpas is not None:
            watching.hvpas.subscribe(self._hvpa_changed)
        for kind, informer in watching.workloads.items():
            informer.subscribe(self._workload_changed(kind))
        watching.pods.subscribe(self._pod_changed)
        watching.limit_ranges.subscribe(self._limits_changed)
        watching.nodes.subscribe(self._node_changed)
        watching.namespaces.subscribe(self._namespace_changed)
        if watching.hpas is not None:
            watching.hpas.subscribe(self._hpa_changed)
        if watching.switch is not None:
            watching.switch.subscribe(self._switched)

    def _vpa_changed(self, change: Change[VerticalPodAutoscaler]) -> None:
        self._put(VPAS.kind, change.key, change.new if isinstance(change.new, GoverningVpa) else None)

    def _hvpa_changed(self, change: Change[Hvpa]) -> None:
        self._put(HVPAS.kind, change.key, change.new if isinstance(change.new, GoverningHvpa) else None)

    def _put(self, kind: str, key: Key, found: GoverningVpa | GoverningHvpa | None) -> None:
        if not self._scope.covers(key[0]):
            return
        governor = found.governor if found is not None else None
        governing = Governing(governor, found.metadata.annotations) if found is not None and governor else None
        known = len(self.governed)
        for workload in self.governed.put(kind, *key, governing):
            self.on_change(workload)
            if workload not in self.governed:
                self._selections.pop(workload, None)
        if len(self.governed) > known:
            self.on_new_target()

    def _pod_changed(self, change: Change[Pod]) -> None:
        old, new = change.old, change.new
        if self._watching.knows_rooms:
            self.changed_pods[change.key] = new
        awaited = old is not None and self.echoes.is_awaited(old)
        self._family.put_pod(change.key[1], old, new)
        if new is not None:
            self.echoes.seen(new)
        elif old is not None:
            self.echoes.gone(old.metadata.uid)
        if awaited or old is None or new is None or not _is_alike(old, new):
            self._concerns(change.key[0], (each.metadata.controller for each in (old, new) if each is not None))

    def _workload_changed(self, kind: str) -> Callable[[Change[Any]], None]:
        def changed(change: Change[Any]) -> None:
            old, new = change.old, change.new
            if old is not None and new is not None and _is_same(old, new):
                return
            namespace, name = change.key
            itself = (namespace, kind, name)
            self._selections.pop(itself, None)
            self._family.put_workload(itself, old, new)
            if itself in self.governed:
                self.on_change(itself)
            self._concerns(namespace, (each.metadata.controller for each in (old, new) if each is not None))

        return changed

    def _limits_changed(self, change: Change[LimitRange]) -> None:
        namespace = change.key[0]
        ranges = self._watching.limit_ranges.snapshot().by(BY_NAMESPACE, namespace)
        if ranges:
            self._limits[namespace] = read_limit_ranges(ranges)
        else:
            self._limits.pop(namespace, None)
        self._all_in(namespace)

    def _node_changed(self, change: Change[Node]) -> None:
        name = change.key[1]
        if self._watching.knows_rooms:
            self.changed_nodes[name] = change.new
        offered = counts(change.new.status.allocatable) if change.new is not None else None
        if offered != self.nodes.get(name):
            # Not changed in place: a plan may be reading it.
            others = {each: offers for each, offers in self.nodes.items() if each != name}
            self.nodes = others if offered is None else {**others, name: offered}

    def take_changes(self) -> tuple[dict[str, Node | None], dict[Key, Pod | None]]:
        """What has happened to nodes and pods since this was last asked."""
        changes = self.changed_nodes, self.changed_pods
        self.changed_nodes, self.changed_pods = {}, {}
        return changes

    def _namespace_changed(self, change: Change[KubeObject]) -> None:
        before, after = (
            each.metadata.annotations if each is not None else NOTHING for each in (change.old, change.new)
        )
        if before != after:
            self._all_in(change.key[1])

    def _hpa_changed(self, change: Change[HorizontalPodAutoscaler]) -> None:
        namespace, name = change.key
        for each in (change.old, change.new):
            if each is None:
                continue
            target = each.spec.scale_target_ref
            workload = (namespace, target.kind, target.name)
            resources = scaled_by([each])
            if each is change.new and resources:
                self._hpas[workload][name] = resources
            elif workload in self._hpas:
                leave(self._hpas, workload, name)
            if workload in self.governed:
                self.on_change(workload)

    def _switched(self, change: Change[Any]) -> None:
        self._switch = change.new.data if change.new is not None else None
        for workload in self.governed.workloads():
            self.on_change(workload)

    def _all_in(self, namespace: str) -> None:
        for workload in self.governed.in_namespace(namespace):
            self.on_change(workload)


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
