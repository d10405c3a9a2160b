"""What did all pods of a workload use together, and how many were there? Time by time, in columns.

Counted only if somebody asks, and only of workloads that can be scaled: it is the one thing that grows with the length
of a history.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec
import numpy as np

from trellis.core.recommend.amounts import MILLICORES
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.core.usage.samples import MOST_BYTES, MOST_CORES, Measured


class Totals(msgspec.Struct, frozen=True, eq=False):
    """From `start` on, a step of so many seconds apart: pods, millicores and bytes; NaN where nobody measured."""

    start: float
    step: float
    pods: IntColumn
    cpu: FloatColumn
    memory: FloatColumn


class TotalsCounter:
    """Sums samples of some workloads up, by key and batch by batch. All pods at one time have to be in one batch."""

    def __init__(self, of: Collection[str], start: float, step: float, count: int) -> None:
        self._of = frozenset(of)
        self._start = start
        self._step = step
        self._count = count
        self._numbers: dict[str, int] = {}
        self._pods: IntColumn = np.zeros((0, count), dtype=np.int64)
        self._sums: FloatColumn = np.zeros((2, 0, count))

    def take_in(self, keys: Sequence[str], pods: Sequence[str], which: IntColumn, measured: Measured) -> None:
        """A batch: for each container its workload and its pod; then the samples, as usage is counted."""
        numbers = np.array([self._number(key) if key in self._of else -1 for key in keys], dtype=np.int64)
        named = {pod: number for number, pod in enumerate(dict.fromkeys(pods))}
        pod_of = np.array([named[pod] for pod in pods], dtype=np.int64)
        row, known_pod = numbers[which], pod_of[which]
        at = np.rint((measured.times - self._start) / self._step)
        within: BoolColumn = (row >= 0) & (at >= 0) & (at < self._count)
        at = np.where(within, at, 0).astype(np.int64)
        counted = np.zeros(len(row), dtype=np.bool_)
        for resource, (values, unit, most) in enumerate(
            ((measured.cpu, MILLICORES, MOST_CORES), (measured.memory, 1.0, MOST_BYTES))
        ):
            sound: BoolColumn = within & (values >= 0) & (values <= most)
            fresh = np.isnan(self._sums[resource, row[sound], at[sound]])
            self._sums[resource, row[sound][fresh], at[sound][fresh]] = 0.0
            np.add.at(self._sums[resource], (row[sound], at[sound]), values[sound] * unit)
            counted |= sound
        places = (row[counted] * self._count + at[counted]) * max(1, len(named)) + known_pod[counted]
        place = np.unique(places) // max(1, len(named))
        np.add.at(self._pods.reshape(-1), place, 1)

    def found(self) -> dict[str, Totals]:
        """What came of it, by workload."""
        return {
            key: Totals(self._start, self._step, self._pods[number].copy(), *self._sums[:, number].copy())
            for key, number in self._numbers.items()
        }

    def _number(self, key: str) -> int:
        number = self._numbers.setdefault(key, len(self._numbers))
        if number >= len(self._pods):
            more = max(8, number)
            self._pods = np.concatenate((self._pods, np.zeros((more, self._count), dtype=np.int64)))
            self._sums = np.concatenate((self._sums, np.full((2, more, self._count), np.nan)), axis=1)
        return number
