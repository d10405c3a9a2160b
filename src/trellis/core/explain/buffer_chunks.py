"""What does a chunk look like, and what is it shaped like? As its translation publishes it, beside what showed it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trellis.api.kube.decode import convert_object
from trellis.api.kube.pods import PodSpec
from trellis.api.resolve import GivenPods, NodeClassTotals
from trellis.base.errors import InvalidInput
from trellis.base.reason import Reason
from trellis.core.buffers import FoundTarget, Translation
from trellis.core.buffers.shapes import (
    SHAPE_GIVEN,
    SHAPE_OF_CLASS,
    SHAPED_LIKE_BEFORE,
    SHAPED_LIKE_POD,
    SHAPED_LIKE_TEMPLATE,
)
from trellis.core.explain.buffer_parts import Chunk, ChunkContainer
from trellis.core.explain.buffering import Buffered
from trellis.core.explain.parts import Amounts
from trellis.core.fit import Demand
from trellis.core.fit.resources import PODS
from trellis.core.model.patches import quantity_text

_CONTAINERS: Final = ("containers", "initContainers")


def chunk_part(buffered: Buffered, translation: Translation) -> Chunk | None:
    """One chunk; None if the Buffer is not known to stand for any pod."""
    document = translation.pod_spec
    if document is None:
        return None
    target = buffered.facts.target if isinstance(buffered.facts.target, FoundTarget) else FoundTarget()
    source, shown = _source(buffered, target)
    governor = target.governor
    applies = governor is not None and ((governor.applies and governor.advice) or target.boosts)
    return Chunk(
        source=source,
        requests=amounts_of(document),
        containers=tuple(_containers(document, shown, target.boosts)),
        like=target.pod.metadata.name if target.pod is not None else "",
        governor=f"{governor.kind} {governor.name}" if governor is not None and applies else "",
        placement={name: value for name, value in document.items() if name not in _CONTAINERS},
        labels=translation.labels,
    )


def amounts_of(document: Mapping[str, Any], times: int = 1) -> Amounts:
    """What so many chunks request, by resource."""
    try:
        demand = Demand.of(convert_object(dict(document), PodSpec))
    except InvalidInput:
        return {}
    return {name: quantity_text(name, amount * times) for name, amount in demand.amounts if name != PODS}


def _source(buffered: Buffered, target: FoundTarget) -> tuple[Reason, PodSpec | None]:
    """What a chunk is shaped like, and that itself if it is not the Buffer's own."""
    match buffered.meaning.capacity:
        case GivenPods():
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
) -> Iterator[ChunkContainer]:
    before = {each.name: each for each in (*shown.containers, *shown.init_containers)} if shown is not None else {}
    for container in (each for field in _CONTAINERS for each in document.get(field, ())):
        name = container["name"]
        requests = dict(container.get("resources", {}).get("requests", {}))
        had = before[name].resources if name in before else None
        # A limit without a request is the request.
        was = {**had.limits, **had.requests} if had is not None else {}
        yield ChunkContainer(name, requests, was if was != requests else {}, boosted=name in boosts)
