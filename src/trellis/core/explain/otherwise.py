"""What would have to change for another verdict? Read from the reason of the verdict, and from the figures behind it.

A table: for each reason, what would have to be otherwise, by a code, and where the figures for it stand. A verdict that
does something, or that waits for nothing but time, needs no entry: its next look says it all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from trellis.core.boost import phases as boosts
from trellis.core.explain.explained import Otherwise
from trellis.core.explain.settings import Components
from trellis.core.explain.wording import time_text
from trellis.core.resize import (
    attempts,
    budget,
    candidates,
    eligibility,
    freezing,
    inplace,
    loops,
    requirements,
    turns,
    withheld,
)
from trellis.core.resize.counterfactuals import SKIP_BUDGET_FLAG, mode_with_skipped_budget
from trellis.core.resize.planning import Planned
from trellis.core.resize.verdicts import Verdict
from trellis.core.resize.views import PodView, WorkloadView


class Turn(StrEnum):
    """What would have to be otherwise."""

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


class _Case(msgspec.Struct, frozen=True):
    verdict: Verdict
    planned: Planned
    pod: PodView
    components: Components
    now: float

    def until(self, turn: Turn = Turn.TIME_PASSED) -> Otherwise:
        """At the next look, if one is known."""
        return Otherwise(turn.value, {"at": time_text(self.verdict.look)} if self.verdict.look is not None else {})


_Say: TypeAlias = Callable[[_Case], Iterator[Otherwise]]


def otherwise(
    verdict: Verdict, planned: Planned, pod: PodView, components: Components, now: float
) -> tuple[Otherwise, ...]:
    """What would have to change, the likeliest first."""
    say = _TABLE.get(verdict.reason.code)
    return tuple(say(_Case(verdict, planned, pod, components, now))) if say is not None else ()


def _plain(*turns_: Turn) -> _Say:
    return lambda _case: (Otherwise(turn.value) for turn in turns_)


def _frozen(case: _Case) -> Iterator[Otherwise]:
    freeze = case.planned.gathered.frozen
    if freeze is not None:
        yield Otherwise(Turn.FREEZE_LIFTED.value, {"by": freeze.by, "where": freeze.where.value, "why": freeze.why})


def _timely(case: _Case) -> Iterator[Otherwise]:
    yield case.until()


def _ready(case: _Case) -> Iterator[Otherwise]:
    yield Otherwise(Turn.POD_READY.value)
    if case.verdict.look is not None:
        yield case.until()


def _mode(case: _Case) -> Iterator[Otherwise]:
    yield Otherwise(Turn.MODE_CHANGED.value, {"mode": str(case.planned.gathered.governor.vpa.mode)})


def _young(case: _Case) -> Iterator[Otherwise]:
    if case.verdict.look is not None:
        yield case.until()
    yield Otherwise(Turn.OUTSIDE_BOUNDS.value)


def _small(case: _Case) -> Iterator[Otherwise]:
    threshold = case.components.updates.update_threshold
    yield Otherwise(Turn.DIFFERENCE_LARGER.value, {"difference": case.verdict.apart, "threshold": threshold})
    yield Otherwise(Turn.OUTSIDE_BOUNDS.value)


def _few(case: _Case) -> Iterator[Otherwise]:
    found = case.verdict.budget
    if found is not None:
        values = {"living": float(found.living), "minimum": float(found.minimum)}
        yield Otherwise(Turn.REPLICAS_ADDED.value, values)
    gathered = case.planned.gathered
    # What the flag exempts waits for no other pod, so that the others have no say.
    alone = WorkloadView(gathered.governor, (case.pod,), gathered.configured, gathered.limits, hpa=gathered.hpa)
    mode = mode_with_skipped_budget(alone, case.now, case.components.updates)
    if mode is not None:
        another = {"mode": mode.value} if mode is not gathered.governor.vpa.mode else {}
        yield Otherwise(Turn.BUDGET_SKIPPED.value, {"flag": SKIP_BUDGET_FLAG, **another})


def _tolerance(case: _Case) -> Iterator[Otherwise]:
    found = case.verdict.budget
    if found is not None:
        least = float(found.configured - found.tolerated)
        yield Otherwise(Turn.OTHERS_READY.value, {"ready": float(found.ready), "least": least})


def _hourly(case: _Case) -> Iterator[Otherwise]:
    yield case.until()
    updates = case.components.updates
    values = {"perHour": updates.hourly, "perHourInNamespace": updates.namespace_hourly}
    yield Otherwise(Turn.BUDGET_RAISED.value, {name: float(value) for name, value in values.items() if value})


def _required(case: _Case) -> Iterator[Otherwise]:
    for each in case.planned.gathered.governor.vpa.requirements:
        values = {"resources": ",".join(sorted(each.resources)), "change": each.change.value}
        yield Otherwise(Turn.REQUIREMENTS_MET.value, values)


def _hpa(case: _Case) -> Iterator[Otherwise]:
    yield Otherwise(Turn.HPA_CHANGED.value, {"resources": ",".join(sorted(case.planned.gathered.hpa))})


def _admission(case: _Case) -> Iterator[Otherwise]:
    namespace, name = case.components.admission_lease
    yield Otherwise(Turn.ADMISSION_THERE.value, {"lease": f"{namespace}/{name}"})


def _node(case: _Case) -> Iterator[Otherwise]:
    yield Otherwise(Turn.NODE_ANSWERED.value, {"node": case.pod.node})
    if case.verdict.look is not None:
        yield case.until()


def _down(case: _Case) -> Iterator[Otherwise]:
    yield Otherwise(Turn.CONTAINERS_RUN.value, {"containers": ",".join(case.pod.downtime.containers)})
    if case.verdict.look is not None:
        yield case.until()


_TABLE: Final[dict[str, _Say]] = {
    freezing.FROZEN.code: _frozen,
    boosts.BOOST_UNTIL_READY.code: _ready,
    boosts.BOOST_UNTIL_DURATION.code: _timely,
    boosts.BOOST_WITHOUT_POLICY.code: _timely,
    boosts.BOOST_GATE_OFF.code: _plain(Turn.GATE_ON),
    candidates.MODE_LEAVES_PODS.code: _mode,
    candidates.IN_PLACE_GATE_OFF.code: _plain(Turn.GATE_ON),
    candidates.IN_PLACE_NOT_SERVED.code: _plain(Turn.SERVER_RESIZES),
    candidates.NO_CONTROLLER.code: _plain(Turn.CONTROLLER_THERE),
    candidates.POD_WITHOUT_NODE.code: _plain(Turn.NODE_ASSIGNED),
    candidates.POD_PENDING.code: _plain(Turn.POD_STARTED),
    candidates.HELD_FOR_HPA.code: _hpa,
    eligibility.NOTHING_RECOMMENDED.code: _plain(Turn.RECOMMENDATION_PUBLISHED),
    eligibility.SIZE_AS_RECOMMENDED.code: _plain(Turn.RECOMMENDATION_CHANGED),
    eligibility.POD_TOO_YOUNG.code: _young,
    eligibility.CHANGE_TOO_SMALL.code: _small,
    budget.TOO_FEW_REPLICAS.code: _few,
    budget.TOLERANCE_USED_UP.code: _tolerance,
    budget.HOURLY_BUDGET_USED_UP.code: _hourly,
    attempts.BACKING_OFF.code: _timely,
    loops.EVICTION_LOOP.code: _admission,
    withheld.ADMISSION_ABSENT.code: _admission,
    requirements.REQUIREMENTS_FORBID_EVICTION.code: _required,
    requirements.REQUIREMENTS_FORBID_RESIZE.code: _required,
    turns.WOULD_NOT_FIT.code: _plain(Turn.ROOM_MADE, Turn.RECOMMENDATION_CHANGED),
    inplace.RESIZE_UNDER_WAY.code: _node,
    inplace.RESIZE_DEFERRED.code: _node,
    inplace.RESIZE_FAILING.code: _node,
    inplace.CONTAINER_DOWN.code: _down,
    inplace.RESIZE_INFEASIBLE.code: _plain(Turn.RECOMMENDATION_CHANGED),
    inplace.RESIZE_REFUSED.code: _plain(Turn.RECOMMENDATION_CHANGED),
    inplace.NOT_POSSIBLE_IN_PLACE.code: _mode,
    inplace.AS_NEAR_AS_POSSIBLE.code: _plain(Turn.RECOMMENDATION_CHANGED),
}
