"""How large could a pod be?"""

from __future__ import annotations

from trellis.core.fit.demand import Demand
from trellis.core.fit.nodes import NodeTable
from trellis.core.fit.predicates import fits


def most_of(table: NodeTable, demand: Demand, resource: str) -> int | None:
    """The most that the containers of a pod could request of one resource, all else equal; None if no node takes it.

    On the best node for it, with nothing else running there. The pod's overhead is taken off already.
    """
    found = fits(table, demand.without(resource))
    if not found.any():
        return None
    most = int(table.offered(resource)[found].max())
    return max(most - dict(demand.overhead).get(resource, 0), 0)
