"""Summarises what containers used over time: the highest usage of any pod in each of a fixed number of steps.

A summary is for a picture beside a container. It has 48 steps whatever the length of the history, which takes 384 bytes
a container.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from trellis.core.usage.columns import FloatColumn, IntColumn

POINTS: Final = 48
SummaryColumn: TypeAlias = NDArray[np.float32]


class UsageSummary(msgspec.Struct, frozen=True, eq=False):
    """The highest usage of a container from `start` on, in steps of `step` seconds: millicores and bytes.

    NaN stands for a step without a sample.
    """

    start: float
    step: float
    cpu: SummaryColumn
    memory: SummaryColumn

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, UsageSummary)
            and (self.start, self.step) == (other.start, other.step)
            and np.array_equal(self.cpu, other.cpu, equal_nan=True)
            and np.array_equal(self.memory, other.memory, equal_nan=True)
        )

    __hash__ = None  # type: ignore[assignment]


class UsageSummaries:
    """Accumulates the summaries of rows over a span of time, batch by batch and in any order."""

    def __init__(self, start: float, end: float) -> None:
        self._start = start
        self._step = max(end - start, 1.0) / POINTS
        self._highest: NDArray[np.float32] = np.full((0, 2, POINTS), np.nan, dtype=np.float32)

    def reserve(self, rows: int) -> None:
        """Make space for a number of rows."""
        added = rows - len(self._highest)
        if added > 0:
            empty = np.full((max(added, len(self._highest) // 2), 2, POINTS), np.nan, dtype=np.float32)
            self._highest = np.concatenate([self._highest, empty])

    def add(self, rows: IntColumn, times: FloatColumn, cpu: FloatColumn, memory: FloatColumn) -> None:
        """Add samples in millicores and bytes; NaN where not measured. Those outside of the span are left out."""
        step = np.floor((times - self._start) / self._step)
        step = np.where(times == self._start + POINTS * self._step, POINTS - 1, step)
        is_within = (step >= 0) & (step < POINTS)
        places = rows[is_within], step[is_within].astype(np.int64)
        for resource, values in enumerate((cpu, memory)):
            np.fmax.at(self._highest[:, resource], places, values[is_within].astype(np.float32))

    def get_summary(self, row: int) -> UsageSummary | None:
        """The summary of a row, if it has any usage."""
        if row >= len(self._highest) or np.isnan(self._highest[row]).all():
            return None
        cpu, memory = self._highest[row]
        return UsageSummary(self._start, self._step, np.round(cpu, 1), np.rint(memory))
