"""Plans one pass of an Hvpa: how many replicas its workload has, and how big each of them is.

The one decision of an Hvpa. A frozen view goes in; actions and a size come out, with one reason, the steps that are
held back, what to remember and the time of the next pass. Totals come from both recommenders, are stabilized, and pick
the count; the count picks the size. What the directions of the Hvpa allow of that is done in a safe order. Actions are
data; the decided size is published in the status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from trellis.base.reasons import Reason, Severity
from trellis.core.hvpa.demand.hpa import HpaTotals, awaits_ready_pods, read_hpa_totals, replicas_to_write_back
from trellis.core.hvpa.demand.noise import tolerate_excess
from trellis.core.hvpa.demand.stabilization import StabilizedDemand, stabilize_demand
from trellis.core.hvpa.demand.vpa import NO_TOTALS, describe_held_totals, read_vpa_totals
from trellis.core.hvpa.drift import ReplicaDrift, detect_replica_drift, detect_request_drift
from trellis.core.hvpa.ladder import limited_resources
from trellis.core.hvpa.memory import HvpaDecision, HvpaMemory
from trellis.core.hvpa.next_step import (
    NextStep,
    ShapeTransition,
    choose_step,
    current_shape,
    desired_shape,
    plan_transition,
    split_among_containers,
)
from trellis.core.hvpa.steps import (
    MAINTENANCE_WINDOW,
    NO_RECOMMENDATION,
    STABILIZATION_WINDOW,
    HeldStep,
    StepDirection,
    WorkloadShape,
    describe_step,
    next_window_change,
    step_directions,
)
from trellis.core.hvpa.view import HvpaSettings, HvpaView
from trellis.core.recommend.amounts import ResourceAmounts


class SetScale(msgspec.Struct, frozen=True):
    """Write this count to the target's `/scale`."""

    replicas: int


class WriteBack(msgspec.Struct, frozen=True):
    """Write this count to the Hvpa's own `spec.replicas`, where an HPA takes it for what runs."""

    replicas: int


HvpaAction: TypeAlias = SetScale | WriteBack


SCALES_UP = Reason("ScalesUp", "The workload gets more, in replicas, in size or in both.")
SCALES_DOWN = Reason("ScalesDown", "The workload gets less, in replicas, in size or in both.")
AS_DECIDED = Reason("AsDecided", "Count and size are what the demand asks for.")
STEP_BLOCKED = Reason("StepBlocked", "Count or size would be others, but something holds the step back.")
SCALED_TO_ZERO = Reason(
    "ScaledToZero", "Somebody scaled the target to zero; it stays there until it is scaled up again."
)
LIMITED = Reason("Limited", "More is needed than the last bucket allows.", Severity.WARNING)


class HvpaPlanSummary(msgspec.Struct, frozen=True):
    """What is said about one plan: why it is what it is, what is held back, and what else a person should know.

    `about` has more on some of the notes, by the code of a reason.
    """

    reason: Reason
    details: str = ""
    blocked: tuple[HeldStep, ...] = ()
    notes: tuple[Reason, ...] = ()
    about: Mapping[str, str] = {}


class HvpaPlan(msgspec.Struct, frozen=True):
    """What is done, and all that follows from it.

    `shape` is what was decided; `containers` is what the status publishes now, which may be more while replicas come or
    go. `totals` are what it was decided by, `hpa` the HPA's total in force and `vpa` what the VPA says.
    """

    actions: tuple[HvpaAction, ...]
    shape: WorkloadShape
    containers: Mapping[str, ResourceAmounts]
    verdict: HvpaPlanSummary
    memory: HvpaMemory
    totals: ResourceAmounts = {}
    hpa: ResourceAmounts = {}
    vpa: ResourceAmounts = {}
    next_look: float | None = None


def plan_hvpa(view: HvpaView, now: float, settings: HvpaSettings) -> HvpaPlan:
    """The plan for a workload."""
    if view.yields is not None:
        return _plan_nothing(view, HvpaPlanSummary(view.yields, ", ".join(view.rivals)))
    if view.replicas == 0:
        return _plan_nothing(view, HvpaPlanSummary(SCALED_TO_ZERO))
    stands, drift, sizes = current_shape(view), detect_replica_drift(view, now), detect_request_drift(view, now)
    by_hpa, by_vpa = read_hpa_totals(view, now, settings), read_vpa_totals(view)
    follows = tolerate_excess(view, by_vpa.totals, by_hpa.measured, now, settings)
    demand = stabilize_demand(view, follows.totals, by_hpa, stands.totals, now)
    choice = _choice(view, demand, stands, drift, now)
    decided = _decided(view, stands, choice.shape, now, settings)
    if drift is not None and drift.until is not None and view.memory.decided is not None:
        decided, transition = view.memory.decided, ShapeTransition(stands.count, stands.size, None, drift.until)
    else:
        transition = plan_transition(view, decided, demand.totals, now, settings)
    # A wish that waits for the HPA's status is left standing, and read then.
    waits = by_hpa.awaited is not None
    left = view.wish if waits and view.wish is not None else replicas_to_write_back(view, transition.count)
    notes = [*by_hpa.notes, *demand.notes, drift.reason if drift is not None else None, sizes.reason, transition.reason]
    if limited_resources(view.meaning.ladders, demand.totals):
        notes.append(LIMITED)
    about = dict(by_hpa.about)
    if by_vpa.held:
        notes.append(NO_TOTALS)
        about[NO_TOTALS.code] = describe_held_totals(view, by_vpa.held)
    return HvpaPlan(
        actions=_actions(view, transition.count, left),
        shape=choice.shape,
        containers={}
        if _untouched(view, stands, choice)
        else split_among_containers(transition.size, demand.totals, view.containers),
        verdict=_summarize(view, stands, choice, tuple(note for note in notes if note is not None), about),
        memory=HvpaMemory(
            hpa=by_hpa.windows,
            wish=by_hpa.wish,
            vpa=demand.vpa,
            low=demand.low,
            settled=demand.totals,
            held=by_vpa.held,
            decided=decided,
            # A count of another client that is left alone is not remembered as decided here.
            count=view.memory.count if drift is not None and drift.until is not None else transition.count,
            left=view.memory.left if waits else left,
            told=_hpa_demand_since(view, by_hpa, now),
            scaled=now if transition.count != view.replicas else view.memory.scaled,
            repaired=now if drift is not None and drift.until is None else view.memory.repaired,
            edited=sizes.at,
            anew=view.memory.anew,
            measured=by_hpa.measured,
            awaited=by_hpa.awaited,
            excess=follows.since,
        ),
        totals=demand.totals,
        hpa=by_hpa.totals,
        vpa=by_vpa.totals,
        next_look=_next_pass(
            view, choice, (*by_hpa.looks, *follows.looks, *demand.looks, transition.look, sizes.until), now
        ),
    )


def _choice(
    view: HvpaView, demand: StabilizedDemand, stands: WorkloadShape, drift: ReplicaDrift | None, now: float
) -> NextStep:
    if not demand.totals:
        return NextStep(stands, (HeldStep(StepDirection.UP, NO_RECOMMENDATION),))
    if drift is None or drift.until is None:
        return choose_step(view, demand, stands, now)
    back = desired_shape(view, demand.totals, stands)
    step = describe_step(stands, back, binary=view.meaning.binary)
    return NextStep(stands, tuple(HeldStep(way, STABILIZATION_WINDOW, step) for way in step_directions(stands, back)))


def _decided(
    view: HvpaView, stands: WorkloadShape, desired: WorkloadShape, now: float, settings: HvpaSettings
) -> HvpaDecision:
    """What to remember of it. A change while pods of the last one come up has no new patience.

    A controller without a remembered decision may have restarted after one: pods that are not Ready may come from it.
    """
    before = view.memory.decided
    if before is None:
        grows = desired.count > stands.count or not view.all_ready
        return HvpaDecision(desired, stands, now if desired != stands else 0.0, now if grows else None)
    changed = desired != before.shape
    since = now if changed and not awaits_ready_pods(view, now, settings) else before.since
    if desired.count == before.shape.count:
        return HvpaDecision(desired, stands, since, before.grew)
    return HvpaDecision(desired, stands, since, now if desired.count > stands.count else None)


def _untouched(view: HvpaView, stands: WorkloadShape, choice: NextStep) -> bool:
    """Whether no size was ever decided: what was only held back leaves pods as their template has them."""
    published = any(container.published for container in view.containers)
    return not published and bool(choice.blocked) and choice.shape == stands


def _actions(view: HvpaView, count: int, left: int) -> tuple[HvpaAction, ...]:
    """The target first: if nothing follows, the wish is not read a second time for what has been done."""
    scale = (SetScale(count),) if count != view.replicas else ()
    back = (WriteBack(left),) if left != view.wish else ()
    return (*scale, *back)


def _summarize(
    view: HvpaView, stands: WorkloadShape, choice: NextStep, notes: tuple[Reason, ...], about: Mapping[str, str]
) -> HvpaPlanSummary:
    """A total that is held may be far from what the VPA recommends by now, so that nothing is as decided."""
    shape, blocked, binary = choice.shape, choice.blocked, view.meaning.binary
    if shape != stands:
        reason = SCALES_UP if StepDirection.UP in step_directions(stands, shape) else SCALES_DOWN
        return HvpaPlanSummary(reason, describe_step(stands, shape, binary=binary), blocked, notes, about)
    if not blocked and NO_TOTALS in notes:
        return HvpaPlanSummary(NO_TOTALS, about[NO_TOTALS.code], (), notes, about)
    if not blocked:
        return HvpaPlanSummary(AS_DECIDED, shape.describe(binary=binary), (), notes, about)
    nothing = blocked[0].reason is NO_RECOMMENDATION
    return HvpaPlanSummary(NO_RECOMMENDATION if nothing else STEP_BLOCKED, blocked[0].details, blocked, notes, about)


def _next_pass(view: HvpaView, choice: NextStep, looks: tuple[float | None, ...], now: float) -> float | None:
    later = [at for at in looks if at is not None and at > now]
    waits = any(step.reason is MAINTENANCE_WINDOW for step in choice.blocked)
    if waits and (opens := next_window_change(view.meaning.hvpa, now)) is not None:
        later.append(opens)
    return min(later, default=None)


def _hpa_demand_since(view: HvpaView, by_hpa: HpaTotals, now: float) -> float | None:
    """Since when the HPA's total is what it is."""
    if not by_hpa.totals:
        return None
    before = {name: window[0].amount for name, window in view.memory.hpa.items()}
    return view.memory.told if before == by_hpa.totals and view.memory.told is not None else now


def _plan_nothing(view: HvpaView, summary: HvpaPlanSummary) -> HvpaPlan:
    """Nothing is done, and what was published stays.

    When the target is its own again, that is a beginning: the count is that of another client, and what was asked for
    before may be of long ago.
    """
    memory, published = (
        view.memory,
        {container.name: container.published for container in view.containers if container.published},
    )
    beginning = HvpaMemory(held=memory.held, scaled=memory.scaled, anew=memory.anew)
    return HvpaPlan((), current_shape(view), published, summary, beginning)
