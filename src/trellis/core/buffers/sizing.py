"""As big as what? A chunk is as big as the pods that will come, whatever the pods that run were made with.

New pods get the recommendation in force, and so does a chunk, also where its shape is that of an older pod. A boost for
the start of a pod is part of what it requests when a node is sought for it, so that it is part of the chunk; whether
pods start boosted is for admission to say.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from trellis.api.kube.containers import Container, Resources
from trellis.api.kube.pods import PodSpec
from trellis.core.buffers.facts import FoundTarget
from trellis.core.model.patches import quantity_text
from trellis.core.recommend.capping.limit_ranges import Counts
from trellis.core.sizing import ContainerSize, Place, PodShape, PodSize, size_pod

_CPU = "cpu"
_NONE: Counts = {}


def sized(spec: PodSpec, target: FoundTarget) -> PodSpec:
    """The pod as it would be made now."""
    sizes = {(each.container.place, each.container.index): each for each in _sizes(spec, target).containers}
    if not sizes and not target.boosts:
        return spec
    return msgspec.structs.replace(
        spec,
        containers=_resized(spec.containers, Place.CONTAINERS, sizes, target.boosts),
        init_containers=_resized(spec.init_containers, Place.INIT, sizes, target.boosts),
    )


def _sizes(spec: PodSpec, target: FoundTarget) -> PodSize:
    governor = target.governor
    if governor is None or not governor.applies or not governor.advice:
        return PodSize()
    return size_pod(PodShape.of(spec), governor.advice, governor.vpa, target.limits)


def _resized(
    containers: tuple[Container, ...],
    place: Place,
    sizes: Mapping[tuple[Place, int], ContainerSize],
    boosts: Counts,
) -> tuple[Container, ...]:
    return tuple(
        _container(each, sizes.get((place, index)), boosts.get(each.name, 0)) for index, each in enumerate(containers)
    )


def _container(container: Container, size: ContainerSize | None, boost: int) -> Container:
    requests = size.requests if size is not None else _NONE
    limits = size.limits if size is not None else _NONE
    if boost > requests.get(_CPU, 0):
        requests = {**requests, _CPU: boost}
    if not requests and not limits:
        return container
    written = container.resources
    changed = Resources(
        limits={**written.limits, **_texts(limits)},
        requests={**written.requests, **_texts(requests)},
        claims=written.claims,
    )
    return msgspec.structs.replace(container, resources=changed)


def _texts(amounts: Counts) -> dict[str, str]:
    return {name: quantity_text(name, amount) for name, amount in amounts.items()}
