"""Does this pod fit that node? Asked of all nodes at once: a demand, a table of nodes, and masks.

    table = NodeTable(nodes)
    used = Occupancy(table, [(table.find(pod.spec.node_name), held_by(pod)) for pod in running])
    table.names(fits(table, Demand.of(new.spec), used))

The rules are the scheduler's. Who should be moved where, and when, is decided elsewhere; this package knows no policy
and follows no pods.
"""

from trellis.core.fit.demand import Demand
from trellis.core.fit.nodes import NodeTable
from trellis.core.fit.occupancy import Occupancy
from trellis.core.fit.predicates import Obstacle, eligible, fits, why_not
from trellis.core.fit.room import most_of
from trellis.core.fit.running import held_by

__all__ = ["Demand", "NodeTable", "Obstacle", "Occupancy", "eligible", "fits", "held_by", "most_of", "why_not"]
