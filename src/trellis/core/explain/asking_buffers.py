"""Why does a Buffer keep this room, and no other? One answer about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from trellis.api.kinds import BUFFER, CHECKPOINT
from trellis.base.prices import EXAMPLE_PRICES, Prices
from trellis.core.buffers.shapes import SHAPED_LIKE_TEMPLATE
from trellis.core.explain.buffer_facts import target_of
from trellis.core.explain.buffer_parts import BufferPart
from trellis.core.explain.buffer_rooms import Rooms
from trellis.core.explain.buffering import Buffered, buffered_in
from trellis.core.explain.buffers import buffer_part
from trellis.core.explain.evidence import Evidence
from trellis.core.explain.explained import Explained, Say, Unseen
from trellis.core.explain.happening import events_about
from trellis.core.explain.naming import unknown_object
from trellis.core.explain.noding import Noded
from trellis.core.explain.placing import buffer_placing
from trellis.core.explain.says import says_about
from trellis.core.explain.unseen import (
    FLAG_UNREADABLE,
    FLAGS_UNSEEN,
    ROOM_UNSEEN,
    TARGET_KINDS_UNSEEN,
    TEMPLATE_UNSEEN,
    is_partial,
    unseen_objects,
)
from trellis.core.explain.unseen_nodes import unseen_of_nodes
from trellis.core.explain.wording import time_text
from trellis.core.model.target_problems import TargetProblem

BUFFER_KIND: Final = "buffer"

_COMPONENT: Final = "buffers"
# What has no say about a Buffer: what pods use, and what stops changes to those that run.
_WITHOUT_SAY: Final = ("PodMetrics", CHECKPOINT.name, "PodDisruptionBudget")
_SAYS: Final = frozenset({"HorizontalPodAutoscaler", "LimitRange", "ResourceQuota"})


def explain_buffer(
    evidence: Evidence, name: str, prices: Prices = EXAMPLE_PRICES, noded: Noded | None = None
) -> Explained:
    """All there is to say about a Buffer; raises `InvalidInput` if there is none of that name.

    `noded` are the plans for nodes, where groups of nodes are known.
    """
    if evidence.collected.buffers.get(evidence.namespace, name) is None:
        raise unknown_object(BUFFER.name, name, evidence, evidence.collected.buffers)
    rooms = Rooms(evidence.collected)
    found = buffered_in(evidence, rooms)
    buffered = found[name]
    part = buffer_part(evidence, buffered, rooms, prices)
    unseen = (*_unseen(evidence, buffered, part, rooms), *unseen_of_nodes(evidence.collected, noded))
    return Explained(
        kind=BUFFER_KIND,
        namespace=evidence.namespace,
        name=name,
        time=time_text(evidence.now),
        buffer=part,
        placing=buffer_placing(noded, (evidence.namespace, name)) if noded is not None else None,
        says=(*_others(evidence, buffered, found), *_says(evidence, buffered)),
        events=tuple(events_about(evidence, {(BUFFER.name, name)})),
        unseen=unseen,
        partial=is_partial(unseen),
    )


def _says(evidence: Evidence, buffered: Buffered) -> Iterator[Say]:
    if buffered.translation is not None:
        target = target_of(buffered.buffer, buffered.meaning)
        yield from (each for each in says_about(evidence, target, ()) if each.kind in _SAYS)


def _others(evidence: Evidence, own: Buffered, found: Mapping[str, Buffered]) -> Iterator[Say]:
    """Other Buffers: those about the same target, and older ones that quotas were shared with."""
    target, made = own.meaning.target, own.translation
    names = made.limited_by if made is not None else ()
    shared = [quota for name in names if (quota := evidence.collected.quotas.get(evidence.namespace, name)) is not None]
    for name, each in found.items():
        if each is own or each.translation is None:
            continue
        same = target is not None and each.meaning.target == target
        usage = each.translation.usage
        counts = usage is not None and any(map(usage.is_counted_by, shared))
        older = counts and _age(each) < _age(own)
        if same or older:
            values = {"chunks": each.translation.chunks, "sameTarget": same, "older": older}
            yield Say(BUFFER.name, name, values)


def _age(buffered: Buffered) -> tuple[float, str]:
    metadata = buffered.buffer.metadata
    created = metadata.creation_timestamp
    return created.timestamp() if created is not None else float("inf"), metadata.name


def _unseen(evidence: Evidence, buffered: Buffered, part: BufferPart, rooms: Rooms) -> Iterator[Unseen]:
    yield from unseen_objects(evidence, without=_WITHOUT_SAY)
    for problem in evidence.components.problems:
        yield Unseen(FLAG_UNREADABLE, problem)
    if _COMPONENT not in evidence.components.seen:
        yield Unseen(FLAGS_UNSEEN, _COMPONENT)
    target = target_of(buffered.buffer, buffered.meaning)
    if isinstance(buffered.facts.target, TargetProblem) and target is not None and not target.is_well_known:
        yield Unseen(TARGET_KINDS_UNSEEN)
    if part.chunk is not None and part.chunk.source is SHAPED_LIKE_TEMPLATE:
        yield Unseen(TEMPLATE_UNSEEN)
    if part.chunk is not None and not rooms.are_known:
        yield Unseen(ROOM_UNSEEN)
