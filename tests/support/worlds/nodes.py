"""A cluster with groups of nodes, in which orders are carried out, nodes boot and a scheduler places pods."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np

from trellis.api.kinds.buffer import Buffer
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.workloads import DaemonSet
from trellis.base.reasons import DetailedReason
from trellis.core.fit import Demand, find_fitting_nodes
from trellis.core.fit.resources import CPU, LARGEST_AMOUNT, count_from_nanos, parse_nanos
from trellis.core.nodes.node_groups import GroupState, Instance, InstanceState, NodeGroup
from trellis.core.nodes.scale_up.decisions import BufferDecision, ScaleUpPlan
from trellis.core.nodes.scale_up.plan import plan_scale_up
from trellis.core.nodes.scale_up.remembered_state import ScaleUpMemory
from trellis.core.nodes.settings import ScaleUpSettings
from trellis.core.nodes.state.recommended_sizes import RecommendedSize
from trellis.core.nodes.state.snapshot import ClusterSnapshot

Document = dict[str, Any]

START = 1_795_003_200.0
ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
SETTINGS = ScaleUpSettings()


def a_node(name: str, cpu: str = "4", memory: str = "16Gi", **fields: Any) -> Node:
    """A node that is ready, of no group."""
    return convert_object(_node_document(name, cpu, memory, **fields), Node)


def a_group(name: str, cpu: str = "4", memory: str = "16Gi", most: int = 100, **fields: Any) -> NodeGroup:
    figures = {
        key: fields.pop(key)
        for key in ("price", "priority", "boot_seconds", "min_size", "options", "devices")
        if key in fields
    }
    labels = {"group": name, **fields.pop("labels", {})}
    template = convert_object(_node_document("", cpu, memory, labels=labels, **fields), Node)
    return NodeGroup(name, template, most, **{"price": 1.0, "boot_seconds": 60.0, **figures})


def a_pod(name: str, cpu: str = "1", memory: str = "1Gi", **fields: Any) -> Pod:
    """A pod for which the scheduler has found no node."""
    metadata = {"name": name, "namespace": fields.pop("namespace", "default"), "uid": name}
    metadata["labels"] = fields.pop("labels", {})
    if "owner" in fields:
        kind, owner = fields.pop("owner")
        metadata["ownerReferences"] = [{"kind": kind, "name": owner, "uid": owner, "controller": True}]
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    status = fields.pop("status", {"phase": "Pending", "conditions": [condition]})
    return convert_object({"metadata": metadata, "spec": a_spec(cpu, memory, **fields), "status": status}, Pod)


def a_spec(cpu: str = "1", memory: str = "1Gi", **fields: Any) -> Document:
    return {"containers": [{"name": "app", "resources": {"requests": {"cpu": cpu, "memory": memory}}}], **fields}


def a_buffer(
    name: str, count: int, spec: Document | None = None, labels: Document | None = None, **fields: Any
) -> Buffer:
    """A translated Buffer; its spec has only the strategy."""
    pods: Document = {"replicaNum": count, "podSpec": spec or a_spec()}
    if labels:
        pods["podLabels"] = labels
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return msgspec.convert({"metadata": metadata, "spec": fields, "status": {"podBasedBufferSpec": pods}}, Buffer)


def a_daemon_set(name: str, cpu: str, **fields: Any) -> DaemonSet:
    document = {"metadata": {"name": name}, "spec": {"template": {"spec": a_spec(cpu, "64Mi", **fields)}}}
    return convert_object(document, DaemonSet)


def spread(labels: Document, key: str = ZONE, skew: int = 1) -> Document:
    """A spec's constraint that such pods lie evenly."""
    constraint = {"maxSkew": skew, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**constraint, "labelSelector": {"matchLabels": labels}}]}


def apart(labels: Document, key: str = HOST) -> Document:
    """A spec's rule that such pods keep away from one another."""
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def near(labels: Document, key: str = ZONE) -> Document:
    """A spec's rule that such pods keep together."""
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


class Cluster:
    """What happens in it is done by its methods; `plan` asks what should be done about nodes, and remembers."""

    def __init__(self, *groups: NodeGroup, settings: ScaleUpSettings = SETTINGS) -> None:
        self.snapshot = ClusterSnapshot()
        self.memory = ScaleUpMemory()
        self.now = START
        self.settings = settings
        self.groups = {group.name: group for group in groups}
        self.instances: dict[str, list[Instance]] = {group.name: [] for group in groups}
        self.extra: dict[str, int] = {}
        self.suspended: dict[str, DetailedReason] = {}
        self.pods: dict[str, Pod] = {}
        self.last: ScaleUpPlan | None = None
        self.update_groups()

    # What there is

    def update_groups(self) -> None:
        self.snapshot.put_groups(self.state(name) for name in self.groups)

    def state(self, name: str) -> GroupState:
        instances = self.instances[name]
        staying = sum(instance.state is not InstanceState.LEAVING for instance in instances)
        target = staying + self.extra.get(name, 0)
        return GroupState(self.groups[name], target, tuple(instances), self.suspended.get(name))

    def suspend(self, name: str, reason: DetailedReason | None) -> None:
        """The provider says that the size of a group cannot change now; None: it can again."""
        self.suspended = {name: reason} if reason is not None else {}
        self.update_groups()

    def nodes(self, *nodes: Node) -> Cluster:
        for node in nodes:
            self.snapshot.put_node(node.metadata.name, node)
        return self

    def add_group_nodes(self, group: str, count: int) -> Cluster:
        """Nodes of a group that have been up for long."""
        for _ in range(count):
            self._boot(group, self._order_instance(group, self.now - 3600), self.now - 3500)
        self.update_groups()
        return self

    def buffers(self, *buffers: Buffer) -> Cluster:
        for buffer in buffers:
            self.snapshot.put_buffer((buffer.metadata.namespace, buffer.metadata.name), buffer)
        return self

    def create(self, *pods: Pod) -> Cluster:
        for pod in pods:
            self._put_pod(pod)
        return self

    def create_pods(self, count: int, prefix: str = "pod", **fields: Any) -> Cluster:
        return self.create(*(a_pod(f"{prefix}-{number:04}", **fields) for number in range(count)))

    def delete(self, *names: str) -> Cluster:
        for name in names:
            pod = self.pods.pop(name)
            self.snapshot.put_pod((pod.metadata.namespace, name), None)
        return self

    def place(self, pod: Pod, node: str) -> Cluster:
        """A pod that runs."""
        spec = msgspec.structs.replace(pod.spec, node_name=node)
        status = msgspec.structs.replace(pod.status, phase="Running", conditions=())
        self._put_pod(msgspec.structs.replace(pod, spec=spec, status=status))
        return self

    def resize(self, name: str, cpu: str, reason: str = "Deferred", message: str = "") -> Cluster:
        """The spec of a running pod asks for another size, and its kubelet cannot give it."""
        pod = self.pods[name]
        container = pod.spec.containers[0]
        before = container.resources.requests
        asked = msgspec.structs.replace(container.resources, requests={**before, "cpu": cpu})
        spec = msgspec.structs.replace(pod.spec, containers=(msgspec.structs.replace(container, resources=asked),))
        condition = {"type": "PodResizePending", "status": "True", "reason": reason, "message": message}
        status = {"name": container.name, "allocatedResources": before, "resources": {"requests": before}}
        document = {"status": {"phase": "Running", "conditions": [condition], "containerStatuses": [status]}}
        self._put_pod(msgspec.structs.replace(pod, spec=spec, status=convert_object(document, Pod).status))
        return self

    def recommend(self, pod: str, *, starting: str = "", cpu: str = "", evictable: bool = True) -> None:
        """What a VPA recommends for a pod: the CPU that it is to have, and that with which its replacement starts."""
        updated = {"app": {CPU: _millicores(cpu)}} if cpu else {}
        started = {"app": {CPU: _millicores(starting)}} if starting else updated
        self.snapshot.put_recommended_size(("default", pod), RecommendedSize(started, updated, evictable))

    # What happens

    def plan(self) -> ScaleUpPlan:
        self.last = plan_scale_up(self.snapshot, self.memory, self.now, self.settings)
        self.memory = self.last.memory
        return self.last

    def ordered(self) -> dict[str, int]:
        """What the plan orders now, by group."""
        return {order.group: order.count for order in self.plan().orders}

    def execute_orders(self, plan: ScaleUpPlan | None = None) -> Cluster:
        """Send orders and releases to the provider."""
        plan = plan or self.last
        assert plan is not None
        for order in plan.orders:
            while self.state(order.group).target < order.target:
                self._order_instance(order.group, self.now)
        for release in plan.releases:
            remaining = [instance for instance in self.instances[release.group] if instance.id != release.instance]
            self.instances[release.group] = remaining
            self.snapshot.put_node(release.instance, None)
        self.update_groups()
        return self

    def wait(self, seconds: float) -> Cluster:
        """Advance the time; nodes whose boot time is over become ready."""
        self.now += seconds
        for name, group in self.groups.items():
            for instance in list(self.instances[name]):
                if instance.state is InstanceState.ORDERED and self.now - instance.since >= group.boot_seconds:
                    self._boot(name, instance, self.now)
        self.update_groups()
        return self

    def schedule(self) -> int:
        """The scheduler places what fits on nodes that are ready; how many pods that were."""
        table, running = self.snapshot.table, self.snapshot.running
        placed = 0
        for pod in [pod for pod in self.pods.values() if not pod.spec.node_name]:
            demand = Demand.of(pod.spec, metadata=pod.metadata)
            result = (
                find_fitting_nodes(table, demand, running.used, running.existing_pods)
                & table.ready[: table.numbers_end]
            )
            if result.any():
                self.place(pod, table.keys([int(np.flatnonzero(result)[0])])[0])
                placed += 1
        return placed

    def reconcile(self, passes: int = 6) -> Cluster:
        """Plan, carry out, boot and schedule until nothing is ordered any more."""
        for _ in range(passes):
            if not self.plan().orders and not self.pending:
                break
            self.execute_orders().wait(120)
            self.schedule()
        return self

    def fail(self, group: str, instance: str | None = None) -> None:
        """Instances that were ordered fail."""
        self.instances[group] = [
            msgspec.structs.replace(candidate, state=InstanceState.FAILED, since=self.now)
            if candidate.state is InstanceState.ORDERED and instance in {None, candidate.id}
            else candidate
            for candidate in self.instances[group]
        ]
        self.update_groups()

    @property
    def pending(self) -> list[str]:
        return [name for name, pod in self.pods.items() if not pod.spec.node_name]

    @property
    def size(self) -> int:
        return len(self.snapshot.nodes)

    def buffer(self, name: str) -> BufferDecision:
        assert self.last is not None
        return next(buffer for buffer in self.last.buffers if buffer.key[1] == name)

    def _put_pod(self, pod: Pod) -> None:
        self.pods[pod.metadata.name] = pod
        self.snapshot.put_pod((pod.metadata.namespace, pod.metadata.name), pod)

    def _order_instance(self, group: str, at: float) -> Instance:
        number = 1 + max((int(instance.id.rsplit("-", 1)[1]) for instance in self.instances[group]), default=0)
        instance = Instance(f"{group}-{number}", InstanceState.ORDERED, at)
        self.instances[group].append(instance)
        return instance

    def _boot(self, group: str, instance: Instance, at: float) -> None:
        up = Instance(instance.id, InstanceState.RUNNING, at, instance.id)
        self.instances[group] = [
            up if candidate.id == instance.id else candidate for candidate in self.instances[group]
        ]
        template = self.groups[group].template
        made = datetime.fromtimestamp(at, UTC)
        labels = {**template.metadata.labels, HOST: instance.id}
        metadata = msgspec.structs.replace(template.metadata, name=instance.id, labels=labels, creation_timestamp=made)
        self.snapshot.put_node(instance.id, msgspec.structs.replace(template, metadata=metadata))


def _millicores(text: str) -> int:
    return count_from_nanos(CPU, parse_nanos(text), LARGEST_AMOUNT)


def _node_document(name: str, cpu: str, memory: str, **fields: Any) -> Document:
    labels = fields.get("labels", {})
    status: Document = {"allocatable": {"cpu": cpu, "memory": memory, "pods": "110", **fields.get("amounts", {})}}
    if fields.get("ready", True):
        status["conditions"] = [{"type": "Ready", "status": "True"}]
    return {
        "metadata": {"name": name, "labels": {**labels, HOST: name} if name else labels},
        "spec": {"taints": fields.get("taints", [])},
        "status": status,
    }
