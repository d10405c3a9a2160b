"""Pods as the node autoscaler reads them: placed, pending, or the chunks of Buffers; and the volume claims they use.

Pods of one workload are mostly equal, so the demand read from one is reused for the next. A ReadWriteOncePod claim may
be used by one pod alone, so pending pods with such a claim are read again when its use changes. A chunk is a number of
its Buffer, and never an object of the cluster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Iterable, Iterator
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from trellis.api.kinds.buffer import Buffer, PodCapacity
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.placement import PodResourceClaim
from trellis.api.kube.pods import POD_SCHEDULED, RESIZE_PENDING, Pod, PodSpec
from trellis.api.kube.slices import Labels
from trellis.api.resolve import Strategy, resolve_buffer
from trellis.base.errors import InvalidInput, UnreadableObject
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.core.buffers.pods import is_live, select_shared_labels
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.fit import Demand, ExistingPods, NodeTable, Occupancy, PodProfile, Storage, find_volume_terms
from trellis.core.fit.constraints.device_claims import DeviceDemand
from trellis.core.usage.columns import IntColumn

_FINISHED: Final = ("Succeeded", "Failed")
_UNSCHEDULABLE: Final = "Unschedulable"
_DAEMON_SET: Final = "DaemonSet"
MIRROR_POD_ANNOTATION: Final = "kubernetes.io/config.mirror"
# The workloads whose last pod is remembered; in a cluster with more, some pods are read again.
_MAX_REMEMBERED: Final = 8_192
# The different values that are shared; earlier ones are merely not shared any more.
_MAX_SHARED: Final = 65_536

T = TypeVar("T", bound=Hashable)


class PlacedPod(msgspec.Struct, frozen=True, gc=False):
    """A pod that has its node.

    `is_fixed` says that it belongs to the node: a DaemonSet or the kubelet made it, and it is removed with the node.
    `is_expendable` says that it makes way for any other pod, so that it is not counted and keeps no node.
    """

    key: ObjectKey
    pod: Pod
    node: str
    demand: Demand
    profile: PodProfile
    is_fixed: bool = False
    is_expendable: bool = False

    @property
    def is_counted(self) -> bool:
        """Whether its requests count."""
        return not self.is_expendable

    @property
    def is_drained(self) -> bool:
        """Whether a drain moves it: a removal waits until it has ended, and a replacement needs another node."""
        return not self.is_fixed and not self.is_expendable


class PendingPod(msgspec.Struct, frozen=True, gc=False):
    """A pod without a node. `is_unschedulable` says that the scheduler has found none for it.

    `exclusive_claims` are its ReadWriteOncePod claims. One that `replaces` stands for the replacement of a pod that
    has a node, and is no object of the cluster.
    """

    key: ObjectKey
    uid: str
    demand: Demand
    priority: int
    is_unschedulable: bool
    exclusive_claims: tuple[ObjectKey, ...] = ()
    replaces: bool = False


def is_finished(pod: Pod) -> bool:
    """Whether a pod has ended, and so uses no capacity any more."""
    return pod.status.phase in _FINISHED


def is_mirror_pod(pod: Pod) -> bool:
    """Whether a pod shows one of the kubelet, which no eviction ends."""
    return MIRROR_POD_ANNOTATION in pod.metadata.annotations


def is_daemon_or_mirror_pod(pod: Pod) -> bool:
    """Whether a pod belongs to its node, and is removed with it."""
    owner = pod.metadata.controller
    return is_mirror_pod(pod) or (owner is not None and owner.kind == _DAEMON_SET)


def is_expendable(pod: Pod, min_priority: int) -> bool:
    """Whether a pod makes way for any other; one without a priority does not, as in Cluster Autoscaler."""
    return pod.spec.priority is not None and pod.spec.priority < min_priority


def is_pending(pod: Pod, min_priority: int) -> bool:
    """Whether a pod needs a node: not if it is gated, belongs to a DaemonSet or a kubelet, or is expendable."""
    return (
        is_live(pod)
        and not pod.spec.scheduling_gates
        and not is_daemon_or_mirror_pod(pod)
        and not is_expendable(pod, min_priority)
    )


def has_volume_claims(pod: Pod) -> bool:
    """Whether volume claims restrict the nodes of a pod."""
    return any(
        volume.persistent_volume_claim is not None or volume.ephemeral is not None for volume in pod.spec.volumes
    )


def is_unschedulable(pod: Pod) -> bool:
    """Whether the scheduler reported that no node fits a pod."""
    condition = pod.status.find_condition(POD_SCHEDULED)
    return condition is not None and condition.status == "False" and condition.reason == _UNSCHEDULABLE


def is_resize_pending(pod: Pod) -> bool:
    """Whether the kubelet has deferred a resize of a pod that stays, or finds it infeasible."""
    condition = pod.status.find_condition(RESIZE_PENDING)
    return condition is not None and condition.status == "True" and pod.metadata.deletion_timestamp is None


class InternedValues(Generic[T]):
    """One object for all equal values, so that equal pods share it."""

    def __init__(self) -> None:
        self._values: dict[T, T] = {}

    def intern(self, value: T) -> T:
        """The object for a value."""
        if len(self._values) >= _MAX_SHARED:
            self._values.clear()
        return self._values.setdefault(value, value)


class DemandReader:
    """Reads the demands of pending pods. Raises `InvalidInput` for a pod that cannot be read."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[PodSpec, Labels, Demand]] = {}

    def read(self, pod: Pod, storage: Storage, in_use: Container[ObjectKey] = ()) -> Demand:
        """The demand of a pod, without the labels that differ between pods of a workload, so that theirs are equal.

        `in_use` are the claims of other pods.
        """
        owner = pod.metadata.controller
        labels = select_shared_labels(pod.metadata.labels)
        if owner is not None and (last := self._last.get(owner.uid)) is not None:
            spec, before, demand = last
            if labels == before and pod.spec == spec:
                return demand
        metadata = msgspec.structs.replace(pod.metadata, labels=labels)
        terms = find_volume_terms(pod.spec, pod.metadata, storage, in_use) if pod.spec.volumes else ()
        demand = Demand.of(pod.spec, metadata=metadata, volumes=terms)
        # The nodes of a pod with claims change with the claims.
        if owner is not None and not has_volume_claims(pod):
            if len(self._last) >= _MAX_REMEMBERED:
                self._last.clear()
            self._last[owner.uid] = (pod.spec, labels, demand)
        return demand


def depends_on_other_pods(demand: Demand) -> bool:
    """Whether rules about other pods restrict where such a pod fits."""
    return bool(demand.pod_affinity or demand.spread or demand.profile.anti_affinity)


def list_claims(pod: Pod) -> Iterator[ObjectKey]:
    """The claims that a pod names."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield pod.metadata.namespace, volume.persistent_volume_claim.claim_name


class ClaimUsage:
    """Counts placed pods by the claims they name, and lists the pending pods of each ReadWriteOncePod claim."""

    def __init__(self) -> None:
        self._counts: Counter[ObjectKey] = Counter()
        self._waiting: dict[ObjectKey, dict[ObjectKey, Pod]] = {}

    def __contains__(self, claim: object) -> bool:
        return claim in self._counts

    def list_waiting(self, claim: ObjectKey) -> list[Pod]:
        """The pods that wait for a ReadWriteOncePod claim."""
        return [*self._waiting.get(claim, {}).values()]

    def add_waiting(self, pod: Pod, claims: Iterable[ObjectKey]) -> None:
        """Record a pending pod with its ReadWriteOncePod claims."""
        for claim in claims:
            self._waiting.setdefault(claim, {})[key_of(pod)] = pod

    def remove_waiting(self, pod: Pod) -> None:
        """Remove a pending pod."""
        for claim in list_claims(pod):
            list_waiting = self._waiting.get(claim, {})
            list_waiting.pop(key_of(pod), None)
            if not list_waiting:
                self._waiting.pop(claim, None)

    def add(self, pod: Pod) -> set[ObjectKey]:
        """Count a pod that has a node; return the claims that no pod used before."""
        before = {claim for claim in list_claims(pod) if claim not in self._counts}
        self._counts.update(list_claims(pod))
        return before

    def remove(self, pod: Pod) -> set[ObjectKey]:
        """Stop counting a pod; return the claims that no pod uses now."""
        self._counts.subtract(list_claims(pod))
        free = {claim for claim in list_claims(pod) if not self._counts[claim]}
        for claim in free:
            del self._counts[claim]
        return free


class PlacedPods(NamedTuple):
    """Pods on the nodes of one table: all pods, or those alone that belong to their nodes."""

    used: Occupancy
    existing_pods: ExistingPods

    @classmethod
    def empty(cls, table: NodeTable) -> PlacedPods:
        """No pods, on the nodes of a table."""
        return cls(Occupancy(table), ExistingPods(table))

    def add(self, number: int, demand: Demand, profile: PodProfile) -> None:
        """Add a pod to a node."""
        self.used.add(number, demand)
        self.existing_pods.add(number, profile)

    def remove(self, number: int, demand: Demand, profile: PodProfile) -> None:
        """Remove a pod that was added with these values."""
        self.used.remove(number, demand)
        self.existing_pods.remove(number, profile)

    def add_many(self, numbers: IntColumn, demand: Demand, times: IntColumn) -> None:
        """Add equal pods to several distinct nodes, `times` to each; a negative number removes some."""
        self.used.add_many(numbers, demand, times)
        self.existing_pods.add_many(numbers, demand.profile, times)

    def copy(self) -> PlacedPods:
        """A copy for a simulation."""
        return PlacedPods(self.used.copy(), self.existing_pods.copy())


CHUNKS_UNREADABLE = Reason("ChunksUnreadable", "The pod template in the Buffer's status is invalid.", Severity.ERROR)

_MAX_CHUNKS = 100_000


class BufferChunks(msgspec.Struct, frozen=True):
    """The chunks of one Buffer, numbered from 0 to `count` - 1.

    Chunks `on_top` are kept beside all running pods. The others are counted as if only DaemonSet and mirror pods ran:
    capacity counts whether it is used or not.
    """

    key: ObjectKey
    uid: str
    count: int
    demand: Demand
    on_top: bool = True
    priority: int = 0
    device_claims: tuple[PodResourceClaim, ...] = ()

    def with_devices(self, devices: DeviceDemand) -> BufferChunks:
        """The chunks with what their resource claims request."""
        return msgspec.structs.replace(self, demand=self.demand.with_devices(devices))

    @property
    def origin(self) -> str:
        """The object that they belong to."""
        return f"Buffer {self.key[0]}/{self.key[1]}"

    def get_name(self, number: int) -> str:
        """The name of one chunk. It never changes, and no pod can have it."""
        return f"{self.uid}#{number}"


def sort_for_placement(buffers: Iterable[BufferChunks]) -> list[BufferChunks]:
    """Buffers in the order of placement: by priority, then those with a node selector or affinity before others.

    Chunks that fit anywhere would otherwise take the only nodes of the others, and a node would be ordered although
    all of them fit.
    """
    return sorted(buffers, key=lambda chunks: (-chunks.priority, not _is_constrained(chunks.demand), chunks.key))


def _is_constrained(demand: Demand) -> bool:
    return bool(demand.selector) or demand.node_affinity is not None


def read_chunks(buffer: Buffer) -> BufferChunks | DetailedReason | None:
    """The chunks, or the reason why they are unreadable; None if the Buffer is not ours or not translated yet."""
    meaning = resolve_buffer(buffer)
    pods = buffer.status.pod_based_buffer_spec if buffer.status is not None else None
    if not meaning.is_active_capacity or pods is None or buffer.metadata.deletion_timestamp is not None:
        return None
    count = pods.replica_num or 0
    if not 0 <= count <= _MAX_CHUNKS:
        return DetailedReason(
            CHUNKS_UNREADABLE, f"status.podBasedBufferSpec.replicaNum: {count} is not 0 to {_MAX_CHUNKS}"
        )
    try:
        spec, demand = _read_pod_template(pods, buffer.metadata.namespace)
    except (UnreadableObject, InvalidInput) as error:
        return DetailedReason(CHUNKS_UNREADABLE, f"status.podBasedBufferSpec.podSpec: {error}")
    on_top = meaning.strategy is Strategy.KEEP_EMPTY or meaning.filled_by is not None
    return BufferChunks(
        key_of(buffer), buffer.metadata.uid, count, demand, on_top, spec.priority or 0, spec.resource_claims
    )


def _read_pod_template(pods: PodCapacity, namespace: str) -> tuple[PodSpec, Demand]:
    spec = convert_object(dict(pods.pod_spec or {}), PodSpec)
    metadata = ObjectMeta(namespace=namespace, labels=pods.pod_labels or {})
    return spec, Demand.of(msgspec.structs.replace(spec, node_name="", volumes=()), metadata=metadata)
