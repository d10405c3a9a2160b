"""How many replicas of which size would there have been, with an HPA alone or with buckets?

The load is taken as given: what all replicas use of CPU does not depend on how many there are, and of memory each has
its base usage and a part of the rest. A VPA asks for some more than the most of a day, with the replicas of then.
Whoever decides knows what was used up to the sample before, so that a load that rises at once is met one sample late,
as it is by a live autoscaler.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

import numpy as np

from trellis.core.hvpa.counts import count_from
from trellis.core.hvpa.sizes import size_of
from trellis.core.hvpa.steps import Shape, is_too_small
from trellis.core.hvpa.suggesting.lived import LivedHpa, LivedWorkload, SuggestingRules, Usage
from trellis.core.hvpa.suggesting.outcomes import Allotted
from trellis.core.hvpa.views import Meaning
from trellis.core.recommend.capping.limit_ranges import Counts
from trellis.core.usage.columns import FloatColumn, IntColumn

# An HPA leaves what is off by no more, and waits so many seconds before it scales down.
_TOLERANCE = 0.1
_HPA_WINDOW = 300.0
_DAY = 86_400.0


def as_it_was(workload: LivedWorkload) -> Allotted:
    """The pods that there were, each with what it requests today; no request is none."""
    seen = workload.usage.seen
    cpu, memory = (np.full(len(seen.pods), 0.0 if math.isnan(each) else each) for each in workload.request)
    return Allotted(seen.pods, cpu, memory, seen.memory)


def by_hpa(workload: LivedWorkload, hpa: LivedHpa, base: float) -> Allotted:
    """What an HPA on CPU would have done with pods of today's size."""
    seen = workload.usage.seen
    cpu, memory = workload.request
    full = cpu * hpa.utilization
    wanted = np.ceil(seen.cpu / full)
    counts = [min(max(int(seen.pods[0]), hpa.least), hpa.most)]
    for at in range(1, len(wanted)):
        ratio = seen.cpu[at - 1] / (counts[-1] * full)
        needed = counts[-1] if abs(ratio - 1) <= _TOLERANCE else int(wanted[at - 1])
        counts.append(min(max(needed, hpa.least), hpa.most))
    replicas = _highest(np.array(counts), _HPA_WINDOW, seen.step).astype(np.int64)
    return _allotted(seen, replicas, np.full(len(replicas), cpu), np.full(len(replicas), memory), base)


def by_buckets(workload: LivedWorkload, meaning: Meaning, base: float, rules: SuggestingRules) -> Allotted:
    """What the buckets would have done."""
    seen = workload.usage.seen
    window = meaning.hvpa.down.stabilization.total_seconds()
    asked = _before(_highest(np.ceil(seen.cpu / workload.utilization(rules)), window, seen.step))
    walk, peaks = _Walk(meaning, int(seen.pods[0])), _Peaks(math.floor(_DAY / seen.step))
    shapes: list[Shape] = []
    for cpu, rest in zip(_in_force(asked), _rest(seen, base).tolist(), strict=True):
        peak = peaks.highest if shapes else rest + base * walk.count
        shapes.append(walk.step(cpu, max(math.ceil(rules.margin * peak), 1)))
        peaks.see(rest + base * walk.count)
    replicas = np.array([each.count for each in shapes], dtype=np.int64)
    sizes = np.array([(each.size["cpu"], each.size["memory"]) for each in shapes], dtype=np.float64)
    return _allotted(seen, replicas, sizes[:, 0], sizes[:, 1], base)


class _Peaks:
    """The highest of so many values; those that a later one is no lower than are forgotten."""

    def __init__(self, many: int) -> None:
        self._many = many
        self._at = 0
        self._values: deque[tuple[int, float]] = deque()

    def see(self, value: float) -> None:
        """One more."""
        while self._values and self._values[-1][1] <= value:
            self._values.pop()
        self._values.append((self._at, value))
        self._at += 1
        if self._values[0][0] < self._at - self._many:
            self._values.popleft()

    @property
    def highest(self) -> float:
        """Of those that there are."""
        return self._values[0][1]


class _Walk:
    """From shape to shape, by the rules of an Hvpa."""

    def __init__(self, meaning: Meaning, count: int) -> None:
        self._meaning = meaning
        self._stands = Shape(0, {})
        self._decided: tuple[int, int, int] = (0, 0, 0)
        self.count = count

    def step(self, cpu: int, memory: int) -> Shape:
        """The shape for these totals; most are those of the step before, for which nothing is worked out."""
        if (cpu, memory, self.count) == self._decided:
            return self._stands
        self._decided = (cpu, memory, self.count)
        down, ladders = self._meaning.hvpa.down, self._meaning.ladders
        totals: Counts = {"cpu": cpu, "memory": memory}
        count = count_from(ladders, totals, self.count, down.overlap_percent)
        shape = Shape(count, size_of(self._meaning, totals, {}, count=count, present={}))
        if not is_too_small(self._stands, shape, ladders, down.min_change_percent):
            self._stands, self.count = shape, count
        return self._stands


def _in_force(asked: FloatColumn) -> Iterator[int]:
    """An HPA says nothing of a total that is hardly another."""
    total = 0
    for wanted in asked.tolist():
        if not total or abs(wanted / total - 1) > _TOLERANCE:
            total = max(int(wanted), 1)
        yield total


def _allotted(seen: Usage, replicas: IntColumn, cpu: FloatColumn, memory: FloatColumn, base: float) -> Allotted:
    return Allotted(replicas, cpu, memory, _rest(seen, base) + base * replicas)


def _rest(seen: Usage, base: float) -> FloatColumn:
    """Memory that replicas share."""
    return np.maximum(seen.memory - base * seen.pods, 0.0)


def _before(column: FloatColumn) -> FloatColumn:
    """Each value a step later; of the first it is the first."""
    return np.concatenate((column[:1], column[:-1]))


def _highest(column: FloatColumn | IntColumn, window: float, step: float) -> FloatColumn:
    """The highest of each value and those before it within a window."""
    values = column.astype(np.float64)
    many = min(math.floor(window / step) + 1, len(values))
    padded = np.concatenate((np.full(many - 1, -np.inf), values))
    found: FloatColumn = np.lib.stride_tricks.sliding_window_view(padded, many).max(axis=1)
    return found
