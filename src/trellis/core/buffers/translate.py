"""Which pods does a Buffer stand for? How many chunks, of which shape, and what there is to say about it.

A pure function of a Buffer, of what is known of its target or its nodes, and of the time: usable without any of our
controllers. Quotas are shared by the Buffers of a namespace, and so are applied to translations afterwards (`settled`).

The number is made in this order: what the capacity asks for; at most so many chunks per Buffer; nothing outside the
schedule; less what fills it, if it is dedicated; what quotas leave.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from trellis.api.resolve import (
    EffectiveBuffer,
    FixedReplicas,
    GivenPods,
    NodeClassTotals,
    PercentOfReplicas,
    Strategy,
)
from trellis.base.counted import counted
from trellis.base.reason import Reason, Severity
from trellis.core.buffers.facts import Facts, FoundTarget
from trellis.core.buffers.filling import unfilled
from trellis.core.buffers.node_classes import class_labels, split
from trellis.core.buffers.pod_specs import written
from trellis.core.buffers.said import Said
from trellis.core.buffers.settings import BufferSettings
from trellis.core.buffers.shapes import Shape, class_shape, given_shape, target_shape
from trellis.core.buffers.translation import Translation
from trellis.core.model.target_problems import NO_TARGET_REF, TargetProblem

BUFFER_READY = Reason("BufferReady", "The pods that the Buffer stands for are in its status.")
CHUNKS_CUT = Reason(
    "ChunksCut", "The Buffer asks for more chunks than one Buffer may have; it stands for fewer.", Severity.WARNING
)
OUTSIDE_SCHEDULE = Reason("OutsideSchedule", "No window of the Buffer's schedule is open; it counts for nothing.")
SCHEDULE_UNREADABLE = Reason(
    "ScheduleUnreadable", "The Buffer's schedule cannot be read, so it counts at all times.", Severity.WARNING
)
POD_SELECTOR_UNREADABLE = Reason(
    "PodSelectorUnreadable", "The Buffer's podSelector cannot be read, so no pod fills it.", Severity.WARNING
)
BUFFER_FILLED = Reason("BufferFilled", "Pods fill a part of the dedicated Buffer, which is kept no longer.")
CAPACITY_UNREADABLE = Reason("CapacityUnreadable", "The Buffer states no capacity that can be used.", Severity.ERROR)
TARGET_NOT_SEEN = Reason("TargetNotSeen", "The target has not been looked at yet.")
TARGET_WITHOUT_COUNT = Reason(
    "TargetWithoutCount", "The target does not say how many replicas it has, so no share of them is known."
)
OTHER_TYPE = Reason("OtherBufferType", "The Buffer is of a type that somebody else provisions; it is left alone.")
KIND_SET_ASIDE = Reason("TargetKindSetAside", "Another controller translates Buffers for this kind of target.")


class _Asked(msgspec.Struct, frozen=True):
    """What a capacity comes to before anything limits it."""

    count: int
    shape: Shape
    notes: tuple[Said, ...] = ()


def left_alone(buffer: EffectiveBuffer, settings: BufferSettings) -> Said | None:
    """Why a Buffer and its status are none of ours; None if they are."""
    if not buffer.is_ours:
        return Said(OTHER_TYPE, f"{buffer.type} is not a type that we provision")
    if buffer.target is not None and buffer.target.kind in settings.set_aside:
        return Said(KIND_SET_ASIDE, f"{buffer.target.kind} is set aside for another controller")
    return None


def translate(buffer: EffectiveBuffer, facts: Facts, now: float, settings: BufferSettings) -> Translation:
    """The pods of a Buffer that is ours, as if there were no quotas."""
    opens, change = _schedule(buffer, now)
    asked = _asked(buffer, facts, settings)
    if isinstance(asked, Said):
        return Translation(0, 0, asked, next_change=change)
    notes = [*asked.notes, *asked.shape.notes, *_misread(buffer)]
    size = min(asked.count, settings.most_chunks)
    chunks = size
    ready = Said(BUFFER_READY, asked.shape.source.reason.meaning)
    if size < asked.count:
        fewer = counted(size, "chunk")
        ready = Said(CHUNKS_CUT, f"cut from {asked.count} to {fewer}, the most that one Buffer may have")
    if buffer.filled_by is not None:
        chunks = unfilled(size, asked.shape.amounts, facts.filled)
        if chunks < size:
            notes.append(Said(BUFFER_FILLED, f"pods fill {size - chunks} of {counted(size, 'chunk')}"))
    return Translation(
        wanted=asked.count,
        chunks=chunks if opens else 0,
        ready=ready if opens else Said(OUTSIDE_SCHEDULE),
        is_ready=opens,
        pod_spec=written(asked.shape.spec),
        labels=asked.shape.labels,
        usage=asked.shape.usage,
        notes=tuple(notes),
        on_top=buffer.strategy is Strategy.KEEP_EMPTY or buffer.filled_by is not None,
        next_change=change,
    )


def _misread(buffer: EffectiveBuffer) -> Iterator[Said]:
    """What the object says and is not done: the API server stores what only `trellis check` can refuse."""
    if buffer.schedule_problem:
        yield Said(
            SCHEDULE_UNREADABLE, f"it counts at all times, for its schedule cannot be read: {buffer.schedule_problem}"
        )
    if buffer.selector_problem:
        yield Said(
            POD_SELECTOR_UNREADABLE, f"no pod fills it, for its podSelector cannot be read: {buffer.selector_problem}"
        )


def _schedule(buffer: EffectiveBuffer, now: float) -> tuple[bool, float | None]:
    """Whether the Buffer counts now, and when that changes."""
    if buffer.schedule is None:
        return True, None
    moment = datetime.fromtimestamp(now, UTC)
    change = buffer.schedule.next_change(moment)
    return buffer.schedule.active(moment), None if change is None else change.timestamp()


def _asked(buffer: EffectiveBuffer, facts: Facts, settings: BufferSettings) -> _Asked | Said:
    match buffer.capacity:
        case FixedReplicas() | PercentOfReplicas() as capacity:
            return _replicas(buffer, capacity, facts)
        case NodeClassTotals() as totals:
            return _node_class(buffer, totals, facts, settings)
        case GivenPods(count=count, pod_spec=spec, labels=labels):
            shape = given_shape(spec, labels)
            return shape if isinstance(shape, Said) else _Asked(count, shape)
        case None:
            return Said(CAPACITY_UNREADABLE)


def _replicas(buffer: EffectiveBuffer, capacity: FixedReplicas | PercentOfReplicas, facts: Facts) -> _Asked | Said:
    if buffer.target is None:
        return Said(NO_TARGET_REF, "capacity.replicas needs a targetRef")
    match facts.target:
        case None:
            return Said(TARGET_NOT_SEEN)
        case TargetProblem(reason=reason, message=message):
            return Said(reason, message)
        case FoundTarget() as target:
            shape = target_shape(target)
    if isinstance(shape, Said):
        return shape
    if isinstance(capacity, FixedReplicas):
        return _Asked(capacity.count, shape)
    return Said(TARGET_WITHOUT_COUNT) if target.replicas is None else _Asked(capacity.of(target.replicas), shape)


def _node_class(
    buffer: EffectiveBuffer, totals: NodeClassTotals, facts: Facts, settings: BufferSettings
) -> _Asked | Said:
    if isinstance(facts.target, TargetProblem):
        return Said(facts.target.reason, facts.target.message)
    labels = class_labels(buffer, settings)
    if isinstance(labels, Said):
        return labels
    chunks = split(totals, facts.nodes, settings)
    if isinstance(chunks, Said):
        return chunks
    # A selector alone may mean nodes of many kinds, some of them set apart from such room by their taints.
    is_unknown = buffer.target is not None and not facts.nodes.count
    shape = class_shape(chunks.requests, labels, None if is_unknown else facts.nodes.taints)
    return shape if isinstance(shape, Said) else _Asked(chunks.count, shape, chunks.notes)
