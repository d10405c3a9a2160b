"""How often did things happen to the pods of each workload? Counted from the beginning, in columns by its number."""

from __future__ import annotations

import msgspec
import numpy as np

from trellis.core.usage.columns import FloatColumn, IntColumn


class Tally(msgspec.Struct, frozen=True):
    """Counts and seconds. Pending is from when a pod is made until it has a node, start from then until it is up.

    `evictions` are those that somebody asked for, `pressed_out` those by kubelets for want of memory. `restarts` are of
    containers, whether killed or resized. `resizes` are those that came into force, and `scalings` how often another
    count was asked for.
    """

    pods_made: IntColumn
    pending_seconds: FloatColumn
    start_seconds: FloatColumn
    oom_kills: IntColumn
    restarts: IntColumn
    evictions: IntColumn
    pressed_out: IntColumn
    resizes: IntColumn
    scalings: IntColumn

    @classmethod
    def of(cls, workloads: int) -> Tally:
        """Nothing yet, for so many workloads."""

        def counts() -> IntColumn:
            return np.zeros(workloads, dtype=np.int64)

        return cls(
            pods_made=counts(),
            pending_seconds=np.zeros(workloads),
            start_seconds=np.zeros(workloads),
            oom_kills=counts(),
            restarts=counts(),
            evictions=counts(),
            pressed_out=counts(),
            resizes=counts(),
            scalings=counts(),
        )

    def copy(self) -> Tally:
        """The same as it is now, for as long as anybody needs it."""
        return Tally(*(getattr(self, name).copy() for name in self.__struct_fields__))
