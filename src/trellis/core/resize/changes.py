"""What could be written to a pod that runs, in place?

The size that is recommended now, less what must stay: resources that requirements do not permit to change, and memory
limits that the API server does not let go down. What stays can change what the rest comes to (a LimitRange for the
pod, its QoS class), so the size is made anew without it until nothing more has to stay.

A pod that missed its last resize has that size in its spec already, and the API server would take the same patch for no
change. So each resource that would not change otherwise is nudged by one unit: 1m of CPU, 1Mi of memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import msgspec

from trellis.api.resolve import EffectiveVpa
from trellis.core.boost.raising import is_resizable
from trellis.core.model.patches import PatchOp, ResourceChange, guarded_ops
from trellis.core.recommend.capping.limit_ranges import Counts
from trellis.core.resize.alike import Sizes
from trellis.core.resize.eligibility import Part
from trellis.core.resize.nudges import nudged
from trellis.core.resize.requirements import permits_resize
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.views import PodView
from trellis.core.sizing.sizes import ContainerSize, PodSize

_MEMORY = "memory"


class InPlaceChange(msgspec.Struct, frozen=True):
    """What is left to write; `barred` says that requirements kept something from it."""

    patch: tuple[PatchOp, ...] = ()
    wanted: Mapping[str, Counts] = {}
    restarts: bool = False
    barred: bool = False


def change_in_place(
    vpa: EffectiveVpa,
    pod: PodView,
    sizes: Sizes,
    spared: Collection[Part],
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
                size = nudged(vpa, _with_kept(sizes.in_place(pod.in_force, frozenset(spared)), size), sizes.limits)
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


def _staying(vpa: EffectiveVpa, size: PodSize, settings: UpdateSettings) -> Iterator[tuple[Part, bool]]:
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
    patch = tuple(guarded_ops(pod.ref.uid, changes))
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
