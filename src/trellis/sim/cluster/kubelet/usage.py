"""Usage of all containers in one step, with throttling, out-of-memory kills and evictions under memory pressure.

All rows at once. CPU is held back by limits, and by the node where it is full. A container that wants more memory than
its limit is killed; where a node's memory is full, the pod that is furthest above its request is evicted.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trellis.core.usage.columns import BoolColumn, FloatColumn
from trellis.sim.cluster.demand import FleetDemand, RunningContainers, share_cpu
from trellis.sim.cluster.kubelet.starts import PodStarts
from trellis.sim.cluster.kubelet.terminations import Terminations
from trellis.sim.cluster.pod_state import ModelPod
from trellis.sim.cluster.state import ModelState
from trellis.sim.cluster.telemetry import StepUsage

# A smaller share of the demand is rounding, not throttling.
_ROUNDING: Final = 1e-9


class StepUsageModel:
    """Computes the usage of one step after the other."""

    def __init__(self, state: ModelState, demand: FleetDemand, starts: PodStarts, terminations: Terminations) -> None:
        self._state = state
        self._demand = demand
        self._starts = starts
        self._terminations = terminations
        self._columns: RunningContainers | None = None
        self._version = -1

    def step(self, number: int) -> StepUsage:
        """Compute the usage from now until the next step."""
        state, clock = self._state, self._state.fleet.clock
        columns = self._current_columns()
        self._terminations.step = number
        cpu, memory = self._demand.compute_demand(columns, number, state.now)
        used_cpu = self._share(columns, np.minimum(cpu, columns.cpu_limit))
        used_memory = np.minimum(memory, columns.memory_limit)
        usage = StepUsage(
            number,
            clock.begin + number * clock.step,
            clock.step,
            columns.rows,
            columns.workload,
            columns.series,
            cpu,
            used_cpu,
            memory,
            used_memory,
            used_cpu < cpu * (1 - _ROUNDING),
            self._demand.compute_unserved(columns, number),
        )
        self._update_start_rates(columns, used_cpu)
        self._kill(columns, memory > columns.memory_limit)
        self._check_node_memory(columns, used_memory)
        return usage

    def _current_columns(self) -> RunningContainers:
        rows = self._state.rows
        if self._columns is None or self._version != rows.version:
            self._columns, self._version = self._demand.build_columns(rows), rows.version
        return self._columns

    def _by_node(self, columns: RunningContainers, amounts: FloatColumn) -> FloatColumn:
        return np.bincount(columns.node, amounts, minlength=len(self._state.nodes)).astype(np.float64, copy=False)

    def _share(self, columns: RunningContainers, demanded: FloatColumn) -> FloatColumn:
        nodes = self._state.nodes
        load = self._by_node(columns, demanded)
        full = load > nodes.cores * (1 + _ROUNDING)
        granted = share_cpu(demanded, columns.cpu_request, columns.node, nodes.cores, full) if full.any() else demanded
        if full.any() or len(columns.starting):
            load = self._by_node(columns, np.where(columns.up, granted, 0.0))
        self._starts.load = load
        return granted

    def _update_start_rates(self, columns: RunningContainers, granted: FloatColumn) -> None:
        """Continue starts at the pace of the CPU that they get now."""
        rows = self._state.rows
        for position in columns.starting.tolist():
            container = rows.find_container(int(columns.rows[position]))
            self._starts.set_start_rate(container, float(granted[position]))

    def _kill(self, columns: RunningContainers, exceeds_limit: BoolColumn) -> None:
        rows = self._state.rows
        for position in np.flatnonzero(exceeds_limit & columns.up).tolist():
            self._terminations.kill_soon(rows.find_container(int(columns.rows[position])))

    def _check_node_memory(self, columns: RunningContainers, used: FloatColumn) -> None:
        nodes = self._state.nodes
        load = self._by_node(columns, used)
        for node in np.flatnonzero(load > nodes.bytes).tolist():
            self._evict_until_memory_fits(columns, used, node, float(load[node] - nodes.bytes[node]))

    def _evict_until_memory_fits(self, columns: RunningContainers, used: FloatColumn, node: int, excess: float) -> None:
        """Evict the pods that are furthest above their requests until the node's memory suffices."""
        rows = self._state.rows
        above: dict[ModelPod, float] = {}
        total: dict[ModelPod, float] = {}
        offending: dict[ModelPod, dict[str, float]] = {}
        for position in np.flatnonzero(columns.node == node).tolist():
            row = int(columns.rows[position])
            container = rows.find_container(row)
            above_request = float(used[position] - rows.memory_request[row])
            above[container.model_pod] = above.get(container.model_pod, 0.0) + above_request
            total[container.model_pod] = total.get(container.model_pod, 0.0) + float(used[position])
            if above_request > 0:
                offending.setdefault(container.model_pod, {})[container.name] = float(used[position])
        for model_pod in sorted(above, key=lambda pod: (-above[pod], pod.key)):
            if excess <= 0:
                break
            excess -= total[model_pod]
            self._terminations.evict_for_memory(model_pod, offending.get(model_pod, {}))
