"""Plans the updates of the pods of one workload.

The one decision of the updater: a frozen view in, actions out, with exactly one decision for each pod and the time of
the next plan. Boosts are ended first, whatever budgets say. Then candidates are disrupted in order, the most urgent
first, until the budgets are used up.
"""

from __future__ import annotations

import msgspec

from trellis.base.reasons import Reason
from trellis.core.resize.actions import Action, DecisionKind, PodDecision, PodUpdate
from trellis.core.resize.candidates import UpdateCandidate, consider_pod, find_warnings
from trellis.core.resize.disruption_order import DisruptionOrder
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.update_need import TargetSizes
from trellis.core.resize.view import WorkloadView


class UpdatePlan(msgspec.Struct, frozen=True):
    """The actions, one decision per pod in the order of the view, and when to plan again."""

    actions: tuple[Action, ...]
    decisions: tuple[PodDecision, ...]
    requeue_at: float | None = None


def plan_updates(view: WorkloadView, now: float, settings: UpdateSettings) -> UpdatePlan:
    """The plan for a workload."""
    updates: dict[int, PodUpdate] = {}
    candidates: list[tuple[int, UpdateCandidate]] = []
    sizes = TargetSizes(view.governor, view.limits)
    for position, pod in enumerate(view.pods):
        outcome = consider_pod(view, pod, now, settings, sizes)
        if isinstance(outcome, PodUpdate):
            updates[position] = outcome
        else:
            candidates.append((position, outcome))
    actions = [
        action
        for update in updates.values()
        for action in update.actions
        if update.decision.kind is DecisionKind.UNBOOST
    ]
    if candidates:
        order = DisruptionOrder(view, now, settings)
        for position, candidate in sorted(candidates, key=lambda entry: entry[1].need.urgency, reverse=True):
            updates[position] = order.decide(candidate)
            actions += updates[position].actions
    warnings = find_warnings(view)
    decisions = tuple(_add_warnings(updates[position].decision, warnings) for position in range(len(view.pods)))
    requeue_times = [decision.requeue_at for decision in decisions if decision.requeue_at is not None]
    return UpdatePlan(tuple(actions), decisions, min(requeue_times) if requeue_times else None)


def _add_warnings(decision: PodDecision, warnings: tuple[Reason, ...]) -> PodDecision:
    return msgspec.structs.replace(decision, warnings=(*decision.warnings, *warnings)) if warnings else decision
