"""May this pod be moved, so that its node can go? By what it says, by whose it is, and by what it would lose."""

from __future__ import annotations

from typing import Final

from trellis.api.kube.pods import Pod, Volume
from trellis.base.reason import Reason
from trellis.core.buffers.said import Said
from trellis.core.fit.taints import HardTaint, tolerates
from trellis.core.nodes.budgets import Budgets
from trellis.core.nodes.down_settings import DownSettings
from trellis.core.nodes.pods import PlacedPod
from trellis.core.nodes.standing import LEAVING_TAINT

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

_MARK: Final = HardTaint(LEAVING_TAINT, "", "NoSchedule")
_SYSTEM: Final = "kube-system"
_IN_MEMORY: Final = "Memory"
_MAKES_PODS_ANEW: Final = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "Job"})


def why_stays(placed: PlacedPod, budgets: Budgets, settings: DownSettings) -> Said | None:
    """What forbids that a pod is moved, other than a budget that is used up; None if nothing does."""
    pod = placed.pod
    said = pod.metadata.annotations
    if said.get(SAFE_TO_EVICT) == "false":
        return _said(POD_NOT_SAFE_TO_EVICT, pod, f"{SAFE_TO_EVICT}: false")
    if said.get(DO_NOT_DISRUPT) == "true":
        return _said(POD_NOT_SAFE_TO_EVICT, pod, f"{DO_NOT_DISRUPT}: true")
    if said.get(SAFE_TO_EVICT) == "true" or placed.is_expendable:
        return None
    owner = pod.metadata.controller
    if owner is None:
        return _said(POD_NOT_REPLICATED, pod, "it has no controller")
    if tolerates(pod.spec.tolerations, _MARK):
        # A node that is almost empty is where the scheduler likes to put it: it would be evicted again and again.
        return _said(POD_WOULD_COME_BACK, pod, f"it tolerates {LEAVING_TAINT}")
    if settings.skip_nodes_with_custom_controller_pods and owner.kind not in _MAKES_PODS_ANEW:
        return _said(POD_OF_CUSTOM_CONTROLLER, pod, f"its controller is {owner.kind} {owner.name}")
    if settings.skip_nodes_with_system_pods and placed.key[0] == _SYSTEM and not budgets.covers(pod):
        return _said(POD_OF_SYSTEM, pod, "it has no disruption budget")
    if settings.skip_nodes_with_local_storage:
        lost = [each.name for each in pod.spec.volumes if _is_local(each)]
        safe = {each.strip() for each in said.get(SAFE_LOCAL_VOLUMES, "").split(",")} - {""}
        kept = next((name for name in lost if name not in safe), None)
        if kept is not None:
            return _said(POD_HAS_LOCAL_STORAGE, pod, f"its volume {kept} is an emptyDir or a hostPath")
    return None


def _is_local(volume: Volume) -> bool:
    on_disk = volume.empty_dir is not None and volume.empty_dir.medium != _IN_MEMORY
    return on_disk or volume.host_path is not None


def _said(reason: Reason, pod: Pod, why: str) -> Said:
    return Said(reason, f"{pod.metadata.namespace}/{pod.metadata.name}: {why}")
