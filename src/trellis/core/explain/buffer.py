"""Explains a Buffer: how many chunks (virtual pods) it stands for and why, their shape, schedule, headroom and cost.

All of it is as the Buffer controller translates the Buffer; a chunk is shown as the translation publishes it, beside
the pod or template that it is shaped like.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from trellis.api.kinds.buffer import BufferStatus
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.pods import PodSpec
from trellis.api.registry import BUFFER, CHECKPOINT
from trellis.api.resolve import EffectiveBuffer, FixedPods, FixedReplicas, NodeClassTotals, PercentOfReplicas
from trellis.base.errors import InvalidInput
from trellis.base.prices import EXAMPLE_PRICES, Prices
from trellis.base.quantities import Quantity
from trellis.base.reasons import Reason
from trellis.core.buffers import (
    DetailedReason,
    TargetFacts,
    Translation,
    build_status,
    find_class_labels,
    is_status_current,
)
from trellis.core.buffers.quotas import ClaimKey, buffer_seniority
from trellis.core.buffers.shapes import (
    SHAPE_GIVEN,
    SHAPE_OF_CLASS,
    SHAPED_LIKE_BEFORE,
    SHAPED_LIKE_POD,
    SHAPED_LIKE_TEMPLATE,
)
from trellis.core.cluster.json_patches import format_resource_amount
from trellis.core.cluster.store import key_of
from trellis.core.cluster.target_problems import TargetProblem
from trellis.core.explain.buffer_headroom import BufferHeadroom
from trellis.core.explain.buffer_translation import (
    BufferEvidence,
    find_buffer_target,
    read_creation_time,
    translate_buffers,
)
from trellis.core.explain.component_decisions.evidence import Evidence, build_unknown_object_error
from trellis.core.explain.component_decisions.node_plans import NodeEvidence
from trellis.core.explain.context import find_events, find_influences
from trellis.core.explain.explanation.buffer import (
    BufferPart,
    CapacityPart,
    ChunkContainerPart,
    ChunkPart,
    CostPart,
    SchedulePart,
)
from trellis.core.explain.explanation.document import InfluencePart, MissingEvidencePart, ObjectExplanation
from trellis.core.explain.explanation.values import QuantityTexts, ReasonPart, format_amounts, format_timestamp
from trellis.core.explain.missing_evidence import (
    CAPACITY_NOT_OBSERVED,
    FLAG_UNREADABLE,
    FLAGS_NOT_OBSERVED,
    TARGET_KINDS_NOT_OBSERVED,
    TEMPLATE_NOT_OBSERVED,
    find_missing_objects,
    find_missing_placement_evidence,
    is_partial,
)
from trellis.core.explain.placement import explain_buffer_placement
from trellis.core.fit import Demand
from trellis.core.fit.resources import PODS

_CONTAINERS: Final = ("containers", "initContainers")


def build_chunk_part(buffered: BufferEvidence, translation: Translation) -> ChunkPart | None:
    """One chunk; None if the Buffer is not known to stand for any pod."""
    document = translation.pod_spec
    if document is None:
        return None
    target = buffered.facts.target if isinstance(buffered.facts.target, TargetFacts) else TargetFacts()
    source, shown = _source(buffered, target)
    governor = target.governor
    applies = governor is not None and ((governor.applies and governor.advice) or target.boosts)
    return ChunkPart(
        source=source,
        requests=format_chunk_requests(document),
        containers=tuple(_containers(document, shown, target.boosts)),
        like=target.pod.metadata.name if target.pod is not None else "",
        governor=f"{governor.kind} {governor.name}" if governor is not None and applies else "",
        placement={name: value for name, value in document.items() if name not in _CONTAINERS},
        labels=translation.labels,
    )


def format_chunk_requests(document: Mapping[str, Any], times: int = 1) -> QuantityTexts:
    """The requests of a number of chunks, by resource."""
    try:
        demand = Demand.of(convert_object(dict(document), PodSpec))
    except InvalidInput:
        return {}
    return {name: format_resource_amount(name, amount * times) for name, amount in demand.amounts if name != PODS}


def _source(buffered: BufferEvidence, target: TargetFacts) -> tuple[Reason, PodSpec | None]:
    """The source of a chunk's shape, and the pod spec that shows it unless it is the Buffer's own."""
    match buffered.meaning.capacity:
        case FixedPods():
            return SHAPE_GIVEN, None
        case NodeClassTotals():
            return SHAPE_OF_CLASS, None
    if target.pod is not None:
        return SHAPED_LIKE_POD, target.pod.spec
    if target.template is not None:
        return SHAPED_LIKE_TEMPLATE, target.template.spec
    return SHAPED_LIKE_BEFORE, target.last.spec if target.last is not None else None


def _containers(
    document: Mapping[str, Any], shown: PodSpec | None, boosts: Mapping[str, int]
) -> Iterator[ChunkContainerPart]:
    before = (
        {container.name: container for container in (*shown.containers, *shown.init_containers)}
        if shown is not None
        else {}
    )
    for container in (container for field in _CONTAINERS for container in document.get(field, ())):
        name = container["name"]
        requests = dict(container.get("resources", {}).get("requests", {}))
        had = before[name].resources if name in before else None
        # A limit without a request is the request.
        was = {**had.limits, **had.requests} if had is not None else {}
        yield ChunkContainerPart(name, requests, was if was != requests else {}, boosted=name in boosts)


def build_buffer_part(
    evidence: Evidence, buffered: BufferEvidence, headroom: BufferHeadroom, prices: Prices
) -> BufferPart:
    """The part of an explanation about a Buffer."""
    buffer, meaning, translation = buffered.buffer, buffered.meaning, buffered.translation
    status, metadata = buffer.status or BufferStatus(), buffer.metadata
    pods = status.pod_based_buffer_spec
    part = BufferPart(
        name=metadata.name,
        strategy=meaning.strategy.value,
        target=f"{meaning.target.kind} {meaning.target.name}" if meaning.target is not None else "",
        skip_reason=_reason_part(buffered.skip_reason) if buffered.skip_reason is not None else None,
        conditions=tuple(_conditions(status)),
        stored_chunks=pods.replica_num if pods is not None else None,
        last_full=status.last_fully_provisioned or "",
    )
    if translation is None:
        return part
    totals = format_chunk_requests(translation.pod_spec, translation.chunks) if translation.pod_spec is not None else {}
    return msgspec.structs.replace(
        part,
        ready=_reason_part(translation.ready),
        is_ready=translation.is_ready,
        requested_capacity=_capacity_part(evidence, buffered, translation),
        desired_chunks=translation.requested,
        chunks=translation.chunks,
        on_top=translation.on_top,
        notes=tuple(map(_reason_part, translation.notes)),
        limited=_reason_part(translation.limited) if translation.limited is not None else None,
        limited_by=translation.limited_by,
        filled_by=str(meaning.filled_by) if meaning.filled_by is not None else "",
        filled=format_amounts(buffered.facts.filled),
        schedule=_build_schedule_part(meaning, translation, evidence.now),
        chunk=build_chunk_part(buffered, translation),
        totals=totals,
        cost=_build_cost_part(totals, prices) if translation.chunks else None,
        headroom=headroom.build_part(translation, buffer, evidence),
        is_stored=is_status_current(
            build_status(translation, buffer.status, metadata.generation, evidence.now), buffer.status
        ),
    )


def _capacity_part(evidence: Evidence, buffered: BufferEvidence, translation: Translation) -> CapacityPart | None:
    target, nodes = buffered.facts.target, buffered.facts.nodes
    replicas = target.replicas if isinstance(target, TargetFacts) else None
    match buffered.meaning.capacity:
        case FixedReplicas(count=count):
            return CapacityPart("exactly", count, replicas)
        case PercentOfReplicas(percent=percent, minimum=least, maximum=most) as share:
            return CapacityPart("percent", share.count_for(replicas or 0), replicas, percent, least, most)
        case NodeClassTotals() as totals:
            labels = find_class_labels(buffered.meaning, evidence.components.buffers)
            return CapacityPart(
                "nodeClass",
                translation.requested,
                totals={"cpu": str(totals.cpu), "memory": str(totals.memory)},
                chunk={name: str(amount) for name, amount in (totals.chunk or {}).items()},
                labels={} if isinstance(labels, DetailedReason) else labels,
                nodes=nodes.count,
                smallest=format_amounts(nodes.least),
            )
        case FixedPods(count=count):
            return CapacityPart("pods", count)
        case None:
            return None


def _build_schedule_part(meaning: EffectiveBuffer, translation: Translation, now: float) -> SchedulePart | None:
    if meaning.schedule is None:
        return None
    windows = [
        {"start": window.start.expression, "timeZone": window.start.time_zone, "duration": str(window.duration)}
        for window in meaning.schedule.windows
    ]
    return SchedulePart(
        tuple(windows),
        meaning.schedule.is_active(datetime.fromtimestamp(now, UTC)),
        format_timestamp(translation.next_change),
    )


def _build_cost_part(totals: QuantityTexts, prices: Prices) -> CostPart:
    cores = Quantity.parse(totals.get("cpu", "0")).milli / 1000
    hourly = prices.cost_per_hour(cores, Quantity.parse(totals.get("memory", "0")).units)
    return CostPart(hourly, prices.currency, prices.name, prices.core_hour, prices.gib_hour)


def _reason_part(detailed: DetailedReason) -> ReasonPart:
    return ReasonPart(detailed.reason, detailed.details)


def _conditions(status: BufferStatus) -> Iterator[dict[str, Any]]:
    for condition in status.conditions or ():
        yield {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason,
            "message": condition.message,
        }


BUFFER_KIND: Final = "buffer"

_COMPONENT: Final = "buffers"
# Kinds that do not influence a Buffer: usage of pods, and limits on changes to running pods.
_IRRELEVANT_KINDS: Final = ("PodMetrics", CHECKPOINT.name, "PodDisruptionBudget")
_INFLUENCING_KINDS: Final = frozenset({"HorizontalPodAutoscaler", "LimitRange", "ResourceQuota"})


def explain_buffer(
    evidence: Evidence, name: str, prices: Prices = EXAMPLE_PRICES, node_evidence: NodeEvidence | None = None
) -> ObjectExplanation:
    """Explain a Buffer; raises `InvalidInput` if there is none of that name.

    `node_evidence` are the plans for nodes, where groups of nodes are known.
    """
    if evidence.collected.buffers.get(evidence.namespace, name) is None:
        raise build_unknown_object_error(BUFFER.name, name, evidence, evidence.collected.buffers)
    headroom = BufferHeadroom(evidence.collected)
    translated = translate_buffers(evidence, headroom)
    buffered = translated[name]
    part = build_buffer_part(evidence, buffered, headroom, prices)
    missing = (
        *_find_missing(evidence, buffered, part, headroom),
        *find_missing_placement_evidence(evidence.collected, node_evidence),
    )
    return ObjectExplanation(
        kind=BUFFER_KIND,
        namespace=evidence.namespace,
        name=name,
        time=format_timestamp(evidence.now),
        buffer=part,
        placement=explain_buffer_placement(node_evidence, (evidence.namespace, name))
        if node_evidence is not None
        else None,
        influences=(*_find_related_buffers(evidence, buffered, translated), *_find_influences(evidence, buffered)),
        events=tuple(find_events(evidence, {(BUFFER.name, name)})),
        missing=missing,
        partial=is_partial(missing),
    )


def _find_influences(evidence: Evidence, buffered: BufferEvidence) -> Iterator[InfluencePart]:
    if buffered.translation is not None:
        target = find_buffer_target(buffered.buffer, buffered.meaning)
        yield from (
            influence for influence in find_influences(evidence, target, ()) if influence.kind in _INFLUENCING_KINDS
        )


def _find_related_buffers(
    evidence: Evidence, buffered: BufferEvidence, translated: Mapping[str, BufferEvidence]
) -> Iterator[InfluencePart]:
    """Other Buffers: those about the same target, and older ones that quotas were shared with."""
    target, translation = buffered.meaning.target, buffered.translation
    names = translation.limited_by if translation is not None else ()
    shared = [quota for name in names if (quota := evidence.collected.quotas.get(evidence.namespace, name)) is not None]
    for name, other in translated.items():
        if other is buffered or other.translation is None:
            continue
        same = target is not None and other.meaning.target == target
        usage = other.translation.usage
        counts = usage is not None and any(map(usage.is_counted_by, shared))
        older = counts and _seniority(other) < _seniority(buffered)
        if same or older:
            values = {"chunks": other.translation.chunks, "sameTarget": same, "older": older}
            yield InfluencePart(BUFFER.name, name, values)


def _seniority(buffered: BufferEvidence) -> tuple[float, ClaimKey]:
    buffer = buffered.buffer
    return buffer_seniority(read_creation_time(buffer), key_of(buffer))


def _find_missing(
    evidence: Evidence, buffered: BufferEvidence, part: BufferPart, headroom: BufferHeadroom
) -> Iterator[MissingEvidencePart]:
    yield from find_missing_objects(evidence, without=_IRRELEVANT_KINDS)
    for problem in evidence.components.problems:
        yield MissingEvidencePart(FLAG_UNREADABLE, problem)
    if _COMPONENT not in evidence.components.with_flags:
        yield MissingEvidencePart(FLAGS_NOT_OBSERVED, _COMPONENT)
    target = find_buffer_target(buffered.buffer, buffered.meaning)
    if isinstance(buffered.facts.target, TargetProblem) and target is not None and not target.is_well_known:
        yield MissingEvidencePart(TARGET_KINDS_NOT_OBSERVED)
    if part.chunk is not None and part.chunk.source is SHAPED_LIKE_TEMPLATE:
        yield MissingEvidencePart(TEMPLATE_NOT_OBSERVED)
    if part.chunk is not None and not headroom.is_complete:
        yield MissingEvidencePart(CAPACITY_NOT_OBSERVED)
