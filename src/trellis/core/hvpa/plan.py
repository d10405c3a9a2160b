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
from trellis.core.hvpa.demand.hpa import HpaTotals, awaits_ready_pods, find_replicas_to_write_back, read_hpa_totals
from trellis.core.hvpa.demand.noise import ToleratedExcess, tolerate_excess
from trellis.core.hvpa.demand.stabilization import StabilizedDemand, stabilize_demand
from trellis.core.hvpa.demand.vpa import NO_TOTALS, VpaTotals, describe_held_totals, read_vpa_totals
from trellis.core.hvpa.drift import ReplicaDrift, RequestDrift, detect_replica_drift, detect_request_drift
from trellis.core.hvpa.ladder import list_limited_resources
from trellis.core.hvpa.next_step import (
    NextStep,
    ShapeTransition,
    choose_step,
    find_current_shape,
    find_desired_shape,
    plan_transition,
    split_among_containers,
)
from trellis.core.hvpa.remembered_state import HvpaDecision, HvpaMemory
from trellis.core.hvpa.steps import (
    MAINTENANCE_WINDOW,
    NO_RECOMMENDATION,
    STABILIZATION_WINDOW,
    HeldStep,
    StepDirection,
    WorkloadShape,
    describe_step,
    find_next_window_change,
    list_step_directions,
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


SCALES_UP = Reason("ScalesUp", "The workload gets more replicas, larger replicas, or both.")
SCALES_DOWN = Reason("ScalesDown", "The workload gets fewer replicas, smaller replicas, or both.")
AS_DECIDED = Reason("AsDecided", "Number and size of the replicas match the demand.")
STEP_BLOCKED = Reason("StepBlocked", "The demand asks for another number or size of replicas, but the step is blocked.")
SCALED_TO_ZERO = Reason(
    "ScaledToZero", "The target was scaled to zero by another client, and stays there until it is scaled up again."
)
LIMITED = Reason("Limited", "The demand exceeds the last bucket.", Severity.WARNING)


class HvpaPlanSummary(msgspec.Struct, frozen=True):
    """The reason of a plan, the steps that are held back, and further notes.

    `note_details` has more on some of the notes, by the code of a reason.
    """

    reason: Reason
    details: str = ""
    blocked: tuple[HeldStep, ...] = ()
    notes: tuple[Reason, ...] = ()
    note_details: Mapping[str, str] = {}


class HvpaPlan(msgspec.Struct, frozen=True):
    """The actions, the size to publish, and the memory of the next plan.

    `shape` is what was decided; `containers` is what the status publishes now, which may be more while replicas are
    added or removed. `totals` are the demand, `hpa` the HPA's total in force and `vpa` that of the VPA.
    """

    actions: tuple[HvpaAction, ...]
    shape: WorkloadShape
    containers: Mapping[str, ResourceAmounts]
    summary: HvpaPlanSummary
    memory: HvpaMemory
    totals: ResourceAmounts = {}
    hpa: ResourceAmounts = {}
    vpa: ResourceAmounts = {}
    requeue_at: float | None = None


class _Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What runs, how other clients changed it, and the demand by both recommenders."""

    existing_shape: WorkloadShape
    drift: ReplicaDrift | None
    request_drift: RequestDrift
    hpa_totals: HpaTotals
    vpa_totals: VpaTotals
    tolerated: ToleratedExcess
    stabilized: StabilizedDemand

    @property
    def tolerated_drift_until(self) -> float | None:
        """Until when a count of another client is left alone; None if none is."""
        return self.drift.until if self.drift is not None else None

    @property
    def awaits_status(self) -> bool:
        """Whether a count that the HPA wrote waits for the HPA's status."""
        return self.hpa_totals.awaiting_status_since is not None


def plan_hvpa(view: HvpaView, now: float, settings: HvpaSettings) -> HvpaPlan:
    """The plan for a workload."""
    if view.conflict is not None:
        return _plan_nothing(view, HvpaPlanSummary(view.conflict, ", ".join(view.conflicting)))
    if view.replicas == 0:
        return _plan_nothing(view, HvpaPlanSummary(SCALED_TO_ZERO))
    demand = _measure_demand(view, now, settings)
    existing_shape, totals = demand.existing_shape, demand.stabilized.totals
    next_step = _choose_next_step(view, demand, now)
    decided, transition = _plan_transition(view, demand, next_step, now, settings)
    spec_replicas = _choose_spec_replicas(view, demand, transition)
    untouched = _is_untouched(view, existing_shape, next_step)
    return HvpaPlan(
        actions=_list_actions(view, transition.count, spec_replicas),
        shape=next_step.shape,
        containers={} if untouched else split_among_containers(transition.size, totals, view.containers),
        summary=_summarize(view, demand, next_step, transition),
        memory=_build_memory(view, demand, decided, transition, spec_replicas=spec_replicas, now=now),
        totals=totals,
        hpa=demand.hpa_totals.totals,
        vpa=demand.vpa_totals.totals,
        requeue_at=_find_requeue_time(view, demand, next_step, transition, now),
    )


def _measure_demand(view: HvpaView, now: float, settings: HvpaSettings) -> _Demand:
    existing_shape = find_current_shape(view)
    hpa_totals, vpa_totals = read_hpa_totals(view, now, settings), read_vpa_totals(view)
    tolerated = tolerate_excess(view, vpa_totals.totals, hpa_totals.means, now, settings)
    return _Demand(
        existing_shape=existing_shape,
        drift=detect_replica_drift(view, now),
        request_drift=detect_request_drift(view, now),
        hpa_totals=hpa_totals,
        vpa_totals=vpa_totals,
        tolerated=tolerated,
        stabilized=stabilize_demand(view, tolerated.totals, hpa_totals, existing_shape.totals, now),
    )


def _choose_next_step(view: HvpaView, demand: _Demand, now: float) -> NextStep:
    existing_shape, totals = demand.existing_shape, demand.stabilized.totals
    if not totals:
        return NextStep(existing_shape, (HeldStep(StepDirection.UP, NO_RECOMMENDATION),))
    if demand.tolerated_drift_until is None:
        return choose_step(view, demand.stabilized, existing_shape, now)
    repaired_shape = find_desired_shape(view, totals, existing_shape)
    step = describe_step(existing_shape, repaired_shape, binary=view.meaning.binary)
    return NextStep(
        existing_shape,
        tuple(
            HeldStep(direction, STABILIZATION_WINDOW, step)
            for direction in list_step_directions(existing_shape, repaired_shape)
        ),
    )


def _plan_transition(
    view: HvpaView, demand: _Demand, next_step: NextStep, now: float, settings: HvpaSettings
) -> tuple[HvpaDecision, ShapeTransition]:
    """The decision to remember, and how far the workload goes towards it now.

    While a count of another client is left alone, the earlier decision stands and nothing changes.
    """
    existing_shape, earlier = demand.existing_shape, view.memory.decided
    if demand.tolerated_drift_until is not None and earlier is not None:
        unchanged = ShapeTransition(existing_shape.count, existing_shape.size, None, demand.tolerated_drift_until)
        return earlier, unchanged
    decided = _build_decision(view, existing_shape, next_step.shape, now, settings)
    return decided, plan_transition(view, decided, demand.stabilized.totals, now, settings)


def _choose_spec_replicas(view: HvpaView, demand: _Demand, transition: ShapeTransition) -> int:
    """What `spec.replicas` is to be. A count that waits for the HPA's status is not overwritten, and read later."""
    if demand.awaits_status and view.spec_replicas is not None:
        return view.spec_replicas
    return find_replicas_to_write_back(view, transition.count)


def _build_memory(
    view: HvpaView,
    demand: _Demand,
    decided: HvpaDecision,
    transition: ShapeTransition,
    *,
    spec_replicas: int,
    now: float,
) -> HvpaMemory:
    """What the next plan remembers. A count of another client that is left alone is not remembered as decided here."""
    memory, hpa_totals = view.memory, demand.hpa_totals
    is_drift_tolerated = demand.tolerated_drift_until is not None
    is_drift_repaired = demand.drift is not None and not is_drift_tolerated
    return HvpaMemory(
        hpa_windows=hpa_totals.windows,
        scale_write=hpa_totals.scale_write,
        vpa_windows=demand.stabilized.vpa_windows,
        scale_up_windows=demand.stabilized.scale_up_windows,
        last_totals=demand.stabilized.totals,
        held_totals=demand.vpa_totals.held,
        decided=decided,
        target_replicas=memory.target_replicas if is_drift_tolerated else transition.count,
        spec_replicas=memory.spec_replicas if demand.awaits_status else spec_replicas,
        hpa_changed_at=_find_hpa_change_time(view, hpa_totals, now),
        scaled_at=now if transition.count != view.replicas else memory.scaled_at,
        drift_repaired_at=now if is_drift_repaired else memory.drift_repaired_at,
        requests_edited_at=demand.request_drift.at,
        target_changed_at=memory.target_changed_at,
        means=hpa_totals.means,
        awaiting_status_since=hpa_totals.awaiting_status_since,
        excess_since=demand.tolerated.since,
    )


def _build_decision(
    view: HvpaView, existing_shape: WorkloadShape, desired: WorkloadShape, now: float, settings: HvpaSettings
) -> HvpaDecision:
    """The decision to remember. A change while pods of the last one start does not extend their time to become Ready.

    A controller without a remembered decision may have restarted after one: pods that are not Ready may come from it.
    """
    previous = view.memory.decided
    if previous is None:
        grows = desired.count > existing_shape.count or not view.all_ready
        return HvpaDecision(desired, existing_shape, now if desired != existing_shape else 0.0, now if grows else None)
    changed = desired != previous.shape
    since = now if changed and not awaits_ready_pods(view, now, settings) else previous.changed_at
    if desired.count == previous.shape.count:
        return HvpaDecision(desired, existing_shape, since, previous.grew_at)
    return HvpaDecision(desired, existing_shape, since, now if desired.count > existing_shape.count else None)


def _is_untouched(view: HvpaView, existing_shape: WorkloadShape, next_step: NextStep) -> bool:
    """Whether no size was ever decided: a step that is held back leaves pods as their template has them."""
    published = any(container.published for container in view.containers)
    return not published and bool(next_step.blocked) and next_step.shape == existing_shape


def _list_actions(view: HvpaView, count: int, spec_replicas: int) -> tuple[HvpaAction, ...]:
    """The target first: if the second write fails, `spec.replicas` is not read again as demand."""
    scale = (SetScale(count),) if count != view.replicas else ()
    write_back = (WriteBack(spec_replicas),) if spec_replicas != view.spec_replicas else ()
    return (*scale, *write_back)


def _summarize(view: HvpaView, demand: _Demand, next_step: NextStep, transition: ShapeTransition) -> HvpaPlanSummary:
    """Build the summary. A held total may differ from the present recommendation, and is then the reason."""
    existing_shape, shape, blocked = demand.existing_shape, next_step.shape, next_step.blocked
    notes, binary = _list_notes(view, demand, transition), view.meaning.binary
    note_details = dict(demand.hpa_totals.note_details)
    if demand.vpa_totals.held:
        note_details[NO_TOTALS.code] = describe_held_totals(view, demand.vpa_totals.held)
    if shape != existing_shape:
        reason = SCALES_UP if StepDirection.UP in list_step_directions(existing_shape, shape) else SCALES_DOWN
        details = describe_step(existing_shape, shape, binary=binary)
    elif blocked:
        reason = NO_RECOMMENDATION if blocked[0].reason is NO_RECOMMENDATION else STEP_BLOCKED
        details = blocked[0].details
    elif NO_TOTALS in notes:
        reason, details = NO_TOTALS, note_details[NO_TOTALS.code]
    else:
        reason, details = AS_DECIDED, shape.describe(binary=binary)
    return HvpaPlanSummary(reason, details, blocked, notes, note_details)


def _list_notes(view: HvpaView, demand: _Demand, transition: ShapeTransition) -> tuple[Reason, ...]:
    notes = (
        *demand.hpa_totals.notes,
        *demand.stabilized.notes,
        demand.drift.reason if demand.drift is not None else None,
        demand.request_drift.reason,
        transition.reason,
        LIMITED if list_limited_resources(view.meaning.ladders, demand.stabilized.totals) else None,
        NO_TOTALS if demand.vpa_totals.held else None,
    )
    return tuple(note for note in notes if note is not None)


def _find_requeue_time(
    view: HvpaView, demand: _Demand, next_step: NextStep, transition: ShapeTransition, now: float
) -> float | None:
    requeue_times = (
        *demand.hpa_totals.requeue_times,
        *demand.tolerated.requeue_times,
        *demand.stabilized.requeue_times,
        transition.requeue_at,
        demand.request_drift.until,
    )
    later = [time for time in requeue_times if time is not None and time > now]
    awaits_window = any(step.reason is MAINTENANCE_WINDOW for step in next_step.blocked)
    if awaits_window and (opens := find_next_window_change(view.meaning.hvpa, now)) is not None:
        later.append(opens)
    return min(later, default=None)


def _find_hpa_change_time(view: HvpaView, hpa_totals: HpaTotals, now: float) -> float | None:
    """Since when the HPA's total is what it is."""
    if not hpa_totals.totals:
        return None
    before = {name: window[0].amount for name, window in view.memory.hpa_windows.items()}
    return view.memory.hpa_changed_at if before == hpa_totals.totals and view.memory.hpa_changed_at is not None else now


def _plan_nothing(view: HvpaView, summary: HvpaPlanSummary) -> HvpaPlan:
    """A plan without actions that keeps the published size.

    Memory starts afresh: the count is that of another client, and earlier demand may be outdated.
    """
    memory, published = (
        view.memory,
        {container.name: container.published for container in view.containers if container.published},
    )
    restarted_memory = HvpaMemory(
        held_totals=memory.held_totals, scaled_at=memory.scaled_at, target_changed_at=memory.target_changed_at
    )
    return HvpaPlan((), find_current_shape(view), published, summary, restarted_memory)
