"""The model cluster as a whole: nodes, a scheduler, kubelets, controllers and an API server, wired together.

Pods are the API's own structs, replaced when something happens to them. What containers use is never an event: `step`
computes it for all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final, Protocol

import numpy as np

from trellis.api.kube.pods import Pod
from trellis.api.kube.scaling import Scale
from trellis.base.errors import InternalError
from trellis.core.cluster.json_patches import PatchOp
from trellis.core.cluster.write_results import WriteResult
from trellis.core.resize.actions import PodRef
from trellis.sim.cluster.api_server import PodWriteApi, WorkloadLookup, WorkloadScales
from trellis.sim.cluster.container_table import ModelContainerTable
from trellis.sim.cluster.demand import DemandSeries, FleetDemand
from trellis.sim.cluster.kubelet.resizes import PodResizes
from trellis.sim.cluster.kubelet.starts import PodStarts
from trellis.sim.cluster.kubelet.terminations import Terminations
from trellis.sim.cluster.kubelet.usage import StepUsageModel
from trellis.sim.cluster.node_lifecycle import NodeMembership, NodeOutages
from trellis.sim.cluster.nodes import ModelNodes
from trellis.sim.cluster.pod_lifecycle import PodLifecycle
from trellis.sim.cluster.pod_state import ModelContainer, ModelPod
from trellis.sim.cluster.scheduler import Preemption, Scheduler
from trellis.sim.cluster.state import Admit, ModelState
from trellis.sim.cluster.telemetry import ClusterWatcher, PendingTimes, StepUsage, WorkloadCounters
from trellis.sim.cluster.workloads.daemon_sets import DaemonSetController
from trellis.sim.cluster.workloads.deployments import DeploymentController
from trellis.sim.cluster.workloads.jobs import CronJobController, JobController
from trellis.sim.cluster.workloads.stateful_sets import StatefulSetController
from trellis.sim.faults import Faults
from trellis.sim.fleet import Fleet, SimulatedWorkload
from trellis.sim.kernel import Kernel, Priority, Ticket


class WorkloadController(Protocol):
    """The controller of one workload."""

    def begin(self) -> None:
        """Create the workload and its first pods."""

    def roll_out(self) -> None:
        """Begin to roll out a new version."""

    def reconcile(self) -> None:
        """Create missing pods, and delete surplus ones."""


class WorkloadControllerFactory(Protocol):
    """A class of controllers."""

    def __call__(self, state: ModelState, lifecycle: PodLifecycle, workload: int) -> WorkloadController:
        """Make the controller of the workload of that number."""


_KINDS: Final[dict[str, WorkloadControllerFactory]] = {
    "Deployment": DeploymentController,
    "StatefulSet": StatefulSetController,
    "DaemonSet": DaemonSetController,
    "Job": JobController,
    "CronJob": CronJobController,
}


class ModelCluster:
    """The model cluster. Nothing exists before `begin`; `admit` is called with each new pod before it is stored.

    Everything happens at the kernel's time: `begin` at the beginning, `step(n)` when step n begins, and all else as
    events in between.
    """

    def __init__(
        self, fleet: Fleet, kernel: Kernel, admit: Admit, rng: np.random.Generator, watcher: ClusterWatcher
    ) -> None:
        self._state = state = ModelState(
            fleet,
            kernel,
            admit,
            rng,
            watcher,
            wake_controller=self._wake,
            kick_scheduler=self._kick,
            on_capacity_freed=self._retry_resizes,
            on_nodes_changed=self._wake_daemon_sets,
        )
        lifecycle = PodLifecycle(state, self._enqueue)
        self._demand = FleetDemand(fleet, state.templates)
        starts = PodStarts(
            state,
            self._demand,
            on_up=self._check_memory,
            on_completed=self._complete,
        )
        self._terminations = Terminations(state, lifecycle, self._demand, starts)
        self._preemption = Preemption(state, lifecycle) if fleet.pools else None
        self._scheduler = Scheduler(state, starts.bind, self._preemption)
        self._resizes = PodResizes(state, starts, self._terminations)
        self._pod_writes = PodWriteApi(state, lifecycle, self._resizes)
        self._scales = WorkloadScales(state)
        self.targets = WorkloadLookup(state)
        self._usage = StepUsageModel(state, self._demand, starts, self._terminations)
        self._outages = NodeOutages(state, lifecycle, self._terminations)
        self.machines = NodeMembership(state, lifecycle)
        self._controllers = [_controller(state, lifecycle, number) for number in range(len(fleet.workloads))]
        self._wake_tickets: dict[int, Ticket] = {}
        self._daemon_sets = [number for number, workload in enumerate(fleet.workloads) if workload.kind == "DaemonSet"]

    def begin(self) -> None:
        """Create nodes, workloads and their pods, and schedule rollouts and faults."""
        state = self._state
        for node in state.nodes.objects.values():
            state.watcher.on_node(None, node)
        self._outages.begin()
        in_order = sorted(zip(self._controllers, state.fleet.workloads, strict=True), key=_is_not_daemon_set)
        for controller, workload in in_order:
            controller.begin()
            for time in workload.rollouts:
                if time >= state.now:
                    state.kernel.at(time, controller.roll_out, Priority.CONTROLLER)

    def step(self, number: int) -> StepUsage:
        """Compute the usage of the step that begins now. Kills and evictions that follow are events of this moment."""
        return self._usage.step(number)

    def evict(self, ref: PodRef) -> WriteResult:
        """Evict a pod, if its disruption budget permits."""
        return self._pod_writes.evict(ref)

    def resize(self, ref: PodRef, patch: tuple[PatchOp, ...]) -> tuple[WriteResult, str]:
        """Patch the resources of a pod's containers; a refusal comes with its reason."""
        return self._pod_writes.resize(ref, patch)

    def annotate(self, ref: PodRef, patch: tuple[PatchOp, ...]) -> WriteResult:
        """Patch the annotations of a pod."""
        return self._pod_writes.annotate(ref, patch)

    def move(self, ref: PodRef) -> WriteResult:
        """Evict a pod because its node is drained, if its disruption budget permits."""
        return self._pod_writes.move(ref)

    def scale(self, namespace: str, kind: str, name: str) -> Scale | None:
        """The scale of a workload; None if it does not exist, or is of a kind without a scale."""
        return self._scales.scale(namespace, kind, name)

    def set_scale(self, namespace: str, kind: str, name: str, replicas: int, *, version: str = "") -> WriteResult:
        """Set the replicas of a workload; with a `version`, only if the workload is still of that version."""
        return self._scales.set_scale(namespace, kind, name, replicas, version)

    def select_workloads(self, namespace: str, selector: str) -> tuple[int, ...]:
        """The numbers of the workloads whose pods a selector matches."""
        return self._scales.select_workloads(namespace, selector)

    def list_pending_pods(self) -> Iterator[tuple[int, Pod]]:
        """The pods without a node, each with the number of its workload."""
        return ((model_pod.workload, model_pod.pod) for model_pod in self._scheduler.waiting)

    @property
    def pending_times(self) -> PendingTimes | None:
        """How long pods were pending, those without a node until now; None where nodes never come."""
        if self._state.pending_times is None:
            return None
        result = self._state.pending_times.copy()
        for model_pod in self._scheduler.waiting:
            result.add(model_pod.workload, model_pod.created_at, self._state.now - model_pod.created_at)
        return result

    @property
    def preempted(self) -> int:
        """How many pods were preempted."""
        return self._preemption.count if self._preemption is not None else 0

    @property
    def rows(self) -> ModelContainerTable:
        """The containers of placed pods, in columns."""
        return self._state.rows

    @property
    def series(self) -> Sequence[DemandSeries]:
        """What the numbers in `rows.series` stand for: by workload, then by container in the order of its template."""
        return self._demand.series

    @property
    def nodes(self) -> ModelNodes:
        """The nodes: what they offer, what is allocated, which are up, what they cost."""
        return self._state.nodes

    @property
    def counters(self) -> WorkloadCounters:
        """The counters so far, by workload."""
        return self._state.counters

    @property
    def faults(self) -> Faults:
        """The faults, for components that ask whether they run."""
        return self._state.faults

    @property
    def pending(self) -> int:
        """How many pods have no node."""
        return len(self._scheduler.waiting)

    def pending_seconds(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """How long the pods without a node have been pending, by workload."""
        pending_seconds = np.zeros(len(self._controllers))
        for model_pod in self._scheduler.waiting:
            pending_seconds[model_pod.workload] += self._state.now - model_pod.created_at
        return pending_seconds

    def pods(self) -> Iterator[Pod]:
        """All pods, in the order of their creation."""
        return (pod.pod for pod in self._state.pods.values())

    def pod(self, namespace: str, name: str) -> Pod | None:
        """A pod by name."""
        model_pod = self._state.pods.get((namespace, name))
        return model_pod.pod if model_pod is not None else None

    # The parts of a cluster depend on one another: these resolve the later ones when they are called.

    def _kick(self) -> None:
        self._scheduler.kick_scheduler()

    def _enqueue(self, pod: ModelPod) -> None:
        self._scheduler.enqueue(pod)

    def _retry_resizes(self, node: int) -> None:
        self._resizes.retry_deferred(node)

    def _check_memory(self, container: ModelContainer) -> None:
        self._terminations.check_memory(container)

    def _complete(self, pod: ModelPod) -> None:
        self._terminations.complete(pod)

    def _wake_daemon_sets(self) -> None:
        for number in self._daemon_sets:
            self._wake(number)

    def _wake(self, workload: int) -> None:
        ticket = self._wake_tickets.get(workload)
        if ticket is None or not ticket.is_pending:
            callback = partial(self._controllers[workload].reconcile)
            self._wake_tickets[workload] = self._state.kernel.after(0.0, callback, Priority.CONTROLLER)


def _is_not_daemon_set(entry: tuple[WorkloadController, SimulatedWorkload]) -> bool:
    """Sort DaemonSets first: their pods come first on a node that joins."""
    return entry[1].kind != "DaemonSet"


def _controller(state: ModelState, lifecycle: PodLifecycle, workload: int) -> WorkloadController:
    kind = state.fleet.workloads[workload].kind
    make = _KINDS.get(kind)
    if make is None:
        raise InternalError(f"workloads of kind {kind} cannot be simulated; supported: {', '.join(_KINDS)}")
    return make(state, lifecycle, workload)
