"""What is known of each live container: where its memory window ends, its peaks, and the row it feeds?"""

from __future__ import annotations

import math

import numpy as np

from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.core.usage.tables import Table


class SlotTable(Table):
    """One entry per container of a pod that is followed or departed just now. Times are NaN where there is none."""

    fills = {
        "row": -1,
        "leader": -1,
        "ready": False,
        "was_ready": False,
        "request": math.nan,
        "cpu_request": math.nan,
        "started": math.nan,
        "departed": math.nan,
        "last_cpu": math.nan,
        "last_memory": math.nan,
        "window_end": math.nan,
        "memory_peak": math.nan,
        "oom_peak": math.nan,
        "total_peak": math.nan,
        "total_oom_peak": math.nan,
    }

    row: IntColumn
    leader: IntColumn
    """The slot of the pod's first container: one number for all containers of a pod."""
    ready: BoolColumn
    was_ready: BoolColumn
    """Whether its pod was Ready when it was sampled before. Told of leaders alone."""
    request: FloatColumn
    """The memory request in bytes; NaN if there is none."""
    cpu_request: FloatColumn
    """The CPU request in millicores; NaN if there is none."""
    started: FloatColumn
    """When the pod started; NaN if nobody knows."""
    departed: FloatColumn
    last_cpu: FloatColumn
    last_memory: FloatColumn
    window_end: FloatColumn
    memory_peak: FloatColumn
    """The highest sample of the window, in bytes; NaN before the first. Peaks are what the histogram has of it."""
    oom_peak: FloatColumn
    """What an OOM kill in the window was taken to need; only the higher of the two is in the histogram."""
    total_peak: FloatColumn
    """The same two for the whole workload."""
    total_oom_peak: FloatColumn

    @property
    def live(self) -> BoolColumn:
        """Which slots are those of followed pods."""
        return self.used & np.isnan(self.departed)

    def per_row(self, which: BoolColumn, rows: int) -> IntColumn:
        """How many of some slots feed each of so many rows."""
        return np.bincount(self.row[which], minlength=rows)
