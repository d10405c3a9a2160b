"""Follows owner references upwards: from a pod's ReplicaSet to the Deployment that is a VPA's target.

A chain of controllers is followed through well-known kinds, whose objects are in the cache, and through kinds with a
scale subresource, whose scales have been fetched. It ends at an object without a controller, or below a controller of
another kind, which cannot be a target. A node "owns" its static pods; that counts as no controller.

`/scale` of the API server's own making names no owners, so a chain mostly ends with a custom resource. Reading the
object itself would need the right to read every kind there is, secrets among them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from trellis.api.kube.meta import KubeObject, OwnerReference
from trellis.api.kube.observed_workloads import ObservedObject
from trellis.core.cluster.target_problems import TARGET_FORBIDDEN, TARGET_UNREACHABLE, TargetProblem

WELL_KNOWN_KINDS: Final = frozenset(
    {"CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"}
)
_NODE: Final = "Node"
# These mean that the answer is not known yet; any other problem means that the kind or object cannot be a target.
_INCONCLUSIVE: Final = (TARGET_FORBIDDEN, TARGET_UNREACHABLE)

# An object by namespace and name, as `Snapshot.get` finds it.
ObjectLookup: TypeAlias = Callable[[str, str], KubeObject | ObservedObject | None]


class TargetRef(msgspec.Struct, frozen=True, gc=False):
    """The target of an autoscaler, or the controller of an object: a reference by name."""

    namespace: str
    api_version: str
    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.api_version}.{self.kind}/{self.name}"

    @property
    def is_well_known(self) -> bool:
        """Whether it is one of Kubernetes' own controllers, and not a kind of the same name in another API group.

        Groups of Kubernetes' workloads have no dot, and those of other people's kinds always have one, so that any
        group that a workload ever had will do, and none at all.
        """
        return self.kind in WELL_KNOWN_KINDS and "." not in self.api_version.rpartition("/")[0]

    def is_same(self, other: TargetRef) -> bool:
        """Whether both mean one object; people write `apps/v1beta1` or nothing where `apps/v1` is meant."""
        return (self.kind, self.name, self.namespace) == (other.kind, other.name, other.namespace)


class ScaleInfo(msgspec.Struct, frozen=True):
    """Content of a scale subresource: the selector of the pods and the controller, or why it could not be read."""

    selector: str = ""
    controller: OwnerReference | None = None
    problem: TargetProblem | None = None


class OwnerChain(msgspec.Struct, frozen=True):
    """The result of following a chain of controllers.

    `topmost` is None if unknown: then `unread_scale` is the object whose scale has to be read first, or `problem` says
    what is wrong. Neither is set for a chain without a target, such as that of a static pod.
    """

    topmost: TargetRef | None = None
    unread_scale: TargetRef | None = None
    problem: str = ""


class Owners:
    """What is known of controllers during one pass: well-known objects by kind, and answers of scales."""

    def __init__(self, well_known: Mapping[str, ObjectLookup], scales: Mapping[TargetRef, ScaleInfo]) -> None:
        self._well_known = well_known
        self._scales = scales

    def find(self, target: TargetRef) -> KubeObject | ObservedObject | None:
        """An object of a well-known kind, if it exists."""
        lookup = self._well_known.get(target.kind) if target.is_well_known else None
        return lookup(target.namespace, target.name) if lookup else None

    def scale(self, target: TargetRef) -> ScaleInfo | None:
        """The scale of an object, if it has been looked up."""
        return self._scales.get(target)

    def follow(self, start: TargetRef) -> OwnerChain:
        """The chain from a controller, itself included, to the topmost one that could be a target."""
        followed: list[TargetRef] = []
        current: TargetRef | None = start
        while current is not None and current.kind != _NODE:
            if current in followed:
                return OwnerChain(problem="cycle detected in ownership chain")
            if current.is_well_known:
                workload = self.find(current)
                if workload is None:
                    return OwnerChain(problem=describe_missing(current))
                controller = workload.metadata.controller
            else:
                scale = self.scale(current)
                if scale is None:
                    return OwnerChain(unread_scale=current)
                if scale.problem is not None:
                    if scale.problem.reason in _INCONCLUSIVE:
                        return OwnerChain(problem=scale.problem.message)
                    break
                controller = scale.controller
            followed.append(current)
            current = build_controller_ref(current.namespace, controller)
        return OwnerChain(followed[-1] if followed else None)

    def find_unread_scales(self, starts: Iterable[TargetRef]) -> frozenset[TargetRef]:
        """The objects whose scales have to be read to follow these chains further."""
        chains = map(self.follow, starts)
        return frozenset(chain.unread_scale for chain in chains if chain.unread_scale is not None)


def build_controller_ref(namespace: str, controller: OwnerReference | None) -> TargetRef | None:
    """A controller by name; owners are always of the same namespace, or of none."""
    if controller is None:
        return None
    return TargetRef(namespace, controller.api_version, controller.kind, controller.name)


def describe_missing(target: TargetRef) -> str:
    """That an object does not exist, in upstream's words."""
    return f"{target.kind} {target.namespace}/{target.name} does not exist"
