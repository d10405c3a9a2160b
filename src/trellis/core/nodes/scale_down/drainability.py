"""The pods to drain from a node: which they are, and whether they may be evicted.

A pod's annotations, its controller, its local storage and its tolerations can forbid an eviction, and disruption
budgets by the rules of `EvictionREST.Create` in Kubernetes 1.36: a pod under two budgets is never evicted, a pod that
is not ready may go if enough others are, and the status of an older generation of a budget does not count. DaemonSet
and mirror pods go with the node.
and mirror pods go with the node. A pod whose resource claims are not modelled keeps its node.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from trellis.api.kube.pods import READY, Pod, Volume
from trellis.api.kube.policies import PodDisruptionBudget
from trellis.base.errors import InvalidSelector
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.base.selectors import Selector
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.cluster.target_selectors import convert_selector
from trellis.core.fit.constraints.selector_index import LabelSelectorIndex
from trellis.core.fit.constraints.taints import HardTaint, tolerates
from trellis.core.nodes.settings import ScaleDownSettings
from trellis.core.nodes.state.devices import DeviceClaims
from trellis.core.nodes.state.pods import PlacedPod
from trellis.core.nodes.state.readiness import LEAVING_TAINT

DISRUPTION_BUDGET_EXHAUSTED = Reason(
    "DisruptionBudgetExhausted", "A PodDisruptionBudget currently allows no eviction of a pod on the node."
)
SEVERAL_BUDGETS = Reason(
    "SeveralBudgets",
    "A pod on the node has several PodDisruptionBudgets, and therefore cannot be evicted.",
    Severity.WARNING,
)

_ALWAYS_ALLOW: Final = "AlwaysAllow"
_NOT_RUNNING: Final = ("Pending", "Succeeded", "Failed")


class DisruptionBudgets:
    """All disruption budgets during one plan, with the evictions that remain."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._budgets: dict[ObjectKey, tuple[Selector, PodDisruptionBudget]] = {}
        self._index: LabelSelectorIndex[ObjectKey] = LabelSelectorIndex()
        self._remaining: dict[ObjectKey, int] = {}
        for budget in budgets:
            self._add(budget)

    def covers(self, pod: Pod) -> bool:
        """Whether a budget covers the pod."""
        return bool(self._find(pod))

    def find_eviction_problem(self, pod: Pod) -> DetailedReason | None:
        """The disruption budget that forbids an eviction now; None if none does."""
        if _is_unprotected(pod):
            return None
        budgets = self._find(pod)
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if len(budgets) > 1:
            return DetailedReason(SEVERAL_BUDGETS, f"{name}: {', '.join(key[1] for key in budgets)}")
        if not budgets or self._may_evict_unhealthy(pod, budgets[0]) or self._remaining[budgets[0]] > 0:
            return None
        return DetailedReason(DISRUPTION_BUDGET_EXHAUSTED, f"{name}: {budgets[0][1]}")

    def count_eviction(self, pod: Pod) -> None:
        """Count a pod that is about to be evicted."""
        if _is_unprotected(pod):
            return
        for key in self._find(pod):
            if not self._may_evict_unhealthy(pod, key):
                self._remaining[key] -= 1

    def _add(self, budget: PodDisruptionBudget) -> None:
        try:
            selector = convert_selector(budget.spec.selector)
        except InvalidSelector:
            # For the API server such a budget covers no pod.
            return
        if selector.selects_nothing:
            return
        key, status = key_of(budget), budget.status
        is_current = status.observed_generation >= budget.metadata.generation
        self._budgets[key] = (selector, budget)
        self._index.put(key, selector, (key[0],))
        self._remaining[key] = status.disruptions_allowed if is_current else 0

    def _find(self, pod: Pod) -> list[ObjectKey]:
        labels, namespace = pod.metadata.labels, pod.metadata.namespace
        return sorted(key for key in self._index.candidates(namespace, labels) if self._budgets[key][0].matches(labels))

    def _may_evict_unhealthy(self, pod: Pod, key: ObjectKey) -> bool:
        """Whether an unhealthy pod may be evicted without counting against its budget."""
        ready = pod.status.find_condition(READY)
        if ready is not None and ready.status == "True":
            return False
        budget = self._budgets[key][1]
        if budget.spec.unhealthy_pod_eviction_policy == _ALWAYS_ALLOW:
            return True
        return budget.status.current_healthy >= budget.status.desired_healthy > 0


def _is_unprotected(pod: Pod) -> bool:
    """Whether no budget applies: the pod does not run, or terminates already."""
    return pod.status.phase in _NOT_RUNNING or pod.metadata.deletion_timestamp is not None


POD_NOT_SAFE_TO_EVICT = Reason("PodNotSafeToEvict", "A pod on the node has an annotation that forbids its eviction.")
POD_NOT_REPLICATED = Reason(
    "PodNotReplicated", "A pod on the node has no controller that would replace it after an eviction."
)
POD_OF_CUSTOM_CONTROLLER = Reason(
    "PodOfCustomController", "A pod on the node has a custom controller, which may not replace it after an eviction."
)
POD_OF_SYSTEM = Reason("PodOfSystem", "A pod of kube-system on the node has no PodDisruptionBudget.")
POD_HAS_LOCAL_STORAGE = Reason(
    "PodHasLocalStorage", "A pod on the node uses local storage, which an eviction would delete."
)
POD_TOLERATES_REMOVAL_TAINT = Reason(
    "PodToleratesRemovalTaint",
    "A pod on the node tolerates the removal taint, and its replacement could be scheduled to the node again.",
)

SAFE_TO_EVICT: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict"
# The names of volumes, with commas between them, whose files may be lost.
SAFE_LOCAL_VOLUMES: Final = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
DO_NOT_DISRUPT: Final = "karpenter.sh/do-not-disrupt"

_LEAVING: Final = HardTaint(LEAVING_TAINT, "", "NoSchedule")
_SYSTEM: Final = "kube-system"
_IN_MEMORY: Final = "Memory"
_REPLICATING_KINDS: Final = frozenset({"ReplicaSet", "ReplicationController", "StatefulSet", "Job"})


def find_drain_problem(
    placed: PlacedPod, budgets: DisruptionBudgets, settings: ScaleDownSettings
) -> DetailedReason | None:
    """The reason that forbids the eviction of a pod, apart from disruption budgets; None if there is none."""
    if placed.is_expendable:
        return None
    pod = placed.pod
    annotations = pod.metadata.annotations
    if annotations.get(SAFE_TO_EVICT) == "false":
        return _build_pod_reason(POD_NOT_SAFE_TO_EVICT, pod, f"{SAFE_TO_EVICT}: false")
    if annotations.get(DO_NOT_DISRUPT) == "true":
        return _build_pod_reason(POD_NOT_SAFE_TO_EVICT, pod, f"{DO_NOT_DISRUPT}: true")
    if annotations.get(SAFE_TO_EVICT) == "true":
        return None
    owner = pod.metadata.controller
    if owner is None:
        return _build_pod_reason(POD_NOT_REPLICATED, pod, "it has no controller")
    if tolerates(pod.spec.tolerations, _LEAVING):
        # The scheduler prefers nodes that are almost empty: the pod would come back and be evicted again and again.
        return _build_pod_reason(POD_TOLERATES_REMOVAL_TAINT, pod, f"it tolerates {LEAVING_TAINT}")
    if settings.skip_nodes_with_custom_controller_pods and owner.kind not in _REPLICATING_KINDS:
        return _build_pod_reason(POD_OF_CUSTOM_CONTROLLER, pod, f"its controller is {owner.kind} {owner.name}")
    if settings.skip_nodes_with_system_pods and placed.key[0] == _SYSTEM and not budgets.covers(pod):
        return _build_pod_reason(POD_OF_SYSTEM, pod, "it has no PodDisruptionBudget")
    if settings.skip_nodes_with_local_storage:
        local_volumes = [volume.name for volume in pod.spec.volumes if _is_local(volume)]
        safe = {name.strip() for name in annotations.get(SAFE_LOCAL_VOLUMES, "").split(",")} - {""}
        unsafe = next((name for name in local_volumes if name not in safe), None)
        if unsafe is not None:
            return _build_pod_reason(POD_HAS_LOCAL_STORAGE, pod, f"its volume {unsafe} is an emptyDir or a hostPath")
    return None


def _is_local(volume: Volume) -> bool:
    on_disk = volume.empty_dir is not None and volume.empty_dir.medium != _IN_MEMORY
    return on_disk or volume.host_path is not None


def _build_pod_reason(reason: Reason, pod: Pod, details: str) -> DetailedReason:
    return DetailedReason(reason, f"{pod.metadata.namespace}/{pod.metadata.name}: {details}")


# A pod whose deletion is overdue by more than this has a dead kubelet, and is never deleted.
OVERDUE_SECONDS: Final = 30.0


class PodsToDrain(msgspec.Struct, frozen=True):
    """The pods of a node that a drain has to wait for: those to evict, and those that terminate already.

    `refusal` is why one of them may not be evicted. Pods whose deletion is long overdue are left out, and so are
    expendable pods, which never keep a node.
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


def find_device_problem(placed: PlacedPod, device_claims: DeviceClaims) -> DetailedReason | None:
    """The reason why it is not known where a pod with resource claims would fit; None if it is, or has none."""
    if not placed.pod.spec.resource_claims or placed.is_expendable:
        return None
    devices = device_claims.read_replacement(placed.pod)
    if not isinstance(devices, DetailedReason):
        return None
    return _build_pod_reason(devices.reason, placed.pod, devices.details)


def find_pods_to_drain(
    pods: Iterable[PlacedPod],
    now: float,
    budgets: DisruptionBudgets,
    settings: ScaleDownSettings,
    device_claims: DeviceClaims,
) -> PodsToDrain:
    """The pods to drain among those of one node."""
    others = [pod for pod in pods if pod.is_drained and not is_overdue(pod.pod, now)]
    if not others:
        return NO_PODS_TO_DRAIN
    to_evict = tuple(pod for pod in others if pod.pod.metadata.deletion_timestamp is None)
    terminating = tuple(pod for pod in others if pod.pod.metadata.deletion_timestamp is not None)
    refusals = (
        find_drain_problem(pod, budgets, settings) or find_device_problem(pod, device_claims) for pod in to_evict
    )
    return PodsToDrain(to_evict, terminating, next((refusal for refusal in refusals if refusal is not None), None))


def is_overdue(pod: Pod, now: float) -> bool:
    """Whether the deletion of a pod is long overdue, so that it is not waited for."""
    deleted = pod.metadata.deletion_timestamp
    return deleted is not None and now - deleted.timestamp() > OVERDUE_SECONDS
