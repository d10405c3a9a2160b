"""How much does a pod ask of a node in all?

The scheduler's rule (`PodRequests` in Kubernetes 1.36): what runs side by side is added up, native sidecars included;
an init container runs beside the sidecars that were started before it; the larger of the two counts. What the pod asks
for as a whole replaces what its containers ask for. Its overhead comes on top.

A template does not have yet what the API server fills in for a pod: a request that is not written is the limit. Where
only the whole pod has a limit, that is its request, unless its containers ask for some of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from trellis.api.kube.containers import Container, Resources
from trellis.api.kube.pods import PodSpec
from trellis.base.errors import InvalidQuantity
from trellis.core.fit.resources import Counts, is_counted, is_for_whole_pods, nanos_in, nanos_of

_NO_RESOURCES = Resources()


def effective_requests(spec: PodSpec, instead: Mapping[str, Counts], whole: Counts) -> dict[str, int]:
    """Nanos of each resource, without the overhead.

    `instead` has counts that take the place of what a container is written to request, `whole` those for the pod.
    """
    found = _of_containers(spec, instead)
    resources = spec.resources or _NO_RESOURCES
    for name, text in resources.limits.items():
        if is_for_whole_pods(name) and (name not in found or name.startswith("hugepages-")):
            found[name] = _read(text, f"resources.limits[{name}]")
    for name, text in resources.requests.items():
        if is_for_whole_pods(name):
            found[name] = _read(text, f"resources.requests[{name}]")
    return found | {name: nanos_in(name, count) for name, count in whole.items()}


def overhead(spec: PodSpec) -> dict[str, int]:
    """Nanos that running the pod takes beside what its containers ask for."""
    return {name: _read(text, f"overhead[{name}]") for name, text in spec.overhead.items() if is_counted(name)}


def _of_containers(spec: PodSpec, instead: Mapping[str, Counts]) -> dict[str, int]:
    running: dict[str, int] = {}
    for at, container in enumerate(spec.containers):
        _add(running, _requests(container, f"containers[{at}]", instead))
    if not spec.init_containers:
        return running
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for at, container in enumerate(spec.init_containers):
        requests = dict(_requests(container, f"initContainers[{at}]", instead))
        if container.is_sidecar:
            _add(running, requests.items())
            _add(sidecars, requests.items())
        else:
            _add(requests, sidecars.items())
            _raise(peak, requests)
    _raise(running, peak)
    return running


def _requests(container: Container, place: str, instead: Mapping[str, Counts]) -> Iterator[tuple[str, int]]:
    resources = container.resources
    changed = instead.get(container.name, {})
    for field, written in (("requests", resources.requests), ("limits", resources.limits)):
        for name, text in written.items():
            if name in changed or not is_counted(name) or (field == "limits" and name in resources.requests):
                continue
            yield name, _read(text, f"{place}.resources.{field}[{name}]")
    for name, count in changed.items():
        yield name, nanos_in(name, count)


def _add(to: dict[str, int], amounts: Iterable[tuple[str, int]]) -> None:
    for name, nanos in amounts:
        to[name] = to.get(name, 0) + nanos


def _raise(to: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, nanos in amounts.items():
        to[name] = max(to.get(name, 0), nanos)


def _read(text: str, place: str) -> int:
    try:
        nanos = nanos_of(text)
    except InvalidQuantity as error:
        raise InvalidQuantity(text, f"spec.{place}: {error.rule}") from error
    if nanos < 0:
        raise InvalidQuantity(text, f"spec.{place}: must not be negative")
    return nanos
