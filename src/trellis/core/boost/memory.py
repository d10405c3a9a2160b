"""What did a container have before it was boosted? An annotation of its pod remembers, in upstream's key and JSON.

The annotation is also the mark by which a boosted pod is known: it is written with the boost and removed with it. It
tells the CPU and memory that came in with the pod, before any recommendation. Anybody may edit an annotation, so that
one which cannot be read is a boost without a memory, and nothing worse.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from trellis.api.kube.containers import Resources
from trellis.api.kube.decode import decode_object
from trellis.base.errors import UnreadableObject
from trellis.core.model.patches import quantity_text
from trellis.core.recommend.amounts import RESOURCES
from trellis.core.recommend.capping.limit_ranges import Counts, counts
from trellis.core.sizing.shapes import ContainerShape, PodShape

PREFIX: Final = "vpaCpuStartupBoost/"

_NONE: Counts = {}


class Remembered(msgspec.Struct, frozen=True):
    """What a container had, in millicores and bytes; with a `problem` nothing of it could be read."""

    requests: Counts = _NONE
    limits: Counts = _NONE
    problem: str = ""


def memory_key(container: str) -> str:
    """The annotation that remembers a container."""
    return PREFIX + container


def remembered(container: ContainerShape) -> str:
    """The value of that annotation for a container as it comes in."""
    return _written(*(each.get(resource) for each in (container.requests, container.limits) for resource in RESOURCES))


def read_memory(annotations: Mapping[str, str]) -> dict[str, Remembered]:
    """By container, what a pod remembers; never an exception."""
    return {key.removeprefix(PREFIX): _read(text) for key, text in annotations.items() if key.startswith(PREFIX)}


def is_boosted(annotations: Iterable[str]) -> bool:
    """Whether some container of a pod with these annotations is boosted."""
    return any(key.startswith(PREFIX) for key in annotations)


def before_boost(shape: PodShape, memory: Mapping[str, Remembered]) -> PodShape:
    """A pod with what its boosted containers had before.

    This is what a size is made from: an added quantity has changed the proportion of limit and request that its author
    wrote. It also is what admission sizes when it sees a pod a second time, or a copy of a boosted one; otherwise that
    pod would be boosted twice.
    """
    known = {
        name: Resources(requests=_texts(had.requests), limits=_texts(had.limits))
        for name, had in memory.items()
        if not had.problem
    }
    if not known:
        return shape
    # Nothing asks any more what the spec says now: that is the boost, which goes.
    then = shape.with_resources(known).containers
    return msgspec.structs.replace(
        shape,
        containers=tuple(msgspec.structs.replace(each, declared=None) if each.name in known else each for each in then),
    )


# The pods of a workload are alike, and writing quantities takes longer than all the rest of a boost.
@lru_cache(maxsize=4096)
def _written(cpu: int | None, memory: int | None, cpu_limit: int | None, memory_limit: int | None) -> str:
    pairs = {"requests": (cpu, memory), "limits": (cpu_limit, memory_limit)}
    return msgspec.json.encode(
        {
            field: {
                resource: quantity_text(resource, amount)
                for resource, amount in zip(RESOURCES, amounts, strict=True)
                if amount is not None
            }
            for field, amounts in pairs.items()
        }
    ).decode()


def _texts(amounts: Counts) -> dict[str, str]:
    return {resource: quantity_text(resource, amounts[resource]) for resource in RESOURCES if resource in amounts}


def _read(text: str) -> Remembered:
    try:
        written = decode_object(text.encode(errors="replace"), Resources)
    except UnreadableObject as error:
        return Remembered(problem=error.rule)
    read = {"requests": counts(written.requests), "limits": counts(written.limits)}
    for field, quantities in (("requests", written.requests), ("limits", written.limits)):
        for resource in RESOURCES:
            if resource in quantities and read[field].get(resource, -1) < 0:
                return Remembered(problem=f'{field}.{resource}: "{quantities[resource]}" is not an amount')
    return Remembered(read["requests"], read["limits"])
