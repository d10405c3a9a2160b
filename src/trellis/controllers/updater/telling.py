"""Who is told what? Events for people who ask kubectl, and one line of the log for each action and each refusal.

What is done to a pod is told about the pod and about what governs it, in upstream's words. What keeps a pod from what
it needs is told once when it begins, for all pods of a workload together: a hundred pods that wait are one Event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any, Final

from trellis.api.kinds import HVPA, VPA
from trellis.api.kube.meta import ObjectReference
from trellis.base.counted import counted
from trellis.base.reason import Reason, Severity
from trellis.core.boost.phases import BOOSTED_FOR_LONG
from trellis.core.resize import attempts as core
from trellis.core.resize.actions import Action, EvictPod, PodRef, ResizePod
from trellis.core.resize.budget import TOLERANCE_USED_UP
from trellis.core.resize.candidates import POD_PENDING
from trellis.core.resize.freezing import FROZEN
from trellis.core.resize.governed import Workload
from trellis.core.resize.inplace import RESIZE_INFEASIBLE, RESIZE_REFUSED, RESIZE_UNDER_WAY, Way
from trellis.core.resize.verdicts import Verdict
from trellis.core.sizing.governors import Governor
from trellis.kube.outcomes import Outcome, Result
from trellis.runtime.logs import Logger
from trellis.runtime.posting import Record

EVICTED_BY_VPA = Reason("EvictedByVPA", "Pod was evicted by VPA Updater to apply resource recommendation.")
EVICTED_POD = Reason("EvictedPod", "VPA Updater evicted a Pod to apply resource recommendation.")
RESIZED_BY_VPA = Reason("InPlaceResizedByVPA", "Pod was resized in place by VPA Updater.")
RESIZE_SKIPPED = Reason(
    "InPlaceResizeSkipped", "A resize that was found to be infeasible is not asked for again until less is recommended."
)
UPDATE_REFUSED = Reason(
    "PodUpdateRefused", "The API server did not carry out a change of a pod that was asked for.", Severity.WARNING
)


# What happens every day, and is refused again a minute later, is no news for the log at its usual detail.
_USUAL: Final = frozenset({Result.CONFLICT, Result.GONE, Result.SKIPPED, Result.REFUSED})

# Pods take turns, and a resize takes its time: that is how it should be.
_PASSING: Final = frozenset({TOLERANCE_USED_UP, RESIZE_UNDER_WAY, POD_PENDING})

# Upstream says these of each pod, in these words.
_SKIPPED: Final = frozenset({RESIZE_INFEASIBLE, RESIZE_REFUSED})
_WHY_SKIPPED: Final = (
    "Previously recorded in-place update was infeasible, "
    "current recommendation is not lower than previous, skipping resize"
)
_NO_PODS: Final[frozenset[PodRef]] = frozenset()

_log: Final = Logger("trellis.updater")


class Telling:
    """Tells what is new."""

    def __init__(self, record: Record) -> None:
        self._record = record
        # What was last said about a workload.
        self._said: dict[Workload, frozenset[Reason]] = {}
        self._skipped: dict[Workload, frozenset[PodRef]] = {}
        self._long: dict[Workload, frozenset[PodRef]] = {}

    def decided(self, workload: Workload, governor: Governor, verdicts: Collection[Verdict]) -> None:
        """Verdicts were given: what keeps pods from what they need is told when it begins."""
        counts: Counter[Reason] = Counter()
        details: dict[Reason, str] = {}
        for verdict in verdicts:
            for reason in _news(verdict):
                counts[reason] += 1
                details.setdefault(reason, verdict.details)
        before = self._said.get(workload, frozenset())
        for reason, pods in counts.items():
            if reason not in before:
                about = f" ({details[reason]})" if details[reason] else ""
                subject = _subject(governor, next(iter(verdicts)).pod)
                self._record(subject, reason, f"{counted(pods, 'pod')}: {reason.meaning}{about}")
                log = _log.warning if reason.severity is not Severity.INFO else _log.info
                more: dict[str, Any] = {"details": details[reason]} if details[reason] else {}
                log("news of pods", by=_name(governor), reason=reason, pods=pods, **more)
        if counts:
            self._said[workload] = frozenset(counts)
        else:
            self._said.pop(workload, None)
        self._skip(workload, verdicts)
        self._name_long_boosts(workload, verdicts)

    def _skip(self, workload: Workload, verdicts: Collection[Verdict]) -> None:
        """Say of each pod whose resize is not asked for again that it is not, when that begins."""
        skipped = [each.pod for each in verdicts if each.way is Way.LEAVE and each.reason in _SKIPPED]
        before = self._skipped.pop(workload, _NO_PODS)
        for pod in skipped:
            if pod not in before:
                self._record(_pod(pod), RESIZE_SKIPPED, _WHY_SKIPPED)
        if skipped:
            self._skipped[workload] = frozenset(skipped)

    def _name_long_boosts(self, workload: Workload, verdicts: Collection[Verdict]) -> None:
        """Record an Event about each pod that has been boosted for long, when that begins."""
        long = {each.pod: each for each in verdicts if BOOSTED_FOR_LONG in each.warnings}
        before = self._long.pop(workload, _NO_PODS)
        for pod, verdict in long.items():
            if pod not in before:
                about = f" ({verdict.details})" if verdict.details else ""
                message = f"Pod {pod.name} has been boosted for more than 10 minutes{about}: {verdict.reason.meaning}"
                self._record(_pod(pod), BOOSTED_FOR_LONG, message)
        if long:
            self._long[workload] = frozenset(long)

    def forget(self, workload: Workload) -> None:
        """Nothing governs the workload any more."""
        self._said.pop(workload, None)
        self._skipped.pop(workload, None)
        self._long.pop(workload, None)

    def carried_out(self, governor: Governor, action: Action, why: Verdict | None, outcome: Outcome) -> None:
        """An action was tried."""
        pod = action.pod
        reason = why.reason if why is not None else None
        need = why.need.reason if why is not None and why.need is not None else None
        fields: dict[str, Any] = {
            "action": type(action).__name__,
            "pod": f"{pod.namespace}/{pod.name}",
            "by": _name(governor),
            "reason": reason,
        }
        if need is not None:
            fields["need"] = need
        if not outcome.applied:
            log = _log.info if outcome.result in _USUAL else _log.warning
            log("not done", **fields, result=outcome.result, why=outcome.message)
            return
        _log.info("done", **fields)
        if isinstance(action, EvictPod):
            self._record(_pod(pod), EVICTED_BY_VPA, "")
            message = f"VPA Updater evicted Pod {pod.name} to apply resource recommendation."
            self._record(reference_to(governor), EVICTED_POD, message)
        elif isinstance(action, ResizePod):
            self._record(_pod(pod), RESIZED_BY_VPA, "")

    def refused(self, governor: Governor, outcomes: Iterable[core.Outcome]) -> None:
        """A plan has been tried: what the server did not do is one Event for all pods of which it says the same."""
        pods: dict[str, list[core.Outcome]] = {}
        for outcome in outcomes:
            if outcome.told is not Result.APPLIED and outcome.told not in _USUAL:
                pods.setdefault(outcome.why.replace(outcome.action.pod.name, ""), []).append(outcome)
        for same in pods.values():
            others = f" and {len(same) - 1} more" if len(same) > 1 else ""
            about = f"Pod {same[0].action.pod.name}{others}: {same[0].why or same[0].told}"
            self._record(_subject(governor, same[0].action.pod), UPDATE_REFUSED, about)

    def outdated(self, governor: Governor, action: Action, why: str) -> None:
        """An action was not tried, because it is another world by now."""
        _log.info(
            "dropped",
            action=type(action).__name__,
            pod=f"{action.pod.namespace}/{action.pod.name}",
            by=_name(governor),
            why=why,
        )


def reference_to(governor: Governor) -> ObjectReference:
    """The object that governs, as Events name it."""
    kind = HVPA if governor.kind == HVPA.name else VPA
    claim = governor.claim
    return ObjectReference(kind.name, claim.namespace, claim.name, claim.uid, f"{kind.group}/{kind.version}")


def _subject(governor: Governor, pod: PodRef) -> ObjectReference:
    """What an Event is about: the object that governs, or the pod where none does."""
    return reference_to(governor) if governor.is_object else _pod(pod)


def _pod(pod: PodRef) -> ObjectReference:
    return ObjectReference("Pod", pod.namespace, pod.name, pod.uid, "v1")


def _name(governor: Governor) -> str:
    return f"{governor.kind} {governor.claim.namespace}/{governor.claim.name}" if governor.is_object else "no object"


def _news(verdict: Verdict) -> tuple[Reason, ...]:
    """What a person may want to know: warnings, and why a pod does not get what it needs."""
    reason = verdict.reason
    held = verdict.way in {Way.WAIT, Way.LEAVE} and reason not in _PASSING
    matters = held and (verdict.need is not None or reason.severity is not Severity.INFO or reason is FROZEN)
    return (*((reason,) if matters else ()), *verdict.warnings)
