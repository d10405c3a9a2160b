"""Disruption budgets during one plan: whether a pod may be evicted now, and what is left.

The rules of `EvictionREST.Create` in Kubernetes 1.36: a pod under two budgets is never evicted, a pod that is not ready
may go if enough others are, and the status of an older generation of a budget does not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from trellis.api.kube.pods import READY, Pod
from trellis.api.kube.policies import PodDisruptionBudget
from trellis.base.errors import InvalidSelector
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.base.selectors import Selector
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.cluster.target_selectors import convert_selector
from trellis.core.fit.constraints.selector_index import LabelSelectorIndex

DISRUPTIONS_USED_UP = Reason("DisruptionsUsedUp", "A disruption budget allows no eviction of a pod on the node now.")
SEVERAL_BUDGETS = Reason(
    "SeveralBudgets",
    "A pod on the node is under several disruption budgets, and so is never evicted.",
    Severity.WARNING,
)

_ALWAYS_ALLOW: Final = "AlwaysAllow"
_NOT_RUNNING: Final = ("Pending", "Succeeded", "Failed")


class DisruptionBudgets:
    """All disruption budgets during one plan, and what is left of them."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._budgets: dict[ObjectKey, tuple[Selector, PodDisruptionBudget]] = {}
        self._buckets: LabelSelectorIndex[ObjectKey] = LabelSelectorIndex()
        self._left: dict[ObjectKey, int] = {}
        for budget in budgets:
            self._add(budget)

    def covers(self, pod: Pod) -> bool:
        """Whether a budget covers the pod."""
        return bool(self._find(pod))

    def why_no_eviction(self, pod: Pod) -> DetailedReason | None:
        """Why a pod may not be evicted now; None if it may."""
        if _is_free(pod):
            return None
        budgets = self._find(pod)
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if len(budgets) > 1:
            return DetailedReason(SEVERAL_BUDGETS, f"{name}: {', '.join(key[1] for key in budgets)}")
        if not budgets or self._may_go_anyway(pod, budgets[0]) or self._left[budgets[0]] > 0:
            return None
        return DetailedReason(DISRUPTIONS_USED_UP, f"{name}: {budgets[0][1]}")

    def count_eviction(self, pod: Pod) -> None:
        """Count a pod that is about to be evicted."""
        if _is_free(pod):
            return
        for key in self._find(pod):
            if not self._may_go_anyway(pod, key):
                self._left[key] -= 1

    def _add(self, budget: PodDisruptionBudget) -> None:
        try:
            selector = convert_selector(budget.spec.selector)
        except InvalidSelector:
            # The API server takes such a budget to cover no pod.
            return
        if selector.selects_nothing:
            return
        key, status = key_of(budget), budget.status
        is_current = status.observed_generation >= budget.metadata.generation
        self._budgets[key] = (selector, budget)
        self._buckets.put(key, selector, (key[0],))
        self._left[key] = status.disruptions_allowed if is_current else 0

    def _find(self, pod: Pod) -> list[ObjectKey]:
        labels, namespace = pod.metadata.labels, pod.metadata.namespace
        return sorted(
            key for key in self._buckets.candidates(namespace, labels) if self._budgets[key][0].matches(labels)
        )

    def _may_go_anyway(self, pod: Pod, key: ObjectKey) -> bool:
        """Whether an unhealthy pod may be evicted without counting against its budget."""
        ready = pod.status.condition(READY)
        if ready is not None and ready.status == "True":
            return False
        budget = self._budgets[key][1]
        if budget.spec.unhealthy_pod_eviction_policy == _ALWAYS_ALLOW:
            return True
        return budget.status.current_healthy >= budget.status.desired_healthy > 0


def _is_free(pod: Pod) -> bool:
    """Whether no budget applies: the pod does not run, or terminates already."""
    return pod.status.phase in _NOT_RUNNING or pod.metadata.deletion_timestamp is not None
