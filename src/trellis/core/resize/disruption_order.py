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
    HOURLY_BUDGET_USED_UP,
    HourlyBudget,
    PodAvailability,
    ReplicaBudget,
    exempts_in_place_resizes,
    resolve_min_replicas,
)
from trellis.core.resize.eligibility import (
    REQUIREMENTS_FORBID_EVICTION,
    RESIZE_MISSED,
    permits_eviction,
    read_container_requests,
)
from trellis.core.resize.in_place import RESIZE_UNDER_WAY, ResizeStage, determine_resize_stage
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.state.attempts import (
    BACKING_OFF,
    EVICTION_LOOP,
    EvictionRecord,
    PodAttempts,
    find_loop_end,
    find_useless_eviction,
)
from trellis.core.resize.view import PodView, WorkloadView

WOULD_NOT_FIT = Reason(
    "WouldNotFit", "No node has room for the pod that would take the place of this one.", Severity.WARNING
)


class _Postponement(msgspec.Struct, frozen=True):
    """A candidate that is not disrupted now, and the reason."""

    way: DecisionKind
    reason: Reason
    look: float | None = None
    details: str = ""
    budget: ReplicaBudgetStatus | None = None


class DisruptionOrder:
    """Decides on the candidates of one workload in order, and counts what they disrupt."""

    def __init__(self, view: WorkloadView, now: float, settings: UpdateSettings) -> None:
        self._view, self._now, self._settings = view, now, settings
        self._exempt = exempts_in_place_resizes(view.governor, settings)
        second = math.floor(now)
        newest = (pod.ref.uid for pod in view.pods if pod.created is not None and pod.created >= second)
        self._newest = tuple(newest)
        self._hourly = HourlyBudget(view.left)
        pods: dict[ControllerKey, list[PodAvailability]] = {}
        for pod in view.pods:
            if pod.group is not None and not pod.finished:
                going = pod.over or self._attempt(pod).was_evicted(now, settings)
                availability = PodAvailability(not going, not going and self._serves(pod), not pod.unready)
                pods.setdefault(pod.group, []).append(availability)
        minimum = resolve_min_replicas(view.governor.vpa.min_replicas, settings)
        self._groups = {
            key: ReplicaBudget(view.configured.get(key), availabilities, minimum, settings.eviction_tolerance)
            for key, availabilities in pods.items()
        }

    def decide(self, candidate: UpdateCandidate) -> PodUpdate:
        """Decide on the next candidate."""
        if candidate.way not in {DecisionKind.RESIZE, DecisionKind.EVICT}:
            return _step(candidate, candidate.way, candidate.reason, look=candidate.look, details=candidate.details)
        stop = self._stop(candidate)
        if stop is not None:
            stopped = _step(candidate, stop.way, stop.reason, look=stop.look, details=stop.details)
            return _with_budget(stopped, stop.budget) if stop.budget is not None else stopped
        warnings: tuple[Reason, ...] = ()
        if candidate.way is DecisionKind.EVICT and not self._fits(candidate):
            if self._settings.require_fit:
                return _step(candidate, DecisionKind.LEAVE, WOULD_NOT_FIT)
            warnings = (WOULD_NOT_FIT,)
        self._count(candidate)
        details = candidate.details
        return _step(candidate, candidate.way, candidate.reason, (self._action(candidate),), warnings, details=details)

    def _serves(self, pod: PodView) -> bool:
        if pod.over or pod.pending:
            return False
        attempt = self._attempt(pod)
        stage, _ = determine_resize_stage(pod.resize, attempt.resized_at, self._now, self._settings)
        restarts = any(container.restarts_on for container in pod.in_spec.containers)
        unseen = bool(attempt.asked) and attempt.is_unseen(
            read_container_requests(pod.in_spec), self._now, self._settings
        )
        resizing = stage is ResizeStage.ASKED or unseen
        return not resizing or (self._exempt and not restarts)

    def _attempt(self, pod: PodView) -> PodAttempts:
        return self._view.attempts.pods.get(pod.ref.uid, PodAttempts())

    def _stop(self, candidate: UpdateCandidate) -> _Postponement | None:
        pod = candidate.pod
        attempt = self._attempt(pod)
        if candidate.way is DecisionKind.RESIZE and pod.pending:
            return _Postponement(DecisionKind.WAIT, POD_PENDING)
        if candidate.way is DecisionKind.RESIZE and attempt.repeats(candidate.change.patch, self._now, self._settings):
            return _Postponement(DecisionKind.WAIT, RESIZE_UNDER_WAY, attempt.written_at + self._settings.catch_up)
        if candidate.way is DecisionKind.EVICT:
            if not permits_eviction(self._view.governor.vpa, candidate.need.containers):
                return _Postponement(DecisionKind.LEAVE, REQUIREMENTS_FORBID_EVICTION)
            last = self._last(candidate)
            if last is not None and self._now < (until := find_loop_end(last, self._settings)):
                return _Postponement(DecisionKind.LEAVE, EVICTION_LOOP, until)
        if self._now < attempt.not_before:
            return _Postponement(DecisionKind.WAIT, BACKING_OFF, attempt.not_before, attempt.why)
        return self._over_budget(candidate)

    def _over_budget(self, candidate: UpdateCandidate) -> _Postponement | None:
        if not self._is_counted(candidate):
            return None
        pod = candidate.pod
        group = self._groups[candidate.group]
        refused = group.refuses(serving=not pod.pending, ready=not pod.unready)
        if refused is not None:
            return _Postponement(DecisionKind.WAIT, refused, budget=group.figures())
        if self._disrupts(candidate) and self._hourly.used_up:
            return _Postponement(DecisionKind.WAIT, HOURLY_BUDGET_USED_UP, self._view.left.until)
        return None

    def _is_counted(self, candidate: UpdateCandidate) -> bool:
        return self._disrupts(candidate) or not self._exempt

    def _disrupts(self, candidate: UpdateCandidate) -> bool:
        return candidate.way is DecisionKind.EVICT or candidate.change.restarts

    def _count(self, candidate: UpdateCandidate) -> None:
        if self._is_counted(candidate):
            self._groups[candidate.group].disturb(serving=not candidate.pod.pending)
        if self._disrupts(candidate):
            self._hourly.disturb()

    def _last(self, candidate: UpdateCandidate) -> EvictionRecord | None:
        """The evictions that this pod came after, if they were of no use."""
        evictions, pod = self._view.attempts.groups.get(candidate.group), candidate.pod
        return (
            find_useless_eviction(evictions, pod.ref.uid, read_container_requests(pod.in_force), pod.created)
            if evictions
            else None
        )

    def _fits(self, candidate: UpdateCandidate) -> bool:
        """Whether a successor would fit; an unknown answer counts as yes."""
        if self._view.fits is None:
            return True
        targets: Mapping[str, ResourceAmounts] = {
            comparison.container: comparison.targets for comparison in candidate.need.containers
        }
        return self._view.fits(candidate.pod.pod, targets) is not False

    def _action(self, candidate: UpdateCandidate) -> Action:
        pod, change = candidate.pod, candidate.change
        if candidate.way is DecisionKind.RESIZE:
            return ResizePod(
                pod.ref, change.patch, change.wanted, self._view.nodes.get(pod.node, {}), restarts=change.restarts
            )
        again = self._last(candidate) is not None
        # A pod that is replaced because it missed a resize has a successor of its own size, and that is of use.
        had = read_container_requests(pod.in_force) if candidate.need.reason is not RESIZE_MISSED else {}
        return EvictPod(pod.ref, candidate.group, had, again=again, beside=self._newest, created=pod.created)


def _with_budget(step: PodUpdate, budget: ReplicaBudgetStatus) -> PodUpdate:
    return msgspec.structs.replace(step, verdict=msgspec.structs.replace(step.verdict, budget=budget))


def _step(
    candidate: UpdateCandidate,
    way: DecisionKind,
    reason: Reason,
    actions: tuple[Action, ...] = (),
    warnings: tuple[Reason, ...] = (),
    *,
    look: float | None = None,
    details: str = "",
) -> PodUpdate:
    looks = [at for at in (look, candidate.look) if at is not None and math.isfinite(at)]
    at = min(looks) if looks and not actions else None
    return PodUpdate(PodDecision(candidate.pod.ref, way, reason, candidate.need, details, warnings, at), actions)
