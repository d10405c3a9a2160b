"""Starts of pods on their nodes.

A start is some seconds that nothing shortens and then some work, at the pace of the CPU that it gets. Only the first
container of a pod has work to do. With a probe a container counts as Ready when all that is done, else at once.
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

# Seconds from having a node until containers run: volumes, images, sandboxes.
_SET_UP: Final = 1.0
_SLOWER: Final = 10.0
_LEAST_RATE: Final = 0.002
# How many pods of a workload differ from one another; further pods repeat them.
_PLACES: Final = 64
# A start whose pace changes by less than this goes on as planned.
_SAME_PACE: Final = 0.01


class PodStarts:
    """Starts pods, for the kubelets of all nodes. `load` is the cores in use on each node, starts aside.

    `on_up` is called with a container that is up, and `on_run_over` with a pod that ran to completion.
    """

    def __init__(
        self,
        state: ModelState,
        demand: FleetDemand,
        *,
        on_up: Callable[[ModelContainer], None],
        on_run_over: Callable[[ModelPod], None],
    ) -> None:
        self._state = state
        self._demand = demand
        self.load: FloatColumn = np.zeros(len(state.nodes))
        # Drawn by place and not by pod, so that demand is the same however often pods are replaced.
        self._draws = state.rng.uniform(-1.0, 1.0, (_PLACES, len(demand.series)))
        self._on_up = on_up
        self._on_run_over = on_run_over

    def bind(self, living: ModelPod, node: int) -> None:
        """Start a pod on its node."""
        state = self._state
        living.placed_at = state.now
        state.tally.pending_seconds[living.workload] += state.now - living.made
        if state.waiting is not None:
            state.waiting.add(living.workload, living.made, state.now - living.made)
        state.put(living, with_node(living.pod, state.nodes.objects[node].metadata.name, state.now))
        requests = state.settle(living, node).requests
        state.nodes.allocate(living, {name: requests.get(name, 0) for name in ALLOCATED_RESOURCES})
        self._add_units(living, node)
        state.report(living, PodEvent.PLACED)
        state.kernel.after(_SET_UP, partial(self.begin, living))

    def begin(self, living: ModelPod) -> None:
        """Run the containers of a pod for the first time."""
        state = self._state
        if state.runs(living) and living.pod.status.phase == PENDING:
            state.put(
                living,
                with_started_containers(living.pod, {unit.name: unit.resources for unit in living.units}, state.now),
            )
            for unit in living.units:
                state.rows.turned[unit.row] = state.now
                self.start(unit)

    def start(self, unit: ModelContainer) -> None:
        """Run a container."""
        state, living, row = self._state, unit.living, unit.row
        slower = _SLOWER if state.faults.holds(SLOW_STARTS, state.now, state.workload_name(living)) else 1.0
        state.rows.started[row] = state.now
        self._advance(unit, ContainerStage.WAITING)
        unit.work_left = unit.start.work * slower
        unit.cancel()
        unit.ticket = state.kernel.after(unit.start.seconds * slower, partial(self._work, unit))
        if living.seconds is not None and unit is living.units[0]:
            living.run = state.kernel.after(living.seconds, partial(self._on_run_over, living))
        if not unit.start.probe:
            unit.up = True
            self.tell_readiness(living)

    def pace(self, unit: ModelContainer, pace: float) -> None:
        """Continue a start with a number of cores."""
        if abs(pace - unit.rate) <= _SAME_PACE * unit.rate:
            return
        now = self._state.now
        unit.work_left = max(unit.work_left - unit.rate * (now - unit.rated_at), 0.0)
        unit.rate, unit.rated_at = max(pace, _LEAST_RATE), now
        unit.cancel()
        unit.ticket = self._state.kernel.after(unit.work_left / unit.rate, partial(self._come_up, unit))

    def give(self, unit: ModelContainer, resources: ResourceRequirements, *, reaches_cgroup: bool = True) -> None:
        """Put the resources of a container into force; those that do not reach the pod's cgroup raise no limit."""
        unit.resources = resources
        rows, row = self._state.rows, unit.row
        requests, limits = parse_amounts(resources.requests), parse_amounts(resources.limits)
        rows.cpu_request[row] = requests.get("cpu", 0) / 1000.0
        rows.memory_request[row] = requests.get("memory", 0)
        cpu_limit, memory_limit = limits["cpu"] / 1000.0 if "cpu" in limits else np.inf, limits.get("memory", np.inf)
        rows.cpu_limit[row] = cpu_limit if reaches_cgroup else min(cpu_limit, rows.cpu_limit[row])
        rows.memory_limit[row] = memory_limit if reaches_cgroup else min(memory_limit, rows.memory_limit[row])
        rows.version += 1
        if rows.stage[row] == ContainerStage.STARTING:
            self._share(unit.living.node)

    def tell_readiness(self, living: ModelPod) -> None:
        """Report whether a pod is Ready."""
        state, ready = self._state, living.ready
        for unit in living.units:
            state.rows.ready[unit.row] = ready
        state.rows.version += 1
        pod = with_ready(living.pod, ready, state.now)
        if pod is not living.pod:
            for unit in living.units:
                state.rows.turned[unit.row] = state.now
            state.put(living, pod)
            state.wake(living.workload)

    def _add_units(self, living: ModelPod, node: int) -> None:
        state = self._state
        first, start = self._demand.first[living.workload], state.fleet.workloads[living.workload].start
        draws = self._draws[state.take_place(living) % _PLACES]
        for number, container in enumerate(running_containers(living.pod.spec), first):
            mine = start if number == first else msgspec.structs.replace(start, work=0.0)
            factor = 1.0 + float(self._demand.spread[number] * draws[number])
            unit = ModelContainer(living, container.name, mine)
            unit.row = state.rows.place(unit, living.workload, number, node, factor)
            living.units.append(unit)
            state.rows.pod[unit.row], state.rows.bound[unit.row] = living.units[0].row, state.now
            self.give(unit, container.resources)
        state.ask(living)

    def _advance(self, unit: ModelContainer, stage: ContainerStage) -> None:
        self._state.rows.stage[unit.row] = stage
        self._state.rows.version += 1

    def _work(self, unit: ModelContainer) -> None:
        if unit.work_left <= 0:
            self._come_up(unit)
            return
        self._advance(unit, ContainerStage.STARTING)
        unit.rate, unit.rated_at = 0.0, self._state.now
        self._share(unit.living.node)

    def _share(self, node: int) -> None:
        """Share what a node has left among its starts; usage is that of the last step, and starts have come since."""
        rows, nodes = self._state.rows, self._state.nodes
        units = [unit for living in nodes.pods[node].values() for unit in living.units]
        units = [unit for unit in units if rows.stage[unit.row] == ContainerStage.STARTING]
        if not units:
            return
        row_numbers = [unit.row for unit in units]
        demanded = np.minimum([unit.start.cores for unit in units], rows.cpu_limit[row_numbers])
        requested = rows.cpu_request[row_numbers]
        load = self.load[node] if node < len(self.load) else 0.0
        left = max(float(nodes.cores[node] - load), float(requested.sum()))
        full = np.array([demanded.sum() > left])
        granted = share_cpu(demanded, requested, np.zeros(len(units), dtype=np.int64), np.array([left]), full)
        for unit, pace in zip(units, granted.tolist(), strict=True):
            self.pace(unit, pace)

    def _come_up(self, unit: ModelContainer) -> None:
        state, living = self._state, unit.living
        unit.ticket = None
        unit.work_left = 0.0
        unit.up = True
        worked = state.rows.stage[unit.row] == ContainerStage.STARTING
        self._advance(unit, ContainerStage.UP)
        if worked:
            self._share(living.node)
        self.tell_readiness(living)
        if not living.came_up and all(state.rows.stage[unit.row] == ContainerStage.UP for unit in living.units):
            living.came_up = True
            state.tally.start_seconds[living.workload] += state.now - living.placed_at
            state.report(living, PodEvent.STARTED)
        self._on_up(unit)
