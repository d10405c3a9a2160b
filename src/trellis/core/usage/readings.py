"""What is taken in at once? Values of one resource, at most one per slot."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn


class Readings(NamedTuple):
    """Columns of equal length. No slot comes twice, rows may."""

    slots: IntColumn
    rows: IntColumn
    times: FloatColumn
    values: FloatColumn
    pods: IntColumn
    """By how much a value counts for the whole workload."""

    def only(self, which: BoolColumn) -> Readings:
        """Those that a mask marks."""
        return self if which.all() else self.at(np.flatnonzero(which))

    def at(self, positions: IntColumn) -> Readings:
        """Those in some places."""
        slots, rows, pods = self.slots[positions], self.rows[positions], self.pods[positions]
        return Readings(slots, rows, self.times[positions], self.values[positions], pods)

    def of_workload(self, totals: IntColumn) -> Readings:
        """What each is for the whole workload; `totals` are the rows of workloads, by row."""
        return self._replace(rows=totals[self.rows], values=self.values * self.pods)
