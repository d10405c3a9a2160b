"""What does a node autoscaler know of a pod? What it holds where it runs, or what it asks for while it waits.

Pods of one workload are mostly alike, so what was read of one is used for the next.
"""

from __future__ import annotations

from collections.abc import Container, Hashable
from typing import Final, Generic, TypeVar

import msgspec

from trellis.api.kube.pods import POD_SCHEDULED, Pod, PodSpec
from trellis.api.kube.slices import Labels
from trellis.core.buffers.newest import is_live
from trellis.core.buffers.pod_specs import shared_labels
from trellis.core.fit import Demand, Resident, Storage, volume_terms
from trellis.core.model.keys import Key

_FINISHED: Final = ("Succeeded", "Failed")
_UNSCHEDULABLE: Final = "Unschedulable"
_DAEMON_SET: Final = "DaemonSet"
MIRROR: Final = "kubernetes.io/config.mirror"
# Workloads whose last pod is remembered; a cluster that has more reads some pods again.
_MOST_REMEMBERED: Final = 8_192
# Different values kept for sharing; those before them stay as they are and are merely not shared any more.
_MOST_SHARED: Final = 65_536

T = TypeVar("T", bound=Hashable)


class PlacedPod(msgspec.Struct, frozen=True, gc=False):
    """A pod that has its node.

    `is_fixed` says that it belongs to the node: a DaemonSet or the kubelet made it, and it goes with the node.
    `is_expendable` says that it would make way for any other, so that it is not counted.
    """

    key: Key
    pod: Pod
    node: str
    demand: Demand
    resident: Resident
    is_fixed: bool = False
    is_expendable: bool = False

    @property
    def is_counted(self) -> bool:
        """Whether it takes room from others."""
        return not self.is_expendable


class PendingPod(msgspec.Struct, frozen=True, gc=False):
    """A pod that waits for a node. `is_unschedulable` says that the scheduler has looked and found none.

    `alone` are the claims for volumes that it names and that are for one pod.
    """

    key: Key
    uid: str
    demand: Demand
    priority: int
    is_unschedulable: bool
    alone: tuple[Key, ...] = ()


def is_finished(pod: Pod) -> bool:
    """Whether a pod has ended, and so holds nothing any more."""
    return pod.status.phase in _FINISHED


def is_fixed(pod: Pod) -> bool:
    """Whether a pod belongs to its node, and goes with it."""
    owner = pod.metadata.controller
    return MIRROR in pod.metadata.annotations or (owner is not None and owner.kind == _DAEMON_SET)


def waits_for_a_node(pod: Pod, least_priority: int) -> bool:
    """Whether a node is to be found for a pod: for none that is held back, is a DaemonSet's or expendable."""
    return (
        is_live(pod)
        and not pod.spec.scheduling_gates
        and not is_fixed(pod)
        and (pod.spec.priority or 0) >= least_priority
    )


def has_claims(pod: Pod) -> bool:
    """Whether claims for volumes have a say in where a pod may go."""
    return any(each.persistent_volume_claim is not None or each.ephemeral is not None for each in pod.spec.volumes)


def is_unschedulable(pod: Pod) -> bool:
    """Whether the scheduler says that it has no node for a pod."""
    said = pod.status.condition(POD_SCHEDULED)
    return said is not None and said.status == "False" and said.reason == _UNSCHEDULABLE


class Shared(Generic[T]):
    """One object for all values that are equal, so that pods of a kind hold the same."""

    def __init__(self) -> None:
        self._values: dict[T, T] = {}

    def one(self, value: T) -> T:
        """The object for a value."""
        if len(self._values) >= _MOST_SHARED:
            self._values.clear()
        return self._values.setdefault(value, value)


class Demands:
    """What pods that wait ask for. It raises for a pod that cannot be read."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[PodSpec, Labels, Demand]] = {}

    def read(self, pod: Pod, storage: Storage, in_use: Container[Key] = ()) -> Demand:
        """The demand of a pod; the labels that tell it from its like are left out, so that it is equal to theirs.

        `in_use` are claims that other pods have.
        """
        owner = pod.metadata.controller
        labels = shared_labels(pod.metadata.labels)
        if owner is not None and (known := self._last.get(owner.uid)) is not None:
            spec, before, demand = known
            if labels == before and pod.spec == spec:
                return demand
        metadata = msgspec.structs.replace(pod.metadata, labels=labels)
        terms = volume_terms(pod.spec, pod.metadata, storage, in_use) if pod.spec.volumes else ()
        demand = Demand.of(pod.spec, metadata=metadata, volumes=terms)
        # What becomes of claims changes where the pods that name them can go.
        if owner is not None and not has_claims(pod):
            if len(self._last) >= _MOST_REMEMBERED:
                self._last.clear()
            self._last[owner.uid] = (pod.spec, labels, demand)
        return demand
