"""Whose turn is it? Candidates come one after another, the most urgent first, and each takes from what the others left.

An eviction is asked the most: requirements, earlier evictions that were of no use, whether a successor would fit. Then
budgets are asked about everything that disturbs: evictions, resizes that restart a container, and other resizes unless
they are exempt.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from trellis.base.reason import Reason, Severity
from trellis.core.recommend.capping.limit_ranges import Counts
from trellis.core.resize.actions import Action, EvictPod, GroupKey, ResizePod
from trellis.core.resize.attempts import BACKING_OFF, Attempt
from trellis.core.resize.budget import (
    HOURLY_BUDGET_USED_UP,
    Disturbance,
    GroupBudget,
    GroupFigures,
    HourlyBudget,
    exempts_in_place,
    minimum_of,
)
from trellis.core.resize.candidates import POD_PENDING, Candidate
from trellis.core.resize.eligibility import RESIZE_MISSED, amounts_of
from trellis.core.resize.inplace import RESIZE_UNDER_WAY, Stage, Way, stage_of
from trellis.core.resize.loops import EVICTION_LOOP, Evicted, loop_until, repeated
from trellis.core.resize.requirements import REQUIREMENTS_FORBID_EVICTION, permits_eviction
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.verdicts import Step, Verdict
from trellis.core.resize.views import PodView, WorkloadView

WOULD_NOT_FIT = Reason(
    "WouldNotFit", "No node has room for the pod that would take the place of this one.", Severity.WARNING
)


class _Stop(msgspec.Struct, frozen=True):
    """Why a candidate does not have its turn."""

    way: Way
    reason: Reason
    look: float | None = None
    details: str = ""
    budget: GroupFigures | None = None


class Turns:
    """Gives candidates of one workload their turn, and counts what they disturb."""

    def __init__(self, view: WorkloadView, now: float, settings: UpdateSettings) -> None:
        self._view, self._now, self._settings = view, now, settings
        self._exempt = exempts_in_place(view.governor, settings)
        second = math.floor(now)
        newest = (each.ref.uid for each in view.pods if each.created is not None and each.created >= second)
        self._newest = tuple(newest)
        self._hourly = HourlyBudget(view.left)
        pods: dict[GroupKey, list[Disturbance]] = {}
        for pod in view.pods:
            if pod.group is not None and not pod.finished:
                going = pod.over or self._attempt(pod).was_evicted(now, settings)
                found = Disturbance(not going, not going and self._serves(pod), not pod.unready)
                pods.setdefault(pod.group, []).append(found)
        minimum = minimum_of(view.governor.vpa.min_replicas, settings)
        self._groups = {
            key: GroupBudget(view.configured.get(key), each, minimum, settings.eviction_tolerance)
            for key, each in pods.items()
        }

    def take(self, candidate: Candidate) -> Step:
        """What becomes of the next candidate."""
        if candidate.way not in {Way.RESIZE, Way.EVICT}:
            return _step(candidate, candidate.way, candidate.reason, look=candidate.look, details=candidate.details)
        stop = self._stop(candidate)
        if stop is not None:
            stopped = _step(candidate, stop.way, stop.reason, look=stop.look, details=stop.details)
            return _with_budget(stopped, stop.budget) if stop.budget is not None else stopped
        warnings: tuple[Reason, ...] = ()
        if candidate.way is Way.EVICT and not self._fits(candidate):
            if self._settings.require_fit:
                return _step(candidate, Way.LEAVE, WOULD_NOT_FIT)
            warnings = (WOULD_NOT_FIT,)
        self._count(candidate)
        details = candidate.details
        return _step(candidate, candidate.way, candidate.reason, (self._action(candidate),), warnings, details=details)

    def _serves(self, pod: PodView) -> bool:
        if pod.over or pod.pending:
            return False
        attempt = self._attempt(pod)
        stage, _ = stage_of(pod.resize, attempt.resized_at, self._now, self._settings)
        restarts = any(each.restarts_on for each in pod.in_spec.containers)
        unseen = bool(attempt.asked) and attempt.is_unseen(amounts_of(pod.in_spec), self._now, self._settings)
        resizing = stage is Stage.ASKED or unseen
        return not resizing or (self._exempt and not restarts)

    def _attempt(self, pod: PodView) -> Attempt:
        return self._view.attempts.pods.get(pod.ref.uid, Attempt())

    def _stop(self, candidate: Candidate) -> _Stop | None:
        pod = candidate.pod
        attempt = self._attempt(pod)
        if candidate.way is Way.RESIZE and pod.pending:
            return _Stop(Way.WAIT, POD_PENDING)
        if candidate.way is Way.RESIZE and attempt.repeats(candidate.change.patch, self._now, self._settings):
            return _Stop(Way.WAIT, RESIZE_UNDER_WAY, attempt.written_at + self._settings.catch_up)
        if candidate.way is Way.EVICT:
            if not permits_eviction(self._view.governor.vpa, candidate.need.containers):
                return _Stop(Way.LEAVE, REQUIREMENTS_FORBID_EVICTION)
            last = self._last(candidate)
            if last is not None and self._now < (until := loop_until(last, self._settings)):
                return _Stop(Way.LEAVE, EVICTION_LOOP, until)
        if self._now < attempt.not_before:
            return _Stop(Way.WAIT, BACKING_OFF, attempt.not_before, attempt.why)
        return self._over_budget(candidate)

    def _over_budget(self, candidate: Candidate) -> _Stop | None:
        if not self._is_counted(candidate):
            return None
        pod = candidate.pod
        group = self._groups[candidate.group]
        refused = group.refuses(serving=not pod.pending, ready=not pod.unready)
        if refused is not None:
            return _Stop(Way.WAIT, refused, budget=group.figures())
        if self._disrupts(candidate) and self._hourly.used_up:
            return _Stop(Way.WAIT, HOURLY_BUDGET_USED_UP, self._view.left.until)
        return None

    def _is_counted(self, candidate: Candidate) -> bool:
        return self._disrupts(candidate) or not self._exempt

    def _disrupts(self, candidate: Candidate) -> bool:
        return candidate.way is Way.EVICT or candidate.change.restarts

    def _count(self, candidate: Candidate) -> None:
        if self._is_counted(candidate):
            self._groups[candidate.group].disturb(serving=not candidate.pod.pending)
        if self._disrupts(candidate):
            self._hourly.disturb()

    def _last(self, candidate: Candidate) -> Evicted | None:
        """The evictions that this pod came after, if they were of no use."""
        known, pod = self._view.attempts.groups.get(candidate.group), candidate.pod
        return repeated(known, pod.ref.uid, amounts_of(pod.in_force), pod.created) if known else None

    def _fits(self, candidate: Candidate) -> bool:
        """Whether a successor would fit, unless somebody knows that it would not."""
        if self._view.fits is None:
            return True
        wanted: Mapping[str, Counts] = {each.container: each.targets for each in candidate.need.containers}
        return self._view.fits(candidate.pod.pod, wanted) is not False

    def _action(self, candidate: Candidate) -> Action:
        pod, change = candidate.pod, candidate.change
        if candidate.way is Way.RESIZE:
            return ResizePod(
                pod.ref, change.patch, change.wanted, self._view.nodes.get(pod.node, {}), restarts=change.restarts
            )
        again = self._last(candidate) is not None
        # A pod that is replaced because it missed a resize has a successor of its own size, and that is of use.
        had = amounts_of(pod.in_force) if candidate.need.reason is not RESIZE_MISSED else {}
        return EvictPod(pod.ref, candidate.group, had, again=again, beside=self._newest, created=pod.created)


def _with_budget(step: Step, budget: GroupFigures) -> Step:
    return msgspec.structs.replace(step, verdict=msgspec.structs.replace(step.verdict, budget=budget))


def _step(
    candidate: Candidate,
    way: Way,
    reason: Reason,
    actions: tuple[Action, ...] = (),
    warnings: tuple[Reason, ...] = (),
    *,
    look: float | None = None,
    details: str = "",
) -> Step:
    looks = [at for at in (look, candidate.look) if at is not None and math.isfinite(at)]
    at = min(looks) if looks and not actions else None
    return Step(Verdict(candidate.pod.ref, way, reason, candidate.need, details, warnings, at), actions)
