"""What the updater remembers of workloads from one plan to the next.

Results of earlier attempts, disruptions within the hour, and workloads whose last plan had no actions: as long as
nothing changes about those, another plan would be the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from trellis.core.boost.phases import lacks_policy
from trellis.core.recommend.amounts import ResourceAmounts
from trellis.core.resize.actions import Action
from trellis.core.resize.disruption_budget import HourlyDisruptions
from trellis.core.resize.planner import PlanningBatch, PlanResult, plans_evictions, withhold_evictions
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.state.attempts import ActionResult, WorkloadAttempts, record_result
from trellis.core.resize.state.ownership import WorkloadKey
from trellis.core.resize.state.workload_cache import WorkloadCache, WorkloadSnapshot

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
