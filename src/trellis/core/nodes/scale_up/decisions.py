"""Orders of a scale-up plan, and its decisions about pending pods and Buffers, with their reasons.

After execution the decisions are corrected: nodes that a provider refused are not upcoming.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeVar

import msgspec

from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.core.cluster.store import ObjectKey
from trellis.core.nodes.provisioning.decisions import ProvisioningDecision
from trellis.core.nodes.scale_up.remembered_state import ScaleUpMemory
from trellis.core.nodes.scale_up.view import SCALE_UP_LIMITED

POD_FITS = Reason("PodFits", "The pod fits on a ready node; the scheduler can place it.")
POD_AWAITS_NODE = Reason("PodAwaitsNode", "The pod fits on an upcoming node.")
NODE_ORDERED = Reason("NodeOrdered", "A node is ordered for the pod.")
POD_CONSUMES_REQUEST = Reason(
    "PodConsumesProvisioningRequest",
    "The pod gets its node by a ProvisioningRequest, and triggers no scale-up of its own.",
    Severity.WARNING,
)
NO_GROUP_FITS = Reason("NoGroupFits", "No node group has nodes on which it would fit.", Severity.WARNING)
GROUPS_EXHAUSTED = Reason(
    "GroupsExhausted",
    "The node groups with fitting nodes cannot grow, or back off after a failure.",
    Severity.WARNING,
)
INTER_POD_RULES_UNSATISFIABLE = Reason(
    "InterPodRulesUnsatisfiable",
    "Inter-pod affinity, anti-affinity or topology spread excludes new nodes of every node group.",
    Severity.WARNING,
)

BUFFER_PROVISIONED = Reason("BufferProvisioned", "All chunks fit on ready nodes.")
BUFFER_NEEDS_NOTHING = Reason("BufferNeedsNothing", "The Buffer has no chunks now.")
BUFFER_AWAITS_NODES = Reason("BufferAwaitsNodes", "The remaining chunks fit on upcoming nodes.")
BUFFER_NODES_ORDERED = Reason("BufferNodesOrdered", "Nodes are ordered for the chunks that do not fit.")
BUFFER_NOT_PROVISIONED = Reason("BufferNotProvisioned", "Some chunks fit on no ready node.")

FOR_PODS = Reason("OrderedForPods", "Pending pods fit on no existing node.")
FOR_REQUESTS = Reason("OrderedForProvisioningRequests", "Pods of ProvisioningRequests fit on no existing node.")
FOR_BUFFERS = Reason("OrderedForBuffers", "Chunks of Buffers fit on no existing node.")
FOR_MINIMUM = Reason("OrderedForMinimum", "The node group was below its minimum size.")


class NodeOrder(msgspec.Struct, frozen=True):
    """Grow a group by `count`, to `target` instances in all. Executing an order twice orders nothing twice."""

    group: str
    count: int
    target: int
    reason: DetailedReason


class ReleaseFailedInstance(msgspec.Struct, frozen=True):
    """Release an instance that failed to come up."""

    group: str
    instance: str
    reason: DetailedReason


class GroupsRefusal(msgspec.Struct, frozen=True):
    """Why no node of some groups is ordered. `resource` is the resource that is short, or a missing label."""

    reason: Reason
    groups: tuple[str, ...]
    resource: str = ""

    def __str__(self) -> str:
        about = f" ({self.resource})" if self.resource else ""
        return f"{self.reason.code}{about}: {', '.join(self.groups)}"


class PendingPodsDecision(msgspec.Struct, frozen=True):
    """The decision about equal pending pods. `ordered` is for how many of them nodes are ordered, by group."""

    pods: tuple[ObjectKey, ...]
    reason: DetailedReason
    on_ready: int = 0
    on_upcoming: int = 0
    ordered: dict[str, int] = {}
    unplaced: int = 0
    refused: tuple[GroupsRefusal, ...] = ()


class BufferDecision(msgspec.Struct, frozen=True):
    """The decision about one Buffer.

    `hits` are pods placed where chunks were, `misses` pending pods that a chunk was meant for; both since the last
    plan. `price` is the hourly price of the capacity of its chunks. `provisioned_at` is when all chunks last fitted on
    ready nodes.
    """

    key: ObjectKey
    uid: str
    reason: DetailedReason
    chunks: int
    on_ready: int = 0
    on_upcoming: int = 0
    ordered: dict[str, int] = {}
    unplaced: int = 0
    refused: tuple[GroupsRefusal, ...] = ()
    nodes: tuple[str, ...] = ()
    hits: int = 0
    misses: int = 0
    price: float = 0.0
    provisioned_at: float | None = None

    @property
    def is_provisioned(self) -> bool:
        """Whether all chunks fit on ready nodes."""
        return self.on_ready >= self.chunks


class ScaleUpPlan(msgspec.Struct, frozen=True):
    """Orders and releases, decisions about pods and Buffers, memory, and the time of the next pass at the latest.

    `resizes` are about pods whose resizes do not fit on their nodes. `lost` has, by group, when a confirmed order was
    given up as lost, for as long as the target of the group exceeds its instances.
    """

    orders: tuple[NodeOrder, ...]
    releases: tuple[ReleaseFailedInstance, ...]
    pods: tuple[PendingPodsDecision, ...]
    buffers: tuple[BufferDecision, ...]
    notes: dict[str, DetailedReason]
    memory: ScaleUpMemory
    requeue_at: float | None = None
    lost: dict[str, float] = {}
    requests: tuple[ProvisioningDecision, ...] = ()
    resizes: tuple[PendingPodsDecision, ...] = ()


ORDER_FAILED = Reason("OrderFailed", "An order from the node group failed.", Severity.WARNING)

V = TypeVar("V", PendingPodsDecision, BufferDecision)


def correct_for_failed_orders(decisions: Iterable[V], failed: Collection[str]) -> tuple[V, ...]:
    """The decisions after orders of some groups failed. The next plan tries other groups."""
    return tuple(_without_failed_orders(decision, failed) for decision in decisions)


def correct_for_silent_provider(
    decisions: Iterable[BufferDecision], reason: DetailedReason
) -> tuple[BufferDecision, ...]:
    """The decisions of a pass without orders: Buffers that could have got a node get the reason why they do not."""
    return tuple(
        msgspec.structs.replace(decision, reason=reason, refused=())
        if decision.unplaced and _may_get_node(decision)
        else decision
        for decision in decisions
    )


def _may_get_node(decision: BufferDecision) -> bool:
    """Whether some group has not refused for good, or no group is known."""
    return not decision.refused or any(refusal.reason is SCALE_UP_LIMITED for refusal in decision.refused)


def _without_failed_orders(decision: V, failed: Collection[str]) -> V:
    lost = {group: count for group, count in decision.ordered.items() if group in failed}
    if not lost:
        return decision
    return msgspec.structs.replace(
        decision,
        reason=DetailedReason(GROUPS_EXHAUSTED),
        ordered={group: count for group, count in decision.ordered.items() if group not in lost},
        unplaced=decision.unplaced + sum(lost.values()),
        refused=(*decision.refused, GroupsRefusal(ORDER_FAILED, tuple(sorted(lost)))),
    )
