"""Resource amounts as the scheduler counts them, and what a pod requests in all.

CPU is counted in millicores, everything else in whole units, rounded up after adding: the rules of
`Resource.SetMaxResource` and `IsScalarResourceName` in Kubernetes 1.36. A resource that the scheduler does not count,
such as `storage` or a made-up name without a domain, never keeps a pod from a node.

A pod's request follows `PodRequests` in Kubernetes 1.36: what runs side by side is added up, native sidecars included;
an init container runs beside the sidecars that were started before it; the larger of the two counts. Pod-level requests
replace those of the containers, and the overhead comes on top. A template lacks what the API server fills in for a pod:
a request that is not written is the limit, and where only the pod as a whole has a limit, that is its request, unless
its containers request some of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from trellis.api.kube.pods import Container, PodSpec, ResourceRequirements
from trellis.base.errors import InvalidQuantity
from trellis.base.quantities import NANOS_PER_UNIT, Quantity

ResourceCounts: TypeAlias = Mapping[str, int]

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

# The most that a node counts as having; a pod requests at most one more: 8 PiB, or 9 million million cores. A thousand
# such pods still add up to an int64.
LARGEST_AMOUNT: Final = 2**53

_NANOS_IN_COUNT: Final = {CPU: 10**6}
_PREFIXES: Final = ("hugepages-", "attachable-volumes-")


# Called for every resource of every pod and node, with a dozen names.
@lru_cache(maxsize=1024)
def is_counted_by_scheduler(name: str) -> bool:
    """Whether the scheduler counts a resource."""
    if name in (CPU, MEMORY, EPHEMERAL_STORAGE) or name.startswith(_PREFIXES):
        return True
    return "/" in name and (not name.startswith("requests.") or "kubernetes.io/" in name)


def is_pod_level_resource(name: str) -> bool:
    """Whether a resource may be requested at the level of the pod."""
    return name in (CPU, MEMORY) or name.startswith("hugepages-")


# A cluster has few different texts, and reading one takes longer than the rest of a pod.
@lru_cache(maxsize=4096)
def parse_nanos(text: str) -> int:
    """An amount in nanos, in which Kubernetes adds amounts exactly."""
    return Quantity.parse(text).nanos


def parse_nanos_or_zero(text: str) -> int:
    """An amount in nanos; zero if it cannot be read."""
    try:
        return parse_nanos(text)
    except InvalidQuantity:
        return 0


def count_from_nanos(name: str, nanos: int, maximum: int) -> int:
    """Nanos as the count that is compared, between 0 and `maximum`."""
    return min(max(-(-nanos // _NANOS_IN_COUNT.get(name, NANOS_PER_UNIT)), 0), maximum)


def nanos_from_count(name: str, count: int) -> int:
    """A count as nanos."""
    return count * _NANOS_IN_COUNT.get(name, NANOS_PER_UNIT)


_NO_RESOURCES = ResourceRequirements()


def compute_requests(
    spec: PodSpec, overrides: Mapping[str, ResourceCounts], pod_overrides: ResourceCounts
) -> dict[str, int]:
    """Nanos of each resource, without the overhead.

    `overrides` has counts that replace the requests of a container, `pod_overrides` those of the pod.
    """
    requests = _sum_containers(spec, overrides)
    resources = spec.resources or _NO_RESOURCES
    for name, text in resources.limits.items():
        if is_pod_level_resource(name) and (name not in requests or name.startswith("hugepages-")):
            requests[name] = _parse_amount(text, f"resources.limits[{name}]")
    for name, text in resources.requests.items():
        if is_pod_level_resource(name):
            requests[name] = _parse_amount(text, f"resources.requests[{name}]")
    return requests | {name: nanos_from_count(name, count) for name, count in pod_overrides.items()}


def read_overhead(spec: PodSpec) -> dict[str, int]:
    """Nanos of each resource of the pod's overhead."""
    return {
        name: _parse_amount(text, f"overhead[{name}]")
        for name, text in spec.overhead.items()
        if is_counted_by_scheduler(name)
    }


def _sum_containers(spec: PodSpec, overrides: Mapping[str, ResourceCounts]) -> dict[str, int]:
    running: dict[str, int] = {}
    for at, container in enumerate(spec.containers):
        _add(running, _list_requests(container, f"containers[{at}]", overrides))
    if not spec.init_containers:
        return running
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for at, container in enumerate(spec.init_containers):
        requests = dict(_list_requests(container, f"initContainers[{at}]", overrides))
        if container.is_sidecar:
            _add(running, requests.items())
            _add(sidecars, requests.items())
        else:
            _add(requests, sidecars.items())
            _raise_to(peak, requests)
    _raise_to(running, peak)
    return running


def _list_requests(
    container: Container, path: str, overrides: Mapping[str, ResourceCounts]
) -> Iterator[tuple[str, int]]:
    resources = container.resources
    changed = overrides.get(container.name, {})
    for field, written in (("requests", resources.requests), ("limits", resources.limits)):
        for name, text in written.items():
            if (
                name in changed
                or not is_counted_by_scheduler(name)
                or (field == "limits" and name in resources.requests)
            ):
                continue
            yield name, _parse_amount(text, f"{path}.resources.{field}[{name}]")
    for name, count in changed.items():
        yield name, nanos_from_count(name, count)


def _add(to: dict[str, int], amounts: Iterable[tuple[str, int]]) -> None:
    for name, nanos in amounts:
        to[name] = to.get(name, 0) + nanos


def _raise_to(to: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, nanos in amounts.items():
        to[name] = max(to.get(name, 0), nanos)


def _parse_amount(text: str, path: str) -> int:
    try:
        nanos = parse_nanos(text)
    except InvalidQuantity as error:
        raise InvalidQuantity(text, f"spec.{path}: {error.rule}") from error
    if nanos < 0:
        raise InvalidQuantity(text, f"spec.{path}: must not be negative")
    return nanos
