"""Which pods have to leave a node that is removed, and whether they may be moved.

A pod's annotations, its controller, its local storage and its tolerations can forbid it. DaemonSet and mirror pods go
with the node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from trellis.api.kube.pods import Pod, Volume
from trellis.base.reasons import DetailedReason, Reason
from trellis.core.fit.constraints.taints import HardTaint, tolerates
from trellis.core.nodes.scale_down.disruption_budgets import DisruptionBudgets
from trellis.core.nodes.settings import ScaleDownSettings
from trellis.core.nodes.state.pods import PlacedPod
from trellis.core.nodes.state.readiness import LEAVING_TAINT

POD_NOT_SAFE_TO_EVICT = Reason("PodNotSafeToEvict", "A pod on the node says that it must not be evicted.")
POD_NOT_REPLICATED = Reason("PodNotReplicated", "Nobody would make a pod on the node anew if it were evicted.")
POD_OF_CUSTOM_CONTROLLER = Reason(
    "PodOfCustomController", "A pod on the node is of a controller of which nobody knows whether it makes pods anew."
)
POD_OF_SYSTEM = Reason("PodOfSystem", "A pod of the system is on the node, and no budget says that it may be moved.")
POD_HAS_LOCAL_STORAGE = Reason("PodHasLocalStorage", "A pod on the node has files there that would be lost.")
POD_WOULD_COME_BACK = Reason(
    "PodWouldComeBack", "A pod on the node tolerates the mark of nodes that go, and would come back to this one."
)

SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
# The names of volumes, with commas between them, whose files may be lost.
SAFE_LOCAL_VOLUMES: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"

_LEAVING: Final = HardTaint(LEAVING_TAINT, "", "NoSchedule")
_SYSTEM: Final = "kube-system"
_IN_MEMORY: Final = "Memory"
_REPLICATING_KINDS: Final = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "Job"})


def why_not_drainable(
    placed: PlacedPod, budgets: DisruptionBudgets, settings: ScaleDownSettings
) -> DetailedReason | None:
    """Why a pod may not be evicted, apart from disruption budgets; None if it may."""
    pod = placed.pod
    annotations = pod.metadata.annotations
    if annotations.get(SAFE_TO_EVICT) == "false":
        return _about_pod(POD_NOT_SAFE_TO_EVICT, pod, f"{SAFE_TO_EVICT}: false")
    if annotations.get(DO_NOT_DISRUPT) == "true":
        return _about_pod(POD_NOT_SAFE_TO_EVICT, pod, f"{DO_NOT_DISRUPT}: true")
    if annotations.get(SAFE_TO_EVICT) == "true" or placed.is_expendable:
        return None
    owner = pod.metadata.controller
    if owner is None:
        return _about_pod(POD_NOT_REPLICATED, pod, "it has no controller")
    if tolerates(pod.spec.tolerations, _LEAVING):
        # A node that is almost empty is where the scheduler likes to put it: it would be evicted again and again.
        return _about_pod(POD_WOULD_COME_BACK, pod, f"it tolerates {LEAVING_TAINT}")
    if settings.skip_nodes_with_custom_controller_pods and owner.kind not in _REPLICATING_KINDS:
        return _about_pod(POD_OF_CUSTOM_CONTROLLER, pod, f"its controller is {owner.kind} {owner.name}")
    if settings.skip_nodes_with_system_pods and placed.key[0] == _SYSTEM and not budgets.covers(pod):
        return _about_pod(POD_OF_SYSTEM, pod, "it has no disruption budget")
    if settings.skip_nodes_with_local_storage:
        lost = [volume.name for volume in pod.spec.volumes if _is_local(volume)]
        safe = {name.strip() for name in annotations.get(SAFE_LOCAL_VOLUMES, "").split(",")} - {""}
        local = next((name for name in lost if name not in safe), None)
        if local is not None:
            return _about_pod(POD_HAS_LOCAL_STORAGE, pod, f"its volume {local} is an emptyDir or a hostPath")
    return None


def _is_local(volume: Volume) -> bool:
    on_disk = volume.empty_dir is not None and volume.empty_dir.medium != _IN_MEMORY
    return on_disk or volume.host_path is not None


def _about_pod(reason: Reason, pod: Pod, why: str) -> DetailedReason:
    return DetailedReason(reason, f"{pod.metadata.namespace}/{pod.metadata.name}: {why}")


# A pod that should have been gone for so long will never go by itself: its kubelet is dead.
_OVERDUE_SECONDS: Final = 30.0


class PodsToDrain(msgspec.Struct, frozen=True):
    """The pods of a node that a drain has to wait for: those to evict, and those that terminate already.

    `refusal` is why one of them may not be evicted. Pods whose deletion is long overdue are left out.
    """

    to_evict: tuple[PlacedPod, ...] = ()
    terminating: tuple[PlacedPod, ...] = ()
    refusal: DetailedReason | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the node is drained."""
        return not self.to_evict and not self.terminating

    @property
    def uids(self) -> frozenset[str]:
        """The UIDs of the pods to evict."""
        return frozenset(pod.pod.metadata.uid for pod in self.to_evict)


NO_PODS_TO_DRAIN: Final = PodsToDrain()


def find_pods_to_drain(
    pods: Iterable[PlacedPod], now: float, budgets: DisruptionBudgets, settings: ScaleDownSettings
) -> PodsToDrain:
    """The pods to drain among those of one node."""
    others = [pod for pod in pods if not pod.is_fixed and not _is_overdue(pod.pod, now)]
    if not others:
        return NO_PODS_TO_DRAIN
    moving = tuple(pod for pod in others if pod.pod.metadata.deletion_timestamp is None)
    going = tuple(pod for pod in others if pod.pod.metadata.deletion_timestamp is not None)
    refusals = (why_not_drainable(pod, budgets, settings) for pod in moving)
    return PodsToDrain(moving, going, next((refusal for refusal in refusals if refusal is not None), None))


def _is_overdue(pod: Pod, now: float) -> bool:
    deleted = pod.metadata.deletion_timestamp
    return deleted is not None and now - deleted.timestamp() > _OVERDUE_SECONDS
