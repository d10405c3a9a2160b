"""What would be done to this pod if nothing stood in the way?

Either the answer is known at once: the pod is going, boosted, or has what it should have. Or it is a candidate, for
which the plan asks the rest: budgets, earlier attempts, room for a successor.
"""

from __future__ import annotations

import math

import msgspec

from trellis.api.resolve import EffectiveVpa, UpdateMode
from trellis.base.reason import Reason, Severity
from trellis.core.boost.memory import before_boost, read_memory
from trellis.core.boost.phases import BOOST_GATE_OFF, BOOSTED_FOR_LONG, Phase, PodPhases, boost_phases
from trellis.core.resize.actions import GroupKey
from trellis.core.resize.alike import Sizes
from trellis.core.resize.changes import InPlaceChange, change_in_place
from trellis.core.resize.eligibility import SIZE_AS_RECOMMENDED, Need, NoNeed, Part
from trellis.core.resize.freezing import FROZEN
from trellis.core.resize.inplace import DOWN, Prospect, Stage, Way, decide, stage_of
from trellis.core.resize.prospects import Case, for_hpa, need_of, need_to_repeat, prospect_of, when_it_runs
from trellis.core.resize.settings import HpaConflict, UpdateSettings
from trellis.core.resize.unboost import end_boosts
from trellis.core.resize.verdicts import Step, Verdict
from trellis.core.resize.views import PodView, WorkloadView
from trellis.core.sizing.shapes import PodShape

POD_GOING = Reason("PodGoing", "The pod is being deleted, or has ended.")
POD_WITHOUT_NODE = Reason("PodWithoutNode", "The pod has no node yet.")
POD_PENDING = Reason("PodPending", "The pod has not started yet, so that it is not resized.")
NO_CONTROLLER = Reason("NoController", "Nobody would replace the pod, so that it is left alone.")
MODE_LEAVES_PODS = Reason("ModeLeavesPods", "The update mode leaves pods that run as they are.")
IN_PLACE_GATE_OFF = Reason("InPlaceGateOff", "The mode InPlace is switched off.", Severity.WARNING)
IN_PLACE_NOT_SERVED = Reason(
    "InPlaceNotServed", "The API server cannot resize pods in place, and the mode never evicts.", Severity.WARNING
)
HPA_CONFLICT = Reason(
    "HpaConflict", "An HPA scales the same pods by the utilization of a resource that is sized here.", Severity.WARNING
)
HELD_FOR_HPA = Reason("HeldForHpa", "What should change is a resource by whose utilization an HPA scales the pods.")

_NOTHING_HELD: frozenset[Part] = frozenset()
_NO_PHASES = PodPhases()
_ACTIVE = frozenset({UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.IN_PLACE})


class Candidate(msgspec.Struct, frozen=True):
    """A pod that needs a change, and what the table says about it."""

    pod: PodView
    group: GroupKey
    need: Need
    way: Way
    reason: Reason
    change: InPlaceChange
    look: float | None = None
    details: str = ""


def warnings_of(view: WorkloadView) -> tuple[Reason, ...]:
    """What is to be said about every pod of the workload."""
    vpa = view.governor.vpa
    if not view.hpa or vpa.mode is UpdateMode.OFF:
        return ()
    names = {each.container for each in view.governor.advice}
    controlled = {name for each in names for name in vpa.container(each).controlled if vpa.container(each).scaled}
    return (HPA_CONFLICT,) if controlled & view.hpa else ()


def consider(
    view: WorkloadView, pod: PodView, now: float, settings: UpdateSettings, sizes: Sizes | None = None
) -> Step | Candidate:
    """What would be done to a pod; whoever asks about many of a workload has their `sizes` made once."""
    if view.frozen is not None:
        return _leave(pod, FROZEN, details=str(view.frozen))
    attempt = view.attempts.pods.get(pod.ref.uid)
    if pod.over or (attempt is not None and attempt.was_evicted(now, settings)):
        return _leave(pod, POD_GOING, look=attempt.written_at + settings.catch_up if attempt and not pod.over else None)
    vpa, phases = view.governor.vpa, _NO_PHASES
    if pod.boosted:
        phases = phases_of(view, pod, now, settings)
        held_back = phases.hold_back(vpa.mode, oom_killed=bool(pod.kills))
        if phases.due:
            step = _unboosted(view, pod, phases, now, settings)
            if step.actions or held_back:
                return _warned_if_long(step, pod, phases, now)
        elif held_back:
            held = min(phases.held, key=lambda each: each.at)
            step = _leave(pod, held.reason, details=held.container, look=phases.next_look)
            return _warned_if_long(step, pod, phases, now)
        elif not view.is_governed:
            return _leave(pod, BOOST_GATE_OFF)
    found = _group_or_why_not(vpa, pod, settings)
    if isinstance(found, Reason):
        return _leave(pod, found)
    case = Case(view, pod, sizes or Sizes(view.governor, view.limits), now, settings)
    return _judged(case, found, phases)


def phases_of(view: WorkloadView, pod: PodView, now: float, settings: UpdateSettings) -> PodPhases:
    """Where the boosts of a pod stand."""
    return boost_phases(
        pod.pod.metadata.annotations,
        view.governor.vpa,
        now,
        ready=pod.ready,
        ready_since=pod.ready_since,
        started=_started(pod),
        without_policy_since=view.attempts.without_policy.get(pod.ref.uid),
        give_up_after=settings.boost_give_up_after,
        enabled=settings.startup_boost,
    )


def _started(pod: PodView) -> float:
    return pod.started if pod.started is not None else math.inf


def _warned_if_long(step: Step, pod: PodView, phases: PodPhases, now: float) -> Step:
    """The same with a warning once the pod has been boosted for long, and until then with a look at that time."""
    at = phases.long_at(_started(pod))
    if math.isinf(at):
        return step
    verdict = step.verdict
    if now >= at:
        warned = msgspec.structs.replace(verdict, warnings=(*verdict.warnings, BOOSTED_FOR_LONG))
    else:
        warned = msgspec.structs.replace(verdict, look=_earlier(verdict.look, at))
    return msgspec.structs.replace(step, verdict=warned)


def _leave(pod: PodView, reason: Reason, *, details: str = "", look: float | None = None, apart: float = 0.0) -> Step:
    return Step(Verdict(pod.ref, Way.LEAVE, reason, details=details, look=look, apart=apart))


def _unboosted(view: WorkloadView, pod: PodView, phases: PodPhases, now: float, settings: UpdateSettings) -> Step:
    ended = end_boosts(view, pod, phases, now, settings)
    looks = [at for at in (ended.look, phases.next_look) if at is not None]
    way = Way.UNBOOST if ended.actions else Way.WAIT
    details = ", ".join(each.container for each in phases.due)
    return Step(Verdict(pod.ref, way, ended.reason, details=details, look=min(looks) if looks else None), ended.actions)


def _group_or_why_not(vpa: EffectiveVpa, pod: PodView, settings: UpdateSettings) -> Reason | GroupKey:
    """Why the pod is left alone whatever it needs, or who controls it."""
    if vpa.mode not in _ACTIVE:
        return MODE_LEAVES_PODS
    if vpa.mode is UpdateMode.IN_PLACE and not settings.in_place:
        return IN_PLACE_GATE_OFF
    if vpa.mode is UpdateMode.IN_PLACE and not settings.resizes:
        return IN_PLACE_NOT_SERVED
    if pod.group is None:
        return NO_CONTROLLER
    return pod.group if pod.node else POD_WITHOUT_NODE


def _judged(case: Case, group: GroupKey, phases: PodPhases) -> Step | Candidate:
    boosted = [each.container for each in phases.containers if each.phase is not Phase.NONE]
    spared = case.pod.unobserved.union((name, "cpu") for name in boosted) if boosted else case.pod.unobserved
    held = frozenset(for_hpa(case)) if case.settings.hpa_conflict is HpaConflict.HOLD else _NOTHING_HELD
    left_alone = spared | held if held else spared
    need = need_of(case, _without_boost(case.pod) if boosted else case.pod.in_force, left_alone)
    stage, look = stage_of(case.pod.resize, case.attempt.resized_at, case.now, case.settings)
    asked = need if stage is Stage.IDLE else need_of(case, case.pod.in_spec, left_alone)
    missed = case.pod.ref.uid in case.view.missed and stage is Stage.IDLE
    if missed:
        need = asked = need_to_repeat(case, need, left_alone)
    if isinstance(need, NoNeed) and isinstance(asked, NoNeed):
        if held and isinstance(need_of(case, case.pod.in_force, spared), Need):
            return _leave(case.pod, HELD_FOR_HPA, details=", ".join(sorted(case.view.hpa)))
        return _leave(case.pod, need.reason, look=_earlier(need.until, phases.next_look), apart=need.difference)
    change, prospect = InPlaceChange(), Prospect.IMPOSSIBLE
    # What lifts the hold of a boost is a lack of memory, and a new pod is made for that: it is boosted again.
    mode = UpdateMode.RECREATE if boosted or not case.settings.resizes else case.view.governor.vpa.mode
    if mode is not UpdateMode.RECREATE:
        change = change_in_place(case.view.governor.vpa, case.pod, case.sizes, left_alone, case.settings, missed=missed)
        prospect = prospect_of(case, change, stage, asked)
        look = _earlier(look, when_it_runs(case, prospect))
    row = decide(mode, stage, prospect)
    found = need if isinstance(need, Need) else asked
    if isinstance(found, NoNeed) or (isinstance(need, NoNeed) and row.way is Way.EVICT):
        # The spec asks for what is no longer wanted; nothing of that is in force, so that nobody has to go for it.
        return _leave(case.pod, SIZE_AS_RECOMMENDED, look=look)
    details = ", ".join(case.pod.downtime.containers) if prospect in DOWN else ""
    return Candidate(case.pod, group, found, row.way, row.reason, change, _earlier(look, phases.next_look), details)


def _without_boost(pod: PodView) -> PodShape:
    return before_boost(pod.in_force, read_memory(pod.pod.metadata.annotations))


def _earlier(one: float | None, other: float | None) -> float | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
