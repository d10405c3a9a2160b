"""Indexes of the workload cache: governors by target, controllers and pods by owner, and constraints by namespace.

Of several objects that name a workload as their target, the most senior governs it, in whatever order they came. From a
target the owner index leads down to its pods, and from a pod up to the targets that it may belong to, without a walk
past pods of other owners.

Constraints are LimitRanges, freezes, and HPAs that scale the workload by utilization. Utilization is usage as a share
of requests, so a change of a request changes what the HPA does: a lower request is a higher utilization, more replicas,
less usage each, and a lower recommendation. Metrics by average value do not depend on requests, and do not conflict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from trellis.api.kube.meta import KubeObject, OwnerReference
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.kube.slices import NOTHING, Labels
from trellis.core.cluster.owners import TargetRef
from trellis.core.cluster.store import ObjectKey
from trellis.core.recommend.amounts import RESOURCES
from trellis.core.recommend.capping import NamespaceLimits, read_limit_ranges
from trellis.core.resize.freeze import Freeze, find_freeze
from trellis.core.sizing.governors import Governor

# Namespace, kind and name of a target or of any other controller. The version is not in it: people write any that the
# kind ever had.
WorkloadKey: TypeAlias = tuple[str, str, str]


class AnnotatedGovernor(msgspec.Struct, frozen=True):
    """A governor and the annotations of its object."""

    governor: Governor
    annotations: Labels = NOTHING


class WorkloadGovernors:
    """Governors by target."""

    def __init__(self) -> None:
        # By kind, namespace and name of the object.
        self._objects: dict[tuple[str, str, str], AnnotatedGovernor] = {}
        self._by_target: dict[WorkloadKey, tuple[AnnotatedGovernor, ...]] = {}
        self._by_namespace: dict[str, dict[WorkloadKey, None]] = {}

    def __len__(self) -> int:
        return len(self._by_target)

    def __contains__(self, workload: WorkloadKey) -> bool:
        return workload in self._by_target

    def list_workloads(self) -> tuple[WorkloadKey, ...]:
        return tuple(self._by_target)

    def find(self, workload: WorkloadKey) -> AnnotatedGovernor | None:
        """The governor of a workload, if it has one."""
        rivals = self._by_target.get(workload)
        return rivals[0] if rivals else None

    def list_in_namespace(self, namespace: str) -> Collection[WorkloadKey]:
        """The governed workloads there."""
        return tuple(self._by_namespace.get(namespace, ()))

    def list_names(self) -> set[tuple[str, str]]:
        """Name and namespace of each object."""
        return {(name, namespace) for _, namespace, name in self._objects}

    def count_by_kind(self) -> Counter[str]:
        """How many objects there are of each kind."""
        return Counter(kind for kind, _, _ in self._objects)

    def list_scaled_targets(self) -> set[TargetRef]:
        """Targets whose selector is known from their scale alone."""
        targets = (rivals[0].governor.claim.target for rivals in self._by_target.values())
        return {target for target in targets if not target.is_well_known and target.name}

    def list_targets(self) -> set[TargetRef]:
        return {rivals[0].governor.claim.target for rivals in self._by_target.values()}

    def put(self, kind: str, namespace: str, name: str, governing: AnnotatedGovernor | None) -> tuple[WorkloadKey, ...]:
        """Add, replace or (without a governor) remove an object; the affected workloads."""
        old = self._objects.pop((kind, namespace, name), None)
        if old is not None and governing is not None and self._replace_only_governor(old, governing):
            self._objects[kind, namespace, name] = governing
            return (get_target_key(governing),)
        affected: dict[WorkloadKey, None] = {}
        if old is not None:
            affected[get_target_key(old)] = None
            self._remove(old)
        if governing is not None:
            self._objects[kind, namespace, name] = governing
            workload = get_target_key(governing)
            rivals = (*self._by_target.get(workload, ()), governing)
            # The first governs.
            self._by_target[workload] = tuple(sorted(rivals, key=lambda rival: rival.governor.claim.seniority))
            self._by_namespace.setdefault(namespace, {})[workload] = None
            affected[workload] = None
        return tuple(affected)

    def _replace_only_governor(self, old: AnnotatedGovernor, new: AnnotatedGovernor) -> bool:
        """Replace in place the only governor of an unchanged target, if it is that: nearly every change is."""
        workload = get_target_key(old)
        if new.governor.claim != old.governor.claim or len(self._by_target[workload]) > 1:
            return False
        self._by_target[workload] = (new,)
        return True

    def _remove(self, old: AnnotatedGovernor) -> None:
        workload = get_target_key(old)
        rest = tuple(rival for rival in self._by_target[workload] if rival is not old)
        if rest:
            self._by_target[workload] = rest
            return
        del self._by_target[workload]
        in_namespace = self._by_namespace[workload[0]]
        del in_namespace[workload]
        if not in_namespace:
            del self._by_namespace[workload[0]]


def get_target_key(governing: AnnotatedGovernor) -> WorkloadKey:
    """The key of an object's target."""
    target = governing.governor.claim.target
    return target.namespace, target.kind, target.name


K = TypeVar("K")
V = TypeVar("V")

# A chain of controllers is never this long, unless it is a circle.
_DEEPEST: Final = 10


class OwnerIndex:
    """Pods and workloads by owner; `find` looks up a workload of a watched kind."""

    def __init__(self, find: Callable[[WorkloadKey], KubeObject | None]) -> None:
        self._find = find
        self._pods: dict[WorkloadKey, dict[str, Pod]] = {}
        self._children: dict[WorkloadKey, dict[WorkloadKey, None]] = {}

    def put_pod(self, name: str, old: Pod | None, new: Pod | None) -> None:
        """Add, replace or remove a pod."""
        if old is not None and old.metadata.controller is not None:
            remove_member(self._pods, _get_controller_key(old), name)
        if new is not None and new.metadata.controller is not None:
            self._pods.setdefault(_get_controller_key(new), {})[name] = new

    def put_workload(self, workload: WorkloadKey, old: KubeObject | None, new: KubeObject | None) -> None:
        """Add, replace or remove a workload."""
        if old is not None and old.metadata.controller is not None:
            remove_member(self._children, _get_controller_key(old), workload)
        if new is not None and new.metadata.controller is not None:
            self._children.setdefault(_get_controller_key(new), {})[workload] = None

    def list_pods(self, workload: WorkloadKey) -> Iterator[Pod]:
        """The pods that a workload controls directly, in the order in which they were added."""
        return iter(self._pods.get(workload, {}).values())

    def walk_down(self, workload: WorkloadKey) -> Iterator[WorkloadKey]:
        """A controller and all controllers below it."""
        visited = {workload}
        waiting = [workload]
        while waiting:
            current = waiting.pop()
            yield current
            for child in self._children.get(current, ()):
                if child not in visited:
                    visited.add(child)
                    waiting.append(child)

    def walk_up(self, namespace: str, controller: OwnerReference | None) -> Iterator[WorkloadKey]:
        """A controller and all controllers above it."""
        for _ in range(_DEEPEST):
            if controller is None:
                return
            current = (namespace, controller.kind, controller.name)
            yield current
            owner = self._find(current)
            controller = owner.metadata.controller if owner is not None else None


def remove_member(index: dict[WorkloadKey, dict[K, V]], group: WorkloadKey, member: K) -> None:
    """Remove a member from a group, and the group from the index if it is empty."""
    members = index.get(group)
    if members is not None:
        members.pop(member, None)
        if not members:
            del index[group]


def _get_controller_key(child: Any) -> WorkloadKey:
    controller = child.metadata.controller
    return child.metadata.namespace, controller.kind, controller.name


_UTILIZATION: Final = "Utilization"


def find_utilization_resources(hpas: Iterable[HorizontalPodAutoscaler]) -> frozenset[str]:
    """CPU or memory, or both, if an HPA scales by their utilization, be it of one container only."""
    sources = (metric.resource or metric.container_resource for hpa in hpas for metric in hpa.spec.metrics)
    return frozenset(
        source.name
        for source in sources
        if source is not None and source.target.type == _UTILIZATION and source.name in RESOURCES
    )


_UNLIMITED: Final = NamespaceLimits()


class WorkloadConstraints:
    """The constraints of all workloads."""

    def __init__(self) -> None:
        self._limits: dict[str, NamespaceLimits] = {}
        self._namespaces: dict[str, Labels] = {}
        self._freeze_config: Mapping[str, str] | None = None
        # By target and by name of the HPA.
        self._hpas: dict[WorkloadKey, dict[str, frozenset[str]]] = {}

    def get_limits(self, namespace: str) -> NamespaceLimits:
        """The limits that LimitRanges set in a namespace."""
        return self._limits.get(namespace, _UNLIMITED)

    def get_hpa_resources(self, workload: WorkloadKey) -> frozenset[str]:
        """The resources by whose utilization HPAs scale a workload."""
        return frozenset().union(*self._hpas.get(workload, {}).values())

    def find_freeze(self, namespace: str, annotations: Labels) -> Freeze | None:
        """The freeze in force; `annotations` are those of the governing object."""
        return find_freeze(self._freeze_config, self._namespaces.get(namespace, NOTHING), annotations)

    def put_limits(self, namespace: str, ranges: Iterable[LimitRange]) -> None:
        """Replace the LimitRanges of a namespace."""
        limit_ranges = tuple(ranges)
        if limit_ranges:
            self._limits[namespace] = read_limit_ranges(limit_ranges)
        else:
            self._limits.pop(namespace, None)

    def put_namespace(self, name: str, annotations: Labels) -> bool:
        """Replace the annotations of a namespace; whether they differ."""
        if annotations == self._namespaces.get(name, NOTHING):
            return False
        if annotations:
            self._namespaces[name] = annotations
        else:
            del self._namespaces[name]
        return True

    def put_freeze_config(self, data: Mapping[str, str] | None) -> None:
        """Replace the data of the ConfigMap that freezes the cluster."""
        self._freeze_config = data

    def put_hpa(
        self, key: ObjectKey, old: HorizontalPodAutoscaler | None, new: HorizontalPodAutoscaler | None
    ) -> tuple[WorkloadKey, ...]:
        """Add, replace or remove an HPA; the workloads that it scales or scaled."""
        affected: dict[WorkloadKey, None] = {}
        for hpa in (old, new):
            if hpa is None:
                continue
            target = hpa.spec.scale_target_ref
            workload = (key[0], target.kind, target.name)
            affected[workload] = None
            resources = find_utilization_resources([hpa])
            if hpa is new and resources:
                self._hpas.setdefault(workload, {})[key[1]] = resources
            else:
                remove_member(self._hpas, workload, key[1])
        return tuple(affected)
