"""What did the containers use in one step?"""

from __future__ import annotations

import msgspec

from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn


class StepUsage(msgspec.Struct, frozen=True):
    """One step, from `time` on for `seconds`. Columns are of equal length, one entry for each container that runs.

    `rows` are their numbers in the cluster's `RowTable`; the numbers may stand for others after the next event, so that
    names, workloads and requests are to be read from there at once. Amounts are cores and bytes: what was wanted, and
    what was had. Who had less CPU than wanted was `throttled`. Who wants more memory than its limit has that limit, and
    is killed by the events that follow. `unserved` is by workload: cores of a shared load that nobody was Ready for.
    """

    number: int
    time: float
    seconds: float
    rows: IntColumn
    workload: IntColumn
    series: IntColumn
    wanted_cpu: FloatColumn
    used_cpu: FloatColumn
    wanted_memory: FloatColumn
    used_memory: FloatColumn
    throttled: BoolColumn
    unserved: FloatColumn

    def __len__(self) -> int:
        return len(self.rows)
