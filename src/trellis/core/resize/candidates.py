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
from trellis.core.resize.freeze import FROZEN
from trellis.core.resize.resize_or_evict import (
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
from trellis.core.resize.update_need import (
    RESIZE_MISSED,
    SIZE_AS_RECOMMENDED,
    ContainerResource,
    NoUpdateNeed,
    RequestComparison,
    TargetSizes,
    UpdateNeed,
    assess_update_need,
)
from trellis.core.resize.view import PodView, ResizeState, WorkloadView
from trellis.core.sizing.shapes import PodShape

UNBOOST_RESIZED = Reason("UnboostResized", "The boost is over: the pod is resized to its size without the boost.")
UNBOOST_FINISHED = Reason("UnboostFinished", "The boost has ended: the pod's boost annotation is removed.")
UNBOOST_AWAITED = Reason(
    "UnboostAwaited", "The resize that ends the boost was requested, and the kubelet has not applied it yet."
)
UNBOOST_FAILING = Reason(
    "UnboostFailing",
    "The kubelet does not apply the resize that ends the boost, so the pod keeps the boost for now.",
    Severity.WARNING,
)
UNBOOST_RETRIED = Reason("UnboostRetried", "The resize that ends the boost failed, and is retried.", Severity.WARNING)
UNBOOST_NOT_SERVED = Reason(
    "UnboostNotServed", "The boost is over, but the API server cannot resize pods in place.", Severity.WARNING
)
POD_TERMINATING = Reason("PodTerminating", "The pod is being deleted, or has ended.")
POD_WITHOUT_NODE = Reason("PodWithoutNode", "The pod is not scheduled yet.")
POD_PENDING = Reason("PodPending", "The pod has not started yet, so it is not resized.")
NO_CONTROLLER = Reason("NoController", "The pod has no controller that would replace it, so it is not evicted.")
MODE_DOES_NOT_UPDATE_PODS = Reason("ModeDoesNotUpdatePods", "The update mode does not change running pods.")
IN_PLACE_GATE_OFF = Reason("InPlaceGateOff", "The feature gate InPlace is off.", Severity.WARNING)
IN_PLACE_NOT_SERVED = Reason(
    "InPlaceNotServed",
    "The API server cannot resize pods in place, and the update mode never evicts.",
    Severity.WARNING,
)
HPA_CONFLICT = Reason(
    "HpaConflict",
    "An HPA scales the same pods by the utilization of a resource that the recommendation changes.",
    Severity.WARNING,
)
HELD_FOR_HPA = Reason("HeldForHpa", "The resource is not changed, because an HPA scales the pods by its utilization.")


_REFUSED_STATES = (ResizeState.DEFERRED, ResizeState.INFEASIBLE, ResizeState.FAILING)


class UnboostStep(msgspec.Struct, frozen=True):
    """The actions that end the due boosts of a pod, and the reason if there are none."""

    actions: tuple[Action, ...]
    reason: Reason
    requeue_at: float | None = None


def end_boosts(
    view: WorkloadView, pod: PodView, phases: PodBoostPhases, now: float, settings: UpdateSettings
) -> UnboostStep:
    """The next step to end the boosts that are due; at least one is."""
    attempt = view.attempts.pods.get(pod.ref.uid, PodAttempts())
    if not settings.resizes:
        return UnboostStep((), UNBOOST_NOT_SERVED)
    if now < attempt.not_before:
        return UnboostStep((), UNBOOST_RETRIED, attempt.not_before)
    governor, annotations = view.governor, pod.pod.metadata.annotations
    unboosted = unboost_containers(
        pod.in_force,
        governor.advice,
        governor.vpa,
        applies=governor.applies,
        limits=view.limits,
        phases=phases,
        pre_boost=read_pre_boost_resources(annotations),
    )
    resize = _build_unboost_resize(pod, [container for container in unboosted if container.changes_spec])
    is_container_down = resize is not None and pod.downtime.since is not None
    boost_annotations = [
        annotation_key(container.container)
        for container in unboosted
        if container.is_in_force and not container.changes_spec
    ]
    # Upstream's annotation of a resized pod is set by the patch that is needed anyway.
    annotation_ops = (
        tuple(build_annotation_ops(annotations, {IN_PLACE_UPDATED_ANNOTATION: "true"}, boost_annotations))
        if boost_annotations
        else ()
    )
    pending_actions: list[ResizePod | UnmarkPod] = [resize] if resize is not None and not is_container_down else []
    if annotation_ops:
        pending_actions.append(UnmarkPod(pod.ref, (PatchOp("test", "/metadata/uid", pod.ref.uid), *annotation_ops)))
    if is_container_down and not pending_actions:
        return UnboostStep((), CONTAINER_DOWN)
    if not pending_actions:
        return UnboostStep((), UNBOOST_FAILING if pod.resize.state in _REFUSED_STATES else UNBOOST_AWAITED)
    actions = tuple(action for action in pending_actions if not attempt.repeats(action.patch, now, settings))
    requeue_at = None if actions else attempt.written_at + settings.catch_up
    return UnboostStep(actions, UNBOOST_RESIZED if resize is not None else UNBOOST_FINISHED, requeue_at)


def _build_unboost_resize(pod: PodView, unboosted: Iterable[UnboostedContainer]) -> ResizePod | None:
    containers = {container.name: container for container in pod.in_spec.containers}
    unboosted = list(unboosted)
    changes = []
    for target in unboosted:
        container = containers[target.container]
        changes.append(
            ResourceChange(
                container.place, container.index, container.name, container.written, target.requests, target.limits
            )
        )
    patch = tuple(build_guarded_ops(pod.ref.uid, changes))
    if not patch:
        return None
    restarts = any("cpu" in containers[target.container].restarts_on for target in unboosted)
    return ResizePod(
        pod.ref, patch, {target.container: target.requests for target in unboosted}, restarts=restarts, unboosts=True
    )


_NO_ATTEMPTS = PodAttempts()


class PodCase(msgspec.Struct, frozen=True):
    """One pod of a workload at one moment."""

    view: WorkloadView
    pod: PodView
    sizes: TargetSizes
    now: float
    settings: UpdateSettings

    @property
    def attempt(self) -> PodAttempts:
        """Earlier attempts on the pod."""
        return self.view.attempts.pods.get(self.pod.ref.uid, _NO_ATTEMPTS)


def assess_need(case: PodCase, shape: PodShape, excluded: frozenset[ContainerResource]) -> UpdateNeed | NoUpdateNeed:
    """Whether a pod of this shape should change, `excluded` resources aside."""
    gap = case.sizes.find_gap(shape, excluded)
    return assess_update_need(
        gap, started=case.pod.started, quick_oom=_had_quick_oom(case), now=case.now, settings=case.settings
    )


def assess_missed_resize(
    case: PodCase, need: UpdateNeed | NoUpdateNeed, excluded: frozenset[ContainerResource]
) -> UpdateNeed | NoUpdateNeed:
    """The need of a pod that missed its last resize: that resize once more, or another that is due anyway.

    Nothing is done if no resource is left that could be resized.
    """
    gap = case.sizes.find_gap(case.pod.in_spec, excluded)
    size = case.sizes.find_in_place_size(case.pod.in_spec, excluded)
    if not gap.has_recommendation or not size.containers:
        return need
    requested = {container.name: container.requests for container in case.pod.in_spec.containers}
    compared = tuple(
        RequestComparison(sized.container.name, sized.requests, requested[sized.container.name])
        for sized in size.containers
    )
    return UpdateNeed(
        RESIZE_MISSED, True, need.difference, need.containers if isinstance(need, UpdateNeed) else compared
    )


def find_downtime_requeue(case: PodCase, prospect: ResizeProspect) -> float | None:
    """When to plan again for a pod whose containers are down, if nothing changes before."""
    if prospect is not ResizeProspect.DOWN:
        return None
    downtime = case.pod.downtime
    if downtime.since is None:
        return downtime.running_from
    evicts = case.view.governor.vpa.mode is not UpdateMode.IN_PLACE
    return downtime.since + case.settings.down_patience if evicts else None


def assess_prospect(
    case: PodCase, change: InPlaceChange, stage: ResizeStage, proposed_need: UpdateNeed | NoUpdateNeed
) -> ResizeProspect:
    """What could be written; during a resize only what is worth asking for once more."""
    if change.patch and case.attempt.is_refused(change.requests, case.view.node_allocatable.get(case.pod.node, {})):
        return ResizeProspect.REFUSED
    if change.patch and (
        stage is ResizeStage.IDLE or _is_another_resize_worthwhile(case.pod, change, stage, proposed_need)
    ):
        return _assess_downtime(case)
    if stage is not ResizeStage.IDLE:
        return ResizeProspect.TRIED
    if change.is_forbidden:
        return ResizeProspect.FORBIDDEN
    large = isinstance(proposed_need, UpdateNeed) and proposed_need.difference >= case.settings.update_threshold
    return ResizeProspect.IMPOSSIBLE if large else ResizeProspect.NEGLIGIBLE


def _assess_downtime(case: PodCase) -> ResizeProspect:
    """The prospect of a change by downtime: it is written only while all containers run."""
    downtime = case.pod.downtime
    if downtime.since is not None:
        return (
            ResizeProspect.DOWN_TOO_LONG
            if case.now >= downtime.since + case.settings.down_patience
            else ResizeProspect.DOWN
        )
    return ResizeProspect.DOWN if downtime.is_just_restarted(case.now) else ResizeProspect.UNTRIED


def list_hpa_resources(case: PodCase) -> Iterator[ContainerResource]:
    """The resources by whose utilization an HPA scales, of each container."""
    return (
        (container.name, resource) for container in case.pod.in_spec.containers for resource in case.view.hpa_resources
    )


def _had_quick_oom(case: PodCase) -> bool:
    """Whether a container was OOM-killed soon after its start, and recently: the status keeps the kill for ever."""
    pod, vpa = case.pod, case.view.governor.vpa
    if not pod.oom_kills:
        return False
    configured = vpa.evict_after_oom if case.settings.per_vpa_config else None
    threshold = configured.total_seconds() if configured is not None else case.settings.evict_after_oom
    # As upstream, except for an object that sets less: a pass cannot act on a kill within so few seconds.
    retention = max(threshold, case.settings.evict_after_oom)
    unobserved = {name for name, _ in pod.unobserved}
    return any(
        vpa.get_container(name).is_scaled
        and name not in unobserved
        and any(kill.run_seconds < threshold and case.now - kill.time < retention for kill in kills)
        for name, kills in pod.oom_kills.items()
    )


def _is_another_resize_worthwhile(
    pod: PodView, change: InPlaceChange, stage: ResizeStage, proposed_need: UpdateNeed | NoUpdateNeed
) -> bool:
    """Whether another resize may replace the one under way. After an infeasible one, some request must be lower."""
    if isinstance(proposed_need, NoUpdateNeed):
        return False
    if stage is not ResizeStage.INFEASIBLE:
        return True
    proposed = {container.name: container.requests for container in pod.in_spec.containers}
    return any(
        amount < proposed[name].get(resource, 0)
        for name, amounts in change.requests.items()
        for resource, amount in amounts.items()
    )


_NO_RESOURCES: frozenset[ContainerResource] = frozenset()
_NO_PHASES = PodBoostPhases()
_ACTIVE = frozenset({UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE, UpdateMode.IN_PLACE})


class UpdateCandidate(msgspec.Struct, frozen=True):
    """A pod that needs a change, and the row of the decision table for it."""

    pod: PodView
    controller: ControllerKey
    need: UpdateNeed
    kind: DecisionKind
    reason: Reason
    change: InPlaceChange
    requeue_at: float | None = None
    details: str = ""


def find_warnings(view: WorkloadView) -> tuple[Reason, ...]:
    """The warnings that apply to every pod of the workload."""
    vpa = view.governor.vpa
    if not view.hpa_resources or vpa.mode is UpdateMode.OFF:
        return ()
    names = {advice.container for advice in view.governor.advice}
    controlled = {
        name
        for container in names
        for name in vpa.get_container(container).controlled
        if vpa.get_container(container).is_scaled
    }
    return (HPA_CONFLICT,) if controlled & view.hpa_resources else ()


def consider_pod(
    view: WorkloadView, pod: PodView, now: float, settings: UpdateSettings, sizes: TargetSizes | None = None
) -> PodUpdate | UpdateCandidate:
    """The candidate or the decision for a pod. `sizes` are shared by the pods of a workload."""
    if view.freeze is not None:
        return _leave_alone(pod, FROZEN, details=str(view.freeze))
    attempt = view.attempts.pods.get(pod.ref.uid)
    if pod.is_inactive or (attempt is not None and attempt.was_evicted(now, settings)):
        return _leave_alone(
            pod,
            POD_TERMINATING,
            requeue_at=attempt.written_at + settings.catch_up if attempt and not pod.is_inactive else None,
        )
    vpa, phases = view.governor.vpa, _NO_PHASES
    if pod.boosted:
        phases = read_boost_phases(view, pod, now, settings)
        blocks_changes = phases.blocks_changes(vpa.mode, oom_killed=bool(pod.oom_kills))
        if phases.due:
            update = _plan_unboost(view, pod, phases, now, settings)
            if update.actions or blocks_changes:
                return _warn_of_long_boost(update, pod, phases, now)
        elif blocks_changes:
            first_to_end = min(phases.held, key=lambda phase: phase.ends_at)
            update = _leave_alone(
                pod, first_to_end.reason, details=first_to_end.container, requeue_at=phases.next_transition
            )
            return _warn_of_long_boost(update, pod, phases, now)
        elif not view.is_governed:
            return _leave_alone(pod, BOOST_GATE_OFF)
    controller = _find_controller_or_reason(vpa, pod, settings)
    if isinstance(controller, Reason):
        return _leave_alone(pod, controller)
    case = PodCase(view, pod, sizes or TargetSizes(view.governor, view.limits), now, settings)
    return _consider_change(case, controller, phases)


def read_boost_phases(view: WorkloadView, pod: PodView, now: float, settings: UpdateSettings) -> PodBoostPhases:
    """The phases of a pod's boosts."""
    return determine_boost_phases(
        pod.pod.metadata.annotations,
        view.governor.vpa,
        now,
        ready=pod.ready,
        ready_since=pod.ready_since,
        started=_start_time(pod),
        without_policy_since=view.attempts.without_policy.get(pod.ref.uid),
        give_up_after=settings.boost_give_up_after,
        enabled=settings.startup_boost,
    )


def _start_time(pod: PodView) -> float:
    return pod.started if pod.started is not None else math.inf


def _warn_of_long_boost(update: PodUpdate, pod: PodView, phases: PodBoostPhases, now: float) -> PodUpdate:
    """Add a warning once the pod has been boosted for long; until then requeue at that time."""
    at = phases.find_long_boost_time(_start_time(pod))
    if math.isinf(at):
        return update
    decision = update.decision
    if now >= at:
        warned = msgspec.structs.replace(decision, warnings=(*decision.warnings, BOOSTED_FOR_LONG))
    else:
        warned = msgspec.structs.replace(decision, requeue_at=_earlier(decision.requeue_at, at))
    return msgspec.structs.replace(update, decision=warned)


def _leave_alone(
    pod: PodView, reason: Reason, *, details: str = "", requeue_at: float | None = None, difference: float = 0.0
) -> PodUpdate:
    return PodUpdate(
        PodDecision(pod.ref, DecisionKind.LEAVE, reason, details=details, requeue_at=requeue_at, difference=difference)
    )


def _plan_unboost(
    view: WorkloadView, pod: PodView, phases: PodBoostPhases, now: float, settings: UpdateSettings
) -> PodUpdate:
    unboost = end_boosts(view, pod, phases, now, settings)
    requeue_times = [at for at in (unboost.requeue_at, phases.next_transition) if at is not None]
    kind = DecisionKind.UNBOOST if unboost.actions else DecisionKind.WAIT
    details = ", ".join(boost.container for boost in phases.due)
    return PodUpdate(
        PodDecision(
            pod.ref, kind, unboost.reason, details=details, requeue_at=min(requeue_times) if requeue_times else None
        ),
        unboost.actions,
    )


def _find_controller_or_reason(vpa: EffectiveVpa, pod: PodView, settings: UpdateSettings) -> Reason | ControllerKey:
    """The controller of a pod that may be changed, or the reason why it may not."""
    if vpa.mode not in _ACTIVE:
        return MODE_DOES_NOT_UPDATE_PODS
    if vpa.mode is UpdateMode.IN_PLACE and not settings.in_place:
        return IN_PLACE_GATE_OFF
    if vpa.mode is UpdateMode.IN_PLACE and not settings.resizes:
        return IN_PLACE_NOT_SERVED
    if pod.controller is None:
        return NO_CONTROLLER
    return pod.controller if pod.node else POD_WITHOUT_NODE


def _consider_change(case: PodCase, controller: ControllerKey, phases: PodBoostPhases) -> PodUpdate | UpdateCandidate:
    boosted_containers = [boost.container for boost in phases.containers if boost.phase is not BoostPhase.NONE]
    excluded_by_pod = (
        case.pod.unobserved.union((name, "cpu") for name in boosted_containers)
        if boosted_containers
        else case.pod.unobserved
    )
    excluded_by_hpa = (
        frozenset(list_hpa_resources(case)) if case.settings.hpa_conflict is HpaConflict.HOLD else _NO_RESOURCES
    )
    excluded = excluded_by_pod | excluded_by_hpa if excluded_by_hpa else excluded_by_pod
    need = assess_need(case, restore_unboosted_shape(case.pod) if boosted_containers else case.pod.in_force, excluded)
    stage, requeue_at = determine_resize_stage(case.pod.resize, case.attempt.resized_at, case.now, case.settings)
    proposed_need = need if stage is ResizeStage.IDLE else assess_need(case, case.pod.in_spec, excluded)
    missed = case.pod.ref.uid in case.view.missed_resizes and stage is ResizeStage.IDLE
    if missed:
        need = proposed_need = assess_missed_resize(case, need, excluded)
    if isinstance(need, NoUpdateNeed) and isinstance(proposed_need, NoUpdateNeed):
        if excluded_by_hpa and isinstance(assess_need(case, case.pod.in_force, excluded_by_pod), UpdateNeed):
            return _leave_alone(case.pod, HELD_FOR_HPA, details=", ".join(sorted(case.view.hpa_resources)))
        return _leave_alone(
            case.pod, need.reason, requeue_at=_earlier(need.until, phases.next_transition), difference=need.difference
        )
    change, prospect = InPlaceChange(), ResizeProspect.IMPOSSIBLE
    # Only an out-of-memory kill permits a change while boosted; the pod is replaced, and its successor boosted again.
    mode = UpdateMode.RECREATE if boosted_containers or not case.settings.resizes else case.view.governor.vpa.mode
    if mode is not UpdateMode.RECREATE:
        change = compute_in_place_change(
            case.view.governor.vpa, case.pod, case.sizes, excluded, case.settings, missed=missed
        )
        prospect = assess_prospect(case, change, stage, proposed_need)
        requeue_at = _earlier(requeue_at, find_downtime_requeue(case, prospect))
    row = look_up_decision(mode, stage, prospect)
    decisive_need = need if isinstance(need, UpdateNeed) else proposed_need
    if isinstance(decisive_need, NoUpdateNeed) or (isinstance(need, NoUpdateNeed) and row.kind is DecisionKind.EVICT):
        # Only the spec differs from the recommendation, not the resources in force: that is no reason to evict.
        return _leave_alone(case.pod, SIZE_AS_RECOMMENDED, requeue_at=requeue_at)
    details = ", ".join(case.pod.downtime.containers) if prospect in CONTAINER_DOWN_PROSPECTS else ""
    return UpdateCandidate(
        case.pod,
        controller,
        decisive_need,
        row.kind,
        row.reason,
        change,
        _earlier(requeue_at, phases.next_transition),
        details,
    )


def restore_unboosted_shape(pod: PodView) -> PodShape:
    """The shape of a pod in force, with its boosts removed."""
    return restore_pre_boost_shape(pod.in_force, read_pre_boost_resources(pod.pod.metadata.annotations))


def _earlier(first: float | None, second: float | None) -> float | None:
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)
