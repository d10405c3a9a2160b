"""Counterfactuals: what would have to change for another decision about a pod.

A table: for each reason of a decision, the changes that would lead to another one, by a code, with their figures. A
decision that acts, or that waits only for a time, needs no entry: its next check has the time.

For pods that the minimum of replicas holds back, the plan itself is made again with other settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from trellis.api.resolve import UpdateMode
from trellis.core.boost import phases as boosts
from trellis.core.explain.component_decisions.settings import CollectedSettings
from trellis.core.explain.explanation.document import CounterfactualPart
from trellis.core.explain.explanation.values import format_timestamp
from trellis.core.resize import (
    candidates,
    disruption_budget,
    disruption_order,
    freeze,
    planner,
    resize_or_evict,
    update_need,
)
from trellis.core.resize.actions import DecisionKind, PodDecision
from trellis.core.resize.plan import plan_updates
from trellis.core.resize.planner import PlanResult
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.state import attempts
from trellis.core.resize.view import PodView, WorkloadView

# The setting `skip_disruption_budget`, as the updater's users know it.
SKIP_BUDGET_FLAG: Final = "--in-place-skip-disruption-budget"


def find_mode_with_skipped_budget(view: WorkloadView, now: float, settings: UpdateSettings) -> UpdateMode | None:
    """The mode in which pods of the view are resized once the flag is set; None if the flag does not help.

    It is the mode of the object, unless that never resizes.
    """
    if settings.skip_disruption_budget:
        return None
    governor = view.governor
    mode = UpdateMode.IN_PLACE_OR_RECREATE if governor.vpa.mode is UpdateMode.RECREATE else governor.vpa.mode
    changed = msgspec.structs.replace(governor, vpa=msgspec.structs.replace(governor.vpa, mode=mode))
    free = msgspec.structs.replace(settings, skip_disruption_budget=True)
    plan = plan_updates(msgspec.structs.replace(view, governor=changed), now, free)
    return mode if any(decision.kind is DecisionKind.RESIZE for decision in plan.decisions) else None


class CounterfactualCode(StrEnum):
    """A change that would lead to another decision."""

    FREEZE_LIFTED = "FreezeLifted"
    POD_READY = "PodReady"
    TIME_PASSED = "TimePassed"
    MODE_CHANGED = "ModeChanged"
    GATE_ON = "GateOn"
    SERVER_RESIZES = "ServerResizes"
    CONTROLLER_THERE = "ControllerThere"
    NODE_ASSIGNED = "NodeAssigned"
    POD_STARTED = "PodStarted"
    RECOMMENDATION_PUBLISHED = "RecommendationPublished"
    RECOMMENDATION_CHANGED = "RecommendationChanged"
    OUTSIDE_BOUNDS = "OutsideBounds"
    DIFFERENCE_LARGER = "DifferenceLarger"
    REPLICAS_ADDED = "ReplicasAdded"
    BUDGET_SKIPPED = "BudgetSkipped"
    OTHERS_READY = "OthersReady"
    BUDGET_RAISED = "BudgetRaised"
    ADMISSION_THERE = "AdmissionThere"
    REQUIREMENTS_MET = "RequirementsMet"
    HPA_CHANGED = "HpaChanged"
    ROOM_MADE = "RoomMade"
    NODE_ANSWERED = "NodeAnswered"
    CONTAINERS_RUN = "ContainersRun"


class _DecisionCase(msgspec.Struct, frozen=True):
    verdict: PodDecision
    planned: PlanResult
    pod: PodView
    components: CollectedSettings
    now: float

    def until(self, code: CounterfactualCode = CounterfactualCode.TIME_PASSED) -> CounterfactualPart:
        """The time of the next plan, if one is known."""
        return CounterfactualPart(
            code.value, {"at": format_timestamp(self.verdict.requeue_at)} if self.verdict.requeue_at is not None else {}
        )


_CounterfactualRule: TypeAlias = Callable[[_DecisionCase], Iterator[CounterfactualPart]]


def find_counterfactuals(
    decision: PodDecision, planned: PlanResult, pod: PodView, components: CollectedSettings, now: float
) -> tuple[CounterfactualPart, ...]:
    """The changes that would lead to another decision, the likeliest first."""
    rule = _TABLE.get(decision.reason.code)
    return tuple(rule(_DecisionCase(decision, planned, pod, components, now))) if rule is not None else ()


def _codes_only(*codes: CounterfactualCode) -> _CounterfactualRule:
    return lambda _case: (CounterfactualPart(code.value) for code in codes)


def _freeze_lifted(case: _DecisionCase) -> Iterator[CounterfactualPart]:
    freeze = case.planned.snapshot.freeze
    if freeze is not None:
        yield CounterfactualPart(
            CounterfactualCode.FREEZE_LIFTED.value,
            {"by": freeze.author, "where": freeze.scope.value, "why": freeze.reason},
        )


def _time_passed(case: _DecisionCase) -> Iterator[CounterfactualPart]:
    yield case.until()


def _pod_ready(case: _DecisionCase) -> Iterator[CounterfactualPart]:
    yield CounterfactualPart(CounterfactualCode.POD_READY.value)
    if case.verdict.requeue_at is not None:
        yield case.until()


def _mode_changed(case: _DecisionCase) -> Iterator[CounterfactualPart]:
    yield CounterfactualPart(
        CounterfactualCode.MODE_CHANGED.value, {"mode": str(case.planned.snapshot.governor.vpa.mode)}
    )


def _older_or_outside_bounds(case: _DecisionCase) -> Iterator[CounterfactualPart]:
    if case.verdict.requeue_at is not None:
        yield case.until()
    yield CounterfactualPart(CounterfactualCode.OUTSIDE_BOUNDS.value)


def _difference_larger(case: _DecisionCase) -> Iterator[CounterfactualPart]:
    threshold = case.components.updates.update_threshold
    yield CounterfactualPart(
        CounterfactualCode.DIFFERENCE_LARGER.value, {"difference": case.verdict.difference, "threshold": threshold}
    )
    yield CounterfactualPart(CounterfactualCode.OUTSIDE_BOUNDS.value)


def _replicas_added(case: _DecisionCase) -> Iterator[CounterfactualPart]:
    budget = case.verdict.budget
    if budget is not None:
        values = {"living": float(budget.living), "minimum": float(budget.minimum)}
        yield CounterfactualPart(CounterfactualCode.REPLICAS_ADDED.value, values)
    snapshot = case.planned.snapshot
    # A resize that the flag exempts waits for no other pod: the view has this pod alone.
    alone = WorkloadView(
        snapshot.governor,
        (case.pod,),
        snapshot.configured_replicas,
        snapshot.limits,
        hpa_resources=snapshot.hpa_resources,
    )
    mode = find_mode_with_skipped_budget(alone, case.now, case.components.updates)
    if mode is not None:
        another = {"mode": mode.value} if mode is not snapshot.governor.vpa.mode else {}
        yield CounterfactualPart(CounterfactualCode.BUDGET_SKIPPED.value, {"flag": SKIP_BUDGET_FLAG, **another})


def _others_ready(case: _DecisionCase) -> Iterator[CounterfactualPart]:
    budget = case.verdict.budget
    if budget is not None:
        least = float(budget.configured - budget.tolerated)
        yield CounterfactualPart(CounterfactualCode.OTHERS_READY.value, {"ready": float(budget.ready), "least": least})


def _budget_raised(case: _DecisionCase) -> Iterator[CounterfactualPart]:
    yield case.until()
    updates = case.components.updates
    values = {"perHour": updates.hourly, "perHourInNamespace": updates.namespace_hourly}
    yield CounterfactualPart(
        CounterfactualCode.BUDGET_RAISED.value, {name: float(value) for name, value in values.items() if value}
    )


def _requirements_met(case: _DecisionCase) -> Iterator[CounterfactualPart]:
    for requirement in case.planned.snapshot.governor.vpa.requirements:
        values = {"resources": ",".join(sorted(requirement.resources)), "change": requirement.change.value}
        yield CounterfactualPart(CounterfactualCode.REQUIREMENTS_MET.value, values)


def _hpa_changed(case: _DecisionCase) -> Iterator[CounterfactualPart]:
    yield CounterfactualPart(
        CounterfactualCode.HPA_CHANGED.value, {"resources": ",".join(sorted(case.planned.snapshot.hpa_resources))}
    )


def _admission_running(case: _DecisionCase) -> Iterator[CounterfactualPart]:
    namespace, name = case.components.admission_lease
    yield CounterfactualPart(CounterfactualCode.ADMISSION_THERE.value, {"lease": f"{namespace}/{name}"})


def _node_answered(case: _DecisionCase) -> Iterator[CounterfactualPart]:
    yield CounterfactualPart(CounterfactualCode.NODE_ANSWERED.value, {"node": case.pod.node})
    if case.verdict.requeue_at is not None:
        yield case.until()


def _containers_running(case: _DecisionCase) -> Iterator[CounterfactualPart]:
    yield CounterfactualPart(
        CounterfactualCode.CONTAINERS_RUN.value, {"containers": ",".join(case.pod.downtime.containers)}
    )
    if case.verdict.requeue_at is not None:
        yield case.until()


_TABLE: Final[dict[str, _CounterfactualRule]] = {
    freeze.FROZEN.code: _freeze_lifted,
    boosts.BOOST_UNTIL_READY.code: _pod_ready,
    boosts.BOOST_UNTIL_DURATION.code: _time_passed,
    boosts.BOOST_WITHOUT_POLICY.code: _time_passed,
    boosts.BOOST_GATE_OFF.code: _codes_only(CounterfactualCode.GATE_ON),
    candidates.MODE_DOES_NOT_UPDATE_PODS.code: _mode_changed,
    candidates.IN_PLACE_GATE_OFF.code: _codes_only(CounterfactualCode.GATE_ON),
    candidates.IN_PLACE_NOT_SERVED.code: _codes_only(CounterfactualCode.SERVER_RESIZES),
    candidates.NO_CONTROLLER.code: _codes_only(CounterfactualCode.CONTROLLER_THERE),
    candidates.POD_WITHOUT_NODE.code: _codes_only(CounterfactualCode.NODE_ASSIGNED),
    candidates.POD_PENDING.code: _codes_only(CounterfactualCode.POD_STARTED),
    candidates.HELD_FOR_HPA.code: _hpa_changed,
    update_need.NOTHING_RECOMMENDED.code: _codes_only(CounterfactualCode.RECOMMENDATION_PUBLISHED),
    update_need.SIZE_AS_RECOMMENDED.code: _codes_only(CounterfactualCode.RECOMMENDATION_CHANGED),
    update_need.POD_TOO_YOUNG.code: _older_or_outside_bounds,
    update_need.CHANGE_TOO_SMALL.code: _difference_larger,
    disruption_budget.TOO_FEW_REPLICAS.code: _replicas_added,
    disruption_budget.EVICTION_TOLERANCE_EXHAUSTED.code: _others_ready,
    disruption_budget.HOURLY_BUDGET_EXHAUSTED.code: _budget_raised,
    attempts.BACKING_OFF.code: _time_passed,
    attempts.EVICTION_LOOP.code: _admission_running,
    planner.ADMISSION_ABSENT.code: _admission_running,
    update_need.REQUIREMENTS_FORBID_EVICTION.code: _requirements_met,
    update_need.REQUIREMENTS_FORBID_RESIZE.code: _requirements_met,
    disruption_order.WOULD_NOT_FIT.code: _codes_only(
        CounterfactualCode.ROOM_MADE, CounterfactualCode.RECOMMENDATION_CHANGED
    ),
    resize_or_evict.RESIZE_UNDER_WAY.code: _node_answered,
    resize_or_evict.RESIZE_DEFERRED.code: _node_answered,
    resize_or_evict.RESIZE_FAILING.code: _node_answered,
    resize_or_evict.CONTAINER_DOWN.code: _containers_running,
    resize_or_evict.RESIZE_INFEASIBLE.code: _codes_only(CounterfactualCode.RECOMMENDATION_CHANGED),
    resize_or_evict.RESIZE_REFUSED.code: _codes_only(CounterfactualCode.RECOMMENDATION_CHANGED),
    resize_or_evict.NOT_POSSIBLE_IN_PLACE.code: _mode_changed,
    resize_or_evict.CLOSEST_POSSIBLE_SIZE.code: _codes_only(CounterfactualCode.RECOMMENDATION_CHANGED),
}
