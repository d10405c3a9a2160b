"""How much does each container want?

Demand lies in columns by step, one for each series: a container of a workload. It is read for all series at once, a
block of steps at a time, and spread over the rows: as it is, or as a share of what the whole workload wants.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.sim.cluster.rows import RowTable, Stage
from trellis.sim.cluster.templates import Template
from trellis.sim.fleet import Demand, Fleet

# Steps that are laid out side by side; with 5,000 series they take 5 MB for each resource.
_BLOCK: Final = 128


class Series(msgspec.Struct, frozen=True):
    """A container of a workload: the workload's number in the fleet, and the container's name."""

    workload: int
    container: str


class Columns(msgspec.Struct, frozen=True):
    """What the rows of running containers say, gathered once for as long as no row changes.

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


class Wishes:
    """The demand of a fleet. Series are numbered by workload, then by container as the template has them."""

    def __init__(self, fleet: Fleet, templates: Sequence[Template]) -> None:
        self.series: list[Series] = []
        self.first: list[int] = []
        self._demands: list[Demand | None] = []
        for number, (workload, template) in enumerate(zip(fleet.workloads, templates, strict=True)):
            demands = {each.container: each for each in workload.demand}
            self.first.append(len(self.series))
            for name in template.containers:
                self.series.append(Series(number, name))
                self._demands.append(demands.get(name))
        self._owners: IntColumn = np.array([each.workload for each in self.series], dtype=np.int64)
        self._nothing = np.zeros(len(fleet.workloads))
        self._step = fleet.clock.step
        self._starting = np.array([fleet.workloads[each.workload].start.cores for each in self.series])
        some = [each if each is not None else _NOTHING for each in self._demands]
        self.spread = np.array([each.spread for each in some])
        self._shared = np.array([each.shared for each in some], dtype=np.bool_)
        self._own_memory = np.array([each.own_memory for each in some], dtype=np.bool_)
        self._aged = np.array([each.by_age for each in some], dtype=np.bool_)
        self._base = np.array([[each.base_cpu for each in some], [each.base_memory for each in some]])
        self._leak = np.array([each.leak for each in some])
        self._leaks = bool(self._leak.any())
        self._based = bool(self._base.any())
        self._block = np.zeros((2, 0, len(some)))
        self._begin = 0
        self._lengths = np.array([len(each.cpu) for each in some], dtype=np.int64)
        aged = [each if each.by_age else _NOTHING for each in some]
        self._offsets = np.concatenate(([0], np.cumsum([len(each.cpu) for each in aged])))[:-1].astype(np.int64)
        self._by_age = np.array(
            [np.concatenate([each.cpu for each in aged]), np.concatenate([each.memory for each in aged])]
            if aged
            else np.zeros((2, 0))
        )

    def gathered(self, rows: RowTable) -> Columns:
        """What the rows say now."""
        reach = rows.reach
        stage = rows.stage[:reach]
        numbers = np.flatnonzero(rows.used[:reach] & (stage > Stage.DOWN))
        series, stage, factor = rows.series[numbers], stage[numbers], rows.factor[numbers]
        weight = np.where(rows.ready[numbers], factor, 0.0)
        total = np.bincount(series, weight, minlength=len(self.series))
        share = np.divide(weight, total[series], out=np.zeros(len(numbers)), where=weight > 0)
        return Columns(
            numbers,
            rows.workload[numbers],
            series,
            rows.node[numbers],
            stage == Stage.UP,
            factor,
            share,
            rows.started[numbers],
            rows.cpu_request[numbers],
            rows.cpu_limit[numbers],
            rows.memory_limit[numbers],
            np.flatnonzero(self._shared[series]),
            np.flatnonzero(self._aged[series]),
            np.flatnonzero(stage == Stage.WAITING),
            np.flatnonzero(stage == Stage.STARTING),
            np.flatnonzero(self._shared & ~self._aged & (total <= 0.0)),
        )

    def wanted(self, columns: Columns, number: int, now: float) -> tuple[FloatColumn, FloatColumn]:
        """Cores and bytes that each row wants from now on."""
        series = columns.series
        cpu_now, memory_now = self._at(number)
        cpu, memory = cpu_now[series], memory_now[series]
        if len(aged := columns.aged):
            cpu[aged], memory[aged] = self._of_age(series[aged], now - columns.started[aged])
        factor = columns.factor
        if len(shared := columns.shared):
            factor = factor.copy()
            factor[shared] = columns.share[shared]
        cpu *= factor
        memory *= np.where(self._own_memory[series], columns.factor, factor) if len(shared) else factor
        if self._based:
            cpu += self._base[0][series]
            memory += self._base[1][series]
        if self._leaks:
            memory += self._leak[series] * np.maximum(now - columns.started, 0.0)
        cpu[columns.waiting] = 0.0
        cpu[columns.starting] = self._starting[series[columns.starting]]
        return cpu, memory

    def unserved(self, columns: Columns, number: int) -> FloatColumn:
        """Cores of loads that nobody takes from now on, by workload."""
        idle = columns.idle
        if not len(idle):
            return self._nothing
        cores = np.bincount(self._owners[idle], self._at(number)[0][idle], minlength=len(self._nothing))
        return cores.astype(np.float64, copy=False)

    def memory_of(self, rows: RowTable, row: int, number: int, now: float) -> float:
        """The bytes that one row wants; the same, for one that has just come up."""
        series = int(rows.series[row])
        demand = self._demands[series]
        if demand is None:
            return 0.0
        age = max(now - float(rows.started[row]), 0.0)
        at = int(age // self._step) if demand.by_age else number
        memory = _finite(float(demand.memory[min(at, len(demand.memory) - 1)])) if len(demand.memory) else 0.0
        factor = float(rows.factor[row])
        if demand.shared and not demand.own_memory:
            mates = (rows.series[: rows.reach] == series) & rows.ready[: rows.reach]
            total = float(rows.factor[: rows.reach][mates].sum())
            factor = factor / total if rows.ready[row] and total > 0 else 0.0
        return memory * factor + demand.base_memory + demand.leak * age

    def _at(self, number: int) -> tuple[FloatColumn, FloatColumn]:
        """The demand of every series in one step; the last one goes on for ever."""
        place = number - self._begin
        if not 0 <= place < self._block.shape[1]:
            self._begin, place = number, 0
            self._block = self._laid_out(number)
        return self._block[0, place], self._block[1, place]

    def _laid_out(self, begin: int) -> FloatColumn:
        block = np.zeros((2, _BLOCK, len(self.series)))
        for number, demand in enumerate(self._demands):
            if demand is None or demand.by_age or not len(demand.cpu):
                continue
            for resource, column in enumerate((demand.cpu, demand.memory)):
                part = column[begin : begin + _BLOCK]
                block[resource, : len(part), number] = part
                block[resource, len(part) :, number] = column[-1]
        # Where a trace has a gap, nothing is known to be wanted.
        return np.nan_to_num(block, copy=False)

    def _of_age(self, series: IntColumn, age: FloatColumn) -> tuple[FloatColumn, FloatColumn]:
        steps = np.minimum((age // self._step).astype(np.int64), self._lengths[series] - 1)
        found = self._by_age[:, self._offsets[series] + np.maximum(steps, 0)]
        return np.nan_to_num(found[0]), np.nan_to_num(found[1])


_NOTHING: Final = Demand("", np.zeros(0), np.zeros(0))


def _finite(amount: float) -> float:
    return amount if amount == amount else 0.0  # noqa: PLR0124 - NaN alone differs from itself
