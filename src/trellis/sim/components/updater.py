"""The updater in a simulation: the core's plans, made when the live updater would make them.

A change is handled a moment later, together with all others of that moment; a plan says when the next one is due; and a
full pass covers everything that is not at rest. Writes are executed at once: the model's API server has no queue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol

from trellis.core.cluster.json_patches import PatchOp
from trellis.core.cluster.write_results import WriteResult
from trellis.core.resize.actions import Action, EvictPod, PodDecision, PodRef, ResizePod
from trellis.core.resize.plan import UpdatePlan
from trellis.core.resize.planner import PlanResult, UpdateMemory, UpdatePlanner
from trellis.core.resize.state.attempts import (
    REQUEUE_AFTER_CHANGE_SECONDS,
    SHORTEST_REQUEUE_SECONDS,
    ActionResult,
    find_requeue_delay,
)
from trellis.core.resize.state.indexes import WorkloadKey
from trellis.core.resize.state.node_headroom import NodeHeadroom
from trellis.core.resize.state.workload_cache import WorkloadCache
from trellis.sim.components.settings import SimulationSettings
from trellis.sim.kernel import Kernel, Priority, Ticket

# The live updater checks every few seconds whether admission runs again; that often would be most of a simulation.
_ABSENT_SECONDS: Final = 60.0


class PodWriter(Protocol):
    """What an updater can do to a cluster."""

    def evict(self, ref: PodRef) -> WriteResult:
        """Evict a pod."""

    def resize(self, ref: PodRef, patch: tuple[PatchOp, ...]) -> tuple[WriteResult, str]:
        """Resize a running pod; returns the result, and the message of a refusal."""

    def annotate(self, ref: PodRef, patch: tuple[PatchOp, ...]) -> WriteResult:
        """Patch the annotations of a pod."""


class ComponentPresence(Protocol):
    """Which components run, at the kernel's time."""

    def is_updater_running(self) -> bool:
        """Whether the updater runs."""

    def is_admission_running(self) -> bool:
        """Whether the admission controller runs."""


class SimulatedUpdater:
    """The updater of a variant. `on_reason` is called with the reason for the next change of a pod.

    `on_change` is called with each workload that a change concerns, and hands it on to `on_workload_changed`.
    """

    def __init__(
        self,
        kernel: Kernel,
        pods: PodWriter,
        presence: ComponentPresence,
        *,
        settings: SimulationSettings,
        on_reason: Callable[[str, str, str], None],
        on_change: Callable[[WorkloadKey], None],
    ) -> None:
        self._kernel = kernel
        self._pods = pods
        self._presence = presence
        self._settings = settings
        self._on_reason = on_reason
        self.workload_cache = WorkloadCache(on_change=on_change)
        self.verdicts: Counter[str] = Counter()
        """How many decisions were made about pods, by reason; a decision that repeats the last one does not count."""
        self._last_reasons: dict[str, str] = {}
        self._memory = UpdateMemory(self.workload_cache, settings.updates)
        self._planner = UpdatePlanner(settings.updates, NodeHeadroom(counts_all=settings.updates.require_fit))
        self._next_plans: dict[WorkloadKey, Ticket] = {}
        self._changed_workloads: dict[WorkloadKey, None] = {}
        self._is_plan_scheduled = False

    def run_full_pass(self) -> None:
        """Plan every workload that is not at rest."""
        if not self._presence.is_updater_running():
            # An updater that restarts remembers nothing.
            self._memory = UpdateMemory(self.workload_cache, self._settings.updates)
            return
        workloads = (*self.workload_cache.governors.list_workloads(), *self.workload_cache.list_ungoverned())
        self._plan_now(self._memory.select_changed(workloads))
        while self._planner.count_headroom():
            pass

    def forget_pod(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self._last_reasons.pop(uid, None)

    def on_workload_changed(self, workload: WorkloadKey) -> None:
        """Plan a workload in a moment, because something about it has changed."""
        self._memory.mark_changed(workload)
        if not self._is_plan_scheduled:
            self._is_plan_scheduled = True
            self._kernel.after(REQUEUE_AFTER_CHANGE_SECONDS, self._plan_changed, Priority.UPDATER)
        self._changed_workloads[workload] = None

    def _plan_changed(self) -> None:
        self._is_plan_scheduled = False
        workloads, self._changed_workloads = list(self._changed_workloads), {}
        self._plan_now(workloads)

    def _plan_later(self, workload: WorkloadKey, time: float) -> None:
        """Plan a workload at a time, unless it is planned sooner already."""
        ticket = self._next_plans.get(workload)
        if ticket is not None:
            if ticket.is_pending and ticket.time <= time:
                return
            ticket.cancel()
        self._next_plans[workload] = self._kernel.at(time, partial(self._plan_now, (workload,)), Priority.UPDATER)

    def _plan_now(self, workloads: Iterable[WorkloadKey]) -> None:
        workloads = list(workloads)
        for workload in workloads:
            self._changed_workloads.pop(workload, None)
            ticket = self._next_plans.pop(workload, None)
            if ticket is not None:
                ticket.cancel()
        if not workloads or not self._presence.is_updater_running():
            return
        now = self._kernel.now
        plans = self._planner.plan_all(self._memory.build_batch(workloads, now))
        sized = not self._settings.admission.is_heeded or self._presence.is_admission_running()
        for made, planned in zip(plans, self._memory.filter_evictions(plans, is_admission_live=sized), strict=True):
            if planned.error is not None:
                raise planned.error
            if planned is not made:
                self._plan_later(planned.snapshot.workload, now + _ABSENT_SECONDS)
            self._memory.record_plan(planned)
            self._record_plan(planned, now)

    def _record_plan(self, planned: PlanResult, now: float) -> None:
        plan, workload = planned.plan, planned.snapshot.workload
        for decision in plan.decisions:
            uid, code = decision.pod.uid, decision.reason.code
            if self._last_reasons.get(uid) != code:
                self._last_reasons[uid] = code
                self.verdicts[code] += 1
        if plan.requeue_at is not None:
            self._plan_later(workload, max(plan.requeue_at, now + SHORTEST_REQUEUE_SECONDS))
        if plan.actions:
            self._execute_plan(workload, plan, now)

    def _execute_plan(self, workload: WorkloadKey, plan: UpdatePlan, now: float) -> None:
        decisions = {decision.pod.uid: decision for decision in plan.decisions}
        outcomes = []
        pauses: list[float] = []
        for action in plan.actions:
            outcome = self._execute(action, decisions.get(action.pod.uid))
            self._memory.record_action_end(action, now, is_applied=outcome.result is WriteResult.APPLIED)
            outcomes.append(outcome)
            pause = find_requeue_delay(outcome.result)
            if pause is not None:
                pauses.append(max(pause, SHORTEST_REQUEUE_SECONDS))
        self._memory.record_results(workload, outcomes, now)
        if pauses:
            self._plan_later(workload, now + min(pauses))

    def _execute(self, action: Action, decision: PodDecision | None) -> ActionResult:
        if decision is not None:
            reason = decision.need.reason if decision.need is not None else decision.reason
            self._on_reason(action.pod.uid, reason.code, decision.details)
        message = ""
        if isinstance(action, EvictPod):
            result = self._pods.evict(action.pod)
        elif isinstance(action, ResizePod):
            result, message = self._pods.resize(action.pod, action.patch)
        else:
            result = self._pods.annotate(action.pod, action.patch)
        return ActionResult(action, result, message=message)
