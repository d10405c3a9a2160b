"""Withholds evictions while no admission controller renews its Lease.

Without one, the pods that replace evicted ones would not be sized. The rest of a plan is kept.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from trellis.api.kube.coordination import Lease
from trellis.base.reasons import Reason, Severity
from trellis.core.resize.in_place.decision_table import DecisionKind
from trellis.core.resize.plan import UpdatePlan
from trellis.core.resize.pod_decisions import Action, EvictPod, PodDecision

ADMISSION_ABSENT = Reason(
    "AdmissionAbsent",
    "The pod is not evicted, because no admission controller is there to size the one that would take its place.",
    Severity.WARNING,
)


def is_lease_renewed(lease: Lease, timeout: float, now: float) -> bool:
    """Whether the admission controller is there, as its Lease has it: renewed, or made, a short while ago."""
    times: tuple[datetime | None, ...] = (lease.spec.renew_time, lease.metadata.creation_timestamp)
    return any(each is not None and each.timestamp() + timeout > now for each in times)


def plans_evictions(plan: UpdatePlan) -> bool:
    """Whether a plan evicts anybody."""
    return any(map(_evicts, plan.actions))


def withhold_evictions(plan: UpdatePlan) -> UpdatePlan:
    """The same plan for those pods that it does not evict; the others wait."""
    evicted = {action.pod.uid for action in plan.actions if _evicts(action)}
    actions = tuple(action for action in plan.actions if action.pod.uid not in evicted)
    verdicts = tuple(_absent(each) if each.pod.uid in evicted else each for each in plan.verdicts)
    return msgspec.structs.replace(plan, actions=actions, verdicts=verdicts)


def _evicts(action: Action) -> bool:
    return isinstance(action, EvictPod)


def _absent(verdict: PodDecision) -> PodDecision:
    return msgspec.structs.replace(verdict, way=DecisionKind.WAIT, reason=ADMISSION_ABSENT)
