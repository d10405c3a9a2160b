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

from collections.abc import Collection, Iterable, Mapping, Sequence
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
from trellis.core.resize.state.indexes import WorkloadKey
from trellis.core.resize.state.node_headroom import NodeHeadroom
from trellis.core.resize.state.workload_cache import WorkloadCache, WorkloadSnapshot
from trellis.core.resize.view import PodView, WorkloadView

ADMISSION_ABSENT = Reason(
    "AdmissionAbsent",
    "The pod is not evicted, because no admission controller runs that would size its replacement.",
    Severity.WARNING,
)


def is_lease_renewed(lease: Lease, timeout: float, now: float) -> bool:
    """Whether the admission controller is running: its Lease was renewed, or created, within the timeout."""
    times: tuple[datetime | None, ...] = (lease.spec.renew_time, lease.metadata.creation_timestamp)
    return any(moment is not None and moment.timestamp() + timeout > now for moment in times)


def plans_evictions(plan: UpdatePlan) -> bool:
    """Whether a plan evicts any pod."""
    return any(map(_is_eviction, plan.actions))


def withhold_evictions(plan: UpdatePlan) -> UpdatePlan:
    """The plan without its evictions: the pods that it would evict wait."""
    evicted = {action.pod.uid for action in plan.actions if _is_eviction(action)}
    actions = tuple(action for action in plan.actions if action.pod.uid not in evicted)
    decisions = tuple(
        _defer_eviction(decision) if decision.pod.uid in evicted else decision for decision in plan.decisions
    )
    return msgspec.structs.replace(plan, actions=actions, decisions=decisions)


def _is_eviction(action: Action) -> bool:
    return isinstance(action, EvictPod)


def _defer_eviction(decision: PodDecision) -> PodDecision:
    return msgspec.structs.replace(decision, kind=DecisionKind.WAIT, reason=ADMISSION_ABSENT)


class PlanningBatch(msgspec.Struct, frozen=True):
    """Workloads to plan for, each with earlier attempts, and the changes of nodes and pods since the last batch.

    No plan can be made for `unplannable` workloads: no object governs them, or their pods are not known.
    """

    workloads: Sequence[tuple[WorkloadSnapshot, WorkloadAttempts]]
    node_allocatable: Mapping[str, ResourceAmounts]
    changed_nodes: Mapping[str, Node | None]
    changed_pods: Mapping[ObjectKey, Pod | None]
    ledger: HourlyLedger
    now: float
    unplannable: tuple[WorkloadKey, ...] = ()


class PlanResult(msgspec.Struct, frozen=True):
    """The plan for one workload, or the error that prevented it.

    `lacks_headroom`: the plan might differ if nodes had more headroom.
    """

    snapshot: WorkloadSnapshot
    plan: UpdatePlan
    error: Exception | None = None
    lacks_headroom: bool = False


class UpdatePlanner:
    """Makes plans. The views of pods that have not changed are cached."""

    def __init__(self, settings: UpdateSettings, headroom: NodeHeadroom | None) -> None:
        self._settings = settings
        self._headroom = headroom
        self._views: dict[str, PodView] = {}
        self._lacks_headroom = False

    def plan_all(self, batch: PlanningBatch) -> list[PlanResult]:
        """One plan for each workload, in the order of the batch."""
        if self._headroom is not None:
            self._headroom.update(batch.changed_nodes, batch.changed_pods)
        return [self._plan(snapshot, attempts, batch) for snapshot, attempts in batch.workloads]

    def retain_views(self, pods: Iterable[Pod]) -> None:
        """Keep the cached views of these pods, and drop all others."""
        living = {pod.metadata.uid for pod in pods}
        self._views = {uid: view for uid, view in self._views.items() if uid in living}

    def count_headroom(self) -> bool:
        """Count some of the pods that have changed on their nodes; the result is whether any are left."""
        return self._headroom is not None and self._headroom.count_some()

    def _plan(self, snapshot: WorkloadSnapshot, attempts: WorkloadAttempts, batch: PlanningBatch) -> PlanResult:
        self._lacks_headroom = False
        try:
            view = WorkloadView(
                governor=snapshot.governor,
                pods=tuple(map(self._get_view, snapshot.pods)),
                configured_replicas=snapshot.configured_replicas,
                limits=snapshot.limits,
                attempts=attempts,
                freeze=snapshot.freeze,
                hpa_resources=snapshot.hpa_resources,
                hourly_allowance=batch.ledger.compute_allowance(snapshot.workload[0]),
                node_allocatable=batch.node_allocatable,
                check_fit=self._check_fit if self._headroom is not None else None,
                missed_resizes=snapshot.missed_resizes,
            )
            plan = plan_updates(view, batch.now, self._settings)
        except Exception as error:  # noqa: BLE001 - an error of ours must not keep others from their plans
            return PlanResult(snapshot, UpdatePlan((), ()), error)
        batch.ledger.spend(plan.actions)
        return PlanResult(snapshot, plan, lacks_headroom=self._lacks_headroom)

    def _check_fit(self, pod: Pod, requests: Mapping[str, ResourceAmounts]) -> bool | None:
        fits = self._headroom.fits(pod, requests) if self._headroom is not None else None
        self._lacks_headroom |= fits is False
        return fits

    def _get_view(self, pod: Pod) -> PodView:
        view = self._views.get(pod.metadata.uid)
        if view is None or view.pod is not pod:
            view = self._views[pod.metadata.uid] = PodView.from_pod(pod)
        return view


_NO_ATTEMPTS: Final = WorkloadAttempts()


class UpdateMemory:
    """Earlier attempts and disruptions of all workloads, and which of them are at rest.

    One pass is a `build_batch`, plans for it, `filter_evictions`, `record_plan` for each plan, and `record_results`.
    """

    def __init__(self, cache: WorkloadCache, settings: UpdateSettings) -> None:
        self._cache = cache
        self._settings = settings
        self._hourly = HourlyDisruptions(settings)
        self._attempts: dict[WorkloadKey, WorkloadAttempts] = {}
        # Workloads whose last plan had no actions, with the nodes' resources then if those may be the reason.
        self._at_rest: dict[WorkloadKey, Mapping[str, ResourceAmounts] | None] = {}
        self._node_allocatable: Mapping[str, ResourceAmounts] = {}

    def mark_changed(self, workload: WorkloadKey) -> None:
        """Something about a workload has changed, or no plan could be made for it."""
        self._at_rest.pop(workload, None)

    def mark_all_changed(self) -> None:
        """Anything may have changed about any workload."""
        self._at_rest.clear()

    def list_remembered(self) -> list[WorkloadKey]:
        """The workloads with earlier attempts."""
        return list(self._attempts)

    def take_shard(self, forgotten: Collection[WorkloadKey], hourly: int | None) -> None:
        """Forget workloads that another replica serves, and go by this replica's part of the cluster's hourly budget.

        Disruptions of the last hour count wherever they were.
        """
        for workload in forgotten:
            self._attempts.pop(workload, None)
        self._hourly.set_limit(hourly)

    def select_changed(self, workloads: Iterable[WorkloadKey]) -> list[WorkloadKey]:
        """The workloads for which another plan may differ from the last one."""
        return [workload for workload in workloads if not self._is_at_rest(workload)]

    def build_batch(self, workloads: Iterable[WorkloadKey], now: float) -> PlanningBatch:
        """The input of plans for these workloads, without those whose pending writes were not observed yet."""
        plannable = self._cache.select_plannable(workloads)
        snapshots = {workload: self._cache.build_snapshot(workload, now) for workload in plannable}
        unplannable = tuple(workload for workload, snapshot in snapshots.items() if snapshot is None)
        for workload in unplannable:
            self._attempts.pop(workload, None)
            if workload in self._cache.governors:
                self._at_rest[workload] = None
            else:
                self._at_rest.pop(workload, None)
        ready = (
            snapshot
            for snapshot in snapshots.values()
            if snapshot is not None and not self._cache.has_pending_writes(snapshot)
        )
        planned_workloads = [(snapshot, self._update_attempts(snapshot, now)) for snapshot in ready]
        nodes, pods = self._cache.drain_changes()
        self._node_allocatable = self._cache.nodes
        return PlanningBatch(
            planned_workloads, self._node_allocatable, nodes, pods, self._hourly.open_ledger(now), now, unplannable
        )

    def filter_evictions(self, plans: Iterable[PlanResult], *, is_admission_live: bool) -> list[PlanResult]:
        """The plans as they are executed: without an admission controller that sizes new pods, without evictions."""
        return list(plans) if is_admission_live else [_without_evictions(planned) for planned in plans]

    def record_plan(self, planned: PlanResult) -> None:
        """Count the disruptions of a plan, or note that its workload is at rest."""
        if planned.error is not None:
            return
        if planned.plan.actions:
            self._hourly.begin(planned.plan.actions)
        elif not planned.lacks_headroom:
            needs_change = any(decision.need is not None for decision in planned.plan.decisions)
            self._at_rest[planned.snapshot.workload] = self._node_allocatable if needs_change else None

    def record_action_end(self, action: Action, now: float, *, is_applied: bool) -> None:
        """Record the end of an action, or that it was not tried."""
        self._hourly.end(action, now, is_applied=is_applied)

    def record_results(self, workload: WorkloadKey, outcomes: Iterable[ActionResult], now: float) -> None:
        """Record the results of an executed plan."""
        attempts = self._attempts.get(workload, _NO_ATTEMPTS)
        for outcome in outcomes:
            attempts = record_result(attempts, outcome, now, self._settings)
        if attempts != _NO_ATTEMPTS:
            self._attempts[workload] = attempts

    def _update_attempts(self, snapshot: WorkloadSnapshot, now: float) -> WorkloadAttempts:
        attempts = self._attempts.get(snapshot.workload)
        without_policy = _list_boosts_without_policy(snapshot)
        if attempts is None and not without_policy:
            return _NO_ATTEMPTS
        remembered = (attempts or _NO_ATTEMPTS).retain(
            {pod.metadata.uid for pod in snapshot.pods}, snapshot.controllers
        )
        remembered = remembered.with_boosts_without_policy(without_policy, now)
        self._attempts[snapshot.workload] = remembered
        return remembered

    def _is_at_rest(self, workload: WorkloadKey) -> bool:
        """Whether another plan would equal the last one."""
        if workload not in self._at_rest:
            return False
        nodes = self._at_rest[workload]
        return nodes is None or nodes is self._cache.nodes


def _list_boosts_without_policy(snapshot: WorkloadSnapshot) -> list[str]:
    """The uids of pods with a boost that their governor no longer gives."""
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
