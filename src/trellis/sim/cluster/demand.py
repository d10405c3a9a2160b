"""Demand of each container, and how the CPU of a full node is shared.

Demand lies in columns by step, one for each series: a container of a workload. It is read for all series at once, a
block of steps at a time, and spread over the rows: as it is, or as a share of the demand of the workload.

CPU is shared as the kernel does it: each container gets its part by the weight of its request, none more than it
demands, and what one leaves goes to the others by the same weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.sim.cluster.container_table import ContainerStage, ModelContainerTable
from trellis.sim.cluster.pods import WorkloadTemplate
from trellis.sim.fleet import ContainerDemand, Fleet

# Steps that are laid out side by side; with 5,000 series they take 5 MB for each resource.
_BLOCK: Final = 128


class DemandSeries(msgspec.Struct, frozen=True):
    """A container of a workload: the workload's number in the fleet, and the container's name."""

    workload: int
    container: str


class RunningContainers(msgspec.Struct, frozen=True):
    """The columns of running containers, built once for as long as no row changes.

    `share` is the part of its workload's load that a row gets. The next to last four are positions; `idle` are series
    that share a load, and of which no row is Ready.
    """

    rows: IntColumn
    workload: IntColumn
    series: IntColumn
    node: IntColumn
    up: BoolColumn
    factor: FloatColumn
    share: FloatColumn
    started: FloatColumn
    cpu_request: FloatColumn
    cpu_limit: FloatColumn
    memory_limit: FloatColumn
    shared: IntColumn
    aged: IntColumn
    waiting: IntColumn
    starting: IntColumn
    idle: IntColumn


class FleetDemand:
    """The demand of a fleet. Series are numbered by workload, then by container as the template has them."""

    def __init__(self, fleet: Fleet, templates: Sequence[WorkloadTemplate]) -> None:
        self.series: list[DemandSeries] = []
        self.first: list[int] = []
        self._demands: list[ContainerDemand | None] = []
        for number, (workload, template) in enumerate(zip(fleet.workloads, templates, strict=True)):
            demands = {demand.container: demand for demand in workload.demand}
            self.first.append(len(self.series))
            for name in template.containers:
                self.series.append(DemandSeries(number, name))
                self._demands.append(demands.get(name))
        self._owners: IntColumn = np.array([one_series.workload for one_series in self.series], dtype=np.int64)
        self._nothing = np.zeros(len(fleet.workloads))
        self._step = fleet.clock.step
        self._starting = np.array([fleet.workloads[one_series.workload].start.cores for one_series in self.series])
        some = [demand if demand is not None else _NOTHING for demand in self._demands]
        self.spread = np.array([demand.spread for demand in some])
        self._shared = np.array([demand.shared for demand in some], dtype=np.bool_)
        self._has_own_memory = np.array([demand.own_memory for demand in some], dtype=np.bool_)
        self._aged = np.array([demand.by_age for demand in some], dtype=np.bool_)
        self._base = np.array([[demand.base_cpu for demand in some], [demand.base_memory for demand in some]])
        self._leak = np.array([demand.leak for demand in some])
        self._leaks = bool(self._leak.any())
        self._based = bool(self._base.any())
        self._block = np.zeros((2, 0, len(some)))
        self._begin = 0
        self._lengths = np.array([len(demand.cpu) for demand in some], dtype=np.int64)
        aged = [demand if demand.by_age else _NOTHING for demand in some]
        self._offsets = np.concatenate(([0], np.cumsum([len(demand.cpu) for demand in aged])))[:-1].astype(np.int64)
        self._amounts_by_age = np.array(
            [np.concatenate([demand.cpu for demand in aged]), np.concatenate([demand.memory for demand in aged])]
            if aged
            else np.zeros((2, 0))
        )

    def build_columns(self, rows: ModelContainerTable) -> RunningContainers:
        """Build the columns of the rows as they are now."""
        reach = rows.numbers_end
        stage = rows.stage[:reach]
        numbers = np.flatnonzero(rows.used[:reach] & (stage > ContainerStage.DOWN))
        series, stage, factor = rows.series[numbers], stage[numbers], rows.factor[numbers]
        weight = np.where(rows.ready[numbers], factor, 0.0)
        total = np.bincount(series, weight, minlength=len(self.series))
        share = np.divide(weight, total[series], out=np.zeros(len(numbers)), where=weight > 0)
        return RunningContainers(
            numbers,
            rows.workload[numbers],
            series,
            rows.node[numbers],
            stage == ContainerStage.UP,
            factor,
            share,
            rows.started[numbers],
            rows.cpu_request[numbers],
            rows.cpu_limit[numbers],
            rows.memory_limit[numbers],
            np.flatnonzero(self._shared[series]),
            np.flatnonzero(self._aged[series]),
            np.flatnonzero(stage == ContainerStage.WAITING),
            np.flatnonzero(stage == ContainerStage.STARTING),
            np.flatnonzero(self._shared & ~self._aged & (total <= 0.0)),
        )

    def compute_demand(self, columns: RunningContainers, number: int, now: float) -> tuple[FloatColumn, FloatColumn]:
        """The cores and bytes that each row demands from now on."""
        series = columns.series
        cpu_now, memory_now = self._demand_at_step(number)
        cpu, memory = cpu_now[series], memory_now[series]
        if len(aged := columns.aged):
            cpu[aged], memory[aged] = self._demand_at_age(series[aged], now - columns.started[aged])
        factor = columns.factor
        if len(shared := columns.shared):
            factor = factor.copy()
            factor[shared] = columns.share[shared]
        cpu *= factor
        memory *= np.where(self._has_own_memory[series], columns.factor, factor) if len(shared) else factor
        if self._based:
            cpu += self._base[0][series]
            memory += self._base[1][series]
        if self._leaks:
            memory += self._leak[series] * np.maximum(now - columns.started, 0.0)
        cpu[columns.waiting] = 0.0
        cpu[columns.starting] = self._starting[series[columns.starting]]
        return cpu, memory

    def compute_unserved(self, columns: RunningContainers, number: int) -> FloatColumn:
        """Cores of shared loads that no pod serves from now on, by workload."""
        idle = columns.idle
        if not len(idle):
            return self._nothing
        cores = np.bincount(self._owners[idle], self._demand_at_step(number)[0][idle], minlength=len(self._nothing))
        return cores.astype(np.float64, copy=False)

    def get_memory_demand(self, rows: ModelContainerTable, row: int, number: int, now: float) -> float:
        """The bytes that one row demands, for one that has just come up."""
        series = int(rows.series[row])
        demand = self._demands[series]
        if demand is None:
            return 0.0
        age = max(now - float(rows.started[row]), 0.0)
        at = int(age // self._step) if demand.by_age else number
        memory = _finite(float(demand.memory[min(at, len(demand.memory) - 1)])) if len(demand.memory) else 0.0
        factor = float(rows.factor[row])
        if demand.shared and not demand.own_memory:
            pods_by_workload = (rows.series[: rows.numbers_end] == series) & rows.ready[: rows.numbers_end]
            total = float(rows.factor[: rows.numbers_end][pods_by_workload].sum())
            factor = factor / total if rows.ready[row] and total > 0 else 0.0
        return memory * factor + demand.base_memory + demand.leak * age

    def _demand_at_step(self, number: int) -> tuple[FloatColumn, FloatColumn]:
        """The demand of every series in one step; the last step goes on for ever."""
        offset = number - self._begin
        if not 0 <= offset < self._block.shape[1]:
            self._begin, offset = number, 0
            self._block = self._read_block(number)
        return self._block[0, offset], self._block[1, offset]

    def _read_block(self, begin: int) -> FloatColumn:
        block = np.zeros((2, _BLOCK, len(self.series)))
        for number, demand in enumerate(self._demands):
            if demand is None or demand.by_age or not len(demand.cpu):
                continue
            for resource, column in enumerate((demand.cpu, demand.memory)):
                part = column[begin : begin + _BLOCK]
                block[resource, : len(part), number] = part
                block[resource, len(part) :, number] = column[-1]
        # Where a trace has a gap, no demand is known.
        return np.nan_to_num(block, copy=False)

    def _demand_at_age(self, series: IntColumn, age: FloatColumn) -> tuple[FloatColumn, FloatColumn]:
        steps = np.minimum((age // self._step).astype(np.int64), self._lengths[series] - 1)
        amounts = self._amounts_by_age[:, self._offsets[series] + np.maximum(steps, 0)]
        return np.nan_to_num(amounts[0]), np.nan_to_num(amounts[1])


_NOTHING: Final = ContainerDemand("", np.zeros(0), np.zeros(0))


def _finite(amount: float) -> float:
    return amount if amount == amount else 0.0  # noqa: PLR0124 - NaN alone differs from itself


# Two shares of 1,024: the weight of a container without a request.
LEAST_WEIGHT: Final = 0.002


def share_cpu(
    demanded: FloatColumn, requested: FloatColumn, node: IntColumn, capacity: FloatColumn, full: BoolColumn
) -> FloatColumn:
    """The CPU that each container gets; on nodes that are not `full` that is its demand.

    A round settles at least one container of each node, and mostly nearly all of them.
    """
    granted = demanded.copy()
    open_ = np.flatnonzero(full[node])
    remaining = capacity.copy()
    weight = np.maximum(requested, LEAST_WEIGHT)
    while len(open_):
        where = node[open_]
        weights = np.bincount(where, weight[open_], minlength=len(capacity))
        part = weight[open_] * (remaining / np.where(weights > 0, weights, 1.0))[where]
        content = demanded[open_] <= part
        # Where each container of a node demands more than its part, each gets its part.
        is_granted = np.bincount(where, content, minlength=len(capacity))[where] == 0
        granted[open_[is_granted]] = part[is_granted]
        remaining -= np.bincount(where, np.where(content, demanded[open_], 0.0), minlength=len(capacity))
        open_ = open_[~content & ~is_granted]
    return granted
