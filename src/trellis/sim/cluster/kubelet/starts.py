"""Starts of pods on their nodes.

A start takes a fixed number of seconds, and then work that progresses with the CPU that the container gets. Only the
first container of a pod has work to do. With a probe a container counts as Ready when all that is done, else at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec
import numpy as np

from trellis.api.kube.pods import ResourceRequirements
from trellis.core.recommend.amounts import parse_amounts
from trellis.core.usage.columns import FloatColumn
from trellis.sim.cluster.container_table import ContainerStage
from trellis.sim.cluster.demand import FleetDemand, share_cpu
from trellis.sim.cluster.nodes import ALLOCATED_RESOURCES
from trellis.sim.cluster.pod_state import ModelContainer, ModelPod
from trellis.sim.cluster.pods import PENDING, running_containers, with_node, with_ready, with_started_containers
from trellis.sim.cluster.state import ModelState
from trellis.sim.cluster.telemetry import PodEvent
from trellis.sim.faults import SLOW_STARTS

# Seconds from having a node until containers run, if it has their images: 0.6 to 1.2 on kubelet 1.36.3.
_SET_UP_SECONDS: Final = 1.0
_SLOWDOWN: Final = 10.0
_LEAST_RATE: Final = 0.002
# How many pods of a workload differ from one another; further pods repeat them.
_SLOTS: Final = 64
# A start whose rate changes by less than this share is not rescheduled.
_SAME_RATE: Final = 0.01


class PodStarts:
    """Starts pods, for the kubelets of all nodes. `load` is the cores in use on each node, starts aside.

    `on_up` is called with a container that is up, and `on_completed` with a pod that ran to completion.
    """

    def __init__(
        self,
        state: ModelState,
        demand: FleetDemand,
        *,
        on_up: Callable[[ModelContainer], None],
        on_completed: Callable[[ModelPod], None],
    ) -> None:
        self._state = state
        self._demand = demand
        self.load: FloatColumn = np.zeros(len(state.nodes))
        # Drawn by slot and not by pod, so that demand is the same however often pods are replaced.
        self._draws = state.rng.uniform(-1.0, 1.0, (_SLOTS, len(demand.series)))
        self._on_up = on_up
        self._on_completed = on_completed

    def bind(self, model_pod: ModelPod, node: int) -> None:
        """Start a pod on its node."""
        state = self._state
        model_pod.placed_at = state.now
        state.counters.pending_seconds[model_pod.workload] += state.now - model_pod.created_at
        if state.pending_times is not None:
            state.pending_times.add(model_pod.workload, model_pod.created_at, state.now - model_pod.created_at)
        state.put(model_pod, with_node(model_pod.pod, state.nodes.objects[node].metadata.name, state.now))
        requests = state.place_pod(model_pod, node).requests
        state.nodes.allocate(model_pod, {name: requests.get(name, 0) for name in ALLOCATED_RESOURCES})
        self._add_containers(model_pod, node)
        state.report(model_pod, PodEvent.PLACED)
        state.kernel.after(_SET_UP_SECONDS, partial(self.begin, model_pod))

    def begin(self, model_pod: ModelPod) -> None:
        """Run the containers of a pod for the first time."""
        state = self._state
        if state.should_run(model_pod) and model_pod.pod.status.phase == PENDING:
            state.put(
                model_pod,
                with_started_containers(
                    model_pod.pod,
                    {container.name: container.resources for container in model_pod.containers},
                    state.now,
                ),
            )
            for container in model_pod.containers:
                state.rows.ready_changed_at[container.row] = state.now
                self.start(container)

    def start(self, container: ModelContainer) -> None:
        """Run a container."""
        state, model_pod, row = self._state, container.model_pod, container.row
        slower = _SLOWDOWN if state.faults.is_active(SLOW_STARTS, state.now, state.workload_name(model_pod)) else 1.0
        state.rows.started[row] = state.now
        self._advance(container, ContainerStage.WAITING)
        container.remaining_work = container.start.work * slower
        container.cancel()
        container.ticket = state.kernel.after(container.start.seconds * slower, partial(self._work, container))
        if model_pod.seconds is not None and container is model_pod.containers[0]:
            model_pod.run = state.kernel.after(model_pod.seconds, partial(self._on_completed, model_pod))
        if not container.start.probe:
            container.up = True
            self.update_readiness(model_pod)

    def set_start_rate(self, container: ModelContainer, cores: float) -> None:
        """Continue a start with this many cores."""
        if abs(cores - container.rate) <= _SAME_RATE * container.rate:
            return
        now = self._state.now
        container.remaining_work = max(container.remaining_work - container.rate * (now - container.rated_at), 0.0)
        container.rate, container.rated_at = max(cores, _LEAST_RATE), now
        container.cancel()
        container.ticket = self._state.kernel.after(
            container.remaining_work / container.rate, partial(self._mark_up, container)
        )

    def apply_resources(
        self, container: ModelContainer, resources: ResourceRequirements, *, reaches_cgroup: bool = True
    ) -> None:
        """Put the resources of a container into force; those that do not reach the pod's cgroup raise no limit."""
        container.resources = resources
        rows, row = self._state.rows, container.row
        requests, limits = parse_amounts(resources.requests), parse_amounts(resources.limits)
        rows.cpu_request[row] = requests.get("cpu", 0) / 1000.0
        rows.memory_request[row] = requests.get("memory", 0)
        cpu_limit, memory_limit = limits["cpu"] / 1000.0 if "cpu" in limits else np.inf, limits.get("memory", np.inf)
        rows.cpu_limit[row] = cpu_limit if reaches_cgroup else min(cpu_limit, rows.cpu_limit[row])
        rows.memory_limit[row] = memory_limit if reaches_cgroup else min(memory_limit, rows.memory_limit[row])
        rows.version += 1
        if rows.stage[row] == ContainerStage.STARTING:
            self._share(container.model_pod.node)

    def update_readiness(self, model_pod: ModelPod) -> None:
        """Report whether a pod is Ready."""
        state, ready = self._state, model_pod.ready
        for container in model_pod.containers:
            state.rows.ready[container.row] = ready
        state.rows.version += 1
        pod = with_ready(model_pod.pod, ready, state.now)
        if pod is not model_pod.pod:
            for container in model_pod.containers:
                state.rows.ready_changed_at[container.row] = state.now
            state.put(model_pod, pod)
            state.wake_controller(model_pod.workload)

    def _add_containers(self, model_pod: ModelPod, node: int) -> None:
        state = self._state
        first, start = self._demand.first[model_pod.workload], state.fleet.workloads[model_pod.workload].start
        draws = self._draws[state.assign_slot(model_pod) % _SLOTS]
        for number, spec in enumerate(running_containers(model_pod.pod.spec), first):
            container_start = start if number == first else msgspec.structs.replace(start, work=0.0)
            factor = 1.0 + float(self._demand.spread[number] * draws[number])
            container = ModelContainer(model_pod, spec.name, container_start)
            container.row = state.rows.add(container, model_pod.workload, number, node, factor)
            model_pod.containers.append(container)
            state.rows.pod[container.row], state.rows.bound_at[container.row] = model_pod.containers[0].row, state.now
            self.apply_resources(container, spec.resources)
        state.store_spec_requests(model_pod)

    def _advance(self, container: ModelContainer, stage: ContainerStage) -> None:
        self._state.rows.stage[container.row] = stage
        self._state.rows.version += 1

    def _work(self, container: ModelContainer) -> None:
        if container.remaining_work <= 0:
            self._mark_up(container)
            return
        self._advance(container, ContainerStage.STARTING)
        container.rate, container.rated_at = 0.0, self._state.now
        self._share(container.model_pod.node)

    def _share(self, node: int) -> None:
        """Share what a node has left among its starts; usage is that of the last step, and starts have come since."""
        rows, nodes = self._state.rows, self._state.nodes
        containers = [container for model_pod in nodes.pods[node].values() for container in model_pod.containers]
        containers = [container for container in containers if rows.stage[container.row] == ContainerStage.STARTING]
        if not containers:
            return
        row_numbers = [container.row for container in containers]
        demanded = np.minimum([container.start.cores for container in containers], rows.cpu_limit[row_numbers])
        requested = rows.cpu_request[row_numbers]
        load = self.load[node] if node < len(self.load) else 0.0
        left = max(float(nodes.cores[node] - load), float(requested.sum()))
        full = np.array([demanded.sum() > left])
        granted = share_cpu(demanded, requested, np.zeros(len(containers), dtype=np.int64), np.array([left]), full)
        for container, cores in zip(containers, granted.tolist(), strict=True):
            self.set_start_rate(container, cores)

    def _mark_up(self, container: ModelContainer) -> None:
        state, model_pod = self._state, container.model_pod
        container.ticket = None
        container.remaining_work = 0.0
        container.up = True
        worked = state.rows.stage[container.row] == ContainerStage.STARTING
        self._advance(container, ContainerStage.UP)
        if worked:
            self._share(model_pod.node)
        self.update_readiness(model_pod)
        if not model_pod.has_started and all(
            state.rows.stage[container.row] == ContainerStage.UP for container in model_pod.containers
        ):
            model_pod.has_started = True
            state.counters.start_seconds[model_pod.workload] += state.now - model_pod.placed_at
            state.report(model_pod, PodEvent.STARTED)
        self._on_up(container)
