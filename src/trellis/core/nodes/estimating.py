"""What would each group do for all that have no place? An estimate for all groups at once, by which one is chosen.

As if every kind of pod had nodes of its own and left no part of a node unused: pods of several kinds may need fewer,
and it is the packing that says how many.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from trellis.core.fit.resources import CPU, MEMORY
from trellis.core.nodes.expanders import Options
from trellis.core.nodes.needs import Need
from trellis.core.nodes.templates import Templates
from trellis.core.usage.columns import FloatColumn, IntColumn

IntMatrix = npt.NDArray[np.int64]


def estimate(templates: Templates, needs: Sequence[Need], rooms: IntMatrix, allowed: IntColumn) -> Options | None:
    """The options that there are; None if no group can do anything.

    `rooms` says how many of each need a node of each group holds, `allowed` how many nodes of each may be ordered.
    """
    left: FloatColumn = np.array([each.left for each in needs], dtype=np.float64)
    some = np.flatnonzero(left)
    groups = np.flatnonzero((allowed > 0) & (rooms[some] > 0).any(axis=0))
    if not len(groups):
        return None
    left, able = left[some], rooms[np.ix_(some, groups)]
    takes = able > 0
    wanted = (left[:, None] / np.maximum(able, 1) * takes).sum(axis=0)
    nodes = np.ceil(np.minimum(wanted, allowed[groups]))
    # Of a group that may not have enough nodes, each pod gets its part.
    share = np.minimum(1.0, nodes / np.maximum(np.ceil(wanted), 1.0))
    cores, memory = (_asked(needs, some, name) * left @ takes * share for name in (CPU, MEMORY))
    return Options(
        groups=groups,
        nodes=nodes,
        pods=left @ takes * share,
        cores=templates.cores[groups] * nodes,
        memory=templates.memory[groups] * nodes,
        asked_cores=cores / 1000,
        asked_memory=memory,
        price=templates.prices[groups] * nodes,
        priority=templates.priorities[groups],
    )


def _asked(needs: Sequence[Need], some: IntColumn, resource: str) -> FloatColumn:
    return np.array([needs[at].requests.get(resource, 0) for at in some.tolist()], dtype=np.float64)
