"""Plans the updates of the pods of one workload.

The one decision of the updater: a frozen view in, actions out, with exactly one decision for each pod and the time of
the next look. Boosts are ended first, whatever budgets say. Then candidates are disrupted in order, the most urgent
first, until the budgets are used up.
"""

from __future__ import annotations

import msgspec

from trellis.base.reasons import Reason
from trellis.core.resize.actions import Action, DecisionKind, PodDecision, PodUpdate
from trellis.core.resize.candidates import UpdateCandidate, consider_pod, find_warnings
from trellis.core.resize.disruption_order import DisruptionOrder
from trellis.core.resize.eligibility import TargetSizes
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.view import WorkloadView


class UpdatePlan(msgspec.Struct, frozen=True):
    """The actions, one decision per pod in the order of the view, and when to plan again."""

    actions: tuple[Action, ...]
    verdicts: tuple[PodDecision, ...]
    next_look: float | None = None


def plan_updates(view: WorkloadView, now: float, settings: UpdateSettings) -> UpdatePlan:
    """The plan for a workload."""
    steps: dict[int, PodUpdate] = {}
    waiting: list[tuple[int, UpdateCandidate]] = []
    sizes = TargetSizes(view.governor, view.limits)
    for place, pod in enumerate(view.pods):
        outcome = consider_pod(view, pod, now, settings, sizes)
        if isinstance(outcome, PodUpdate):
            steps[place] = outcome
        else:
            waiting.append((place, outcome))
    actions = [action for step in steps.values() for action in step.actions if step.verdict.way is DecisionKind.UNBOOST]
    if waiting:
        order = DisruptionOrder(view, now, settings)
        for place, candidate in sorted(waiting, key=lambda entry: entry[1].need.urgency, reverse=True):
            steps[place] = order.decide(candidate)
            actions += steps[place].actions
    warnings = find_warnings(view)
    decisions = tuple(_warned(steps[place].verdict, warnings) for place in range(len(view.pods)))
    looks = [decision.look for decision in decisions if decision.look is not None]
    return UpdatePlan(tuple(actions), decisions, min(looks) if looks else None)


def _warned(decision: PodDecision, warnings: tuple[Reason, ...]) -> PodDecision:
    return msgspec.structs.replace(decision, warnings=(*decision.warnings, *warnings)) if warnings else decision
