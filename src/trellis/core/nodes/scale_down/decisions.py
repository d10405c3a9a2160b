"""Actions of a scale-down plan, and its decision about each node (kept, unneeded or leaving), with their reasons."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeAlias

import msgspec

from trellis.api.kube.nodes import Taint
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.core.nodes.scale_down.remembered_state import ScaleDownMemory


class SetTaints(msgspec.Struct, frozen=True):
    """Replace the taints of a node, if it still has this resource version."""

    node: str
    uid: str
    resource_version: str
    taints: tuple[Taint, ...]


class DrainPod(msgspec.Struct, frozen=True):
    """Evict a pod. Without `grace_period_seconds` its own grace period applies."""

    node: str
    namespace: str
    name: str
    uid: str
    grace_period_seconds: int | None = None


class ReleaseNode(msgspec.Struct, frozen=True):
    """Release an instance whose node is drained."""

    node: str
    group: str
    instance: str


ScaleDownAction: TypeAlias = SetTaints | DrainPod | ReleaseNode


SCALE_DOWN_OFF = Reason("ScaleDownOff", "Removing nodes is switched off.")
SCALE_DOWN_DISABLED = Reason("ScaleDownDisabled", "An annotation of the node forbids that it is removed.")
NODE_WITHOUT_GROUP = Reason("NodeWithoutGroup", "The node is of no group that could take it back.")
NODE_STARTING = Reason("NodeStarting", "The node is on its way, and not up yet.")
NODE_TERMINATING = Reason("NodeTerminating", "The node is deleted or given back already, or somebody else is about to.")
NODE_UNREADY_KEPT = Reason("NodeUnreadyKept", "The node is not ready, and such nodes are not removed.")
NODE_IN_USE = Reason("NodeInUse", "Pods on the node ask for more than the share up to which a node is underused.")
PENDING_POD_FITS = Reason("PendingPodFits", "There is room on the node for a pod that waits, so that it may come soon.")
NODE_RECEIVES_PODS = Reason("NodeReceivesPods", "What runs on nodes that are not needed would go here.")
NODE_NOT_SIMULATED = Reason("NodeNotSimulated", "Whether the node is needed has not been tried yet; others come first.")

NODE_UNNEEDED = Reason("NodeUnneeded", "The node is not needed, but not for long enough yet.")
SCALE_DOWN_DELAYED = Reason("ScaleDownDelayed", "Nodes were added or removed, or could not be, a short while ago.")
SCALE_DOWN_LIMITED = Reason("ScaleDownLimited", "As many nodes are being removed as may be at the same time.")

NODE_TAINTED = Reason("NodeTainted", "The node is not needed, and is marked so that no pod comes any more.")
NODE_DELETE_DELAY_AFTER_TAINT = Reason(
    "NodeDeleteDelayAfterTaint", "The node is marked; a pod may still be on its way to it."
)
NODE_DRAINING = Reason("NodeDraining", "The pods on the node are being moved.")
NODE_RELEASED = Reason("NodeReleased", "Nothing is left on the node, and it is given back.")

STALE_REMOVAL_TAINT = Reason("StaleRemovalTaint", "Somebody began to remove the node and did not go on; it is kept.")
REMOVAL_TAINT_REMOVED = Reason("RemovalTaintRemoved", "Somebody took our mark off the node, so that it is kept.")
REMOVAL_TAINT_NOT_OBSERVED = Reason(
    "RemovalTaintNotObserved",
    "The node was to be marked, and no mark has been seen on it, so that it is kept.",
    Severity.WARNING,
)
POD_ARRIVED_DURING_REMOVAL = Reason(
    "PodArrivedDuringRemoval", "A pod came to the node while it was being removed; it is kept."
)
NODE_NEEDED_AGAIN = Reason("NodeNeededAgain", "The node is needed after all, so that it is kept.")
EVICTIONS_REFUSED = Reason(
    "EvictionsRefused", "Pods on the node could not be evicted in time, so that it is kept.", Severity.WARNING
)
DELETION_NOT_OBSERVED = Reason(
    "DeletionNotObserved",
    "The provider was given the node back and still has it, so that it is kept.",
    Severity.WARNING,
)


class NodeOutcome(StrEnum):
    """The outcome of a decision about a node."""

    KEPT = "Kept"
    UNNEEDED = "Unneeded"
    LEAVING = "Leaving"


class NodeDecision(msgspec.Struct, frozen=True):
    """The decision about one node.

    `utilization` is the largest requested share of any resource. `since` is when the node became unneeded, or when its
    removal started, and `recheck_at` when the decision may change although nothing in the cluster does.
    """

    node: str
    outcome: NodeOutcome
    reason: DetailedReason
    utilization: float = 0.0
    since: float | None = None
    recheck_at: float | None = None


class ScaleDownPlan(msgspec.Struct, frozen=True):
    """The actions of a plan, the decision about each node, the memory, and the time of the next pass at the latest."""

    actions: tuple[ScaleDownAction, ...]
    nodes: tuple[NodeDecision, ...]
    memory: ScaleDownMemory
    requeue_at: float | None = None
