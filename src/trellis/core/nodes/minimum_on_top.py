"""How many chunks of a `KeepMinimum` Buffer have to be kept on top of what runs, so that its minimum exists?

For autoscalers that only know `KeepEmpty`: they keep so many chunks beside all pods. Of the capacity for N chunks a
part is used by pods, and only the rest is to be kept empty. With F chunks that fit if no ordinary pod ran, and E that
fit beside all pods:

- pods use the capacity of F - E chunks, so at least N - (F - E) have to be kept. If F is less than N, these are N - F
  more than fit now: nodes are added for what is missing, and for nothing else.
- if F is at least N, no more than E are kept: no node is added for the Buffer, however full its capacity is.
- between the two, pods use as many chunks as they request, in whichever resource these are the most. Pods that are
  spread out block more than that. If those counted as used, nodes could go that are missing once the pods have been
  moved together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trellis.core.fit import Demand, eligible
from trellis.core.fit.resources import PODS
from trellis.core.nodes.chunks import Chunks
from trellis.core.nodes.trial import Trial
from trellis.core.nodes.worlds import World


def replicas_on_top(tried: Trial, buffers: Sequence[Chunks], fixed: World) -> dict[str, int]:
    """By the UID of each `KeepMinimum` Buffer, how many of its chunks are to be kept on top of what runs.

    Pending pods and the chunks of `KeepEmpty` Buffers have been placed in `tried`; `fixed` has the pods alone that
    belong to their nodes. Buffers take their turns as in any placement, so that no pod uses the capacity of two.
    """
    found: dict[str, int] = {}
    minimal = [each for each in buffers if not each.on_top and each.count]
    if not minimal:
        return found
    running, fixed = tried.running.copy(), fixed.copy()
    for chunks in minimal:
        demand, count = chunks.demand, chunks.count
        fit_empty = len(tried.put(running.copy(), demand, count, tried.ready))
        # Twice the count is as good as all: whatever fits beyond that is not needed to cover it.
        fit_at_all = len(tried.put(fixed.copy(), demand, 2 * count, tried.ready))
        missing = count - (fit_at_all - fit_empty)
        unused = count - _used_by_requests(tried, demand, running, fixed)
        kept = min(max(missing, min(fit_empty, unused), 0), count)
        found[chunks.uid] = kept
        tried.put(running, demand, kept, tried.ready)
        tried.put(fixed, demand, count, tried.ready)
    return found


def _used_by_requests(tried: Trial, demand: Demand, running: World, fixed: World) -> int:
    """How many chunks ordinary pods request, on the ready nodes that could take one."""
    nodes = tried.ready[eligible(tried.table, demand)[tried.ready]]
    rows = tried.table.resources
    sized = [(rows[name], amount) for name, amount in demand.amounts if name != PODS and name in rows]
    ordinary = running.used.amounts[:, nodes] - fixed.used.amounts[:, nodes]
    sums = np.maximum(ordinary, 0).sum(axis=1)
    return max((int(sums[row]) // amount for row, amount in sized), default=0)
