"""Whose usage is measured, and under which names? What the metrics of a step say, gaps in them left out."""

from __future__ import annotations

from itertools import compress

import numpy as np

from trellis.core.usage.columns import BoolColumn, IntColumn
from trellis.core.usage.samples import Measured
from trellis.sim.cluster.rows import RowTable
from trellis.sim.cluster.usage import StepUsage
from trellis.sim.faults import METRICS_GAP, Faults, concerns
from trellis.sim.fleet import Fleet
from trellis.sim.recommending import Names, Sample


class Sampling:
    """Reads steps of usage. Names are found once, and hold until the rows change."""

    def __init__(self, fleet: Fleet, faults: Faults) -> None:
        self._names_of_workloads = [each.name for each in fleet.workloads]
        self._gaps = faults.of(METRICS_GAP)
        self._named_at = -1
        self._named: IntColumn = np.zeros(0, dtype=np.int64)
        self._names: Names = ([], [], [])

    def seen(self, usage: StepUsage) -> BoolColumn | None:
        """Which containers are measured; None if all are."""
        end = usage.time + usage.seconds
        gaps = [each for each in self._gaps if each.begin <= end < each.end]
        if not gaps:
            return None
        seen = [not any(concerns(gap, name) for gap in gaps) for name in self._names_of_workloads]
        return np.array(seen, dtype=np.bool_)[usage.workload]

    def samples(self, usage: StepUsage, rows: RowTable, seen: BoolColumn | None) -> Sample:
        """What they used, as of the end of the step."""
        if rows.version != self._named_at or not np.array_equal(usage.rows, self._named):
            self._named_at, self._named, self._names = rows.version, usage.rows, rows.names(usage.rows)
        end, cpu, memory = usage.time + usage.seconds, usage.used_cpu, usage.used_memory
        if seen is None:
            return self._names, Measured(np.full(len(cpu), end), cpu, memory)
        spaces, pods, containers = (list(compress(each, seen)) for each in self._names)
        cpu, memory = cpu[seen], memory[seen]
        return (spaces, pods, containers), Measured(np.full(len(cpu), end), cpu, memory)
