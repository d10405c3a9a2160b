"""Which pods does a Buffer stand for, and why so many? As the Buffer controller translates it, in parts."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from trellis.api.buffer import BufferStatus
from trellis.api.resolve import EffectiveBuffer, FixedReplicas, GivenPods, NodeClassTotals, PercentOfReplicas
from trellis.base.prices import Prices
from trellis.base.quantity import Quantity
from trellis.core.buffers import FoundTarget, Said, Translation, class_labels, is_written, status_of
from trellis.core.explain.buffer_chunks import amounts_of, chunk_part
from trellis.core.explain.buffer_parts import Asked, BufferPart, Cost, Opening, Told
from trellis.core.explain.buffer_rooms import Rooms
from trellis.core.explain.buffering import Buffered
from trellis.core.explain.evidence import Evidence
from trellis.core.explain.parts import Amounts
from trellis.core.explain.wording import amounts_text, time_text


def buffer_part(evidence: Evidence, buffered: Buffered, rooms: Rooms, prices: Prices) -> BufferPart:
    """What is said of a Buffer."""
    buffer, meaning, made = buffered.buffer, buffered.meaning, buffered.translation
    status, metadata = buffer.status or BufferStatus(), buffer.metadata
    pods = status.pod_based_buffer_spec
    part = BufferPart(
        name=metadata.name,
        strategy=meaning.strategy.value,
        target=f"{meaning.target.kind} {meaning.target.name}" if meaning.target is not None else "",
        alone=_told(buffered.alone) if buffered.alone is not None else None,
        conditions=tuple(_conditions(status)),
        stored_chunks=pods.replica_num if pods is not None else None,
        last_full=status.last_fully_provisioned or "",
    )
    if made is None:
        return part
    totals = amounts_of(made.pod_spec, made.chunks) if made.pod_spec is not None else {}
    return msgspec.structs.replace(
        part,
        ready=_told(made.ready),
        is_ready=made.is_ready,
        asked=_asked(evidence, buffered, made),
        wanted=made.wanted,
        chunks=made.chunks,
        on_top=made.on_top,
        notes=tuple(map(_told, made.notes)),
        limited=_told(made.limited) if made.limited is not None else None,
        limited_by=made.limited_by,
        filled_by=str(meaning.filled_by) if meaning.filled_by is not None else "",
        filled=amounts_text(buffered.facts.filled),
        schedule=_opening(meaning, made, evidence.now),
        chunk=chunk_part(buffered, made),
        totals=totals,
        cost=_cost(totals, prices) if made.chunks else None,
        room=rooms.for_chunks(made, buffer, evidence),
        is_stored=is_written(status_of(made, buffer.status, metadata.generation, evidence.now), buffer.status),
    )


def _asked(evidence: Evidence, buffered: Buffered, made: Translation) -> Asked | None:
    target, nodes = buffered.facts.target, buffered.facts.nodes
    replicas = target.replicas if isinstance(target, FoundTarget) else None
    match buffered.meaning.capacity:
        case FixedReplicas(count=count):
            return Asked("exactly", count, replicas)
        case PercentOfReplicas(percent=percent, least=least, most=most) as share:
            return Asked("percent", share.of(replicas or 0), replicas, percent, least, most)
        case NodeClassTotals() as totals:
            labels = class_labels(buffered.meaning, evidence.components.buffers)
            return Asked(
                "nodeClass",
                made.wanted,
                totals={"cpu": str(totals.cpu), "memory": str(totals.memory)},
                chunk={name: str(amount) for name, amount in (totals.chunk or {}).items()},
                labels={} if isinstance(labels, Said) else labels,
                nodes=nodes.count,
                smallest=amounts_text(nodes.least),
            )
        case GivenPods(count=count):
            return Asked("pods", count)
        case None:
            return None


def _opening(meaning: EffectiveBuffer, made: Translation, now: float) -> Opening | None:
    if meaning.schedule is None:
        return None
    windows = [
        {"start": each.start.expression, "timeZone": each.start.time_zone, "duration": str(each.duration)}
        for each in meaning.schedule.windows
    ]
    return Opening(
        tuple(windows), meaning.schedule.active(datetime.fromtimestamp(now, UTC)), time_text(made.next_change)
    )


def _cost(totals: Amounts, prices: Prices) -> Cost:
    cores = Quantity.parse(totals.get("cpu", "0")).milli / 1000
    hourly = prices.hourly(cores, Quantity.parse(totals.get("memory", "0")).units)
    return Cost(hourly, prices.currency, prices.name, prices.core_hour, prices.gib_hour)


def _told(said: Said) -> Told:
    return Told(said.reason, said.details)


def _conditions(status: BufferStatus) -> Iterator[dict[str, Any]]:
    for each in status.conditions or ():
        yield {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
