"""Reconciles one Hvpa: keeps its own HPA and VPA, makes a plan, executes it, and publishes the status.

The target's scale is written first, then the Hvpa's `spec.replicas`, then its status. A process that is killed in
between does no harm: the next reconcile reads no value of `spec.replicas` that may have been acted on, and finds the
replicas that are there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from trellis.api.kinds.hvpa import Hvpa, HvpaStatus
from trellis.base.reasons import Reason, Severity
from trellis.controllers.hvpa import metrics as named
from trellis.controllers.hvpa.events import HvpaEvents
from trellis.controllers.hvpa.executor import HvpaExecutor, OwnedAutoscalers
from trellis.controllers.hvpa.informers import HvpaInformers
from trellis.controllers.hvpa.recording import HvpaPlanner
from trellis.controllers.hvpa.state import RETRIABLE, HvpaState, HvpaStates, build_pending_write
from trellis.controllers.hvpa.status import HvpaNote, build_status, build_status_action, build_status_without_plan
from trellis.controllers.hvpa.target_scales import TargetScale, TargetScales
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.hvpa import HvpaPlan, HvpaView, ResolvedHvpa
from trellis.core.hvpa.autoscalers import RelatedAutoscalers
from trellis.core.hvpa.plan import SCALED_TO_ZERO
from trellis.core.hvpa.steps import NO_RECOMMENDATION
from trellis.core.hvpa.view import HVPA_REFUSED
from trellis.core.hvpa.view_builder import build_view
from trellis.kube.write.outcomes import Result
from trellis.kube.write.writer import Writer
from trellis.runtime.telemetry.metrics import Metrics
from trellis.runtime.telemetry.tracing import current_trace

SCALE_REFUSED = Reason("ScaleRefused", "The API server refused the write of the target's replicas.", Severity.WARNING)

# Seconds until a failed write is tried again; one that conflicted with another write is tried at once.
_RETRY_SECONDS: Final = 5.0
_CONFLICT_SECONDS: Final = 0.2
# No watch shows when a target's status counts pods that are there: it is read, less and less often.
_MISMATCH_SECONDS: Final = (0.5, 30.0)

# The group of the kinds whose selector never changes.
_FIXED_SELECTOR_GROUP: Final = "apps"


class HvpaReconciler:
    """Reconciles Hvpas. No Hvpa is reconciled twice at a time."""

    def __init__(
        self,
        informers: HvpaInformers,
        targets: TargetScales,
        states: HvpaStates,
        planner: HvpaPlanner,
        *,
        executor: HvpaExecutor,
        owned: OwnedAutoscalers,
        writer: Writer,
        events: HvpaEvents,
        metrics: Metrics,
        now: Callable[[], float],
    ) -> None:
        self._informers = informers
        self._targets = targets
        self._states = states
        self._planner = planner
        self._executor = executor
        self._owned = owned
        self._writer = writer
        self._events = events
        self._metrics = metrics
        self._now = now

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Reconcile one Hvpa; the result is in how many seconds to do so again, None if only after a change."""
        hvpa = self._informers.hvpas.get(*key)
        if hvpa is None or hvpa.metadata.deletion_timestamp is not None:
            self._states.forget(key)
            return None
        state = self._states.get_or_create(hvpa, self._now())
        state.needs_retry = False
        if state.meaning is None:
            return await self._publish_without_plan(hvpa, state, HvpaNote(HVPA_REFUSED, state.validation_error), [])
        related = self._informers.find_related(hvpa)
        notes = await self._owned.maintain(hvpa, state, state.meaning.hvpa, related)
        target = await self._targets.find(hvpa)
        if isinstance(target, HvpaNote):
            return await self._publish_without_plan(hvpa, state, target, notes)
        return await self._reconcile_target(hvpa, state, state.meaning, target, related, notes=notes)

    async def _reconcile_target(
        self,
        hvpa: Hvpa,
        state: HvpaState,
        resolved: ResolvedHvpa,
        target: TargetScale,
        related: RelatedAutoscalers,
        *,
        notes: list[HvpaNote],
    ) -> float | None:
        now, trace = self._now(), current_trace()
        self._note_target(hvpa, state, target, now)
        observed = hvpa
        if state.stale_recommendations is not None:
            observed, related = state.stale_recommendations.hide_stale(hvpa, related)
        view = build_view(
            observed,
            resolved,
            target.scale,
            self._informers.list_pods(hvpa.metadata.namespace, target.selector),
            related,
            spec_replicas=state.read_spec_replicas(hvpa),
            scale_writer=state.find_scale_writer(hvpa),
            published=state.find_published(hvpa),
            memory=state.memory,
            edits=(edits := state.edits),
        )
        trace.step("view")
        plan = self._planner.plan(key_of(hvpa), view, now)
        trace.step("plan")
        self._metrics.add(named.PLANS, 1)
        failure = await self._executor.execute(hvpa, state, target, view, plan)
        trace.step("execute")
        trace.describe(reason=plan.summary.reason.code)
        if failure is not None and failure.result is Result.CONFLICT:
            return _CONFLICT_SECONDS
        if failure is not None:
            return await self._publish_without_plan(hvpa, state, HvpaNote(SCALE_REFUSED, failure.message), notes)
        state.edits = state.edits[len(edits) :]
        notes += _list_condition_notes(plan)
        active = view.conflict is None and plan.summary.reason is not SCALED_TO_ZERO
        if not active or plan.summary.reason is NO_RECOMMENDATION:
            notes.append(HvpaNote(plan.summary.reason, plan.summary.details))
        status = build_status(hvpa, target.scale, plan, notes, active=active, now=now)
        if await self._publish(hvpa, state, status):
            state.has_foreign_status = False
        trace.step("publish")
        state.blocked = tuple((step.direction.value, step.reason.code) for step in plan.summary.blocked)
        self._events.record(hvpa, state, HvpaNote(plan.summary.reason, plan.summary.details), notes)
        return _find_requeue_delay(state, target, view, plan, now)

    def _note_target(self, hvpa: Hvpa, state: HvpaState, target: TargetScale, now: float) -> None:
        """Discard decisions for a previous target, and index the selector of this one."""
        uid = target.scale.metadata.uid
        if state.target and state.target != uid:
            state.memory = msgspec.structs.replace(
                state.memory,
                decided=None,
                target_replicas=None,
                spec_replicas=None,
                drift_repaired_at=None,
                target_changed_at=now,
            )
        elif not state.target and _has_status_of_another_target(hvpa, target):
            state.reset_for_new_target(hvpa, now)
        state.target = uid
        self._states.selectors.put(key_of(hvpa), target.selector)

    async def _publish_without_plan(
        self, hvpa: Hvpa, state: HvpaState, reason: HvpaNote, notes: list[HvpaNote]
    ) -> float | None:
        status = build_status_without_plan(
            hvpa, reason, [*notes, reason], self._now(), has_foreign_status=state.has_foreign_status
        )
        await self._publish(hvpa, state, status)
        state.blocked = ()
        self._events.record(hvpa, state, reason, notes)
        return _RETRY_SECONDS

    async def _publish(self, hvpa: Hvpa, state: HvpaState, status: HvpaStatus) -> bool:
        """Write the status if it differs; whether it is stored now."""
        action = build_status_action(hvpa, status)
        if action is None:
            return True
        outcome = await self._writer.write(action)
        state.pending_size = build_pending_write(outcome, size=status.recommendation) or state.pending_size
        state.needs_retry |= outcome.result in RETRIABLE
        return outcome.applied


def _list_condition_notes(plan: HvpaPlan) -> list[HvpaNote]:
    """The notes of a plan that are conditions: what is wrong, and what has more to say than its reason."""
    details = plan.summary.note_details
    reasons = [note for note in plan.summary.notes if note.severity is not Severity.INFO or note.code in details]
    return [HvpaNote(reason, details.get(reason.code, "")) for reason in reasons]


def _find_requeue_delay(
    state: HvpaState, target: TargetScale, view: HvpaView, plan: HvpaPlan, now: float
) -> float | None:
    """In how many seconds to reconcile again without a change."""
    delays = [_RETRY_SECONDS] if state.needs_retry else []
    delays += [max(plan.requeue_at - now, _CONFLICT_SECONDS)] if plan.requeue_at is not None else []
    counted_pods, pods = target.scale.status.replicas, view.pods
    if counted_pods == pods:
        state.pod_count_mismatch = None
        return min(delays, default=None)
    if state.pod_count_mismatch is None or state.pod_count_mismatch[:2] != (counted_pods, pods):
        state.pod_count_mismatch = (counted_pods, pods, now)
    shortest, longest = _MISMATCH_SECONDS
    return min(*delays, max(now - state.pod_count_mismatch[2], shortest), longest)


def _has_status_of_another_target(hvpa: Hvpa, target: TargetScale) -> bool:
    """Whether the status is of other pods: the target was changed while no controller ran.

    Of Kubernetes' own kinds it is if the selector is another one: that never changes. Others change theirs at times.
    """
    selector = hvpa.status.selector if hvpa.status is not None else None
    return (
        target.resource.group == _FIXED_SELECTOR_GROUP and bool(selector) and selector != target.scale.status.selector
    )
