"""How much of each node is asked for? The largest share of CPU, memory and whatever else is counted by the piece."""

from __future__ import annotations

import numpy as np

from trellis.core.fit import NodeTable, Occupancy
from trellis.core.fit.resources import CPU, MEMORY
from trellis.core.usage.columns import FloatColumn


def utilization(table: NodeTable, used: Occupancy) -> FloatColumn:
    """Of each number of the table; a node that offers nothing of what is asked for counts as full.

    Chunks of Buffers are not in it: they hold a node only if they would find no other.
    """
    found = np.zeros(table.reach)
    taken = used.amounts
    for name, row in table.resources.items():
        if name not in (CPU, MEMORY) and "/" not in name:
            continue
        offered, asked = table.allocatable[row], taken[row]
        share = np.divide(asked, offered, out=np.where(asked > 0, 1.0, 0.0), where=offered > 0)
        np.maximum(found, share, out=found)
    return found
