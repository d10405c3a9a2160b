"""Makes plans for many workloads, and remembers what the next plans depend on.

`UpdateMemory` builds a batch of workloads, `UpdatePlanner` builds the view of each and calls `plan`. It works on frozen
values, and may run in a thread of its own. A workload whose plan fails is left alone, and the plans of the others are
made all the same.

Remembered are results of earlier attempts, disruptions within the hour, and workloads whose last plan had no actions:
as long as nothing changes about those, another plan would be the same.

While no admission controller renews its Lease, plans go without their evictions: the pods that replace evicted ones
would not be sized. The rest of such a plan is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from trellis.api.kube.coordination import Lease
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.base.reasons import Reason, Severity
from trellis.core.boost.phases import lacks_policy
from trellis.core.cluster.store import ObjectKey
from trellis.core.recommend.amounts import ResourceAmounts
from trellis.core.resize.actions import Action, DecisionKind, EvictPod, PodDecision
from trellis.core.resize.disruption_budget import HourlyDisruptions, HourlyLedger
from trellis.core.resize.plan import UpdatePlan, plan_updates
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.state.attempts import ActionResult, WorkloadAttempts, record_result
from trellis.core.resize.state.headroom import NodeHeadroom
from trellis.core.resize.state.indexes import WorkloadKey
from trellis.core.resize.state.workload_cache import WorkloadCache, WorkloadSnapshot
from trellis.core.resize.view import PodView, WorkloadView

ADMISSION_ABSENT = Reason(
    "AdmissionAbsent",
    "The pod is not evicted, because no admission controller is there to size the one that would take its place.",
    Severity.WARNING,
)


def is_lease_renewed(lease: Lease, timeout: float, now: float) -> bool:
    """Whether the admission controller is there, as its Lease has it: renewed, or made, a short while ago."""
    times: tuple[datetime | None, ...] = (lease.spec.renew_time, lease.metadata.creation_timestamp)
    return any(moment is not None and moment.timestamp() + timeout > now for moment in times)


def plans_evictions(plan: UpdatePlan) -> bool:
    """Whether a plan evicts any pod."""
    return any(map(_evicts, plan.actions))


def withhold_evictions(plan: UpdatePlan) -> UpdatePlan:
    """The plan without its evictions: the pods that it would evict wait."""
    evicted = {action.pod.uid for action in plan.actions if _evicts(action)}
    actions = tuple(action for action in plan.actions if action.pod.uid not in evicted)
    decisions = tuple(_absent(decision) if decision.pod.uid in evicted else decision for decision in plan.verdicts)
    return msgspec.structs.replace(plan, actions=actions, verdicts=decisions)


def _evicts(action: Action) -> bool:
    return isinstance(action, EvictPod)


def _absent(decision: PodDecision) -> PodDecision:
    return msgspec.structs.replace(decision, way=DecisionKind.WAIT, reason=ADMISSION_ABSENT)


class PlanningBatch(msgspec.Struct, frozen=True):
    """Workloads to plan for, each with what is remembered of it, and what has changed since the last batch.

    No plan can be made for those that are `unknown`: no object governs them, or their pods are not known.
    """

    gathered: Sequence[tuple[WorkloadSnapshot, WorkloadAttempts]]
    nodes: Mapping[str, ResourceAmounts]
    changed_nodes: Mapping[str, Node | None]
    changed_pods: Mapping[ObjectKey, Pod | None]
    ledger: HourlyLedger
    now: float
    unknown: tuple[WorkloadKey, ...] = ()


class PlanResult(msgspec.Struct, frozen=True):
    """The plan for one workload, or the error that came instead of it.

    `without_room` says that the plan might be another one if nodes had more headroom.
    """

    gathered: WorkloadSnapshot
    plan: UpdatePlan
    error: Exception | None = None
    without_room: bool = False


class UpdatePlanner:
    """Makes plans. The views of pods that have not changed are cached."""

    def __init__(self, settings: UpdateSettings, headroom: NodeHeadroom | None) -> None:
        self._settings = settings
        self._headroom = headroom
        self._views: dict[str, PodView] = {}
        self._without_room = False

    def plan_all(self, batch: PlanningBatch) -> list[PlanResult]:
        """One plan for each workload, in the order of the batch."""
        if self._headroom is not None:
            self._headroom.update(batch.changed_nodes, batch.changed_pods)
        return [self._planned(snapshot, attempts, batch) for snapshot, attempts in batch.gathered]

    def forget(self, pods: Iterable[Pod]) -> None:
        """Drop the cached views of all other pods than these."""
        living = {pod.metadata.uid for pod in pods}
        self._views = {uid: view for uid, view in self._views.items() if uid in living}

    def count_rooms(self) -> bool:
        """Count some of the pods that have changed on their nodes; the result is whether any are left."""
        return self._headroom is not None and self._headroom.count()

    def _planned(self, snapshot: WorkloadSnapshot, attempts: WorkloadAttempts, batch: PlanningBatch) -> PlanResult:
        self._without_room = False
        try:
            view = WorkloadView(
                governor=snapshot.governor,
                pods=tuple(map(self._view, snapshot.pods)),
                configured=snapshot.configured,
                limits=snapshot.limits,
                attempts=attempts,
                frozen=snapshot.frozen,
                hpa=snapshot.hpa,
                left=batch.ledger.left(snapshot.workload[0]),
                nodes=batch.nodes,
                fits=self._fits if self._headroom is not None else None,
                missed=snapshot.missed,
            )
            plan = plan_updates(view, batch.now, self._settings)
        except Exception as error:  # noqa: BLE001 - an error of ours must not keep others from their plans
            return PlanResult(snapshot, UpdatePlan((), ()), error)
        batch.ledger.spend(plan.actions)
        return PlanResult(snapshot, plan, without_room=self._without_room)

    def _fits(self, pod: Pod, requests: Mapping[str, ResourceAmounts]) -> bool | None:
        fits = self._headroom.fits(pod, requests) if self._headroom is not None else None
        self._without_room |= fits is False
        return fits

    def _view(self, pod: Pod) -> PodView:
        view = self._views.get(pod.metadata.uid)
        if view is None or view.pod is not pod:
            view = self._views[pod.metadata.uid] = PodView.of(pod)
        return view


_NOTHING: Final = WorkloadAttempts()


class UpdateMemory:
    """What is remembered of all workloads.

    One pass is a `batch`, plans for it, `filter_evictions`, `record_plan` for each plan, and `record_results`.
    """

    def __init__(self, cache: WorkloadCache, settings: UpdateSettings) -> None:
        self._cache = cache
        self._settings = settings
        self._hourly = HourlyDisruptions(settings)
        self._attempts: dict[WorkloadKey, WorkloadAttempts] = {}
        # Whose last plan had nothing to do, and what nodes offered then if that may have been why.
        self._at_rest: dict[WorkloadKey, Mapping[str, ResourceAmounts] | None] = {}
        self._nodes: Mapping[str, ResourceAmounts] = {}

    def mark_changed(self, workload: WorkloadKey) -> None:
        """Something about a workload has changed, or no plan could be made for it."""
        self._at_rest.pop(workload, None)

    def mark_all_changed(self) -> None:
        """Anything may have changed about any workload."""
        self._at_rest.clear()

    def restless(self, workloads: Iterable[WorkloadKey]) -> list[WorkloadKey]:
        """Those of them for which another plan might not be the last one again."""
        return [workload for workload in workloads if not self._rests(workload)]

    def batch(self, workloads: Iterable[WorkloadKey], now: float) -> PlanningBatch:
        """The input of plans for these workloads, without those whose pending writes were not observed yet."""
        plannable = self._cache.plannable(workloads)
        snapshots = {workload: self._cache.gather(workload, now) for workload in plannable}
        unknown = tuple(workload for workload, snapshot in snapshots.items() if snapshot is None)
        for workload in unknown:
            self._attempts.pop(workload, None)
            if workload in self._cache.governed:
                self._at_rest[workload] = None
            else:
                self._at_rest.pop(workload, None)
        ready = (
            snapshot for snapshot in snapshots.values() if snapshot is not None and not self._cache.is_awaited(snapshot)
        )
        remembered = [(snapshot, self._remembered(snapshot, now)) for snapshot in ready]
        nodes, pods = self._cache.take_changes()
        self._nodes = self._cache.nodes
        return PlanningBatch(remembered, self._nodes, nodes, pods, self._hourly.ledger(now), now, unknown)

    def filter_evictions(self, plans: Iterable[PlanResult], *, sized: bool) -> list[PlanResult]:
        """Plans as they are executed: unless new pods are `sized` by an admission controller, nothing is evicted."""
        return list(plans) if sized else [_without_evictions(planned) for planned in plans]

    def record_plan(self, planned: PlanResult) -> None:
        """Such a plan is executed now, or the workload is at rest."""
        if planned.error is not None:
            return
        if planned.plan.actions:
            self._hourly.begin(planned.plan.actions)
        elif not planned.without_room:
            needy = any(decision.need is not None for decision in planned.plan.verdicts)
            self._at_rest[planned.gathered.workload] = self._nodes if needy else None

    def record_action_end(self, action: Action, now: float, *, done: bool) -> None:
        """An action of a plan is over, or was not tried."""
        self._hourly.end(action, now, done=done)

    def record_results(self, workload: WorkloadKey, outcomes: Iterable[ActionResult], now: float) -> None:
        """A plan has been executed."""
        attempts = self._attempts.get(workload, _NOTHING)
        for outcome in outcomes:
            attempts = record_result(attempts, outcome, now, self._settings)
        if attempts != _NOTHING:
            self._attempts[workload] = attempts

    def _remembered(self, snapshot: WorkloadSnapshot, now: float) -> WorkloadAttempts:
        attempts = self._attempts.get(snapshot.workload)
        without_policy = _boosted_without_policy(snapshot)
        if attempts is None and not without_policy:
            return _NOTHING
        remembered = (attempts or _NOTHING).kept({pod.metadata.uid for pod in snapshot.pods}, snapshot.groups)
        remembered = remembered.observed_without_policy(without_policy, now)
        self._attempts[snapshot.workload] = remembered
        return remembered

    def _rests(self, workload: WorkloadKey) -> bool:
        """Whether another plan would be the last one again."""
        if workload not in self._at_rest:
            return False
        nodes = self._at_rest[workload]
        return nodes is None or nodes is self._cache.nodes


def _boosted_without_policy(snapshot: WorkloadSnapshot) -> list[str]:
    """The uids of pods with a boost that the object over them does not give any more."""
    vpa = snapshot.governor.vpa
    return [
        pod.metadata.uid
        for pod in snapshot.pods
        if pod.metadata.annotations and lacks_policy(pod.metadata.annotations, vpa)
    ]


def _without_evictions(planned: PlanResult) -> PlanResult:
    if not plans_evictions(planned.plan):
        return planned
    return msgspec.structs.replace(planned, plan=withhold_evictions(planned.plan))
