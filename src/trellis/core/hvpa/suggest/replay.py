"""Replays a history with an HPA alone or with buckets: replicas, their sizes, and what that costs and lacks.

The load is taken as given: what all replicas use of CPU does not depend on how many there are, and of memory each has
its base usage and a part of the rest. A VPA asks for some more than the most of a day, with the replicas of then. A
decision knows what was used up to the sample before, so that a load that rises at once is met one sample late, as it is
by a live autoscaler.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

import msgspec
import numpy as np

from trellis.base.prices import GIB, Prices
from trellis.core.hvpa.ladder import find_next_count
from trellis.core.hvpa.next_step import size_replica
from trellis.core.hvpa.steps import WorkloadShape, is_below_min_change
from trellis.core.hvpa.suggest.history import ObservedHpa, SuggestionRules, WorkloadHistory, WorkloadUsageHistory
from trellis.core.hvpa.view import ResolvedHvpa
from trellis.core.recommend.amounts import ResourceAmounts
from trellis.core.usage.columns import FloatColumn, IntColumn

_HOUR = 3600.0
_MILLI = 1000.0


class AllottedReplicas(msgspec.Struct, frozen=True, eq=False):
    """Replicas and what one of them requests, at each time; memory that all of them would have used."""

    replicas: IntColumn
    cpu: FloatColumn
    memory: FloatColumn
    used_memory: FloatColumn


class ReplayCost(msgspec.Struct, frozen=True):
    """What all replicas requested over the history, and in money for a month.

    `cpu_over` and `memory_over` are the shares of the time in which more was used than was requested. `changes` is how
    often the count changed.
    """

    core_hours: float
    gib_hours: float
    money: float
    cpu_over: float
    memory_over: float
    fewest: int
    most: int
    changes: int


def compute_replay_cost(history: WorkloadUsageHistory, allotted: AllottedReplicas, prices: Prices) -> ReplayCost:
    """The cost of a replay."""
    cpu, memory = allotted.replicas * allotted.cpu, allotted.replicas * allotted.memory
    hours = history.step / _HOUR
    return ReplayCost(
        core_hours=float(cpu.sum()) / _MILLI * hours,
        gib_hours=float(memory.sum()) / GIB * hours,
        money=prices.cost_per_month(float(cpu.mean()) / _MILLI, float(memory.mean())),
        cpu_over=float(np.mean(history.cpu > cpu)),
        memory_over=float(np.mean(allotted.used_memory > memory)),
        fewest=int(allotted.replicas.min()),
        most=int(allotted.replicas.max()),
        changes=int(np.count_nonzero(np.diff(allotted.replicas))),
    )


# An HPA leaves what is off by no more, and waits these seconds before it scales down.
_TOLERANCE = 0.1
_HPA_WINDOW = 300.0
_DAY = 86_400.0


def replay_as_observed(workload: WorkloadHistory) -> AllottedReplicas:
    """The pods that there were, each with what it requests today; no request is none."""
    history = workload.usage.complete_samples
    cpu, memory = (np.full(len(history.pods), 0.0 if math.isnan(amount) else amount) for amount in workload.request)
    return AllottedReplicas(history.pods, cpu, memory, history.memory)


def replay_hpa(workload: WorkloadHistory, hpa: ObservedHpa, base: float) -> AllottedReplicas:
    """What an HPA on CPU would have done with pods of today's size."""
    history = workload.usage.complete_samples
    cpu, memory = workload.request
    full = cpu * hpa.utilization
    desired = np.ceil(history.cpu / full)
    counts = [min(max(int(history.pods[0]), hpa.least), hpa.most)]
    for position in range(1, len(desired)):
        ratio = history.cpu[position - 1] / (counts[-1] * full)
        needed = counts[-1] if abs(ratio - 1) <= _TOLERANCE else int(desired[position - 1])
        counts.append(min(max(needed, hpa.least), hpa.most))
    replicas = _sliding_maximum(np.array(counts), _HPA_WINDOW, history.step).astype(np.int64)
    return _build_allotted(history, replicas, np.full(len(replicas), cpu), np.full(len(replicas), memory), base)


def replay_buckets(
    workload: WorkloadHistory, meaning: ResolvedHvpa, base: float, rules: SuggestionRules
) -> AllottedReplicas:
    """What the buckets would have done."""
    history = workload.usage.complete_samples
    window = meaning.hvpa.down.stabilization.total_seconds()
    counts = _shift_by_one(
        _sliding_maximum(np.ceil(history.cpu / workload.find_utilization(rules)), window, history.step)
    )
    walk, peaks = _BucketWalk(meaning, int(history.pods[0])), _SlidingMaximum(math.floor(_DAY / history.step))
    shapes: list[WorkloadShape] = []
    for cpu, shared_memory in zip(_apply_tolerance(counts), _shared_memory(history, base).tolist(), strict=True):
        peak = peaks.highest if shapes else shared_memory + base * walk.count
        shapes.append(walk.step(cpu, max(math.ceil(rules.memory_margin * peak), 1)))
        peaks.add(shared_memory + base * walk.count)
    replicas = np.array([shape.count for shape in shapes], dtype=np.int64)
    sizes = np.array([(shape.size["cpu"], shape.size["memory"]) for shape in shapes], dtype=np.float64)
    return _build_allotted(history, replicas, sizes[:, 0], sizes[:, 1], base)


class _SlidingMaximum:
    """The highest of the last values; those that a later one is no lower than are forgotten."""

    def __init__(self, length: int) -> None:
        self._length = length
        self._at = 0
        self._values: deque[tuple[int, float]] = deque()

    def add(self, value: float) -> None:
        while self._values and self._values[-1][1] <= value:
            self._values.pop()
        self._values.append((self._at, value))
        self._at += 1
        if self._values[0][0] < self._at - self._length:
            self._values.popleft()

    @property
    def highest(self) -> float:
        """The highest value in the window."""
        return self._values[0][1]


class _BucketWalk:
    """From shape to shape, by the rules of an Hvpa."""

    def __init__(self, meaning: ResolvedHvpa, count: int) -> None:
        self._meaning = meaning
        self._shape = WorkloadShape(0, {})
        self._decided: tuple[int, int, int] = (0, 0, 0)
        self.count = count

    def step(self, cpu: int, memory: int) -> WorkloadShape:
        """The shape for these totals; most are those of the step before, for which nothing is worked out."""
        if (cpu, memory, self.count) == self._decided:
            return self._shape
        self._decided = (cpu, memory, self.count)
        down, ladders = self._meaning.hvpa.down, self._meaning.ladders
        totals: ResourceAmounts = {"cpu": cpu, "memory": memory}
        count = find_next_count(ladders, totals, self.count, down.overlap_percent)
        shape = WorkloadShape(count, size_replica(self._meaning, totals, {}, count=count, present={}))
        if not is_below_min_change(self._shape, shape, ladders, down.min_change_percent):
            self._shape, self.count = shape, count
        return self._shape


def _apply_tolerance(counts: FloatColumn) -> Iterator[int]:
    """An HPA says nothing of a total that is hardly another."""
    total = 0
    for count in counts.tolist():
        if not total or abs(count / total - 1) > _TOLERANCE:
            total = max(int(count), 1)
        yield total


def _build_allotted(
    history: WorkloadUsageHistory, replicas: IntColumn, cpu: FloatColumn, memory: FloatColumn, base: float
) -> AllottedReplicas:
    return AllottedReplicas(replicas, cpu, memory, _shared_memory(history, base) + base * replicas)


def _shared_memory(history: WorkloadUsageHistory, base: float) -> FloatColumn:
    """Memory that replicas share."""
    return np.maximum(history.memory - base * history.pods, 0.0)


def _shift_by_one(column: FloatColumn) -> FloatColumn:
    """Each value a step later; of the first it is the first."""
    return np.concatenate((column[:1], column[:-1]))


def _sliding_maximum(column: FloatColumn | IntColumn, window: float, step: float) -> FloatColumn:
    """The highest of each value and those before it within a window."""
    values = column.astype(np.float64)
    length = min(math.floor(window / step) + 1, len(values))
    padded = np.concatenate((np.full(length - 1, -np.inf), values))
    highest: FloatColumn = np.lib.stride_tricks.sliding_window_view(padded, length).max(axis=1)
    return highest
