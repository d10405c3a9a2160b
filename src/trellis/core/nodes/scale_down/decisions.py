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


SCALE_DOWN_OFF = Reason("ScaleDownOff", "Scale-down is disabled.")
SCALE_DOWN_DISABLED = Reason("ScaleDownDisabled", "An annotation of the node disables its scale-down.")
NODE_WITHOUT_GROUP = Reason("NodeWithoutGroup", "The node belongs to no node group.")
NODE_STARTING = Reason("NodeStarting", "The node is still starting.")
NODE_TERMINATING = Reason("NodeTerminating", "The node is already being deleted, or another controller is removing it.")
NODE_UNREADY_KEPT = Reason("NodeUnreadyKept", "The node is not ready, and scale-down of such nodes is disabled.")
NODE_IN_USE = Reason("NodeInUse", "The node's utilization is above the scale-down threshold.")
PENDING_POD_FITS = Reason("PendingPodFits", "A pending pod fits on the node, and may be scheduled there.")
NODE_RECEIVES_PODS = Reason("NodeReceivesPods", "Pods of unneeded nodes would move to this node.")
NODE_NOT_SIMULATED = Reason(
    "NodeNotSimulated", "The drain of the node has not been simulated yet, because other nodes come first."
)

NODE_UNNEEDED = Reason("NodeUnneeded", "The node is unneeded, but not for long enough yet.")
SCALE_DOWN_DELAYED = Reason("ScaleDownDelayed", "Nodes were recently added or removed, or a removal failed.")
SCALE_DOWN_LIMITED = Reason("ScaleDownLimited", "The maximum number of nodes is already being removed.")

NODE_TAINTED = Reason("NodeTainted", "The node is unneeded and was tainted, so that no pod is scheduled to it.")
NODE_DELETE_DELAY_AFTER_TAINT = Reason(
    "NodeDeleteDelayAfterTaint", "The node is tainted; its removal waits for pods that were being scheduled to it."
)
NODE_DRAINING = Reason("NodeDraining", "The pods of the node are being evicted.")
NODE_RELEASED = Reason("NodeReleased", "The node is empty, and is removed.")

STALE_REMOVAL_TAINT = Reason(
    "StaleRemovalTaint",
    "The removal taint of the node is stale, because its removal did not continue; the node is kept.",
)
REMOVAL_TAINT_REMOVED = Reason(
    "RemovalTaintRemoved", "Another client removed the removal taint from the node, so the node is kept."
)
REMOVAL_TAINT_NOT_OBSERVED = Reason(
    "RemovalTaintNotObserved",
    "The removal taint was written but not observed on the node, so the node is kept.",
    Severity.WARNING,
)
POD_ARRIVED_DURING_REMOVAL = Reason(
    "PodArrivedDuringRemoval", "A pod was scheduled to the node during its removal, so the node is kept."
)
NODE_NEEDED_AGAIN = Reason("NodeNeededAgain", "The node is needed again, so it is kept.")
EVICTIONS_REFUSED = Reason(
    "EvictionsRefused", "Pods of the node could not be evicted in time, so the node is kept.", Severity.WARNING
)
DELETION_NOT_OBSERVED = Reason(
    "DeletionNotObserved",
    "The provider was asked to delete the node and still has it, so the node is kept.",
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
