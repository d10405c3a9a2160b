"""Which nodes should there be? Groups that nodes can be had from, what they may have, and what they have.

Nothing here knows where nodes come from: providers tell of their groups in these values, and carry out what is decided
about them.
"""

from trellis.core.buffers.said import Said
from trellis.core.nodes.groups import GroupState, Instance, InstanceState, NodeGroup
from trellis.core.nodes.sizes import why_no_order, why_no_release

__all__ = [
    "GroupState",
    "Instance",
    "InstanceState",
    "NodeGroup",
    "Said",
    "why_no_order",
    "why_no_release",
]
