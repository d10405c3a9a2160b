"""Disruption order: candidates of a workload are updated one after another, the most urgent first, within budgets.

Most checks concern evictions: requirements, earlier evictions that changed nothing, whether a successor would fit.
Then budgets apply to everything that disrupts: evictions, resizes that restart a container, and other resizes unless
they are exempt.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from trellis.base.reasons import Reason, Severity
from trellis.core.recommend.amounts import ResourceAmounts
from trellis.core.resize.actions import (
    Action,
    ControllerKey,
    DecisionKind,
    EvictPod,
    PodDecision,
    PodUpdate,
    ReplicaBudgetStatus,
    ResizePod,
)
from trellis.core.resize.candidates import POD_PENDING, UpdateCandidate
from trellis.core.resize.disruption_budget import (
    HOURLY_BUDGET_EXHAUSTED,
    HourlyBudget,
    PodAvailability,
    ReplicaBudget,
    exempts_in_place_resizes,
    resolve_min_replicas,
)
from trellis.core.resize.resize_or_evict import RESIZE_UNDER_WAY, ResizeStage, determine_resize_stage
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.state.attempts import (
    BACKING_OFF,
    EVICTION_LOOP,
    EvictionRecord,
    PodAttempts,
    find_loop_end,
    find_useless_eviction,
)
from trellis.core.resize.update_need import (
    REQUIREMENTS_FORBID_EVICTION,
    RESIZE_MISSED,
    permits_eviction,
    read_container_requests,
)
from trellis.core.resize.view import PodView, WorkloadView

WOULD_NOT_FIT = Reason("WouldNotFit", "The replacement of this pod would fit on no node.", Severity.WARNING)


class _Postponement(msgspec.Struct, frozen=True):
    """A candidate that is not disrupted now, and the reason."""

    kind: DecisionKind
    reason: Reason
    requeue_at: float | None = None
    details: str = ""
    budget: ReplicaBudgetStatus | None = None


class DisruptionOrder:
    """Decides on the candidates of one workload in order, and counts disruptions against the budgets."""

    def __init__(self, view: WorkloadView, now: float, settings: UpdateSettings) -> None:
        self._view, self._now, self._settings = view, now, settings
        self._exempts_resizes = exempts_in_place_resizes(view.governor, settings)
        second = math.floor(now)
        new_pods = (pod.ref.uid for pod in view.pods if pod.created is not None and pod.created >= second)
        self._new_pods = tuple(new_pods)
        self._hourly = HourlyBudget(view.hourly_allowance)
        pods: dict[ControllerKey, list[PodAvailability]] = {}
        for pod in view.pods:
            if pod.controller is not None and not pod.is_finished:
                is_leaving = pod.is_inactive or self._get_attempts(pod).was_evicted(now, settings)
                availability = PodAvailability(
                    not is_leaving, not is_leaving and self._is_in_service(pod), not pod.unready
                )
                pods.setdefault(pod.controller, []).append(availability)
        minimum = resolve_min_replicas(view.governor.vpa.min_replicas, settings)
        self._budgets = {
            key: ReplicaBudget(view.configured_replicas.get(key), availabilities, minimum, settings.eviction_tolerance)
            for key, availabilities in pods.items()
        }

    def decide(self, candidate: UpdateCandidate) -> PodUpdate:
        """Decide on the next candidate."""
        if candidate.kind not in {DecisionKind.RESIZE, DecisionKind.EVICT}:
            return _build_update(
                candidate, candidate.kind, candidate.reason, requeue_at=candidate.requeue_at, details=candidate.details
            )
        postponement = self._find_postponement(candidate)
        if postponement is not None:
            update = _build_update(
                candidate,
                postponement.kind,
                postponement.reason,
                requeue_at=postponement.requeue_at,
                details=postponement.details,
            )
            return _with_budget_status(update, postponement.budget) if postponement.budget is not None else update
        warnings: tuple[Reason, ...] = ()
        if candidate.kind is DecisionKind.EVICT and not self._fits(candidate):
            if self._settings.require_fit:
                return _build_update(candidate, DecisionKind.LEAVE, WOULD_NOT_FIT)
            warnings = (WOULD_NOT_FIT,)
        self._record_disruption(candidate)
        details = candidate.details
        return _build_update(
            candidate, candidate.kind, candidate.reason, (self._build_action(candidate),), warnings, details=details
        )

    def _is_in_service(self, pod: PodView) -> bool:
        if pod.is_inactive or pod.is_pending:
            return False
        attempt = self._get_attempts(pod)
        stage, _ = determine_resize_stage(pod.resize, attempt.resized_at, self._now, self._settings)
        restarts_on_resize = any(container.restarts_on for container in pod.in_spec.containers)
        is_unobserved = bool(attempt.requested) and attempt.is_resize_unobserved(
            read_container_requests(pod.in_spec), self._now, self._settings
        )
        is_resizing = stage is ResizeStage.REQUESTED or is_unobserved
        return not is_resizing or (self._exempts_resizes and not restarts_on_resize)

    def _get_attempts(self, pod: PodView) -> PodAttempts:
        return self._view.attempts.pods.get(pod.ref.uid, PodAttempts())

    def _find_postponement(self, candidate: UpdateCandidate) -> _Postponement | None:
        pod = candidate.pod
        attempt = self._get_attempts(pod)
        if candidate.kind is DecisionKind.RESIZE and pod.is_pending:
            return _Postponement(DecisionKind.WAIT, POD_PENDING)
        if candidate.kind is DecisionKind.RESIZE and attempt.repeats(candidate.change.patch, self._now, self._settings):
            return _Postponement(DecisionKind.WAIT, RESIZE_UNDER_WAY, attempt.written_at + self._settings.catch_up)
        if candidate.kind is DecisionKind.EVICT:
            if not permits_eviction(self._view.governor.vpa, candidate.need.containers):
                return _Postponement(DecisionKind.LEAVE, REQUIREMENTS_FORBID_EVICTION)
            useless = self._find_useless_eviction(candidate)
            if useless is not None and self._now < (until := find_loop_end(useless, self._settings)):
                return _Postponement(DecisionKind.LEAVE, EVICTION_LOOP, until)
        if self._now < attempt.not_before:
            return _Postponement(DecisionKind.WAIT, BACKING_OFF, attempt.not_before, attempt.message)
        return self._find_budget_refusal(candidate)

    def _find_budget_refusal(self, candidate: UpdateCandidate) -> _Postponement | None:
        if not self._is_budgeted(candidate):
            return None
        pod = candidate.pod
        budget = self._budgets[candidate.controller]
        refusal = budget.find_refusal(serving=not pod.is_pending, ready=not pod.unready)
        if refusal is not None:
            return _Postponement(DecisionKind.WAIT, refusal, budget=budget.read_status())
        if self._is_disruptive(candidate) and self._hourly.is_used_up:
            return _Postponement(DecisionKind.WAIT, HOURLY_BUDGET_EXHAUSTED, self._view.hourly_allowance.resets_at)
        return None

    def _is_budgeted(self, candidate: UpdateCandidate) -> bool:
        return self._is_disruptive(candidate) or not self._exempts_resizes

    def _is_disruptive(self, candidate: UpdateCandidate) -> bool:
        return candidate.kind is DecisionKind.EVICT or candidate.change.restarts

    def _record_disruption(self, candidate: UpdateCandidate) -> None:
        if self._is_budgeted(candidate):
            self._budgets[candidate.controller].record_disruption(serving=not candidate.pod.is_pending)
        if self._is_disruptive(candidate):
            self._hourly.record_disruption()

    def _find_useless_eviction(self, candidate: UpdateCandidate) -> EvictionRecord | None:
        """The evictions before this pod was created, if they were useless."""
        evictions, pod = self._view.attempts.evictions.get(candidate.controller), candidate.pod
        return (
            find_useless_eviction(evictions, pod.ref.uid, read_container_requests(pod.in_force), pod.created)
            if evictions
            else None
        )

    def _fits(self, candidate: UpdateCandidate) -> bool:
        """Whether a successor would fit some node; unknown counts as yes."""
        if self._view.check_fit is None:
            return True
        targets: Mapping[str, ResourceAmounts] = {
            comparison.container: comparison.targets for comparison in candidate.need.containers
        }
        return self._view.check_fit(candidate.pod.pod, targets) is not False

    def _build_action(self, candidate: UpdateCandidate) -> Action:
        pod, change = candidate.pod, candidate.change
        if candidate.kind is DecisionKind.RESIZE:
            return ResizePod(
                pod.ref,
                change.patch,
                change.requests,
                self._view.node_allocatable.get(pod.node, {}),
                restarts=change.restarts,
            )
        repeats_useless = self._find_useless_eviction(candidate) is not None
        # The successor of a pod that missed a resize has the same size, and is useful all the same.
        requests = read_container_requests(pod.in_force) if candidate.need.reason is not RESIZE_MISSED else {}
        return EvictPod(
            pod.ref,
            candidate.controller,
            requests,
            repeats_useless=repeats_useless,
            new_pods=self._new_pods,
            created=pod.created,
        )


def _with_budget_status(update: PodUpdate, budget: ReplicaBudgetStatus) -> PodUpdate:
    return msgspec.structs.replace(update, decision=msgspec.structs.replace(update.decision, budget=budget))


def _build_update(
    candidate: UpdateCandidate,
    kind: DecisionKind,
    reason: Reason,
    actions: tuple[Action, ...] = (),
    warnings: tuple[Reason, ...] = (),
    *,
    requeue_at: float | None = None,
    details: str = "",
) -> PodUpdate:
    requeue_times = [at for at in (requeue_at, candidate.requeue_at) if at is not None and math.isfinite(at)]
    at = min(requeue_times) if requeue_times and not actions else None
    return PodUpdate(PodDecision(candidate.pod.ref, kind, reason, candidate.need, details, warnings, at), actions)
