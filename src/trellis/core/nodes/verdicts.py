"""What is said about pods that wait and about Buffers, and what is to be done? The words of a plan for more nodes."""

from __future__ import annotations

import msgspec

from trellis.base.reason import Reason, Severity
from trellis.core.buffers.said import Said
from trellis.core.model.keys import Key
from trellis.core.nodes.memory import UpMemory

POD_HAS_ROOM = Reason("PodHasRoom", "There is room for the pod on a node that is ready; the scheduler will find it.")
POD_AWAITS_NODE = Reason("PodAwaitsNode", "There will be room for the pod on a node that is on its way.")
NODE_ORDERED = Reason("NodeOrdered", "A node has been ordered for the pod.")
NO_GROUP_FITS = Reason("NoGroupFits", "No group has nodes that would take it.", Severity.WARNING)
GROUPS_EXHAUSTED = Reason(
    "GroupsExhausted", "Groups whose nodes would take it may not grow, or failed a short while ago.", Severity.WARNING
)
NOT_BESIDE_OTHERS = Reason(
    "NotBesideOthers", "What it asks about other pods keeps it from new nodes of every group.", Severity.WARNING
)

BUFFER_PROVISIONED = Reason("BufferProvisioned", "Every chunk fits on nodes that are ready.")
BUFFER_NEEDS_NOTHING = Reason("BufferNeedsNothing", "The Buffer stands for no chunk now.")
BUFFER_AWAITS_NODES = Reason("BufferAwaitsNodes", "The rest of the chunks fits on nodes that are on their way.")
BUFFER_NODES_ORDERED = Reason("BufferNodesOrdered", "Nodes have been ordered for the chunks that have no room.")
BUFFER_NOT_PROVISIONED = Reason("BufferNotProvisioned", "Some chunks fit on no ready node.")

FOR_PODS = Reason("OrderedForPods", "Pods wait that fit on no node there is.")
FOR_BUFFERS = Reason("OrderedForBuffers", "Chunks of Buffers fit on no node there is.")
FOR_MINIMUM = Reason("OrderedForMinimum", "The group had fewer nodes than it is to have.")


class Order(msgspec.Struct, frozen=True):
    """Have a group grow by `count`, to `target` instances in all: given twice, it orders nothing twice."""

    group: str
    count: int
    target: int
    why: Said


class GiveBack(msgspec.Struct, frozen=True):
    """Give an instance back that will not come up."""

    group: str
    instance: str
    why: Said


class GroupsRefused(msgspec.Struct, frozen=True):
    """Why some groups cannot help. `resource` says of what their nodes have too little, or which label they lack."""

    reason: Reason
    groups: tuple[str, ...]
    resource: str = ""

    def __str__(self) -> str:
        about = f" ({self.resource})" if self.resource else ""
        return f"{self.reason.code}{about}: {', '.join(self.groups)}"


class PodsVerdict(msgspec.Struct, frozen=True):
    """What is said about pods that are alike. `ordered` is for how many of them nodes are ordered, by group."""

    pods: tuple[Key, ...]
    said: Said
    on_ready: int = 0
    on_coming: int = 0
    ordered: dict[str, int] = {}
    unplaced: int = 0
    refused: tuple[GroupsRefused, ...] = ()


class BufferVerdict(msgspec.Struct, frozen=True):
    """What is said about one Buffer.

    `hits` are pods that have come to where chunks were, `misses` pods that wait although a chunk like them was meant
    to be there; both since the last plan. `price` is money for an hour of the room that its chunks have or will have.
    `full_at` is when all chunks last had room on nodes that were ready.
    """

    key: Key
    uid: str
    said: Said
    chunks: int
    on_ready: int = 0
    on_coming: int = 0
    ordered: dict[str, int] = {}
    unplaced: int = 0
    refused: tuple[GroupsRefused, ...] = ()
    nodes: tuple[str, ...] = ()
    hits: int = 0
    misses: int = 0
    price: float = 0.0
    full_at: float | None = None

    @property
    def is_provisioned(self) -> bool:
        """Whether all chunks have room on nodes that are ready."""
        return self.on_ready >= self.chunks


class UpPlan(msgspec.Struct, frozen=True):
    """What to do about more nodes, what is said about whom, what to remember, and when to look again at the latest.

    `lost` has, by group, since when it is certain that an order which was confirmed came to nothing; it is there for as
    long as the group says that it has what it does not show.
    """

    orders: tuple[Order, ...]
    give_backs: tuple[GiveBack, ...]
    pods: tuple[PodsVerdict, ...]
    buffers: tuple[BufferVerdict, ...]
    notes: dict[str, Said]
    memory: UpMemory
    next_look: float | None = None
    lost: dict[str, float] = {}
