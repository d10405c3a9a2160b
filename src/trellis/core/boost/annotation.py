"""The pod annotation that holds the resources a container had before its boost, in upstream's key and JSON.

The annotation also marks a boosted pod: it is written with the boost and removed with it. It holds the CPU and memory
with which the pod came to admission, before any recommendation. Every user may edit an annotation, so one that cannot
be read is a boost without known earlier resources, and not an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from trellis.api.kube.decoder import decode_object
from trellis.api.kube.pods import ResourceRequirements
from trellis.base.errors import UnreadableObject
from trellis.core.cluster.json_patches import format_resource_amount
from trellis.core.cluster.pod_annotations import BOOST_ANNOTATION_PREFIX
from trellis.core.recommend.amounts import RESOURCES, ResourceAmounts, parse_amounts
from trellis.core.sizing.shapes import ContainerShape, PodShape

ANNOTATION_PREFIX: Final = BOOST_ANNOTATION_PREFIX

_NONE: ResourceAmounts = {}


class PreBoostResources(msgspec.Struct, frozen=True):
    """What a container had, in millicores and bytes; with a `problem` nothing of it could be read."""

    requests: ResourceAmounts = _NONE
    limits: ResourceAmounts = _NONE
    problem: str = ""


def annotation_key(container: str) -> str:
    """Return the key of the annotation for a container."""
    return ANNOTATION_PREFIX + container


def write_annotation(container: ContainerShape) -> str:
    """The value of that annotation for a container as it comes in."""
    return _encode_amounts(
        *(amounts.get(resource) for amounts in (container.requests, container.limits) for resource in RESOURCES)
    )


def read_pre_boost_resources(annotations: Mapping[str, str]) -> dict[str, PreBoostResources]:
    """Read the pre-boost resources by container. Unreadable ones have a `problem`."""
    return {
        key.removeprefix(ANNOTATION_PREFIX): _read(text)
        for key, text in annotations.items()
        if key.startswith(ANNOTATION_PREFIX)
    }


def is_boosted(annotations: Iterable[str]) -> bool:
    """Whether some container of a pod with these annotations is boosted."""
    return any(key.startswith(ANNOTATION_PREFIX) for key in annotations)


def restore_pre_boost_shape(shape: PodShape, pre_boost: Mapping[str, PreBoostResources]) -> PodShape:
    """A pod with what its boosted containers had before.

    This is what a size is made from: an added quantity has changed the proportion of limit and request that its author
    wrote. It also is what admission sizes when it sees a pod a second time, or a copy of a boosted one; otherwise that
    pod would be boosted twice.
    """
    restored = {
        name: ResourceRequirements(
            requests=_format_amounts(resources.requests), limits=_format_amounts(resources.limits)
        )
        for name, resources in pre_boost.items()
        if not resources.problem
    }
    if not restored:
        return shape
    # Nothing asks any more what the spec says now: that is the boost, which goes.
    containers = shape.with_resources(restored).containers
    return msgspec.structs.replace(
        shape,
        containers=tuple(
            msgspec.structs.replace(container, declared=None) if container.name in restored else container
            for container in containers
        ),
    )


# The pods of a workload are alike, and writing quantities takes longer than all the rest of a boost.
@lru_cache(maxsize=4096)
def _encode_amounts(cpu: int | None, memory: int | None, cpu_limit: int | None, memory_limit: int | None) -> str:
    pairs = {"requests": (cpu, memory), "limits": (cpu_limit, memory_limit)}
    return msgspec.json.encode(
        {
            field: {
                resource: format_resource_amount(resource, amount)
                for resource, amount in zip(RESOURCES, amounts, strict=True)
                if amount is not None
            }
            for field, amounts in pairs.items()
        }
    ).decode()


def _format_amounts(amounts: ResourceAmounts) -> dict[str, str]:
    return {
        resource: format_resource_amount(resource, amounts[resource]) for resource in RESOURCES if resource in amounts
    }


def _read(text: str) -> PreBoostResources:
    try:
        written = decode_object(text.encode(errors="replace"), ResourceRequirements)
    except UnreadableObject as error:
        return PreBoostResources(problem=error.rule)
    read = {"requests": parse_amounts(written.requests), "limits": parse_amounts(written.limits)}
    for field, quantities in (("requests", written.requests), ("limits", written.limits)):
        for resource in RESOURCES:
            if resource in quantities and read[field].get(resource, -1) < 0:
                return PreBoostResources(problem=f'{field}.{resource}: "{quantities[resource]}" is not an amount')
    return PreBoostResources(read["requests"], read["limits"])
