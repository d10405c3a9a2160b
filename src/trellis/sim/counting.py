"""How many pods ran, and how much CPU was wanting? Sums of the time that is scored, by workload, where counts change.

Who needs more replicas may have none that is Ready, so that what nobody was there to take is wanting too. What a start
would have used is not: it serves nobody yet.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trellis.core.usage.columns import FloatColumn
from trellis.sim.cluster.rows import RowTable, Stage
from trellis.sim.cluster.usage import StepUsage
from trellis.sim.results import Scaling

_HOUR: Final = 3600.0


class Counting:
    """Sums over steps; `first` has the number of the first container of each workload, by which pods are counted."""

    def __init__(self, first: list[int]) -> None:
        self._first = first
        self._steps = 0
        self._pods = np.zeros(len(first))
        self._overload = np.zeros(len(first))

    def add(self, usage: StepUsage, rows: RowTable, containers: FloatColumn) -> None:
        """One step that is scored, in which so many `containers` of each number ran."""
        self._steps += 1
        self._pods += containers[self._first]
        serves = rows.stage[usage.rows] == Stage.UP
        lacking = np.where(serves, usage.wanted_cpu - usage.used_cpu, 0.0)
        by_workload = np.bincount(usage.workload, lacking, minlength=len(self._first)) + usage.unserved
        self._overload += by_workload * usage.seconds / _HOUR

    def of_workload(self, workload: int, scalings: int) -> Scaling:
        """What one came to."""
        return self._scaling(self._pods[workload], self._overload[workload], scalings)

    def of_fleet(self, scalings: int) -> Scaling:
        """What all came to."""
        return self._scaling(self._pods.sum(), self._overload.sum(), scalings)

    def _scaling(self, pods: float, overload: float, scalings: int) -> Scaling:
        return Scaling(float(pods) / self._steps if self._steps else 0.0, scalings, float(overload))
