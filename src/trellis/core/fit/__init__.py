"""The scheduler's filters and a first-fit bin-packing, computed for all nodes at once.

    table = NodeTable(nodes)
    numbers = [table.find(pod.spec.node_name) for pod in running]
    used = Occupancy(table, zip(numbers, map(read_running_demand, running)))
    near = ExistingPods(table, zip(numbers, map(PodProfile.of, running)))
    table.names(find_fitting_nodes(table, Demand.of(new.spec, metadata=new.metadata), used, near))

A demand has the requirements of one pod, a table the columns of all nodes, and a filter is a mask over them. The
package has no policy and follows no pods: which pods move, and when, is decided by its users.
"""

from trellis.core.fit.constraints.existing_pods import ExistingPods
from trellis.core.fit.constraints.pod_affinity import PodProfile
from trellis.core.fit.constraints.volumes import Storage, find_volume_terms, is_read_write_once_pod
from trellis.core.fit.daemon_sets import build_daemon_demand, place_daemon_pods
from trellis.core.fit.demand import Demand, read_running_demand, read_running_demand_or_empty
from trellis.core.fit.filters import (
    UnfitNodeMask,
    UnfitNodes,
    explain_unfit_nodes,
    find_eligible_nodes,
    find_fitting_nodes,
    find_largest_request,
    find_unfit_nodes,
)
from trellis.core.fit.node_table import NodeTable
from trellis.core.fit.occupancy import Occupancy
from trellis.core.fit.packing import pack

__all__ = [
    "Demand",
    "ExistingPods",
    "NodeTable",
    "Occupancy",
    "PodProfile",
    "Storage",
    "UnfitNodeMask",
    "UnfitNodes",
    "build_daemon_demand",
    "explain_unfit_nodes",
    "find_eligible_nodes",
    "find_fitting_nodes",
    "find_largest_request",
    "find_unfit_nodes",
    "find_volume_terms",
    "is_read_write_once_pod",
    "pack",
    "place_daemon_pods",
    "read_running_demand",
    "read_running_demand_or_empty",
]
