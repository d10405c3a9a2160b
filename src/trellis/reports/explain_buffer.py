"""Which room does a Buffer keep and why, in sentences?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from trellis.base.counted import counted
from trellis.base.durations import parse_duration
from trellis.core.buffers.translate import BUFFER_READY
from trellis.core.explain.buffer_parts import BufferPart, Chunk, ChunkContainer, Hindrance, Opening, Room, Told
from trellis.reports.describe.words import clause, listed, span
from trellis.reports.explain_chunk_counts import count_lines
from trellis.reports.explain_words import amounts, moment
from trellis.reports.figures import trimmed

_NO_ROOM: Final = "It keeps no room now."


def summary_lines(buffer: BufferPart, now: str) -> Iterator[str]:
    """What is to be known first."""
    if buffer.alone is not None:
        yield f"It is left alone, and so is its status. {_told(buffer.alone)}"
        return
    yield _keeps(buffer)
    if buffer.ready is not None and buffer.ready.reason.code != BUFFER_READY.code:
        until = buffer.schedule.next_change if buffer.schedule is not None and not buffer.schedule.open else ""
        at = f" The next window opens at {moment(until, now)}." if until else ""
        yield f"{_told(buffer.ready)}{at}"
    if buffer.limited is not None:
        yield _told(buffer.limited)
    yield from map(_told, buffer.notes)
    if buffer.chunks and buffer.room is not None:
        yield _found_room(buffer, buffer.room)
    if buffer.cost is not None:
        price = f"{trimmed(buffer.cost.hourly)} {buffer.cost.currency}"
        rates = f"{buffer.cost.core_hour:g} for a core and {buffer.cost.gib_hour:g} for a GiB"
        yield f"Room of this size costs {price} an hour at {buffer.cost.prices} prices ({rates})."


def chapters(buffer: BufferPart, now: str) -> Iterator[tuple[str, Iterator[str]]]:
    """All else, by titles."""
    if buffer.alone is not None:
        return
    yield "HOW MANY", count_lines(buffer)
    if buffer.chunk is not None:
        yield "WHAT A CHUNK LOOKS LIKE", _shape_lines(buffer.chunk)
    if buffer.schedule is not None:
        yield "WHEN", _schedule_lines(buffer.schedule, now)
    if buffer.room is not None:
        yield "ROOM ON NODES", _room_lines(buffer, buffer.room)


def _shape_lines(chunk: Chunk) -> Iterator[str]:
    """What a chunk looks like."""
    like = f" ({chunk.like})" if chunk.like else ""
    yield f"{chunk.source.code}: {clause(chunk.source.meaning)}{like}."
    if chunk.governor:
        yield f"{chunk.governor} sizes the pods that will come, and so the chunk."
    for container in chunk.containers:
        yield _container(container)
    placement = list(_placement(chunk.placement))
    if placement:
        yield f"Where it may run is bound by {listed(placement)}."
    if chunk.requests:
        yield f"In all it requests {amounts(chunk.requests)}."


def _schedule_lines(schedule: Opening, now: str) -> Iterator[str]:
    """When it counts."""
    for window in schedule.windows:
        long = span(parse_duration(window["duration"]))
        yield f"A window opens at {window['start']} ({window['timeZone']}), for {long}."
    change = moment(schedule.next_change, now) if schedule.next_change else ""
    if schedule.open:
        yield f"One is open now{f', until {change}' if change else ''}."
    else:
        yield f"None is open now{f'; the next opens at {change}' if change else ''}."


def _room_lines(buffer: BufferPart, room: Room) -> Iterator[str]:
    """Whether the nodes there are have room."""
    yield f"{room.takes} of {counted(room.nodes, 'node')} would take a chunk if nothing else ran there."
    if room.chunks is not None:
        on = f", on {counted(room.on, 'node')}" if room.chunks else ""
        yield f"{_beside(buffer)} there is room for {room.chunks} of {counted(buffer.chunks, 'chunk')}{on}."
        yield "Other Buffers are placed beside it, as their status has them."
    if room.kept_on_top is not None:
        kept = counted(room.kept_on_top, "chunk")
        yield f"As a CapacityBuffer, which is kept on top of what runs, it stands for {kept}: the rest is used by pods."
    if room.obstacles:
        yield f"No further chunk fits {listed(list(map(_obstacle, room.obstacles)))}."


def stored_lines(buffer: BufferPart, now: str) -> Iterator[str]:
    """What the status has beside conditions."""
    if buffer.stored_chunks is None:
        yield "No pods are in its status yet."
    elif not buffer.is_stored:
        yield f"Its status has {counted(buffer.stored_chunks, 'chunk')}, and is not what this answer comes to."
    if buffer.last_full:
        yield f"All of it last had room at {moment(buffer.last_full, now)}."


def _keeps(buffer: BufferPart) -> str:
    if not buffer.chunks or buffer.chunk is None:
        return _NO_ROOM
    way = buffer.asked.way if buffer.asked is not None else ""
    each = f"{amounts(buffer.chunk.requests)} each, {amounts(buffer.totals)} in all" if buffer.totals else "of no size"
    match way:
        case "nodeClass":
            where = f"nodes of {buffer.target}" if buffer.target else "nodes with its labels"
            return f"It keeps {counted(buffer.chunks, 'chunk')} of room on {where}: {each}."
        case "pods":
            return f"It keeps room for {counted(buffer.chunks, 'pod')} of the given spec: {each}."
        case _:
            return f"It keeps room for {counted(buffer.chunks, 'further pod')} of {buffer.target}: {each}."


def _found_room(buffer: BufferPart, room: Room) -> str:
    if not room.takes:
        return "No node that there is would take a chunk, however empty it were."
    if room.chunks is None:
        return f"{room.takes} of {counted(room.nodes, 'node')} would take a chunk if nothing else ran there."
    if room.chunks >= buffer.chunks:
        return f"{_beside(buffer)} the nodes that there are have room for all of it."
    if not room.chunks:
        return f"{_beside(buffer)} the nodes that there are have room for none of it; it wants new nodes."
    some = f"{room.chunks} of {counted(buffer.chunks, 'chunk')}"
    return f"{_beside(buffer)} the nodes that there are have room for {some}; the rest wants new nodes."


def _container(container: ChunkContainer) -> str:
    has = amounts(container.requests) or "nothing"
    was = f", and {amounts(container.shown)} in what shows the shape" if container.shown else ""
    boosted = "; its CPU is raised for the start, when a node is sought" if container.boosted else ""
    return f"{container.name} requests {has}{was}{boosted}."


def _placement(placement: Mapping[str, Any]) -> Iterable[str]:
    """The fields that bind a chunk to nodes; priority, scheduler and overhead do not."""
    selector = placement.get("nodeSelector", {})
    if selector:
        yield f"nodeSelector {', '.join(f'{key}={value}' for key, value in selector.items())}"
    for field in ("affinity", "topologySpreadConstraints", "hostNetwork"):
        if placement.get(field):
            yield field


def _beside(buffer: BufferPart) -> str:
    return "Beside all that runs now" if buffer.on_top else "If no pods ran but those of DaemonSets,"


def _obstacle(obstacle: Hindrance) -> str:
    resource = f" ({obstacle.resource})" if obstacle.resource else ""
    return f"{counted(obstacle.nodes, 'node')}, {obstacle.reason.code}{resource}"


def _told(told: Told) -> str:
    details = told.details or clause(told.reason.meaning)
    return f"{told.reason.code}: {details.removesuffix('.')}."
