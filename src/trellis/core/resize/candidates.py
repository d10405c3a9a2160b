"""Candidates for an update: what would be done to each pod if no budget or earlier attempt prevented it.

Either the decision is known at once: the pod is terminating, boosted, or has the size it should have. Or it is a
candidate, for which `disruption_order` checks the rest: budgets, earlier attempts, headroom for a successor.

The need of a pod is judged by the resources in force and, while a resize is under way, also by the resources in its
spec: if the spec has the target already, no other resize is written.

Ending a boost takes two writes, because `pods/resize` changes no annotations: first the resize, and when that is in
force the annotation is removed. Each plan finds which of the two is missing, so that an updater that stopped in between
continues and repeats nothing. Budgets, the minimum of replicas and requirements do not apply. A boost that cannot be
taken back is tried again, but never by an eviction: the next pod would be boosted as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import msgspec

from trellis.api.resolve import EffectiveVpa, UpdateMode
from trellis.base.reasons import Reason, Severity
from trellis.core.boost.annotation import annotation_key, read_pre_boost_resources, restore_pre_boost_shape
from trellis.core.boost.phases import (
    BOOST_GATE_OFF,
    BOOSTED_FOR_LONG,
    BoostPhase,
    PodBoostPhases,
    determine_boost_phases,
)
from trellis.core.boost.unboosted_size import UnboostedContainer, unboost_containers
from trellis.core.cluster.json_patches import PatchOp, ResourceChange, build_annotation_ops, build_guarded_ops
from trellis.core.cluster.pod_annotations import IN_PLACE_UPDATED_ANNOTATION
from trellis.core.resize.actions import (
    Action,
    ControllerKey,
    DecisionKind,
    PodDecision,
    PodUpdate,
    ResizePod,
    UnmarkPod,
)
from trellis.core.resize.eligibility import (
    RESIZE_MISSED,
    SIZE_AS_RECOMMENDED,
    ContainerResource,
    NoUpdateNeed,
    RequestComparison,
    TargetSizes,
    UpdateNeed,
    judge_eligibility,
)
from trellis.core.resize.freeze import FROZEN
from trellis.core.resize.in_place import (
    CONTAINER_DOWN,
    CONTAINER_DOWN_PROSPECTS,
    InPlaceChange,
    ResizeProspect,
    ResizeStage,
    compute_in_place_change,
    determine_resize_stage,
    look_up_decision,
)
from trellis.core.resize.settings import HpaConflict, UpdateSettings
from trellis.core.resize.state.attempts import PodAttempts
from trellis.core.resize.view import PodView, ResizeState, WorkloadView
from trellis.core.sizing.shapes import PodShape

UNBOOST_RESIZED = Reason("UnboostResized", "The boost is over, and the pod is resized to what it gets without it.")
UNBOOST_FINISHED = Reason("UnboostFinished", "The boost is taken back, and the pod is no longer marked as boosted.")
UNBOOST_AWAITED = Reason(
    "UnboostAwaited", "The pod was asked to give its boost back, and its node has not done it yet."
)
UNBOOST_FAILING = Reason(
    "UnboostFailing", "The node does not take the boost back, so that the pod keeps it for now.", Severity.WARNING
)
UNBOOST_RETRIED = Reason(
    "UnboostRetried", "An attempt to take the boost back failed, and will be repeated.", Severity.WARNING
)
UNBOOST_NOT_SERVED = Reason(
    "UnboostNotServed", "The boost is over, but the API server cannot resize pods in place.", Severity.WARNING
)
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


_REFUSING = (ResizeState.DEFERRED, ResizeState.INFEASIBLE, ResizeState.FAILING)


class UnboostStep(msgspec.Struct, frozen=True):
    """What is done to end the boosts of a pod that are over, and why that is all for now."""

    actions: tuple[Action, ...]
    reason: Reason
    look: float | None = None


def end_boosts(
    view: WorkloadView, pod: PodView, phases: PodBoostPhases, now: float, settings: UpdateSettings
) -> UnboostStep:
    """The next step to end the boosts that are due; at least one must be."""
    attempt = view.attempts.pods.get(pod.ref.uid, PodAttempts())
    if not settings.resizes:
        return UnboostStep((), UNBOOST_NOT_SERVED)
    if now < attempt.not_before:
        return UnboostStep((), UNBOOST_RETRIED, attempt.not_before)
    governor, annotations = view.governor, pod.pod.metadata.annotations
    ends = unboost_containers(
        pod.in_force,
        governor.advice,
        governor.vpa,
        applies=governor.applies,
        limits=view.limits,
        phases=phases,
        memory=read_pre_boost_resources(annotations),
    )
    resized = _resize(pod, [end for end in ends if end.changes])
    is_down = resized is not None and pod.downtime.since is not None
    marks = [annotation_key(end.container) for end in ends if end.settled and not end.changes]
    # Upstream's mark of a pod that was resized goes on with the patch that is needed anyway.
    unmarked = tuple(build_annotation_ops(annotations, {IN_PLACE_UPDATED_ANNOTATION: "true"}, marks)) if marks else ()
    possible: list[ResizePod | UnmarkPod] = [resized] if resized is not None and not is_down else []
    if unmarked:
        possible.append(UnmarkPod(pod.ref, (PatchOp("test", "/metadata/uid", pod.ref.uid), *unmarked)))
    if is_down and not possible:
        return UnboostStep((), CONTAINER_DOWN)
    if not possible:
        return UnboostStep((), UNBOOST_FAILING if pod.resize.state in _REFUSING else UNBOOST_AWAITED)
    actions = tuple(action for action in possible if not attempt.repeats(action.patch, now, settings))
    look = None if actions else attempt.written_at + settings.catch_up
    return UnboostStep(actions, UNBOOST_RESIZED if resized is not None else UNBOOST_FINISHED, look)


def _resize(pod: PodView, ends: Iterable[UnboostedContainer]) -> ResizePod | None:
    own = {container.name: container for container in pod.in_spec.containers}
    ends = list(ends)
    changes = []
    for end in ends:
        container = own[end.container]
        changes.append(
            ResourceChange(
                container.place, container.index, container.name, container.written, end.requests, end.limits
            )
        )
    patch = tuple(build_guarded_ops(pod.ref.uid, changes))
    if not patch:
        return None
    restarts = any("cpu" in own[end.container].restarts_on for end in ends)
    return ResizePod(pod.ref, patch, {end.container: end.requests for end in ends}, restarts=restarts, unboosts=True)


_NEVER_TRIED = PodAttempts()


class PodCase(msgspec.Struct, frozen=True):
    """One pod of a workload at one moment."""

    view: WorkloadView
    pod: PodView
    sizes: TargetSizes
    now: float
    settings: UpdateSettings

    @property
    def attempt(self) -> PodAttempts:
        """What is remembered of the pod."""
        return self.view.attempts.pods.get(self.pod.ref.uid, _NEVER_TRIED)


def assess_need(case: PodCase, shape: PodShape, spared: frozenset[ContainerResource]) -> UpdateNeed | NoUpdateNeed:
    """Whether a pod of this shape should change, `spared` left out."""
    gap = case.sizes.gap(shape, spared)
    return judge_eligibility(
        gap, started=case.pod.started, quick_oom=_had_quick_oom(case), now=case.now, settings=case.settings
    )


def assess_missed_resize(
    case: PodCase, need: UpdateNeed | NoUpdateNeed, spared: frozenset[ContainerResource]
) -> UpdateNeed | NoUpdateNeed:
    """The need of a pod that missed its last resize: that resize once more, or another that is due anyway.

    Nothing is done if no resource is left that could be resized.
    """
    gap = case.sizes.gap(case.pod.in_spec, spared)
    size = case.sizes.in_place(case.pod.in_spec, spared)
    if not gap.is_known or not size.containers:
        return need
    has = {container.name: container.requests for container in case.pod.in_spec.containers}
    compared = tuple(
        RequestComparison(sized.container.name, sized.requests, has[sized.container.name]) for sized in size.containers
    )
    return UpdateNeed(
        RESIZE_MISSED, True, need.difference, need.containers if isinstance(need, UpdateNeed) else compared
    )


def find_downtime_look(case: PodCase, prospect: ResizeProspect) -> float | None:
    """When a pod whose containers are down is looked at again, if nothing changes before."""
    if prospect is not ResizeProspect.DOWN:
        return None
    downtime = case.pod.downtime
    if downtime.since is None:
        return downtime.settled
    evicts = case.view.governor.vpa.mode is not UpdateMode.IN_PLACE
    return downtime.since + case.settings.down_patience if evicts else None


def assess_prospect(
    case: PodCase, change: InPlaceChange, stage: ResizeStage, proposed_need: UpdateNeed | NoUpdateNeed
) -> ResizeProspect:
    """What could be written; during a resize only what is worth asking for once more."""
    if change.patch and case.attempt.is_refused(change.wanted, case.view.nodes.get(case.pod.node, {})):
        return ResizeProspect.REFUSED
    if change.patch and (stage is ResizeStage.IDLE or _is_another(case.pod, change, stage, proposed_need)):
        return _once_it_runs(case)
    if stage is not ResizeStage.IDLE:
        return ResizeProspect.TRIED
    if change.barred:
        return ResizeProspect.BARRED
    large = isinstance(proposed_need, UpdateNeed) and proposed_need.difference >= case.settings.update_threshold
    return ResizeProspect.IMPOSSIBLE if large else ResizeProspect.NEGLIGIBLE


def _once_it_runs(case: PodCase) -> ResizeProspect:
    """A change is written only while all containers run."""
    downtime = case.pod.downtime
    if downtime.since is not None:
        return (
            ResizeProspect.DOWN_TOO_LONG
            if case.now >= downtime.since + case.settings.down_patience
            else ResizeProspect.DOWN
        )
    return ResizeProspect.DOWN if downtime.is_settling(case.now) else ResizeProspect.OPEN


def list_hpa_resources(case: PodCase) -> Iterator[ContainerResource]:
    """The resources by whose utilization an HPA scales, of each container."""
    return ((container.name, resource) for container in case.pod.in_spec.containers for resource in case.view.hpa)


def _had_quick_oom(case: PodCase) -> bool:
    """Whether a container was killed soon after its start, and not long ago: its pod tells of it for ever."""
    pod, vpa = case.pod, case.view.governor.vpa
    if not pod.kills:
        return False
    own = vpa.evict_after_oom if case.settings.per_vpa_config else None
    patience = own.total_seconds() if own is not None else case.settings.evict_after_oom
    # As upstream, except for an object that sets less: a pass cannot act on a kill within so few seconds.
    memory = max(patience, case.settings.evict_after_oom)
    left_out = {name for name, _ in pod.unobserved}
    return any(
        vpa.container(name).scaled
        and name not in left_out
        and any(kill.ran < patience and case.now - kill.at < memory for kill in kills)
        for name, kills in pod.kills.items()
    )


def _is_another(
    pod: PodView, change: InPlaceChange, stage: ResizeStage, proposed_need: UpdateNeed | NoUpdateNeed
) -> bool:
    """Whether another resize than the one under way is worth asking for. What is infeasible must become less."""
    if isinstance(proposed_need, NoUpdateNeed):
        return False
    if stage is not ResizeStage.INFEASIBLE:
        return True
    proposed = {container.name: container.requests for container in pod.in_spec.containers}
    return any(
        amount < proposed[name].get(resource, 0)
        for name, amounts in change.wanted.items()
        for resource, amount in amounts.items()
    )


_NOTHING_HELD: frozenset[ContainerResource] = frozenset()
_NO_PHASES = PodBoostPhases()
_ACTIVE = frozenset({UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.IN_PLACE})


class UpdateCandidate(msgspec.Struct, frozen=True):
    """A pod that needs a change, and what the table says about it."""

    pod: PodView
    group: ControllerKey
    need: UpdateNeed
    way: DecisionKind
    reason: Reason
    change: InPlaceChange
    look: float | None = None
    details: str = ""


def find_warnings(view: WorkloadView) -> tuple[Reason, ...]:
    """The warnings that apply to every pod of the workload."""
    vpa = view.governor.vpa
    if not view.hpa or vpa.mode is UpdateMode.OFF:
        return ()
    names = {advice.container for advice in view.governor.advice}
    controlled = {
        name for container in names for name in vpa.container(container).controlled if vpa.container(container).scaled
    }
    return (HPA_CONFLICT,) if controlled & view.hpa else ()


def consider_pod(
    view: WorkloadView, pod: PodView, now: float, settings: UpdateSettings, sizes: TargetSizes | None = None
) -> PodUpdate | UpdateCandidate:
    """What would be done to a pod. `sizes` are shared by the pods of a workload, and made once per plan."""
    if view.frozen is not None:
        return _leave(pod, FROZEN, details=str(view.frozen))
    attempt = view.attempts.pods.get(pod.ref.uid)
    if pod.over or (attempt is not None and attempt.was_evicted(now, settings)):
        return _leave(pod, POD_GOING, look=attempt.written_at + settings.catch_up if attempt and not pod.over else None)
    vpa, phases = view.governor.vpa, _NO_PHASES
    if pod.boosted:
        phases = read_boost_phases(view, pod, now, settings)
        held_back = phases.hold_back(vpa.mode, oom_killed=bool(pod.kills))
        if phases.due:
            step = _unboosted(view, pod, phases, now, settings)
            if step.actions or held_back:
                return _warned_if_long(step, pod, phases, now)
        elif held_back:
            held = min(phases.held, key=lambda hold: hold.at)
            step = _leave(pod, held.reason, details=held.container, look=phases.next_look)
            return _warned_if_long(step, pod, phases, now)
        elif not view.is_governed:
            return _leave(pod, BOOST_GATE_OFF)
    group = _group_or_reason(vpa, pod, settings)
    if isinstance(group, Reason):
        return _leave(pod, group)
    case = PodCase(view, pod, sizes or TargetSizes(view.governor, view.limits), now, settings)
    return _judged(case, group, phases)


def read_boost_phases(view: WorkloadView, pod: PodView, now: float, settings: UpdateSettings) -> PodBoostPhases:
    """The phases of a pod's boosts."""
    return determine_boost_phases(
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


def _warned_if_long(step: PodUpdate, pod: PodView, phases: PodBoostPhases, now: float) -> PodUpdate:
    """The same with a warning once the pod has been boosted for long, and until then with a look at that time."""
    at = phases.long_at(_started(pod))
    if math.isinf(at):
        return step
    decision = step.verdict
    if now >= at:
        warned = msgspec.structs.replace(decision, warnings=(*decision.warnings, BOOSTED_FOR_LONG))
    else:
        warned = msgspec.structs.replace(decision, look=_earlier(decision.look, at))
    return msgspec.structs.replace(step, verdict=warned)


def _leave(
    pod: PodView, reason: Reason, *, details: str = "", look: float | None = None, apart: float = 0.0
) -> PodUpdate:
    return PodUpdate(PodDecision(pod.ref, DecisionKind.LEAVE, reason, details=details, look=look, apart=apart))


def _unboosted(
    view: WorkloadView, pod: PodView, phases: PodBoostPhases, now: float, settings: UpdateSettings
) -> PodUpdate:
    ended = end_boosts(view, pod, phases, now, settings)
    looks = [at for at in (ended.look, phases.next_look) if at is not None]
    way = DecisionKind.UNBOOST if ended.actions else DecisionKind.WAIT
    details = ", ".join(boost.container for boost in phases.due)
    return PodUpdate(
        PodDecision(pod.ref, way, ended.reason, details=details, look=min(looks) if looks else None), ended.actions
    )


def _group_or_reason(vpa: EffectiveVpa, pod: PodView, settings: UpdateSettings) -> Reason | ControllerKey:
    """The reason to leave the pod alone whatever it needs, or its controller."""
    if vpa.mode not in _ACTIVE:
        return MODE_LEAVES_PODS
    if vpa.mode is UpdateMode.IN_PLACE and not settings.in_place:
        return IN_PLACE_GATE_OFF
    if vpa.mode is UpdateMode.IN_PLACE and not settings.resizes:
        return IN_PLACE_NOT_SERVED
    if pod.group is None:
        return NO_CONTROLLER
    return pod.group if pod.node else POD_WITHOUT_NODE


def _judged(case: PodCase, group: ControllerKey, phases: PodBoostPhases) -> PodUpdate | UpdateCandidate:
    boosted = [boost.container for boost in phases.containers if boost.phase is not BoostPhase.NONE]
    spared = case.pod.unobserved.union((name, "cpu") for name in boosted) if boosted else case.pod.unobserved
    held = frozenset(list_hpa_resources(case)) if case.settings.hpa_conflict is HpaConflict.HOLD else _NOTHING_HELD
    left_alone = spared | held if held else spared
    need = assess_need(case, shape_without_boost(case.pod) if boosted else case.pod.in_force, left_alone)
    stage, look = determine_resize_stage(case.pod.resize, case.attempt.resized_at, case.now, case.settings)
    proposed_need = need if stage is ResizeStage.IDLE else assess_need(case, case.pod.in_spec, left_alone)
    missed = case.pod.ref.uid in case.view.missed and stage is ResizeStage.IDLE
    if missed:
        need = proposed_need = assess_missed_resize(case, need, left_alone)
    if isinstance(need, NoUpdateNeed) and isinstance(proposed_need, NoUpdateNeed):
        if held and isinstance(assess_need(case, case.pod.in_force, spared), UpdateNeed):
            return _leave(case.pod, HELD_FOR_HPA, details=", ".join(sorted(case.view.hpa)))
        return _leave(case.pod, need.reason, look=_earlier(need.until, phases.next_look), apart=need.difference)
    change, prospect = InPlaceChange(), ResizeProspect.IMPOSSIBLE
    # What lifts the hold of a boost is a lack of memory, and a new pod is made for that: it is boosted again.
    mode = UpdateMode.RECREATE if boosted or not case.settings.resizes else case.view.governor.vpa.mode
    if mode is not UpdateMode.RECREATE:
        change = compute_in_place_change(
            case.view.governor.vpa, case.pod, case.sizes, left_alone, case.settings, missed=missed
        )
        prospect = assess_prospect(case, change, stage, proposed_need)
        look = _earlier(look, find_downtime_look(case, prospect))
    row = look_up_decision(mode, stage, prospect)
    decisive_need = need if isinstance(need, UpdateNeed) else proposed_need
    if isinstance(decisive_need, NoUpdateNeed) or (isinstance(need, NoUpdateNeed) and row.way is DecisionKind.EVICT):
        # The spec asks for what is no longer wanted; nothing of that is in force, so that no pod is evicted for it.
        return _leave(case.pod, SIZE_AS_RECOMMENDED, look=look)
    details = ", ".join(case.pod.downtime.containers) if prospect in CONTAINER_DOWN_PROSPECTS else ""
    return UpdateCandidate(
        case.pod, group, decisive_need, row.way, row.reason, change, _earlier(look, phases.next_look), details
    )


def shape_without_boost(pod: PodView) -> PodShape:
    """The resources in force of a pod, as they would be without its boosts."""
    return restore_pre_boost_shape(pod.in_force, read_pre_boost_resources(pod.pod.metadata.annotations))


def _earlier(first: float | None, second: float | None) -> float | None:
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)
