"""Reads what the containers of a pod request now, from status or spec, as numbers.

The status counts where it lists resources: the two differ while a resize is under way.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from trellis.api.kube.observed_pods import ObservedPod, ObservedResources
from trellis.base.errors import InvalidQuantity
from trellis.base.quantities import Quantity

_NO_RESOURCES = ObservedResources()


def read_memory_request(pod: ObservedPod, container: str) -> float:
    """Bytes, as the node has them set aside now or else as the spec asks; NaN without a request."""
    return parse_memory_bytes(read_current_resources(pod, container).requests.memory)


def read_current_resources(pod: ObservedPod, container: str) -> ObservedResources:
    """What the node has set aside and enforces now, or else what the spec asks for.

    The two differ while a resize is under way. A status that lists resources counts even where it lists no memory.
    """
    status = pod.status
    for reported in (*status.container_statuses, *status.init_container_statuses):
        if reported.name == container and reported.resources is not None:
            return reported.resources
    for declared in (*pod.spec.containers, *pod.spec.init_containers):
        if declared.name == container:
            return declared.resources
    return _NO_RESOURCES


# Where the resources of a container are read from, in upstream's words.
_STATUS, _SPEC = "Pod.Status.ContainerStatuses", "Pod.Spec.Containers"
_INIT_STATUS, _INIT_SPEC = "Pod.Status.InitContainerStatuses", "Pod.Spec.InitContainers"
RESOURCE_SOURCES: Final = (_SPEC, _STATUS, _INIT_SPEC, _INIT_STATUS)


def count_resource_sources(pods: Iterable[ObservedPod]) -> Counter[str]:
    """How many containers have their resources read from each of `RESOURCE_SOURCES`."""
    counts: Counter[str] = Counter()
    for pod in pods:
        reported = {status.name for status in pod.status.container_statuses if status.resources is not None}
        reported_count = sum(container.name in reported for container in pod.spec.containers)
        counts[_STATUS] += reported_count
        counts[_SPEC] += len(pod.spec.containers) - reported_count
        if pod.spec.init_containers:
            sidecars = [container.name for container in pod.spec.init_containers if container.is_sidecar]
            reported = {status.name for status in pod.status.init_container_statuses if status.resources is not None}
            reported_count = sum(name in reported for name in sidecars)
            counts[_INIT_STATUS] += reported_count
            counts[_INIT_SPEC] += len(sidecars) - reported_count
    return counts


# A cluster has few different texts, and reading one takes longer than the rest of a pod.
@lru_cache(maxsize=4096)
def parse_memory_bytes(text: str) -> float:
    """Bytes; NaN for an empty text, and for one that is no quantity, which only a broken writer leaves behind."""
    try:
        return float(Quantity.parse(text).units) if text else math.nan
    except InvalidQuantity:
        return math.nan


@lru_cache(maxsize=4096)
def parse_cpu_millicores(text: str) -> float:
    """Millicores, by the same rules."""
    try:
        return float(Quantity.parse(text).milli) if text else math.nan
    except InvalidQuantity:
        return math.nan
