"""Does this pod fit that node? Asked of all nodes at once: a demand, a table of nodes, and masks.

    table = NodeTable(nodes)
    numbers = [table.find(pod.spec.node_name) for pod in running]
    used = Occupancy(table, zip(numbers, map(held_by, running)))
    near = Neighbours(table, zip(numbers, map(Resident.of, running)))
    table.names(fits(table, Demand.of(new.spec, metadata=new.metadata), used, near))

The rules are the scheduler's. Who should be moved where, and when, is decided elsewhere; this package knows no policy
and follows no pods.
"""

from trellis.core.fit.daemons import daemon_demand, settle
from trellis.core.fit.demand import Demand
from trellis.core.fit.neighbours import Neighbours
from trellis.core.fit.nodes import NodeTable
from trellis.core.fit.occupancy import Occupancy
from trellis.core.fit.packing import pack
from trellis.core.fit.predicates import Obstacle, Refusal, eligible, fits, refusals, why_not
from trellis.core.fit.resident import Resident
from trellis.core.fit.room import most_of
from trellis.core.fit.running import held_at_least, held_by
from trellis.core.fit.volumes import Storage, is_for_one_pod, volume_terms

__all__ = [
    "Demand",
    "Neighbours",
    "NodeTable",
    "Obstacle",
    "Occupancy",
    "Refusal",
    "Resident",
    "Storage",
    "daemon_demand",
    "eligible",
    "fits",
    "held_at_least",
    "held_by",
    "is_for_one_pod",
    "most_of",
    "pack",
    "refusals",
    "settle",
    "volume_terms",
    "why_not",
]
