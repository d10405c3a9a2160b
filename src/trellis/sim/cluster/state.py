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
from trellis.core.fit import Demand, PodProfile, running_demand
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
    """The cluster as data; `mates` are the pods of each workload, `present` how many of them are not terminating.

    `replicas` is how many pods each workload is to have, and `objects` are the workloads as the API server shows them.
    The callables are called after a change: `wake` with the workload whose controller is to reconcile, `kick` for the
    scheduler, `on_capacity_freed` with a node on which resizes may be deferred, and `on_nodes_changed` for DaemonSets.
    """

    def __init__(
        self,
        fleet: Fleet,
        kernel: Kernel,
        admit: Admit,
        rng: np.random.Generator,
        watcher: ClusterWatcher,
        *,
        wake: Callable[[int], None],
        kick: Callable[[], None],
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
        self.tally = WorkloadCounters.of(len(fleet.workloads))
        self.waiting = PendingTimes() if fleet.pools else None
        self.templates = [WorkloadTemplate.of(workload) for workload in fleet.workloads]
        self.pods: dict[tuple[str, str], ModelPod] = {}
        self.mates: list[dict[tuple[str, str], ModelPod]] = [{} for _ in fleet.workloads]
        self.present: IntColumn = np.zeros(len(fleet.workloads), dtype=np.int64)
        self.replicas = [workload.replicas for workload in fleet.workloads]
        self.objects: list[KubeObject | None] = [None] * len(fleet.workloads)
        self.wake = wake
        self.kick = kick
        self.on_capacity_freed = on_capacity_freed
        self.on_nodes_changed = on_nodes_changed
        # The free places of a workload's pods, and the first that was never used.
        self._places: list[tuple[list[int], count[int]]] = [([], count()) for _ in fleet.workloads]
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
        mine = self.fleet.workloads[workload]
        return ObjectMeta(
            name=mine.name,
            namespace=mine.namespace,
            uid=uid,
            resource_version=self.version(),
            creation_timestamp=api_time(self.now),
            labels=self.templates[workload].metadata.labels,
        )

    def publish(self, workload: int, controller: KubeObject) -> None:
        """Publish a workload as it is now."""
        old, self.objects[workload] = self.objects[workload], controller
        self.watcher.workload(self.fleet.workloads[workload].kind, old, controller)

    def add(self, living: ModelPod) -> None:
        """Store a new pod."""
        self.present[living.workload] += 1
        self.pods[living.key] = self.mates[living.workload][living.key] = living
        self._tell(living, None, living.pod)
        self.tally.pods_made[living.workload] += 1
        self.report(living, PodEvent.MADE)

    def put(self, living: ModelPod, pod: Pod, *, resized: bool = False) -> None:
        """Replace a pod by its new state; `resized` if its size may have changed."""
        if pod is living.pod:
            return
        self._tell(living, living.pod, pod)
        if resized and living.node >= 0:
            self._hold(living)
            self.ask(living)

    def dismiss(self, living: ModelPod) -> None:
        """Mark a pod as terminating: it does not count any more."""
        if not living.going:
            living.going = True
            self.present[living.workload] -= 1

    def ask(self, living: ModelPod) -> None:
        """Note what the spec of a placed pod requests."""
        for unit in living.units:
            requests = parse_amounts(living.container(unit.name).resources.requests)
            self.rows.asked_cpu[unit.row] = requests.get("cpu", 0) / 1000.0
            self.rows.asked_memory[unit.row] = requests.get("memory", 0)

    def remove(self, living: ModelPod) -> None:
        """Remove a pod that is gone, and free its share of its node."""
        self.dismiss(living)
        self.vacate(living)
        del self.pods[living.key], self.mates[living.workload][living.key]
        self.watcher.pod(living.pod, None)

    def settle(self, living: ModelPod, node: int) -> Demand:
        """Place a pod on a node; returns its demand."""
        living.node = node
        self.nodes.pods[node][living.key] = living
        if self.nodes.near is not None:
            living.resident = PodProfile.of(living.pod)
            self.nodes.near.add(node, living.resident)
        return self._hold(living)

    def take_place(self, living: ModelPod) -> int:
        """Take the lowest free place of the pod's workload: a replacement takes the place of its predecessor."""
        free, next_ = self._places[living.workload]
        living.place = heapq.heappop(free) if free else next(next_)
        return living.place

    def leave_place(self, living: ModelPod) -> None:
        """Free a pod's place."""
        if living.place >= 0:
            heapq.heappush(self._places[living.workload][0], living.place)
            living.place = -1

    def vacate(self, living: ModelPod) -> None:
        """Take a pod off its node."""
        self.leave_place(living)
        for unit in living.units:
            unit.cancel()
        for ticket in (living.run, living.resize):
            if ticket is not None:
                ticket.cancel()
        if living.node < 0:
            return
        self.rows.remove(unit.row for unit in living.units)
        living.units = []
        if living.held is not None:
            self.nodes.occupancy.remove(living.node, living.held)
            living.held = None
        if self.nodes.near is not None and living.resident is not None:
            self.nodes.near.remove(living.node, living.resident)
        self.nodes.allocate(living, {})
        del self.nodes.pods[living.node][living.key]
        node, living.node = living.node, -1
        self.on_capacity_freed(node)
        self.kick()

    def runs(self, living: ModelPod) -> bool:
        """Whether a pod is to run where it is: its node is up, and it is not terminating."""
        is_there = not living.going and living.node >= 0 and self.pods.get(living.key) is living
        return is_there and bool(self.nodes.up[living.node])

    def report(self, living: ModelPod, event: PodEvent, text: str = "") -> None:
        """Report what happened to a pod."""
        self.watcher.on_pod_event(living.workload, event, living.pod, text)

    def workload_name(self, living: ModelPod) -> str:
        """The workload's name, by which faults select pods."""
        return self.fleet.workloads[living.workload].name

    def _tell(self, living: ModelPod, old: Pod | None, new: Pod) -> None:
        metadata = msgspec.structs.replace(new.metadata, resource_version=self.version())
        living.pod = msgspec.structs.replace(new, metadata=metadata)
        self.watcher.pod(old, living.pod)

    def _hold(self, living: ModelPod) -> Demand:
        """Recount what a pod holds of its node, as the scheduler counts it."""
        held = running_demand(living.pod)
        if held != living.held:
            if living.held is not None:
                self.nodes.occupancy.remove(living.node, living.held)
            self.nodes.occupancy.add(living.node, held)
            living.held = held
        return held
