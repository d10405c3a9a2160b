"""Sums of the scored time: requests, usage, slack, cost, replicas and overload, in columns.

A step adds all running containers at once. The scored time begins with the end of the warm-up; charts show everything.

A workload that needs more replicas may have none that is Ready, so demand without any pod to serve it is overload too.
What a start would have used is not: it serves nothing yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from trellis.base.prices import Prices
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.sim.cluster.container_table import ContainerStage, ModelContainerTable
from trellis.sim.cluster.telemetry import StepUsage
from trellis.sim.fleet import Fleet
from trellis.sim.results import CpuAndMemory, ScalingTotals, SimulationTotals

_HOUR: Final = 3600.0

# What is summed for each resource: the first axis of the sums.
REQUESTED: Final = 0
USED: Final = 1
SLACK: Final = 2
DEMANDED: Final = 3
OVER: Final = 4
EXCESS: Final = 5
_SUMMED: Final = 6


class ContainerNumbers:
    """Numbers for the containers of workloads, one after the other; the columns of all sums go by them."""

    def __init__(self, containers: Sequence[Sequence[str]]) -> None:
        sizes = [len(names) for names in containers]
        self.begin: IntColumn = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        self.workload: IntColumn = np.repeat(np.arange(len(sizes)), sizes)
        self.names = [name for names in containers for name in names]
        self._numbers = {(int(self.workload[number]), name): number for number, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def find(self, workload: int, container: str) -> int:
        """The number of a container; -1 if the workload has none of that name."""
        return self._numbers.get((workload, container), -1)

    def list_numbers(self, workload: int) -> range:
        """The numbers of a workload's containers."""
        return range(int(self.begin[workload]), int(self.begin[workload + 1]))


class StepAmounts(msgspec.Struct, frozen=True):
    """All running containers during one step: where each is counted, and cores and bytes as (resource, container).

    `halted` are those that wait for a restart after a kill, which keep their allocation on the node, and `held` is what
    they request.
    """

    places: IntColumn
    requested: FloatColumn
    demanded: FloatColumn
    used: FloatColumn
    throttled: BoolColumn
    halted: IntColumn
    held: FloatColumn


class StepSums(msgspec.Struct, frozen=True):
    """The sums of one step, by place: as (sum, resource, place), throttled containers, and all containers.

    All of that is of containers that run; `held` is what those request that wait for a restart.
    """

    amounts: FloatColumn
    throttled: FloatColumn
    containers: FloatColumn
    held: FloatColumn


def sum_step(step: StepAmounts, places: int) -> StepSums:
    """Sum a step over the containers of each place."""
    amounts = np.empty((_SUMMED, 2, places))
    where = step.places
    for resource in range(2):
        requested, demanded, used = (amounts[resource] for amounts in (step.requested, step.demanded, step.used))
        excess = np.maximum(demanded - requested, 0.0)
        for axis, column in (
            (REQUESTED, requested),
            (USED, used),
            (SLACK, np.maximum(requested - used, 0.0)),
            (DEMANDED, demanded),
            (OVER, excess > 0.0),
            (EXCESS, excess),
        ):
            amounts[axis, resource] = np.bincount(where, column, places)
    return StepSums(
        amounts,
        np.bincount(where, step.throttled, places).astype(np.float64),
        np.bincount(where, minlength=places).astype(np.float64),
        np.stack([np.bincount(step.halted, held, places) for held in step.held]),
    )


class UsageAccounting:
    """Sums of the time that is scored, by place."""

    def __init__(self, fleet: Fleet, places: ContainerNumbers) -> None:
        self._places = places
        self._prices = fleet.prices
        self._step = fleet.clock.step
        self._steps = 0
        self._amounts = np.zeros((_SUMMED, 2, len(places)))
        self._throttled = np.zeros(len(places))
        self._containers = np.zeros(len(places))

    @property
    def seconds(self) -> float:
        """The seconds that were scored."""
        return self._steps * self._step

    def add(self, sums: StepSums) -> None:
        """Add a scored step."""
        self._steps += 1
        self._amounts += sums.amounts
        self._amounts[[REQUESTED, SLACK]] += sums.held
        self._throttled += sums.throttled
        self._containers += sums.containers

    def total_workload(self, workload: int, counts: SimulationTotals) -> SimulationTotals:
        """The totals of a workload; `counts` has what is counted and not summed."""
        return self._totals(slice(self._places.begin[workload], self._places.begin[workload + 1]), counts)

    def total_fleet(self, counts: SimulationTotals) -> SimulationTotals:
        """The totals of all workloads."""
        return self._totals(slice(None), counts)

    def _totals(self, where: slice, counts: SimulationTotals) -> SimulationTotals:
        amounts = self._amounts[:, :, where].sum(axis=2)
        containers = float(self._containers[where].sum())
        averages = amounts / self._steps if self._steps else np.zeros_like(amounts)
        seconds = containers * self._step
        return msgspec.structs.replace(
            counts,
            requested=_both(averages[REQUESTED]),
            used=_both(averages[USED]),
            slack=_both(averages[SLACK]),
            footprint=_both(_ratio(amounts[REQUESTED], amounts[USED])),
            time_over=_both(np.nan_to_num(_ratio(amounts[OVER], np.full(2, containers)))),
            overrun=_both(np.nan_to_num(_ratio(amounts[EXCESS], amounts[DEMANDED]))),
            throttled_seconds=float(self._throttled[where].sum()) * self._step,
            container_seconds=seconds,
            money=compute_request_cost(averages[REQUESTED], self.seconds, self._prices),
        )


def compute_request_cost(requested: FloatColumn, seconds: float, prices: Prices) -> float:
    """The cost of cores and bytes for a time."""
    return prices.cost_per_hour(float(requested[0]), float(requested[1])) * seconds / _HOUR


def _ratio(above: FloatColumn, below: FloatColumn) -> FloatColumn:
    """The quotient; NaN where the divisor is 0."""
    ratio: FloatColumn = np.full(2, np.nan)
    np.divide(above, below, out=ratio, where=below > 0.0)
    return ratio


def _both(column: FloatColumn) -> CpuAndMemory:
    return CpuAndMemory(float(column[0]), float(column[1]))


class ReplicaAccounting:
    """Sums over steps; `first` has the number of the first container of each workload, by which pods are counted."""

    def __init__(self, first: list[int]) -> None:
        self._first = first
        self._steps = 0
        self._pods = np.zeros(len(first))
        self._overload = np.zeros(len(first))

    def add(self, usage: StepUsage, rows: ModelContainerTable, containers: FloatColumn) -> None:
        """Add a scored step; `containers` is how many of each number ran."""
        self._steps += 1
        self._pods += containers[self._first]
        serves = rows.stage[usage.rows] == ContainerStage.UP
        lacking = np.where(serves, usage.demanded_cpu - usage.used_cpu, 0.0)
        by_workload = np.bincount(usage.workload, lacking, minlength=len(self._first)) + usage.unserved
        self._overload += by_workload * usage.seconds / _HOUR

    def total_workload(self, workload: int, scalings: int) -> ScalingTotals:
        """The scaling of one workload."""
        return self._scaling(self._pods[workload], self._overload[workload], scalings)

    def total_fleet(self, scalings: int) -> ScalingTotals:
        """The scaling of all workloads."""
        return self._scaling(self._pods.sum(), self._overload.sum(), scalings)

    def _scaling(self, pods: float, overload: float, scalings: int) -> ScalingTotals:
        return ScalingTotals(float(pods) / self._steps if self._steps else 0.0, scalings, float(overload))
