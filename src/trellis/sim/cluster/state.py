"""The state of the model cluster that scheduler, kubelets and controllers share, and the one way to change a pod."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import TypeAlias

import msgspec
import numpy as np

from trellis.api.kube.meta import KubeObject, ObjectMeta
from trellis.api.kube.pods import Pod
from trellis.core.fit import Demand, PodProfile, read_running_demand
from trellis.core.recommend.amounts import parse_amounts
from trellis.core.usage.columns import IntColumn
from trellis.sim.cluster.container_table import ModelContainerTable
from trellis.sim.cluster.nodes import ModelNodes
from trellis.sim.cluster.pod_state import ModelPod
from trellis.sim.cluster.pods import WorkloadTemplate, api_time
from trellis.sim.cluster.telemetry import ClusterWatcher, PendingTimes, PodEvent, WorkloadCounters
from trellis.sim.faults import Faults
from trellis.sim.fleet import Fleet
from trellis.sim.kernel import Kernel

Admit: TypeAlias = Callable[[Pod], Pod]


class ModelState:
    """The cluster as data; `active_pods` is how many pods of each workload are not terminating.

    `replicas` is how many pods each workload is to have, and `objects` are the workloads as the API server shows them.
    The callables are called after a change: `wake_controller` with the workload whose controller is to reconcile,
    `kick_scheduler` for the scheduler, `on_capacity_freed` with a node on which resizes may be deferred, and
    `on_nodes_changed` for DaemonSets.
    """

    def __init__(
        self,
        fleet: Fleet,
        kernel: Kernel,
        admit: Admit,
        rng: np.random.Generator,
        watcher: ClusterWatcher,
        *,
        wake_controller: Callable[[int], None],
        kick_scheduler: Callable[[], None],
        on_capacity_freed: Callable[[int], None],
        on_nodes_changed: Callable[[], None],
    ) -> None:
        self.fleet = fleet
        self.kernel = kernel
        self.admit = admit
        self.rng = rng
        self.watcher = watcher
        self.faults = Faults(fleet.faults)
        self.nodes = ModelNodes(fleet)
        self.rows = ModelContainerTable()
        self.counters = WorkloadCounters.of(len(fleet.workloads))
        self.pending_times = PendingTimes() if fleet.pools else None
        self.templates = [WorkloadTemplate.of(workload) for workload in fleet.workloads]
        self.pods: dict[tuple[str, str], ModelPod] = {}
        self.pods_by_workload: list[dict[tuple[str, str], ModelPod]] = [{} for _ in fleet.workloads]
        self.active_pods: IntColumn = np.zeros(len(fleet.workloads), dtype=np.int64)
        self.replicas = [workload.replicas for workload in fleet.workloads]
        self.objects: list[KubeObject | None] = [None] * len(fleet.workloads)
        self.wake_controller = wake_controller
        self.kick_scheduler = kick_scheduler
        self.on_capacity_freed = on_capacity_freed
        self.on_nodes_changed = on_nodes_changed
        # The free slots of each workload's pods, and the first slot that was never used.
        self._slots: list[tuple[list[int], count[int]]] = [([], count()) for _ in fleet.workloads]
        self._versions = count(1)
        self._uids = count(1)

    @property
    def now(self) -> float:
        """The kernel's time."""
        return self.kernel.now

    def uid(self) -> str:
        """A uid that no other object has."""
        return f"00000000-0000-4000-8000-{next(self._uids):012x}"

    def version(self) -> str:
        """A resource version later than all others."""
        return str(next(self._versions))

    def metadata(self, workload: int, uid: str) -> ObjectMeta:
        """The metadata of a workload that is created now."""
        definition = self.fleet.workloads[workload]
        return ObjectMeta(
            name=definition.name,
            namespace=definition.namespace,
            uid=uid,
            resource_version=self.version(),
            creation_timestamp=api_time(self.now),
            labels=self.templates[workload].metadata.labels,
        )

    def publish(self, workload: int, controller: KubeObject) -> None:
        """Publish a workload as it is now."""
        old, self.objects[workload] = self.objects[workload], controller
        self.watcher.on_workload(self.fleet.workloads[workload].kind, old, controller)

    def add(self, model_pod: ModelPod) -> None:
        """Store a new pod."""
        self.active_pods[model_pod.workload] += 1
        self.pods[model_pod.key] = self.pods_by_workload[model_pod.workload][model_pod.key] = model_pod
        self._store(model_pod, None, model_pod.pod)
        self.counters.pods_made[model_pod.workload] += 1
        self.report(model_pod, PodEvent.MADE)

    def put(self, model_pod: ModelPod, pod: Pod, *, resized: bool = False) -> None:
        """Replace a pod by its new state; `resized` if its size may have changed."""
        if pod is model_pod.pod:
            return
        self._store(model_pod, model_pod.pod, pod)
        if resized and model_pod.node >= 0:
            self._update_occupancy(model_pod)
            self.store_spec_requests(model_pod)

    def mark_terminating(self, model_pod: ModelPod) -> None:
        """Mark a pod as terminating: it does not count any more."""
        if not model_pod.terminating:
            model_pod.terminating = True
            self.active_pods[model_pod.workload] -= 1

    def store_spec_requests(self, model_pod: ModelPod) -> None:
        """Store the requests in the spec of a placed pod."""
        for container in model_pod.containers:
            requests = parse_amounts(model_pod.container_spec(container.name).resources.requests)
            self.rows.spec_cpu_request[container.row] = requests.get("cpu", 0) / 1000.0
            self.rows.spec_memory_request[container.row] = requests.get("memory", 0)

    def remove(self, model_pod: ModelPod) -> None:
        """Remove a pod that is gone, and free its share of its node."""
        self.mark_terminating(model_pod)
        self.remove_from_node(model_pod)
        del self.pods[model_pod.key], self.pods_by_workload[model_pod.workload][model_pod.key]
        self.watcher.on_pod(model_pod.pod, None)

    def place_pod(self, model_pod: ModelPod, node: int) -> Demand:
        """Place a pod on a node; returns its demand."""
        model_pod.node = node
        self.nodes.pods[node][model_pod.key] = model_pod
        if self.nodes.existing_pods is not None:
            model_pod.profile = PodProfile.of(model_pod.pod)
            self.nodes.existing_pods.add(node, model_pod.profile)
        return self._update_occupancy(model_pod)

    def assign_slot(self, model_pod: ModelPod) -> int:
        """Take the lowest free slot of the pod's workload: a replacement takes the slot of its predecessor."""
        free, unused = self._slots[model_pod.workload]
        model_pod.slot = heapq.heappop(free) if free else next(unused)
        return model_pod.slot

    def release_slot(self, model_pod: ModelPod) -> None:
        """Free a pod's slot."""
        if model_pod.slot >= 0:
            heapq.heappush(self._slots[model_pod.workload][0], model_pod.slot)
            model_pod.slot = -1

    def remove_from_node(self, model_pod: ModelPod) -> None:
        """Take a pod off its node."""
        self.release_slot(model_pod)
        for container in model_pod.containers:
            container.cancel()
        for ticket in (model_pod.run, model_pod.resize):
            if ticket is not None:
                ticket.cancel()
        if model_pod.node < 0:
            return
        self.rows.remove(container.row for container in model_pod.containers)
        model_pod.containers = []
        if model_pod.occupied is not None:
            self.nodes.occupancy.remove(model_pod.node, model_pod.occupied)
            model_pod.occupied = None
        if self.nodes.existing_pods is not None and model_pod.profile is not None:
            self.nodes.existing_pods.remove(model_pod.node, model_pod.profile)
        self.nodes.allocate(model_pod, {})
        del self.nodes.pods[model_pod.node][model_pod.key]
        node, model_pod.node = model_pod.node, -1
        self.on_capacity_freed(node)
        self.kick_scheduler()

    def should_run(self, model_pod: ModelPod) -> bool:
        """Whether a pod is to run where it is: its node is up, and it is not terminating."""
        is_placed = not model_pod.terminating and model_pod.node >= 0 and self.pods.get(model_pod.key) is model_pod
        return is_placed and bool(self.nodes.up[model_pod.node])

    def report(self, model_pod: ModelPod, event: PodEvent, text: str = "") -> None:
        """Report what happened to a pod."""
        self.watcher.on_pod_event(model_pod.workload, event, model_pod.pod, text)

    def workload_name(self, model_pod: ModelPod) -> str:
        """The workload's name, by which faults select pods."""
        return self.fleet.workloads[model_pod.workload].name

    def _store(self, model_pod: ModelPod, old: Pod | None, new: Pod) -> None:
        metadata = msgspec.structs.replace(new.metadata, resource_version=self.version())
        model_pod.pod = msgspec.structs.replace(new, metadata=metadata)
        self.watcher.on_pod(old, model_pod.pod)

    def _update_occupancy(self, model_pod: ModelPod) -> Demand:
        """Update what the scheduler counts for a pod on its node."""
        demand = read_running_demand(model_pod.pod)
        if demand != model_pod.occupied:
            if model_pod.occupied is not None:
                self.nodes.occupancy.remove(model_pod.node, model_pod.occupied)
            self.nodes.occupancy.add(model_pod.node, demand)
            model_pod.occupied = demand
        return demand
