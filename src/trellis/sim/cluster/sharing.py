"""Who gets how much CPU where there is less than is wanted?

As the kernel shares it: each container gets its part by the weight of its request, nobody more than it wants, and what
one leaves goes to the others by the same weights.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn

# Two shares of 1,024: what a container without a request is given.
LEAST_WEIGHT: Final = 0.002


def shared_out(
    wanted: FloatColumn, requested: FloatColumn, node: IntColumn, capacity: FloatColumn, full: BoolColumn
) -> FloatColumn:
    """What each container gets; on nodes that are not `full` that is what it wants.

    A round settles at least one container of each node, and mostly nearly all of them.
    """
    given = wanted.copy()
    open_ = np.flatnonzero(full[node])
    left = capacity.copy()
    weight = np.maximum(requested, LEAST_WEIGHT)
    while len(open_):
        where = node[open_]
        weights = np.bincount(where, weight[open_], minlength=len(capacity))
        part = weight[open_] * (left / np.where(weights > 0, weights, 1.0))[where]
        content = wanted[open_] <= part
        # On a node where nobody is content with its part, that is what everybody gets.
        settled = np.bincount(where, content, minlength=len(capacity))[where] == 0
        given[open_[settled]] = part[settled]
        left -= np.bincount(where, np.where(content, wanted[open_], 0.0), minlength=len(capacity))
        open_ = open_[~content & ~settled]
    return given
