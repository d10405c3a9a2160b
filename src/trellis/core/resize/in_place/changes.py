"""The change that could be written to a running pod in place.

It is the size that is recommended now, less what must stay: resources that requirements do not permit to change, and
memory limits that the API server does not let go down. What stays can change the size of the rest (a LimitRange for
the pod, its QoS class), so the size is computed again without it until nothing more has to stay.

A pod that missed its last resize has that size in its spec already, and the API server would take the same patch for
no change. So each resource that would not change otherwise is nudged by one unit: 1m of CPU, 1Mi of memory. The
kubelet writes the cgroup of a pod for a resource when the limit of one of its running containers changes; of CPU also
when a request does. One container is enough, because the cgroup is then written for the pod as a whole. The next
resize of such a pod goes back to the recommended size.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from trellis.api.resolve import ChangeRequirement, EffectiveVpa
from trellis.core.boost.boosted_size import is_resizable
from trellis.core.cluster.json_patches import PatchOp, ResourceChange, build_guarded_ops
from trellis.core.recommend.amounts import RESOURCES, ResourceAmounts
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.resize.actuation_requirements import permits_resize
from trellis.core.resize.eligibility import ContainerResource, TargetSizes
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.view import PodView
from trellis.core.sizing.sizes import ContainerSize, PodSize

_UNITS: Final = {"cpu": 1, "memory": 1 << 20}
_LOWER: Final = (ChangeRequirement.LOWER, ChangeRequirement.LOWER_OR_EQUAL)


def nudge_size(vpa: EffectiveVpa, size: PodSize, limits: NamespaceLimits) -> PodSize:
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


_MEMORY = "memory"


class InPlaceChange(msgspec.Struct, frozen=True):
    """What is left to write; `barred` says that requirements kept something from it."""

    patch: tuple[PatchOp, ...] = ()
    wanted: Mapping[str, ResourceAmounts] = {}
    restarts: bool = False
    barred: bool = False


def compute_in_place_change(
    vpa: EffectiveVpa,
    pod: PodView,
    sizes: TargetSizes,
    spared: Collection[ContainerResource],
    settings: UpdateSettings,
    *,
    missed: bool = False,
) -> InPlaceChange:
    """What could be written now, `spared` left alone; a pod that `missed` its last resize is nudged."""
    if not settings.resizes or not is_resizable(pod.pod.spec):
        return InPlaceChange()
    kept, barred = frozenset(spared), False
    while True:
        size = sizes.in_place(pod.in_force, kept)
        staying = {part: by_rule for part, by_rule in _staying(vpa, size, settings) if part not in kept}
        if not staying:
            if missed:
                size = nudge_size(vpa, _with_kept(sizes.in_place(pod.in_force, frozenset(spared)), size), sizes.limits)
            return _written(pod, size, barred)
        kept |= staying.keys()
        barred |= any(staying.values())


def _with_kept(whole: PodSize, size: PodSize) -> PodSize:
    """The size together with what requirements keep, as it is: a nudge may go in the direction that they permit."""
    found = []
    for each in whole.containers:
        spec, sized = each.container.in_spec, size.find(each.container.name)
        requests = {name: spec.requests[name] for name in each.requests if name in spec.requests}
        limits = {name: spec.limits[name] for name in each.limits if name in spec.limits}
        if sized is not None:
            requests, limits = requests | dict(sized.requests), limits | dict(sized.limits)
        found.append(msgspec.structs.replace(each, requests=requests, limits=limits))
    return PodSize(tuple(found))


def _staying(vpa: EffectiveVpa, size: PodSize, settings: UpdateSettings) -> Iterator[tuple[ContainerResource, bool]]:
    """What must stay, and whether it is requirements that say so about something that would change."""
    for sized in size.containers:
        had = sized.container
        for resource, target in sized.requests.items():
            request = had.requests.get(resource, 0)
            if not permits_resize(vpa, resource, target, request):
                yield (had.name, resource), target != request
            elif resource == _MEMORY and not settings.lowers_memory_limits and _lowers_limit(sized):
                yield (had.name, resource), False


def _lowers_limit(sized: ContainerSize) -> bool:
    """Whether the limit in the spec would go down, which before Kubernetes 1.34 takes a restart."""
    limit = sized.container.in_spec.limits.get(_MEMORY, 0)
    return sized.limits.get(_MEMORY, limit) < limit and _MEMORY not in sized.container.restarts_on


def _written(pod: PodView, size: PodSize, barred: bool) -> InPlaceChange:
    changes = [_change(each) for each in size.containers]
    patch = tuple(build_guarded_ops(pod.ref.uid, changes))
    if not patch:
        return InPlaceChange(barred=barred)
    return InPlaceChange(
        patch,
        {each.container.name: each.requests for each in size.containers if each.requests},
        any(resource in each.container.restarts_on for each in size.containers for resource in _changed(each)),
        barred,
    )


def _change(sized: ContainerSize) -> ResourceChange:
    container = sized.container
    return ResourceChange(
        container.place, container.index, container.name, container.written, sized.requests, sized.limits
    )


def _changed(sized: ContainerSize) -> Iterator[str]:
    spec = sized.container.in_spec
    for now, wanted in ((spec.requests, sized.requests), (spec.limits, sized.limits)):
        yield from (resource for resource, amount in wanted.items() if now.get(resource) != amount)
