"""How long did pods wait for a node? The mean says little: most wait for none, and those that do are what hurts."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.sim.results import Waits

_HIGH = 95.0


class Waiting:
    """What pods have waited, one entry for each; `add` is called when one has its node."""

    def __init__(self) -> None:
        self._workloads: list[int] = []
        self._made: list[float] = []
        self._seconds: list[float] = []

    def add(self, workload: int, made: float, seconds: float) -> None:
        """A pod that was made then has waited for so long."""
        self._workloads.append(workload)
        self._made.append(made)
        self._seconds.append(seconds)

    def copy(self) -> Waiting:
        """The same so far."""
        found = Waiting()
        found._workloads, found._made, found._seconds = list(self._workloads), list(self._made), list(self._seconds)
        return found

    def told(self, since: float, workloads: int, uncounted: Collection[int]) -> tuple[Waits, list[Waits]]:
        """Of pods made since then: of all but the workloads that do not count, and of each workload."""
        owners: IntColumn = np.array(self._workloads, dtype=np.int64)
        seconds: FloatColumn = np.array(self._seconds, dtype=np.float64)
        counted: BoolColumn = np.array(self._made, dtype=np.float64) >= since
        each = [_waits(seconds[counted & (owners == number)]) for number in range(workloads)]
        return _waits(seconds[counted & ~np.isin(owners, list(uncounted))]), each


def _waits(seconds: FloatColumn) -> Waits:
    if not len(seconds):
        return Waits()
    high = np.percentile(seconds, _HIGH, method="higher")
    return Waits(len(seconds), float(seconds.mean()), float(high), float(seconds.max()))
