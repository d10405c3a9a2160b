"""How much memory does a replica need before it does any work? That much more is needed with each replica.

Where the number of pods changed, the memory of all of them tells: what rises with the pods is theirs, what does not is
shared between them. Where it never changed nobody knows, and all that a pod had at the quietest time is taken for it:
more replicas are then expected to cost more than they may.
"""

from __future__ import annotations

import msgspec
import numpy as np

from trellis.core.hvpa.suggesting.lived import Usage

# A count that was there for less of the time tells nothing: pods come and go in a rollout too.
_LEAST_SHARE = 0.03


class BaseUsage(msgspec.Struct, frozen=True):
    """Bytes of one replica, and whether they are known from counts that changed."""

    memory: float
    is_known: bool


def base_usage(seen: Usage) -> BaseUsage:
    """The base usage of memory, never more than a pod was ever seen with."""
    least = float((seen.memory / seen.pods).min())
    counts, times = np.unique(seen.pods, return_counts=True)
    usual = counts[times >= _LEAST_SHARE * len(seen.pods)]
    if len(usual) < 2:
        return BaseUsage(least, False)
    # What goes with the load is told by CPU, which a replica without any work has none of.
    columns = np.stack([seen.pods.astype(np.float64), seen.cpu, np.ones(len(seen.cpu))], axis=1)
    (each, *_), *_ = np.linalg.lstsq(columns, seen.memory, rcond=None)
    return BaseUsage(min(max(float(each), 0.0), least), True)
