"""The part about an Hvpa: the count and the size that its plan decides, and what holds steps back.

It tells which edges of the buckets decide the count of the workload, and at which totals the count would be another.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from trellis.api.kinds.hvpa import HvpaStatus
from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.meta import ObjectMeta
from trellis.api.registry import HVPA
from trellis.api.resolve import DEFAULT_RECOMMENDER, resolve_vpa
from trellis.core.explain.component_decisions.evidence import Evidence
from trellis.core.explain.component_decisions.hvpa_plans import HvpaEvidence
from trellis.core.explain.context import format_metric
from trellis.core.explain.explanation.hvpa import (
    CountCapacityPart,
    CountChangePart,
    DemandPart,
    HeldStepPart,
    HpaSourcePart,
    HvpaContainerPart,
    HvpaPart,
    ScaleRequestPart,
    VpaSourcePart,
)
from trellis.core.explain.explanation.values import format_timestamp, format_total, format_totals
from trellis.core.hvpa import HvpaPlan, HvpaView, ResolvedHvpa
from trellis.core.hvpa.autoscalers import find_hpa, find_vpa, is_owned_by
from trellis.core.hvpa.demand.hpa import HPA_DEMAND_NOT_READ
from trellis.core.hvpa.demand.scale import SCALE_REQUESTED
from trellis.core.hvpa.demand.stabilization import find_stabilization_end
from trellis.core.hvpa.demand.vpa import VpaTotals, read_vpa_totals
from trellis.core.hvpa.ladder import (
    Ladder,
    Ladders,
    find_desired_count,
    find_lower_edges,
    find_next_count,
    list_limited_resources,
)
from trellis.core.hvpa.next_step import find_current_shape, size_replica
from trellis.core.hvpa.steps import (
    MAINTENANCE_WINDOW,
    STABILIZATION_WINDOW,
    HeldStep,
    find_next_window_change,
)
from trellis.core.hvpa.view import sum_containers

# For each resource; of more counts than these, the nearest to the relevant ones are listed.
_MOST_COUNTS: Final = 32


def build_demand_parts(view: HvpaView, plan: HvpaPlan, *, binary: bool) -> Iterator[DemandPart]:
    """Each resource of which a total is known."""
    ladders, meaning = view.meaning.ladders, view.meaning.hvpa
    ways = {"cpu": meaning.cpu, "memory": meaning.memory}
    current, targets, over = (
        find_current_shape(view).totals,
        sum_containers(view.containers, "target"),
        list_limited_resources(ladders, plan.totals),
    )
    count = plan.shape.count
    floors = floor_lower_edges(ladders, count, meaning.down.overlap_percent)
    sized: Mapping[str, int] = {}
    if ladders.is_configured(count):
        sized = size_replica(view.meaning, plan.totals, targets, count=count, present=plan.shape.size)
    for name, total in plan.totals.items():
        ladder = ladders.by_resource[name]
        alone = find_desired_count(ladders, {name: total})
        below = ladders.find_lower_count(alone)
        texts = {
            "above": ladder.capacity_at(below) if below is not None else None,
            "kept_above": floors.get(name),
            "share": -(-total // count),
            "target": targets.get(name),
            "size": plan.shape.size.get(name),
            **_bounds(ladders, ladder, count),
        }
        demand, by = _demand_and_sources(plan, name)
        yield DemandPart(
            resource=name,
            by=by,
            requested=format_total(name, demand, binary=binary),
            total=format_total(name, total, binary=binary),
            has=format_total(name, current.get(name, 0), binary=binary),
            count=alone,
            up_to=format_total(name, ladder.capacity_at(alone), binary=binary),
            keeps=name in floors and total > floors[name],
            limited=name in over,
            held=sized.get(name) != plan.shape.size.get(name),
            sizing=ways[name].value,
            **{
                field: format_total(name, amount, binary=binary)
                for field, amount in texts.items()
                if amount is not None
            },
        )


def floor_lower_edges(ladders: Ladders, count: int, overlap_percent: int) -> Mapping[str, int]:
    """The lower edges of a count in whole units: a total is whole, and above both or neither."""
    return {name: math.floor(edge) for name, edge in find_lower_edges(ladders, count, overlap_percent).items()}


def build_count_change_parts(view: HvpaView, plan: HvpaPlan, *, binary: bool) -> Iterator[CountChangePart]:
    """The next counts, up and down from the decided one. A step that is only blocked is no change."""
    ladders, count, totals = view.meaning.ladders, plan.shape.count, plan.totals
    if not totals or not ladders.is_configured(count):
        return
    above: dict[int, dict[str, int]] = {}
    for name, total in totals.items():
        ladder = ladders.by_resource[name]
        edge = ladder.capacity_at(count)
        if find_desired_count(ladders, totals) <= count < ladders.highest_count and total <= edge:
            above.setdefault(ladder.find_count(edge + 1), {})[name] = edge
    for higher_count, edges in sorted(above.items()):
        yield CountChangePart(higher_count, upwards=True, totals=format_totals(edges, binary=binary))
    overlap = view.meaning.hvpa.down.overlap_percent
    floors = {name: edge for name, edge in floor_lower_edges(ladders, count, overlap).items() if name in totals}
    if floors and any(totals[name] > edge for name, edge in floors.items()):
        lower_count = find_next_count(ladders, floors, count, overlap)
        yield CountChangePart(lower_count, upwards=False, totals=format_totals(floors, binary=binary))


def build_count_capacity_parts(
    view: HvpaView, plan: HvpaPlan, *, binary: bool
) -> Mapping[str, tuple[CountCapacityPart, ...]]:
    """What the counts hold, by resource."""
    ladders = view.meaning.ladders
    needed = find_desired_count(ladders, plan.totals) if plan.totals else plan.shape.count
    counts = _select_nearest_counts(ladders, {view.replicas, plan.shape.count, needed})
    return {
        name: tuple(
            CountCapacityPart(
                count,
                format_total(name, ladder.maximum_at(count), binary=binary),
                format_total(name, ladder.capacity_at(count), binary=binary),
            )
            for count in counts
        )
        for name, ladder in ladders.by_resource.items()
    }


def _demand_and_sources(plan: HvpaPlan, resource: str) -> tuple[int, tuple[str, ...]]:
    """The higher total of the sources, and its sources; without any, the total of the plan is an earlier one."""
    totals_by_source = {"hpa": plan.hpa.get(resource), "vpa": plan.vpa.get(resource)}
    reported = {source: total for source, total in totals_by_source.items() if total is not None}
    most = max(reported.values(), default=plan.totals[resource])
    return most, tuple(source for source, total in reported.items() if total == most)


def _bounds(ladders: Ladders, ladder: Ladder, count: int) -> dict[str, int]:
    """What a replica may have at a count that is configured."""
    if not ladders.is_configured(count):
        return {}
    return {"least": ladder.minimum_at(count), "most": ladder.maximum_at(count)}


def _select_nearest_counts(ladders: Ladders, centers: set[int]) -> list[int]:
    """Configured counts, ascending, as near as possible to those that matter: a bucket may have millions."""
    candidates = {
        count
        for center in centers
        for first, last in ladders.ranges
        for count in range(max(first, center - _MOST_COUNTS), min(last, center + _MOST_COUNTS) + 1)
    }
    nearest = sorted(candidates, key=lambda count: (min(abs(count - center) for center in centers), count))
    return sorted(nearest[:_MOST_COUNTS])


# A plan without remembered state has this note for every request.
_FIRST_PLAN_NOTES: Final = (HPA_DEMAND_NOT_READ,)


def build_hvpa_part(evidence: Evidence, hvpa_evidence: HvpaEvidence) -> HvpaPart:
    """The part of an explanation about an Hvpa."""
    hvpa, view, plan, meaning = hvpa_evidence.hvpa, hvpa_evidence.view, hvpa_evidence.plan, hvpa_evidence.meaning
    status = hvpa.status or HvpaStatus()
    part = HvpaPart(
        name=hvpa.metadata.name,
        target=f"{hvpa_evidence.target.kind} {hvpa_evidence.target.name}",
        wish=hvpa.spec.replicas,
        problem=hvpa_evidence.problem,
        problem_details=hvpa_evidence.details,
        conditions=tuple(_conditions(status)),
        stored_blocked=tuple(msgspec.to_builtins(step) for step in status.blocked or ()),
    )
    if view is None or plan is None or meaning is None:
        return part
    binary = meaning.binary
    return msgspec.structs.replace(
        part,
        replicas=view.replicas,
        pods=view.pods,
        ready=view.ready,
        yields=view.conflict,
        rivals=view.conflicting,
        hpa=_build_hpa_part(hvpa_evidence, view, plan, binary=binary),
        vpa=_build_vpa_part(hvpa_evidence, view, binary=binary),
        scale_request=_build_scale_request_part(hvpa_evidence, view, plan, binary=binary),
        verdict=plan.summary.reason,
        details=plan.summary.details,
        count=plan.shape.count,
        size=format_totals(plan.shape.size, binary=binary),
        notes=tuple(note for note in plan.summary.notes if note not in _FIRST_PLAN_NOTES),
        blocked=tuple(_build_held_step_part(step, meaning, plan, evidence.now) for step in plan.summary.blocked),
        demands=tuple(build_demand_parts(view, plan, binary=binary)),
        containers=tuple(_build_container_parts(view, plan, binary=binary)),
        count_changes=tuple(build_count_change_parts(view, plan, binary=binary)),
        capacities=build_count_capacity_parts(view, plan, binary=binary),
        binary=binary,
        overlap_percent=meaning.hvpa.down.overlap_percent,
        min_change_percent=meaning.hvpa.down.min_change_percent,
        next_check=format_timestamp(plan.requeue_at),
    )


def _build_hpa_part(
    hvpa_evidence: HvpaEvidence, view: HvpaView, plan: HvpaPlan, *, binary: bool
) -> HpaSourcePart | None:
    hpa, status = find_hpa(hvpa_evidence.hvpa, hvpa_evidence.related.hpas), hvpa_evidence.hvpa.status
    if hpa is None or view.hpa is None:
        return None
    demand = status.hpa if status is not None else None
    return HpaSourcePart(
        name=hpa.metadata.name,
        owned=is_owned_by(hpa.metadata, hvpa_evidence.hvpa),
        owner=_owner(hpa.metadata),
        totals=format_totals(plan.hpa, binary=binary),
        since=(demand.time or "") if demand is not None else "",
        ratio=float(view.hpa.ratio) if view.hpa.ratio is not None else None,
        resources=tuple(sorted(view.hpa.resources)),
        metrics=tuple(format_metric(metric) for metric in hpa.spec.metrics),
        min_replicas=view.hpa.min_replicas,
        max_replicas=view.hpa.max_replicas,
    )


def _owner(metadata: ObjectMeta) -> str:
    """The Hvpa that an object belongs to."""
    controller = metadata.controller
    return controller.name if controller is not None and controller.kind == HVPA.name else ""


def _build_vpa_part(hvpa_evidence: HvpaEvidence, view: HvpaView, *, binary: bool) -> VpaSourcePart | None:
    vpa = find_vpa(hvpa_evidence.hvpa, hvpa_evidence.related.vpas)
    if vpa is None:
        return None
    vpa_totals = read_vpa_totals(view)
    return VpaSourcePart(
        name=vpa.metadata.name,
        owned=is_owned_by(vpa.metadata, hvpa_evidence.hvpa),
        owner=_owner(vpa.metadata),
        totals=format_totals(vpa_totals.totals, binary=binary),
        target=format_totals(sum_containers(view.containers, "target"), binary=binary),
        held=tuple(vpa_totals.held),
        scaled_by=_find_scaling_recommender(vpa, view, vpa_totals),
    )


def _find_scaling_recommender(vpa: VerticalPodAutoscaler, view: HvpaView, vpa_totals: VpaTotals) -> str:
    """The recommender whose target scales the totals in the Hvpa's status; none if it is ours."""
    recommender = resolve_vpa(vpa).recommender
    published = view.published_totals.keys() & vpa_totals.totals.keys() - vpa_totals.held.keys()
    by_vpa = any(container.total_target for container in view.containers)
    return recommender if published and not by_vpa and recommender != DEFAULT_RECOMMENDER else ""


def _build_scale_request_part(
    hvpa_evidence: HvpaEvidence, view: HvpaView, plan: HvpaPlan, *, binary: bool
) -> ScaleRequestPart | None:
    """The request on the scale subresource, from the status: only the controller knows its author."""
    status = hvpa_evidence.hvpa.status or HvpaStatus()
    if view.hpa is not None or not plan.hpa:
        return None
    since = (status.hpa.time or "") if status.hpa is not None else ""
    message = next(
        (condition.message for condition in status.conditions or () if condition.type == SCALE_REQUESTED.code), ""
    )
    return ScaleRequestPart(format_totals(plan.hpa, binary=binary), since, message)


def _build_held_step_part(blocked: HeldStep, meaning: ResolvedHvpa, plan: HvpaPlan, now: float) -> HeldStepPart:
    """A step that is not taken; the windows that it waits for are those that the plan remembers."""
    until: float | None = None
    if blocked.reason is MAINTENANCE_WINDOW:
        until = find_next_window_change(meaning.hvpa, now)
    elif blocked.reason is STABILIZATION_WINDOW:
        until = find_stabilization_end(meaning.hvpa, plan.memory, blocked.direction, now)
    return HeldStepPart(blocked.direction.value, blocked.reason, blocked.details, format_timestamp(until))


def _build_container_parts(view: HvpaView, plan: HvpaPlan, *, binary: bool) -> Iterator[HvpaContainerPart]:
    for container in view.containers:
        yield HvpaContainerPart(
            container.name,
            container.scaled,
            format_totals(container.requests, binary=binary),
            format_totals(container.target, binary=binary),
            format_totals(container.published, binary=binary),
            format_totals(plan.containers.get(container.name, {}), binary=binary),
        )


def _conditions(status: HvpaStatus) -> Iterator[dict[str, Any]]:
    for condition in status.conditions or ():
        yield {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
        }
