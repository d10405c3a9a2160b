"""Fills in the requests and limits that the API server gives to containers without them, as far as objects show them.

Webhooks, priority classes and the overhead of runtime classes are known to the API server only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import msgspec

from trellis.api.kube.pods import Container, PodSpec
from trellis.api.kube.policies import LimitRange
from trellis.api.kube.slices import NOTHING, Quantities

_CONTAINER: Final = "Container"


def with_default_requests(spec: PodSpec) -> PodSpec:
    """A spec as the API server stores it: a limit without a request is also the request."""
    return _fill_containers(spec, lambda container: (NOTHING, container.resources.limits))


def with_namespace_defaults(spec: PodSpec, ranges: Iterable[LimitRange]) -> PodSpec:
    """A spec as the API server stores it in a namespace with these LimitRanges.

    The requests that follow from a container's own limits come first, then the defaults of each LimitRange.
    """
    spec = with_default_requests(spec)
    for limit_range in sorted(ranges, key=lambda limit_range: limit_range.metadata.name):
        items = [item for item in limit_range.spec.limits if item.type == _CONTAINER]
        limits = {name: text for item in items for name, text in item.default.items()}
        requests = {name: text for item in items for name, text in item.default_request.items()}
        spec = _fill_containers(spec, partial(_get_defaults, (limits, requests)))
    return spec


def _get_defaults(defaults: tuple[Quantities, Quantities], _container: Container) -> tuple[Quantities, Quantities]:
    return defaults


def _fill_containers(spec: PodSpec, find_defaults: Callable[[Container], tuple[Quantities, Quantities]]) -> PodSpec:
    def fill(container: Container) -> Container:
        resources = container.resources
        default_limits, default_requests = find_defaults(container)
        limits, requests = {**default_limits, **resources.limits}, {**default_requests, **resources.requests}
        if limits.keys() == resources.limits.keys() and requests.keys() == resources.requests.keys():
            return container
        filled = msgspec.structs.replace(resources, limits=limits, requests=requests)
        return msgspec.structs.replace(container, resources=filled)

    containers, init_containers = tuple(map(fill, spec.containers)), tuple(map(fill, spec.init_containers))
    return msgspec.structs.replace(spec, containers=containers, init_containers=init_containers)
