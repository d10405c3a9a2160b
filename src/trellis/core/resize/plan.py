"""What is to be done to the pods of one workload now?

The one decision of the updater: a frozen view in, actions out, with exactly one verdict for each pod and the time of
the next look. Boosts are ended first, whatever budgets say. Then those that need a change have their turn, the most
urgent first, until the budgets are used up.
"""

from __future__ import annotations

import msgspec

from trellis.base.reason import Reason
from trellis.core.resize.actions import Action
from trellis.core.resize.alike import Sizes
from trellis.core.resize.candidates import Candidate, consider, warnings_of
from trellis.core.resize.inplace import Way
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.turns import Turns
from trellis.core.resize.verdicts import Step, Verdict
from trellis.core.resize.views import WorkloadView


class Plan(msgspec.Struct, frozen=True):
    """What is done, what is said about each pod in the order of the view, and when to look again."""

    actions: tuple[Action, ...]
    verdicts: tuple[Verdict, ...]
    next_look: float | None = None


def plan(view: WorkloadView, now: float, settings: UpdateSettings) -> Plan:
    """The plan for a workload."""
    steps: dict[int, Step] = {}
    waiting: list[tuple[int, Candidate]] = []
    sizes = Sizes(view.governor, view.limits)
    for place, pod in enumerate(view.pods):
        found = consider(view, pod, now, settings, sizes)
        if isinstance(found, Step):
            steps[place] = found
        else:
            waiting.append((place, found))
    actions = [action for step in steps.values() for action in step.actions if step.verdict.way is Way.UNBOOST]
    if waiting:
        turns = Turns(view, now, settings)
        for place, candidate in sorted(waiting, key=lambda each: each[1].need.urgency, reverse=True):
            steps[place] = turns.take(candidate)
            actions += steps[place].actions
    warnings = warnings_of(view)
    verdicts = tuple(_warned(steps[place].verdict, warnings) for place in range(len(view.pods)))
    looks = [verdict.look for verdict in verdicts if verdict.look is not None]
    return Plan(tuple(actions), verdicts, min(looks) if looks else None)


def _warned(verdict: Verdict, warnings: tuple[Reason, ...]) -> Verdict:
    return msgspec.structs.replace(verdict, warnings=(*verdict.warnings, *warnings)) if warnings else verdict
