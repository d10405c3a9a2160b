"""The node autoscaler's decisions: which nodes to order for pods and Buffers, and which to remove.

    snapshot.put_pod(key, pod)
    plan = plan_scale_up(snapshot, memory, now, settings)

The package is independent of any provider: providers report their node groups in these values and execute the orders
and releases of plans.
"""

from trellis.base.reasons import DetailedReason
from trellis.core.nodes.node_groups import (
    GroupState,
    Instance,
    InstanceState,
    NodeGroup,
    find_order_problem,
    find_release_problems,
)
from trellis.core.nodes.scale_down.decisions import ScaleDownPlan
from trellis.core.nodes.scale_down.plan import plan_scale_down
from trellis.core.nodes.scale_down.remembered_state import ScaleDownMemory, record_added_nodes, record_failed_removal
from trellis.core.nodes.scale_down.view import ScaleDownInput
from trellis.core.nodes.scale_up.decisions import ScaleUpPlan
from trellis.core.nodes.scale_up.plan import plan_scale_up
from trellis.core.nodes.scale_up.remembered_state import ScaleUpMemory, record_failed_order
from trellis.core.nodes.settings import ScaleDownSettings, ScaleUpSettings
from trellis.core.nodes.state.snapshot import ClusterSnapshot

__all__ = [
    "ClusterSnapshot",
    "DetailedReason",
    "GroupState",
    "Instance",
    "InstanceState",
    "NodeGroup",
    "ScaleDownInput",
    "ScaleDownMemory",
    "ScaleDownPlan",
    "ScaleDownSettings",
    "ScaleUpMemory",
    "ScaleUpPlan",
    "ScaleUpSettings",
    "find_order_problem",
    "find_release_problems",
    "plan_scale_down",
    "plan_scale_up",
    "record_added_nodes",
    "record_failed_order",
    "record_failed_removal",
]
