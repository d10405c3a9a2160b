"""What does the usage model follow of a pod?

Containers and native sidecars, each with what it asks for. Init containers are left out: they are gone before there is
anything to size. Pod-level resources are left out too, because they bound the pod as a whole: a container without a
request of its own has none here, whatever its pod has.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache

import msgspec

from trellis.api.kube.observed_pods import Amounts, ObservedPod, ObservedResources
from trellis.base.errors import InvalidQuantity
from trellis.base.quantity import Quantity

_NO_RESOURCES = ObservedResources()


class FollowedContainer(msgspec.Struct, frozen=True, gc=False):
    """A container whose usage is recorded, and what it requests, in bytes and millicores; NaN if it does not."""

    name: str
    memory_request: float = math.nan
    cpu_request: float = math.nan


class FollowedPod(msgspec.Struct, frozen=True, gc=False):
    """A pod, and the autoscaler whose rows its usage feeds. `started` is in seconds since the epoch, NaN if unknown."""

    namespace: str
    name: str
    uid: str
    vpa: str
    ready: bool
    containers: tuple[FollowedContainer, ...]
    started: float = math.nan


def followed(pod: ObservedPod, vpa: str) -> FollowedPod:
    """The pod as it is followed for the autoscaler that governs it."""
    metadata = pod.metadata
    containers = tuple(_followed(each.name, resources_now(pod, each.name).requests) for each in pod.spec.running)
    # Where a pod has to wait for room, it was made long before anything in it could run.
    started = pod.status.start_time or metadata.creation_timestamp
    return FollowedPod(
        metadata.namespace,
        metadata.name,
        metadata.uid,
        vpa,
        pod.status.ready,
        containers,
        started.timestamp() if started is not None else math.nan,
    )


def memory_request(pod: ObservedPod, container: str) -> float:
    """Bytes, as the node has them set aside now or else as the spec asks; NaN without a request."""
    return memory_bytes(resources_now(pod, container).requests.memory)


def _followed(name: str, requests: Amounts) -> FollowedContainer:
    return FollowedContainer(name, memory_bytes(requests.memory), cpu_millicores(requests.cpu))


def resources_now(pod: ObservedPod, container: str) -> ObservedResources:
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


def where_resources_stand(pods: Iterable[ObservedPod]) -> Counter[str]:
    """How many containers have their resources read from where, in upstream's words."""
    found: Counter[str] = Counter()
    for pod in pods:
        reported = {each.name for each in pod.status.container_statuses if each.resources is not None}
        known = sum(each.name in reported for each in pod.spec.containers)
        found["Pod.Status.ContainerStatuses"] += known
        found["Pod.Spec.Containers"] += len(pod.spec.containers) - known
        if pod.spec.init_containers:
            sidecars = [each.name for each in pod.spec.init_containers if each.is_sidecar]
            reported = {each.name for each in pod.status.init_container_statuses if each.resources is not None}
            known = sum(name in reported for name in sidecars)
            found["Pod.Status.InitContainerStatuses"] += known
            found["Pod.Spec.InitContainers"] += len(sidecars) - known
    return found


# A cluster has few different texts, and reading one takes longer than the rest of a pod.
@lru_cache(maxsize=4096)
def memory_bytes(text: str) -> float:
    """Bytes; NaN for an empty text, and for one that is no quantity, which only a broken writer leaves behind."""
    try:
        return float(Quantity.parse(text).units) if text else math.nan
    except InvalidQuantity:
        return math.nan


@lru_cache(maxsize=4096)
def cpu_millicores(text: str) -> float:
    """Millicores, by the same rules."""
    try:
        return float(Quantity.parse(text).milli) if text else math.nan
    except InvalidQuantity:
        return math.nan
