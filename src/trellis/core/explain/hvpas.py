"""Why has a workload this count and this size? What its Hvpa goes by, as the plan has it, and what holds back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from trellis.api.hvpa import HvpaStatus
from trellis.api.kinds import HVPA
from trellis.api.kube.meta import ObjectMeta
from trellis.api.resolve import DEFAULT_RECOMMENDER, resolve_vpa
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.core.explain.evidence import Evidence
from trellis.core.explain.hvpa_counts import demands_of, rungs_of, turns_of
from trellis.core.explain.hvpa_parts import Held, HpaSource, HvpaPart, Portion, VpaSource, WishSource
from trellis.core.explain.says import metric_text
from trellis.core.explain.scaling import Scaled
from trellis.core.explain.wording import sums_text, time_text
from trellis.core.hvpa import Meaning, Plan, View
from trellis.core.hvpa.scale_wishes import SCALE_WISH
from trellis.core.hvpa.steps import MAINTENANCE_WINDOW, STABILIZATION_WINDOW, Blocked, Direction, opens_at
from trellis.core.hvpa.surroundings import hpa_of, is_owned, vpa_of
from trellis.core.hvpa.views import summed
from trellis.core.hvpa.vpa_totals import VpaTotals, vpa_totals
from trellis.core.hvpa.windows import changes_at
from trellis.core.hvpa.wishes import WISH_UNREAD

# Said of every wish by a plan that remembers nothing.
_OF_A_FIRST_LOOK: Final = (WISH_UNREAD,)


def hvpa_part(evidence: Evidence, scaled: Scaled) -> HvpaPart:
    """What is said of an Hvpa."""
    hvpa, view, made, meaning = scaled.hvpa, scaled.view, scaled.plan, scaled.meaning
    status = hvpa.status or HvpaStatus()
    part = HvpaPart(
        name=hvpa.metadata.name,
        target=f"{scaled.target.kind} {scaled.target.name}",
        wish=hvpa.spec.replicas,
        problem=scaled.problem,
        problem_details=scaled.details,
        conditions=tuple(_conditions(status)),
        stored_blocked=tuple(msgspec.to_builtins(each) for each in status.blocked or ()),
    )
    if view is None or made is None or meaning is None:
        return part
    binary = meaning.binary
    return msgspec.structs.replace(
        part,
        replicas=view.replicas,
        pods=view.pods,
        ready=view.ready,
        yields=view.yields,
        rivals=view.rivals,
        hpa=_hpa(scaled, view, made, binary=binary),
        vpa=_vpa(scaled, view, binary=binary),
        wished=_wished(scaled, view, made, binary=binary),
        verdict=made.verdict.reason,
        details=made.verdict.details,
        count=made.shape.count,
        size=sums_text(made.shape.size, binary=binary),
        notes=tuple(each for each in made.verdict.notes if each not in _OF_A_FIRST_LOOK),
        blocked=tuple(_held(each, meaning, made, evidence.now) for each in made.verdict.blocked),
        demands=tuple(demands_of(view, made, binary=binary)),
        containers=tuple(_portions(view, made, binary=binary)),
        turns=tuple(turns_of(view, made, binary=binary)),
        rungs=rungs_of(view, made, binary=binary),
        binary=binary,
        overlap_percent=meaning.hvpa.down.overlap_percent,
        min_change_percent=meaning.hvpa.down.min_change_percent,
        next_look=time_text(made.next_look),
    )


def _hpa(scaled: Scaled, view: View, made: Plan, *, binary: bool) -> HpaSource | None:
    hpa, status = hpa_of(scaled.hvpa, scaled.around.hpas), scaled.hvpa.status
    if hpa is None or view.hpa is None:
        return None
    demand = status.hpa if status is not None else None
    return HpaSource(
        name=hpa.metadata.name,
        owned=is_owned(hpa.metadata, scaled.hvpa),
        owner=_owner(hpa.metadata),
        totals=sums_text(made.hpa, binary=binary),
        since=(demand.time or "") if demand is not None else "",
        ratio=float(view.hpa.ratio) if view.hpa.ratio is not None else None,
        resources=tuple(sorted(view.hpa.resources)),
        metrics=tuple(metric_text(each) for each in hpa.spec.metrics),
        min_replicas=view.hpa.min_replicas,
        max_replicas=view.hpa.max_replicas,
    )


def _owner(metadata: ObjectMeta) -> str:
    """The Hvpa that an object belongs to."""
    controller = metadata.controller
    return controller.name if controller is not None and controller.kind == HVPA.name else ""


def _vpa(scaled: Scaled, view: View, *, binary: bool) -> VpaSource | None:
    vpa = vpa_of(scaled.hvpa, scaled.around.vpas)
    if vpa is None:
        return None
    found = vpa_totals(view)
    return VpaSource(
        name=vpa.metadata.name,
        owned=is_owned(vpa.metadata, scaled.hvpa),
        owner=_owner(vpa.metadata),
        totals=sums_text(found.totals, binary=binary),
        target=sums_text(summed(view.containers, "target"), binary=binary),
        held=tuple(found.held),
        scaled_by=_scaled_by(vpa, view, found),
    )


def _scaled_by(vpa: VerticalPodAutoscaler, view: View, found: VpaTotals) -> str:
    """The recommender whose judgement of a pod the totals in the Hvpa's status are scaled by; none if it is ours."""
    recommender = resolve_vpa(vpa).recommender
    published = view.totals.keys() & found.totals.keys() - found.held.keys()
    by_vpa = any(each.total for each in view.containers)
    return recommender if published and not by_vpa and recommender != DEFAULT_RECOMMENDER else ""


def _wished(scaled: Scaled, view: View, made: Plan, *, binary: bool) -> WishSource | None:
    """What was written to the scale, as the status has it: who wrote it is known to the controller alone."""
    status = scaled.hvpa.status or HvpaStatus()
    if view.hpa is not None or not made.hpa:
        return None
    since = (status.hpa.time or "") if status.hpa is not None else ""
    said = next((each.message for each in status.conditions or () if each.type == SCALE_WISH.code), "")
    return WishSource(sums_text(made.hpa, binary=binary), since, said)


def _held(blocked: Blocked, meaning: Meaning, made: Plan, now: float) -> Held:
    """A step that is not taken; the windows that it waits for are those that the plan remembers."""
    until: float | None = None
    if blocked.reason is MAINTENANCE_WINDOW:
        until = opens_at(meaning.hvpa, now)
    elif blocked.reason is STABILIZATION_WINDOW:
        memory, hvpa = made.memory, meaning.hvpa
        windows = [*memory.vpa.values(), *memory.hpa.values()]
        policy = hvpa.down
        if blocked.direction is Direction.UP:
            windows, policy = list(memory.low.values()), hvpa.up
        moments = [changes_at(each, policy.stabilization.total_seconds(), now) for each in windows]
        until = max((each for each in moments if each is not None), default=None)
    return Held(blocked.direction.value, blocked.reason, blocked.details, time_text(until))


def _portions(view: View, made: Plan, *, binary: bool) -> Iterator[Portion]:
    for each in view.containers:
        yield Portion(
            each.name,
            each.scaled,
            sums_text(each.requests, binary=binary),
            sums_text(each.target, binary=binary),
            sums_text(each.published, binary=binary),
            sums_text(made.containers.get(each.name, {}), binary=binary),
        )


def _conditions(status: HvpaStatus) -> Iterator[dict[str, Any]]:
    for each in status.conditions or ():
        yield {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
