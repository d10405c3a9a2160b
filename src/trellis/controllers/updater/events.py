"""Records the updater's Events, and logs one line for each action and each refusal.

An action on a pod is an Event of the pod and of the object that governs it, in upstream's words. What keeps pods from a
change they need is recorded once when it begins, for all pods of a workload together: a hundred pods that wait are one
Event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Any, Final

from trellis.api.kube.meta import ObjectReference
from trellis.api.registry import HVPA, VPA
from trellis.base.reasons import Reason, Severity
from trellis.base.wording import pluralize
from trellis.core.boost.phases import BOOSTED_FOR_LONG
from trellis.core.resize.actions import Action, DecisionKind, EvictPod, PodDecision, PodRef, ResizePod
from trellis.core.resize.candidates import POD_PENDING
from trellis.core.resize.disruption_budget import EVICTION_TOLERANCE_EXHAUSTED
from trellis.core.resize.freeze import FROZEN
from trellis.core.resize.resize_or_evict import RESIZE_INFEASIBLE, RESIZE_REFUSED, RESIZE_UNDER_WAY
from trellis.core.resize.state import attempts as core
from trellis.core.resize.state.indexes import WorkloadKey
from trellis.core.sizing.governors import Governor
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.runtime.telemetry.event_queue import EventSink
from trellis.runtime.telemetry.logs import Logger

EVICTED_BY_VPA = Reason("EvictedByVPA", "Pod was evicted by VPA Updater to apply resource recommendation.")
EVICTED_POD = Reason("EvictedPod", "VPA Updater evicted a Pod to apply resource recommendation.")
RESIZED_BY_VPA = Reason("InPlaceResizedByVPA", "Pod was resized in place by VPA Updater.")
RESIZE_SKIPPED = Reason(
    "InPlaceResizeSkipped", "The resize was infeasible; it is not tried again until the recommendation is lower."
)
UPDATE_REFUSED = Reason("PodUpdateRefused", "The API server refused a change of a pod.", Severity.WARNING)


# What happens every day, and is refused again a minute later, is no news for the log at its usual detail.
_USUAL: Final = frozenset({Result.CONFLICT, Result.GONE, Result.SKIPPED, Result.REFUSED})

# Pods take turns, and a resize takes its time: that is how it should be.
_TEMPORARY: Final = frozenset({EVICTION_TOLERANCE_EXHAUSTED, RESIZE_UNDER_WAY, POD_PENDING})

# Upstream says these of each pod, in these words.
_SKIPPED: Final = frozenset({RESIZE_INFEASIBLE, RESIZE_REFUSED})
_SKIPPED_MESSAGE: Final = (
    "Previously recorded in-place update was infeasible, "
    "current recommendation is not lower than previous, skipping resize"
)
_NO_PODS: Final[frozenset[PodRef]] = frozenset()

_log: Final = Logger("trellis.updater")


class UpdaterEvents:
    """Records Events of what is new."""

    def __init__(self, record: EventSink) -> None:
        self._record = record
        # The reasons that were last recorded of a workload.
        self._recorded: dict[WorkloadKey, frozenset[Reason]] = {}
        self._skipped: dict[WorkloadKey, frozenset[PodRef]] = {}
        self._long: dict[WorkloadKey, frozenset[PodRef]] = {}

    def record_decisions(self, workload: WorkloadKey, governor: Governor, decisions: Collection[PodDecision]) -> None:
        """Record what keeps pods of a workload from a change they need, when it begins."""
        counts: Counter[Reason] = Counter()
        details: dict[Reason, str] = {}
        for decision in decisions:
            for reason in _reportable_reasons(decision):
                counts[reason] += 1
                details.setdefault(reason, decision.details)
        before = self._recorded.get(workload, frozenset())
        for reason, pods in counts.items():
            if reason not in before:
                suffix = f" ({details[reason]})" if details[reason] else ""
                subject = _event_subject(governor, next(iter(decisions)).pod)
                self._record(subject, reason, f"{pluralize(pods, 'pod')}: {reason.meaning}{suffix}")
                log = _log.warning if reason.severity is not Severity.INFO else _log.info
                extra_fields: dict[str, Any] = {"details": details[reason]} if details[reason] else {}
                log("Event recorded", by=_governor_name(governor), reason=reason, pods=pods, **extra_fields)
        if counts:
            self._recorded[workload] = frozenset(counts)
        else:
            self._recorded.pop(workload, None)
        self._record_skipped(workload, decisions)
        self._record_long_boosts(workload, decisions)

    def _record_skipped(self, workload: WorkloadKey, decisions: Collection[PodDecision]) -> None:
        """Record an Event about each pod whose resize is not tried again, when that begins."""
        skipped = [
            decision.pod
            for decision in decisions
            if decision.kind is DecisionKind.LEAVE and decision.reason in _SKIPPED
        ]
        before = self._skipped.pop(workload, _NO_PODS)
        for pod in skipped:
            if pod not in before:
                self._record(_pod_reference(pod), RESIZE_SKIPPED, _SKIPPED_MESSAGE)
        if skipped:
            self._skipped[workload] = frozenset(skipped)

    def _record_long_boosts(self, workload: WorkloadKey, decisions: Collection[PodDecision]) -> None:
        """Record an Event about each pod that has been boosted for long, when that begins."""
        long_boosted = {decision.pod: decision for decision in decisions if BOOSTED_FOR_LONG in decision.warnings}
        before = self._long.pop(workload, _NO_PODS)
        for pod, decision in long_boosted.items():
            if pod not in before:
                suffix = f" ({decision.details})" if decision.details else ""
                message = f"Pod {pod.name} has been boosted for more than 10 minutes{suffix}: {decision.reason.meaning}"
                self._record(_pod_reference(pod), BOOSTED_FOR_LONG, message)
        if long_boosted:
            self._long[workload] = frozenset(long_boosted)

    def forget(self, workload: WorkloadKey) -> None:
        """Nothing governs the workload any more."""
        self._recorded.pop(workload, None)
        self._skipped.pop(workload, None)
        self._long.pop(workload, None)

    def retain(self, covers: Callable[[str], bool]) -> None:
        """Forget workloads in namespaces that are not covered: another replica serves them."""
        for recorded in (self._recorded, self._skipped, self._long):
            for workload in [workload for workload in recorded if not covers(workload[0])]:
                del recorded[workload]

    def record_execution(
        self, governor: Governor, action: Action, decision: PodDecision | None, outcome: WriteOutcome
    ) -> None:
        """Record an action that was applied, and log one that was not."""
        pod = action.pod
        reason = decision.reason if decision is not None else None
        need = decision.need.reason if decision is not None and decision.need is not None else None
        fields: dict[str, Any] = {
            "action": type(action).__name__,
            "pod": f"{pod.namespace}/{pod.name}",
            "by": _governor_name(governor),
            "reason": reason,
        }
        if need is not None:
            fields["need"] = need
        if not outcome.applied:
            log = _log.info if outcome.result in _USUAL else _log.warning
            log("not applied", **fields, result=outcome.result, why=outcome.message)
            return
        _log.info("applied", **fields)
        if isinstance(action, EvictPod):
            self._record(_pod_reference(pod), EVICTED_BY_VPA, "")
            message = f"VPA Updater evicted Pod {pod.name} to apply resource recommendation."
            self._record(build_governor_reference(governor), EVICTED_POD, message)
        elif isinstance(action, ResizePod):
            self._record(_pod_reference(pod), RESIZED_BY_VPA, "")

    def record_refusals(self, governor: Governor, outcomes: Iterable[core.ActionResult]) -> None:
        """Record what the API server refused of a plan: one Event for all pods with the same refusal."""
        refusals: dict[str, list[core.ActionResult]] = {}
        for outcome in outcomes:
            if outcome.result is not Result.APPLIED and outcome.result not in _USUAL:
                refusals.setdefault(outcome.message.replace(outcome.action.pod.name, ""), []).append(outcome)
        for same in refusals.values():
            others = f" and {len(same) - 1} more" if len(same) > 1 else ""
            about = f"Pod {same[0].action.pod.name}{others}: {same[0].message or same[0].result}"
            self._record(_event_subject(governor, same[0].action.pod), UPDATE_REFUSED, about)

    def log_outdated(self, governor: Governor, action: Action, change: str) -> None:
        """Log an action that was dropped, because its workload has changed since the plan."""
        _log.info(
            "dropped",
            action=type(action).__name__,
            pod=f"{action.pod.namespace}/{action.pod.name}",
            by=_governor_name(governor),
            why=change,
        )


def build_governor_reference(governor: Governor) -> ObjectReference:
    """A reference to the object that governs."""
    kind = HVPA if governor.kind == HVPA.name else VPA
    claim = governor.claim
    return ObjectReference(kind.name, claim.namespace, claim.name, claim.uid, f"{kind.group}/{kind.version}")


def _event_subject(governor: Governor, pod: PodRef) -> ObjectReference:
    """What an Event is about: the object that governs, or the pod where none does."""
    return build_governor_reference(governor) if governor.is_object else _pod_reference(pod)


def _pod_reference(pod: PodRef) -> ObjectReference:
    return ObjectReference("Pod", pod.namespace, pod.name, pod.uid, "v1")


def _governor_name(governor: Governor) -> str:
    return f"{governor.kind} {governor.claim.namespace}/{governor.claim.name}" if governor.is_object else "not governed"


def _reportable_reasons(decision: PodDecision) -> tuple[Reason, ...]:
    """The reasons of a decision that are worth an Event: warnings, and why a pod does not get what it needs."""
    reason = decision.reason
    is_held = decision.kind in {DecisionKind.WAIT, DecisionKind.LEAVE} and reason not in _TEMPORARY
    is_reportable = is_held and (decision.need is not None or reason.severity is not Severity.INFO or reason is FROZEN)
    return (*((reason,) if is_reportable else ()), *decision.warnings)
