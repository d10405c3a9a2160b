"""What is left of a plan while nobody would size the pods that come after evictions? Everything but the evictions."""

from __future__ import annotations

from datetime import datetime

import msgspec

from trellis.api.kube.coordination import Lease
from trellis.base.reason import Reason, Severity
from trellis.core.resize.actions import Action, EvictPod
from trellis.core.resize.inplace import Way
from trellis.core.resize.plan import Plan
from trellis.core.resize.verdicts import Verdict

ADMISSION_ABSENT = Reason(
    "AdmissionAbsent",
    "The pod is not evicted, because no admission controller is there to size the one that would take its place.",
    Severity.WARNING,
)


def is_renewed(lease: Lease, timeout: float, now: float) -> bool:
    """Whether the admission controller is there, as its Lease has it: renewed, or made, a short while ago."""
    times: tuple[datetime | None, ...] = (lease.spec.renew_time, lease.metadata.creation_timestamp)
    return any(each is not None and each.timestamp() + timeout > now for each in times)


def evicts(plan: Plan) -> bool:
    """Whether a plan evicts anybody."""
    return any(map(_evicts, plan.actions))


def without_evictions(plan: Plan) -> Plan:
    """The same plan for those pods that it does not evict; the others wait."""
    evicted = {action.pod.uid for action in plan.actions if _evicts(action)}
    actions = tuple(action for action in plan.actions if action.pod.uid not in evicted)
    verdicts = tuple(_absent(each) if each.pod.uid in evicted else each for each in plan.verdicts)
    return msgspec.structs.replace(plan, actions=actions, verdicts=verdicts)


def _evicts(action: Action) -> bool:
    return isinstance(action, EvictPod)


def _absent(verdict: Verdict) -> Verdict:
    return msgspec.structs.replace(verdict, way=Way.WAIT, reason=ADMISSION_ABSENT)
