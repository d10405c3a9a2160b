"""Which nodes should there be? Groups that nodes can be had from, what they may have, and what they have.

    snapshot.put_pod(key, pod)
    plan = plan_up(snapshot, memory, now, settings)

Nothing here knows where nodes come from: providers tell of their groups in these values, and carry out what is decided
about them.
"""

from trellis.core.buffers.said import Said
from trellis.core.nodes.down import DownView, plan_down
from trellis.core.nodes.down_memory import DownMemory, nodes_added, removal_failed
from trellis.core.nodes.down_settings import DownSettings
from trellis.core.nodes.down_verdicts import DownPlan
from trellis.core.nodes.groups import GroupState, Instance, InstanceState, NodeGroup
from trellis.core.nodes.memory import UpMemory, order_failed
from trellis.core.nodes.sizes import why_no_order, why_no_release
from trellis.core.nodes.snapshot import Snapshot
from trellis.core.nodes.up import plan_up
from trellis.core.nodes.up_settings import UpSettings
from trellis.core.nodes.verdicts import UpPlan

__all__ = [
    "DownMemory",
    "DownPlan",
    "DownSettings",
    "DownView",
    "GroupState",
    "Instance",
    "InstanceState",
    "NodeGroup",
    "Said",
    "Snapshot",
    "UpMemory",
    "UpPlan",
    "UpSettings",
    "nodes_added",
    "order_failed",
    "plan_down",
    "plan_up",
    "removal_failed",
    "why_no_order",
    "why_no_release",
]
