"""The smallest change that makes a kubelet resize a pod that missed its last resize.

The kubelet writes the cgroup of a pod for a resource when the limit of one of its running containers changes; of CPU
also when a request does. One container is enough, because the cgroup is then written for the pod as a whole. The next
resize of such a pod goes back to the recommended size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from trellis.api.resolve import Change, EffectiveVpa
from trellis.core.recommend.amounts import RESOURCES
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.sizing.sizes import ContainerSize, PodSize

_UNITS: Final = {"cpu": 1, "memory": 1 << 20}
_LOWER: Final = (Change.LOWER, Change.LOWER_OR_EQUAL)


def nudged(vpa: EffectiveVpa, size: PodSize, limits: NamespaceLimits) -> PodSize:
    """The size, with a change of each resource that the pod has a limit (or CPU request) of."""
    containers = list(size.containers)
    for resource in RESOURCES:
        places = [place for place, each in enumerate(containers) if _is_bounded(each, resource)]
        if places and not any(_changes(each, resource) for each in containers):
            # A container that restarts for it is the last choice: nothing that was asked for needs the restart.
            place = min(places, key=lambda each: resource in containers[each].container.restarts_on)
            upwards = _may_rise(vpa, containers, place, resource, limits)
            containers[place] = _by_one_unit(
                containers[place], resource, _UNITS[resource] if upwards else -_UNITS[resource]
            )
    return PodSize(tuple(containers))


def _by_one_unit(sized: ContainerSize, resource: str, step: int) -> ContainerSize:
    request, limit = _amounts(sized, resource)
    requests, limits = dict(sized.requests), dict(sized.limits)
    if limit is None or request == limit:
        requests[resource] = (request or 0) + step
    if limit is not None:
        limits[resource] = limit + step
    return msgspec.structs.replace(sized, requests=requests, limits=limits)


def _may_rise(
    vpa: EffectiveVpa, containers: Sequence[ContainerSize], place: int, resource: str, limits: NamespaceLimits
) -> bool:
    """Whether requirements, the policy and LimitRanges leave room for one unit more."""
    sized, step = containers[place], _UNITS[resource]
    request, limit = _amounts(sized, resource)
    most = limits.container.most.get(resource)
    if most and max(request or 0, limit or 0) + step > most:
        return False
    whole = limits.pod.most.get(resource)
    if whole and sum(max(each or 0 for each in _amounts(one, resource)) for one in containers) + step > whole:
        return False
    if limit is not None and request != limit:
        return True
    allowed = vpa.container(sized.container.name).max_allowed.get(resource)
    highest = None if allowed is None else allowed.milli if resource == "cpu" else allowed.units
    lower = any(each.change in _LOWER for each in vpa.requirements if resource in each.resources)
    return not lower and (highest is None or (request or 0) + step <= highest)


def _amounts(sized: ContainerSize, resource: str) -> tuple[int | None, int | None]:
    """The request and the limit that the container would have."""
    spec = sized.container.in_spec
    return (
        sized.requests.get(resource, spec.requests.get(resource)),
        sized.limits.get(resource, spec.limits.get(resource)),
    )


def _changes(sized: ContainerSize, resource: str) -> bool:
    """Whether the size changes what the kubelet compares: limits, and of CPU also requests."""
    spec = sized.container.in_spec
    if sized.limits.get(resource, spec.limits.get(resource)) != spec.limits.get(resource):
        return True
    return resource == "cpu" and sized.requests.get("cpu", spec.requests.get("cpu")) != spec.requests.get("cpu")


def _is_bounded(sized: ContainerSize, resource: str) -> bool:
    """Whether a nudge of this container would be seen; limits that do not follow requests belong to the user."""
    if resource in sized.limits:
        return True
    return resource == "cpu" and "cpu" in sized.requests and "cpu" not in sized.container.in_spec.limits
