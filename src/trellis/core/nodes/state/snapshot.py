"""The cluster snapshot of the node autoscaler, in columns, kept current change by change.

The snapshot belongs to the thread that plans. Changes accumulate between passes and are put into it at the start of the
next; the cost of each is that of its object, so a pass begins with everything counted. An object that cannot be read is
listed as a problem and affects no other. A node belongs to the instance that names it, or whose id is its
`spec.providerID`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from trellis.api.kinds.buffer import Buffer
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod, PodTemplate
from trellis.api.kube.provisioning.pod_groups import PodGroup
from trellis.api.kube.provisioning.requests import ProvisioningRequest
from trellis.api.kube.slices import NOTHING, Labels
from trellis.api.kube.workloads import DaemonSet
from trellis.base.errors import InvalidInput
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.fit import (
    Demand,
    NodeTable,
    PodProfile,
    Storage,
    build_daemon_demand,
    is_read_write_once_pod,
    read_running_demand,
)
from trellis.core.fit.constraints.device_claims import DeviceObjects
from trellis.core.nodes.node_groups import GroupState, Instance
from trellis.core.nodes.provisioning.pod_groups import PodGroups
from trellis.core.nodes.provisioning.requests import ProvisioningRequests
from trellis.core.nodes.state.devices import DeviceClaims, LeftAlonePod
from trellis.core.nodes.state.growth import PodGrowth
from trellis.core.nodes.state.node_devices import DeviceCounts, with_declared_devices, with_devices
from trellis.core.nodes.state.pods import (
    BufferChunks,
    ClaimUsage,
    DemandReader,
    InternedValues,
    PendingPod,
    PlacedPod,
    PlacedPods,
    has_volume_claims,
    is_daemon_or_mirror_pod,
    is_expendable,
    is_finished,
    is_pending,
    is_resize_pending,
    is_unschedulable,
    list_claims,
    read_chunks,
)
from trellis.core.nodes.state.recommended_sizes import RecommendedSize


class NodeInstances(msgspec.Struct, frozen=True):
    """The group and instance of each node, and the node of each instance that is registered."""

    instances: Mapping[str, tuple[str, Instance]] = {}
    nodes: Mapping[tuple[str, str], str] = {}


def match_instances(groups: Iterable[GroupState], nodes: Mapping[str, Node]) -> NodeInstances:
    """Match nodes with the instances of groups, by name or by provider ID."""
    instances: dict[str, tuple[str, Instance]] = {}
    unnamed: dict[str, tuple[str, Instance]] = {}
    for state in groups:
        for instance in state.instances:
            if instance.node:
                instances[instance.node] = (state.group.name, instance)
            else:
                unnamed[instance.id] = (state.group.name, instance)
    for name, node in nodes.items() if unnamed else ():
        member = unnamed.get(node.spec.provider_id)
        if member is not None:
            instances.setdefault(name, member)
    return NodeInstances(
        instances, {(group, instance.id): name for name, (group, instance) in instances.items() if name in nodes}
    )


DEMAND_UNREADABLE = Reason("PodDemandUnreadable", "The node requirements of the pod are invalid.", Severity.WARNING)

# Pods below this priority make way for others, and no node is added for them.
EXPENDABLE_PODS_PRIORITY_CUTOFF: Final = -10


class NodesAndPods:
    """All nodes and pods. In each `put`, None says that the object was deleted.

    `running` has all pods that count, `fixed` those of them that belong to their nodes. Both have numbers of `table`.
    `left_alone` are pending pods whose resource claims are not modelled.
    """

    def __init__(self, expendable_below: int = EXPENDABLE_PODS_PRIORITY_CUTOFF) -> None:
        self.table = NodeTable()
        self.running = PlacedPods.empty(self.table)
        self.fixed = PlacedPods.empty(self.table)
        self.nodes: dict[str, Node] = {}
        self.placed: dict[ObjectKey, PlacedPod] = {}
        self.pending: dict[ObjectKey, PendingPod] = {}
        self.left_alone: dict[ObjectKey, LeftAlonePod] = {}
        self.device_claims = DeviceClaims()
        self._with_device_claims: dict[ObjectKey, Pod] = {}
        # The problems of objects that cannot be read, by kind, namespace and name.
        self.problems: dict[tuple[str, ObjectKey], DetailedReason] = {}
        self._expendable_below = expendable_below
        self.storage = Storage()
        self._demand_reader = DemandReader()
        self._pods_by_node: dict[str, dict[ObjectKey, PlacedPod]] = {}
        self._with_volumes: dict[ObjectKey, Pod] = {}
        self._claim_usage = ClaimUsage()
        # Pods with a nominated node that are not bound yet.
        self._nominated: dict[ObjectKey, Pod] = {}
        self._arrived: dict[str, int] = {}
        # Pods whose resize the kubelet has deferred, or finds infeasible.
        self.pending_resizes: dict[ObjectKey, PlacedPod] = {}
        self.growth = PodGrowth(self.table)
        self._demands: InternedValues[Demand] = InternedValues()
        self._profiles: InternedValues[PodProfile] = InternedValues()

    def pods_on(self, node: str) -> Mapping[ObjectKey, PlacedPod]:
        """The pods on a node; not to be changed."""
        return self._pods_by_node.get(node, {})

    def pop_arrivals(self) -> dict[str, int]:
        """Return the number of pods placed on each node since the last call; DaemonSet and mirror pods do not count."""
        arrived, self._arrived = self._arrived, {}
        return arrived

    def restore_arrivals(self, arrived: dict[str, int]) -> None:
        """Restore the arrivals that were popped last."""
        self._arrived = arrived

    def put_node(self, name: str, node: Node | None) -> None:
        number = self.table.find(name)
        if node is not None:
            self.nodes[name] = node
            if number < 0:
                number = self.table.update(node)
                # Pods may be observed before their node.
                for pod in self.pods_on(name).values():
                    self._count(number, pod)
                self._reread_nominated(name)
            else:
                self.table.update(node)
        elif number >= 0:
            del self.nodes[name]
            for pod in self.pods_on(name).values():
                self._uncount(number, pod)
            self.table.remove(name)
            # In a process that does not lead no plan pops arrivals, and names would pile up.
            self._arrived.pop(name, None)
            self._reread_nominated(name)

    def put_pod(self, key: ObjectKey, pod: Pod | None) -> None:
        previous_node = self._forget(key)
        if pod is None or is_finished(pod):
            self.growth.forget(key)
            return
        if pod.spec.resource_claims:
            self._with_device_claims[key] = pod
            self._reread_with_device_claims(self.device_claims.add_pod(pod))
        node = pod.spec.node_name
        if not node and pod.status.nominated_node_name:
            self._nominated[key] = pod
            # A pod that is nominated for a node counts as placed there: others make way for it already. The nomination
            # of a node that was deleted is void, and the scheduler may not notice for minutes.
            node = pod.status.nominated_node_name if pod.status.nominated_node_name in self.nodes else ""
        if node:
            placed = self._place(key, pod, node)
            if node != previous_node and not placed.is_fixed:
                self._arrived[node] = self._arrived.get(node, 0) + 1
        elif is_pending(pod, self._expendable_below):
            self._read_pending(key, pod)

    def put_recommended_size(self, key: ObjectKey, size: RecommendedSize | None) -> None:
        """What is recommended for a pod on a node; None: nothing."""
        self.growth.put_size(key, size, self.placed.get(key))

    def put_namespace(self, name: str, labels: Labels | None) -> None:
        """The labels of a namespace."""
        for pods in (self.running, self.fixed):
            pods.existing_pods.put_namespace_labels(name, labels or NOTHING)

    def put_storage(self, storage: Storage) -> None:
        """All claims, volumes and classes; pods that wait with volumes are read again."""
        self.storage = storage
        for key, pod in [*self._with_volumes.items()]:
            self._claim_usage.remove_waiting(pod)
            self._read_pending(key, pod)

    def _reread_nominated(self, node: str) -> None:
        """Read the pods that are nominated for a node again after it was added or deleted."""
        for key, pod in [*self._nominated.items()]:
            if pod.status.nominated_node_name == node:
                self.put_pod(key, pod)

    def _read_pending(self, key: ObjectKey, pod: Pod) -> None:
        """Read the demand of a pending pod, also if it was read before."""
        exclusive_claims: tuple[ObjectKey, ...] = ()
        if has_volume_claims(pod):
            self._with_volumes[key] = pod
            exclusive_claims = tuple(
                claim for claim in list_claims(pod) if is_read_write_once_pod(self.storage.claims.get(claim))
            )
            self._claim_usage.add_waiting(pod, exclusive_claims)
        try:
            demand = self._demand_reader.read(pod, self.storage, self._claim_usage)
        except InvalidInput as error:
            self.problems["Pod", key] = DetailedReason(DEMAND_UNREADABLE, str(error))
            return
        if pod.spec.resource_claims:
            devices = self.device_claims.read_pending(pod)
            if isinstance(devices, DetailedReason):
                self.pending.pop(key, None)
                self.left_alone[key] = LeftAlonePod(devices, is_unschedulable(pod))
                return
            self.left_alone.pop(key, None)
            demand = demand.with_devices(devices)
        demand = self._demands.intern(demand)
        priority = pod.spec.priority or 0
        self.pending[key] = PendingPod(key, pod.metadata.uid, demand, priority, is_unschedulable(pod), exclusive_claims)

    def _place(self, key: ObjectKey, pod: Pod, node: str) -> PlacedPod:
        try:
            demand = self._demands.intern(read_running_demand(pod))
        except InvalidInput as error:
            self.problems["Pod", key] = DetailedReason(DEMAND_UNREADABLE, str(error))
            demand = Demand()
        profile = self._profiles.intern(PodProfile.of(pod))
        is_fixed, expendable = is_daemon_or_mirror_pod(pod), is_expendable(pod, self._expendable_below)
        placed = PlacedPod(key, pod, node, demand, profile, is_fixed, expendable)
        self.placed[key] = placed
        self._pods_by_node.setdefault(node, {})[key] = placed
        if is_resize_pending(pod) and placed.is_drained:
            self.pending_resizes[key] = placed
        self._count(self.table.find(node), placed)
        if pod.spec.volumes:
            self._reread_waiting(self._claim_usage.add(pod))
        return placed

    def _forget(self, key: ObjectKey) -> str:
        """Forget a pod; return the node it was on."""
        self.problems.pop(("Pod", key), None)
        self._nominated.pop(key, None)
        self.pending.pop(key, None)
        waiting_pod = self._with_volumes.pop(key, None)
        if waiting_pod is not None:
            self._claim_usage.remove_waiting(waiting_pod)
        self.left_alone.pop(key, None)
        pod_with_claims = self._with_device_claims.pop(key, None)
        if pod_with_claims is not None:
            self._reread_with_device_claims(self.device_claims.remove_pod(pod_with_claims))
        placed = self.placed.pop(key, None)
        if placed is None:
            return ""
        self.pending_resizes.pop(key, None)
        self._uncount(self.table.find(placed.node), placed)
        pods_on_node = self._pods_by_node[placed.node]
        del pods_on_node[key]
        if not pods_on_node:
            del self._pods_by_node[placed.node]
        if placed.pod.spec.volumes:
            self._reread_waiting(self._claim_usage.remove(placed.pod))
        return placed.node

    def _reread_waiting(self, claims: set[ObjectKey]) -> None:
        """Read pending pods with these ReadWriteOncePod claims again, because the use of the claims changed."""
        for claim in claims:
            for pod in self._claim_usage.list_waiting(claim):
                self._read_pending(key_of(pod), pod)

    def _reread_with_device_claims(self, keys: Iterable[ObjectKey]) -> None:
        """Read pending pods with resource claims again, because what these are has changed."""
        for key in sorted(keys):
            if key in self.pending or key in self.left_alone:
                self._read_pending(key, self._with_device_claims[key])

    def _count(self, number: int, placed: PlacedPod) -> None:
        for pods in self._select_placed_pods(placed):
            pods.add(number, placed.demand, placed.profile)
        self.growth.add_pod(number, placed)

    def _uncount(self, number: int, placed: PlacedPod) -> None:
        for pods in self._select_placed_pods(placed):
            pods.remove(number, placed.demand, placed.profile)
        self.growth.remove_pod(number, placed.key)

    def _select_placed_pods(self, placed: PlacedPod) -> Iterator[PlacedPods]:
        if placed.is_counted:
            yield self.running
            if placed.is_fixed:
                yield self.fixed


DAEMON_SET_UNREADABLE = Reason(
    "DaemonSetUnreadable", "The node requirements of the DaemonSet's pods are invalid.", Severity.WARNING
)


class ClusterSnapshot(NodesAndPods):
    """All nodes and pods, and with them Buffers, DaemonSets and groups."""

    def __init__(self, expendable_below: int = EXPENDABLE_PODS_PRIORITY_CUTOFF) -> None:
        super().__init__(expendable_below)
        self.buffers: dict[ObjectKey, BufferChunks] = {}
        self.daemons: dict[ObjectKey, Demand] = {}
        self.groups: dict[str, GroupState] = {}
        self.provisioning = ProvisioningRequests()
        self.pod_groups = PodGroups()
        # As the provider reports them, without devices in their templates.
        self._reported_groups: dict[str, GroupState] = {}
        self._node_instances: NodeInstances | None = None
        self._device_counts = DeviceCounts()
        # The used devices as they are counted, by node.
        self._used_devices: dict[str, Demand] = {}
        self._buffers_with_claims: dict[ObjectKey, Buffer] = {}

    @property
    def node_instances(self) -> NodeInstances:
        """Which node belongs to which instance."""
        if self._node_instances is None:
            self._node_instances = match_instances(self.groups.values(), self.nodes)
        return self._node_instances

    def find_group(self, node: str) -> GroupState | None:
        """The group of a node; None if it has none."""
        member = self.node_instances.instances.get(node)
        return self.groups.get(member[0]) if member is not None else None

    def put_node(self, name: str, node: Node | None) -> None:
        before = self.nodes.get(name)
        used = self._used_devices.pop(name, None)
        if used is not None:
            self.running.used.remove(self.table.find(name), used)
        devices = self._device_counts.find(name)
        if node is not None and self.device_claims.objects.known:
            node = with_devices(node, devices.offered if devices is not None else {})
        super().put_node(name, node)
        if node is not None and devices is not None:
            self.running.used.add(self.table.find(name), devices.used)
            self._used_devices[name] = devices.used
        if before is None or node is None or before.spec.provider_id != node.spec.provider_id:
            self._node_instances = None

    def put_pod(self, key: ObjectKey, pod: Pod | None) -> None:
        super().put_pod(key, pod)
        self.provisioning.put_pod(key, pod)
        self.pod_groups.put_pod(key, pod)

    def put_groups(self, states: Iterable[GroupState]) -> None:
        self._reported_groups = {state.group.name: state for state in states}
        self._node_instances = None
        if self.device_claims.declare_classes(state.group for state in self._reported_groups.values()):
            self._reread_with_device_claims(self._with_device_claims)
            self._reread_buffers_with_claims()
        self._show_devices()

    def put_devices(self, objects: DeviceObjects) -> None:
        """All resource claims, their templates and published devices."""
        self._reread_with_device_claims(self.device_claims.put_objects(objects))
        self._reread_buffers_with_claims()
        self._show_devices()

    def get_used_devices(self, node: str) -> Demand | None:
        """The devices of a node that claims have; None if there are none."""
        return self._used_devices.get(node)

    def put_buffer(self, key: ObjectKey, buffer: Buffer | None) -> None:
        self.buffers.pop(key, None)
        self.problems.pop(("Buffer", key), None)
        self._buffers_with_claims.pop(key, None)
        chunks = read_chunks(buffer) if buffer is not None else None
        if buffer is not None and isinstance(chunks, BufferChunks) and chunks.device_claims:
            self._buffers_with_claims[key] = buffer
            devices = self.device_claims.read_chunk(key[0], chunks.device_claims)
            chunks = devices if isinstance(devices, DetailedReason) else chunks.with_devices(devices)
        if isinstance(chunks, DetailedReason):
            self.problems["Buffer", key] = chunks
        elif chunks is not None:
            self.buffers[key] = chunks

    def put_daemon_set(self, key: ObjectKey, daemon_set: DaemonSet | None) -> None:
        self.daemons.pop(key, None)
        self.problems.pop(("DaemonSet", key), None)
        if daemon_set is None:
            return
        try:
            self.daemons[key] = build_daemon_demand(daemon_set)
        except InvalidInput as error:
            self.problems["DaemonSet", key] = DetailedReason(DAEMON_SET_UNREADABLE, str(error))

    def _reread_buffers_with_claims(self) -> None:
        for key, buffer in [*self._buffers_with_claims.items()]:
            self.put_buffer(key, buffer)

    def _show_devices(self) -> None:
        """Show the devices of groups, and those of nodes where they have changed."""
        self.groups = self._reported_groups
        if self.device_claims.objects.known:
            self.groups = {name: with_declared_devices(state) for name, state in self.groups.items()}
        declaring = {name: state.group.devices for name, state in self.groups.items() if state.group.devices}
        members = self.node_instances.instances.items() if declaring else ()
        declared = {node: declaring[group] for node, (group, _) in members if group in declaring}
        for name in self._device_counts.update(self.device_claims.objects, declared):
            if name in self.nodes:
                self.put_node(name, self.nodes[name])


class ClusterSnapshotChanges(msgspec.Struct):
    """Changed objects; None for one that was deleted."""

    namespaces: dict[str, Labels | None] = msgspec.field(default_factory=dict)
    nodes: dict[str, Node | None] = msgspec.field(default_factory=dict)
    pods: dict[ObjectKey, Pod | None] = msgspec.field(default_factory=dict)
    buffers: dict[ObjectKey, Buffer | None] = msgspec.field(default_factory=dict)
    daemon_sets: dict[ObjectKey, DaemonSet | None] = msgspec.field(default_factory=dict)
    storage: Storage | None = None
    pod_templates: dict[ObjectKey, PodTemplate | None] = msgspec.field(default_factory=dict)
    provisioning_requests: dict[ObjectKey, ProvisioningRequest | None] = msgspec.field(default_factory=dict)
    pod_groups: dict[ObjectKey, PodGroup | None] = msgspec.field(default_factory=dict)
    devices: DeviceObjects | None = None

    def apply(self, snapshot: ClusterSnapshot) -> None:
        """Put all changes into a snapshot, volumes before the pods that have them."""
        for name, labels in self.namespaces.items():
            snapshot.put_namespace(name, labels)
        if self.storage is not None:
            snapshot.put_storage(self.storage)
        if self.devices is not None:
            snapshot.put_devices(self.devices)
        for name, node in self.nodes.items():
            snapshot.put_node(name, node)
        for key, pod in self.pods.items():
            snapshot.put_pod(key, pod)
        for key, buffer in self.buffers.items():
            snapshot.put_buffer(key, buffer)
        for key, daemon_set in self.daemon_sets.items():
            snapshot.put_daemon_set(key, daemon_set)
        for key, template in self.pod_templates.items():
            snapshot.provisioning.put_template(key, template)
        for key, request in self.provisioning_requests.items():
            snapshot.provisioning.put_request(key, request)
        for key, group in self.pod_groups.items():
            snapshot.pod_groups.put_group(key, group)
