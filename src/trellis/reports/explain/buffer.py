"""Explains in sentences how many chunks a Buffer stands for, what they look like, and where they fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from trellis.base.durations import parse_duration
from trellis.base.wording import pluralize
from trellis.core.buffers.chunks import BUFFER_READY
from trellis.core.explain.explanation.buffer import (
    BufferPart,
    CapacityPart,
    ChunkContainerPart,
    ChunkPart,
    HeadroomPart,
    SchedulePart,
)
from trellis.core.explain.explanation.values import ReasonPart
from trellis.reports.explain.node import format_obstacle
from trellis.reports.text.numbers import format_trimmed
from trellis.reports.text.phrases import format_clause, format_duration, join_words
from trellis.reports.text.quantities import format_moment, format_quantities


def count_lines(buffer: BufferPart) -> Iterator[str]:
    """The steps to the number of chunks, in their order."""
    if buffer.requested_capacity is not None:
        yield _describe_capacity(buffer, buffer.requested_capacity)
    if buffer.filled_by:
        requests = format_quantities(buffer.filled) or "nothing"
        yield f"Pods that match {buffer.filled_by} fill it: they request {requests}."
    if buffer.schedule is not None and not buffer.schedule.open:
        yield "No window of its schedule is open: it has no chunks."
    if buffer.limited_by:
        yield f"Quotas of the namespace limit it: {join_words(buffer.limited_by)}."
    if buffer.desired_chunks != buffer.chunks:
        yield f"Result: {buffer.chunks} of {pluralize(buffer.desired_chunks, 'chunk')}."
    yield _describe_count(buffer)


def _describe_capacity(buffer: BufferPart, capacity: CapacityPart) -> str:
    match capacity.way:
        case "exactly":
            return f"Its capacity asks for exactly {capacity.count}."
        case "percent":
            bounds = [f"at least {capacity.least}"] if capacity.least else []
            bounds += [f"at most {capacity.most}"] if capacity.most is not None else []
            within = f", {join_words(bounds)}" if bounds else ""
            if capacity.replicas is None:
                return f"{capacity.percent} % of the replicas of {buffer.target}{within}; their number is unknown."
            replicas = pluralize(capacity.replicas, "replica")
            return f"{capacity.percent} % of {replicas}, rounded up{within}: {capacity.count}."
        case "nodeClass":
            return _describe_class(capacity)
        case _:
            return f"Its capacity asks for {pluralize(capacity.count, 'pod')} of the given spec."


def _describe_class(capacity: CapacityPart) -> str:
    up_to = f"Up to {format_quantities(capacity.totals)} in total"
    if not capacity.count:
        return f"{up_to} is asked for."
    if capacity.chunk:
        return f"{up_to}, in chunks of {format_quantities(capacity.chunk)}: {capacity.count} are within both totals."
    if not capacity.nodes:
        return f"{up_to}, in as few equal chunks as fit a small node: {capacity.count}."
    which = f"the smallest of its {capacity.nodes} nodes" if capacity.nodes > 1 else "its only node"
    smallest = f"{which}, which leaves {format_quantities(capacity.smallest)} for pods"
    return f"{up_to}, in as few equal chunks as fit {smallest}: {capacity.count}."


def _describe_count(buffer: BufferPart) -> str:
    if buffer.filled_by:
        return f"{buffer.strategy}: matching pods use the capacity, and it is not replaced; other pods do not use it."
    if buffer.on_top:
        return f"{buffer.strategy}: the capacity is kept on top of running pods; when pods use it, it is replaced."
    return f"{buffer.strategy}: the capacity counts whether used or not; when pods use it, it is not replaced."


_NO_CAPACITY: Final = "It keeps no spare capacity now."


def summary_lines(buffer: BufferPart, now: str) -> Iterator[str]:
    """The lines at the top of an explanation."""
    if buffer.skip_reason is not None:
        yield f"Trellis ignores it and does not write its status. {_describe_reason(buffer.skip_reason)}"
        return
    yield _describe_kept_capacity(buffer)
    if buffer.ready is not None and buffer.ready.reason.code != BUFFER_READY.code:
        until = buffer.schedule.next_change if buffer.schedule is not None and not buffer.schedule.open else ""
        at = f" The next window opens at {format_moment(until, now)}." if until else ""
        yield f"{_describe_reason(buffer.ready)}{at}"
    if buffer.limited is not None:
        yield _describe_reason(buffer.limited)
    yield from map(_describe_reason, buffer.notes)
    if buffer.chunks and buffer.headroom is not None:
        yield _describe_headroom(buffer, buffer.headroom)
    if buffer.cost is not None:
        price = f"{format_trimmed(buffer.cost.hourly)} {buffer.cost.currency}"
        rates = f"{buffer.cost.core_hour:g} for a core and {buffer.cost.gib_hour:g} for a GiB"
        yield f"Capacity of this size costs {price} an hour at {buffer.cost.prices} prices ({rates})."


def chapters(buffer: BufferPart, now: str) -> Iterator[tuple[str, Iterator[str]]]:
    """The lines below the summary, by titles."""
    if buffer.skip_reason is not None:
        return
    yield "CHUNKS", count_lines(buffer)
    if buffer.chunk is not None:
        yield "CHUNK SHAPE", _shape_lines(buffer.chunk)
    if buffer.schedule is not None:
        yield "SCHEDULE", _schedule_lines(buffer.schedule, now)
    if buffer.headroom is not None:
        yield "CAPACITY ON NODES", _headroom_lines(buffer, buffer.headroom)


def _shape_lines(chunk: ChunkPart) -> Iterator[str]:
    """The shape of a chunk."""
    like = f" ({chunk.like})" if chunk.like else ""
    yield f"{chunk.source.code}: {format_clause(chunk.source.meaning)}{like}."
    if chunk.governor:
        yield f"{chunk.governor} sizes new pods, and therefore the chunk."
    for container in chunk.containers:
        yield _describe_container(container)
    placement = list(_describe_placement(chunk.placement))
    if placement:
        yield f"Its nodes are restricted by {join_words(placement)}."
    if chunk.requests:
        yield f"In total it requests {format_quantities(chunk.requests)}."


def _schedule_lines(schedule: SchedulePart, now: str) -> Iterator[str]:
    """The windows of its schedule."""
    for window in schedule.windows:
        long = format_duration(parse_duration(window["duration"]))
        yield f"A window opens at {window['start']} ({window['timeZone']}), for {long}."
    change = format_moment(schedule.next_change, now) if schedule.next_change else ""
    if schedule.open:
        yield f"One is open now{f', until {change}' if change else ''}."
    else:
        yield f"None is open now{f'; the next opens at {change}' if change else ''}."


def _headroom_lines(buffer: BufferPart, headroom: HeadroomPart) -> Iterator[str]:
    """How many chunks fit on the nodes of the cluster."""
    nodes = pluralize(headroom.nodes, "node")
    yield f"A chunk fits on {headroom.fitting_nodes} of {nodes} if no other pods run there."
    if headroom.chunks is not None:
        on = f", on {pluralize(headroom.nodes_used, 'node')}" if headroom.chunks else ""
        beside = _describe_other_buffers(buffer)
        yield f"{beside} {headroom.chunks} of {pluralize(buffer.chunks, 'chunk')} fit{on}."
        yield "The chunks in the status of other Buffers are placed too."
    if headroom.kept_on_top is not None:
        count = pluralize(headroom.kept_on_top, "chunk")
        kind = "a CapacityBuffer, which is kept on top of running pods"
        yield f"As {kind}, it has {count}: pods use the rest."
    if headroom.obstacles:
        yield f"No further chunk fits on existing nodes: {join_words(list(map(format_obstacle, headroom.obstacles)))}."


def stored_lines(buffer: BufferPart, now: str) -> Iterator[str]:
    """What the status has beside conditions."""
    if buffer.stored_chunks is None:
        yield "Its status has no chunks yet."
    elif not buffer.is_stored:
        yield f"Its status has {pluralize(buffer.stored_chunks, 'chunk')}, and differs from this answer."
    if buffer.last_full:
        yield f"It was last fully provisioned at {format_moment(buffer.last_full, now)}."


def _describe_kept_capacity(buffer: BufferPart) -> str:
    if not buffer.chunks or buffer.chunk is None:
        return _NO_CAPACITY
    way = buffer.requested_capacity.way if buffer.requested_capacity is not None else ""
    sizes = (
        f"{format_quantities(buffer.chunk.requests)} each, {format_quantities(buffer.totals)} in total"
        if buffer.totals
        else "of no size"
    )
    match way:
        case "nodeClass":
            where = f"nodes of {buffer.target}" if buffer.target else "nodes with its labels"
            return f"It keeps {pluralize(buffer.chunks, 'chunk')} of spare capacity on {where}: {sizes}."
        case "pods":
            return f"It keeps spare capacity for {pluralize(buffer.chunks, 'pod')} of the given spec: {sizes}."
        case _:
            return f"It keeps spare capacity for {pluralize(buffer.chunks, 'further pod')} of {buffer.target}: {sizes}."


def _describe_headroom(buffer: BufferPart, headroom: HeadroomPart) -> str:
    if not headroom.fitting_nodes:
        return "A chunk fits on no existing node, even without other pods."
    if headroom.chunks is None:
        nodes = pluralize(headroom.nodes, "node")
        return f"A chunk fits on {headroom.fitting_nodes} of {nodes} if no other pods run there."
    if headroom.chunks >= buffer.chunks:
        return f"{_describe_other_buffers(buffer)} all chunks fit on existing nodes."
    if not headroom.chunks:
        return f"{_describe_other_buffers(buffer)} no chunk fits on existing nodes; new nodes are needed."
    some = f"{headroom.chunks} of {pluralize(buffer.chunks, 'chunk')}"
    return f"{_describe_other_buffers(buffer)} {some} fit on existing nodes; the rest needs new nodes."


def _describe_container(container: ChunkContainerPart) -> str:
    has = format_quantities(container.requests) or "nothing"
    was = f" ({format_quantities(container.shown)} in the pod spec of its source)" if container.shown else ""
    boosted = "; its CPU includes the startup boost, with which new pods are scheduled" if container.boosted else ""
    return f"{container.name} requests {has}{was}{boosted}."


def _describe_placement(placement: Mapping[str, Any]) -> Iterable[str]:
    """The fields that bind a chunk to nodes; priority, scheduler and overhead do not."""
    selector = placement.get("nodeSelector", {})
    if selector:
        yield f"nodeSelector {', '.join(f'{key}={value}' for key, value in selector.items())}"
    for field in ("affinity", "topologySpreadConstraints", "hostNetwork"):
        if placement.get(field):
            yield field


def _describe_other_buffers(buffer: BufferPart) -> str:
    return "Beside all running pods," if buffer.on_top else "If only pods of DaemonSets ran,"


def _describe_reason(part: ReasonPart) -> str:
    details = part.details or format_clause(part.reason.meaning)
    return f"{part.reason.code}: {details.removesuffix('.')}."
