"""With how much CPU would a new pod start, and what would one that is boosted now have without it?

Whoever keeps room for pods to come asks both: the pod that shows their shape may be boosted at the moment, and they
will be boosted when they come.
"""

from __future__ import annotations

import msgspec

from trellis.api.kube.containers import Container, Resources
from trellis.api.kube.pods import Pod, PodSpec
from trellis.api.kube.slices import Quantities
from trellis.core.boost.memory import Remembered, read_memory
from trellis.core.boost.raising import BoostSettings, boost_pod, is_resizable
from trellis.core.model.patches import quantity_text
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.recommend.capping.limit_ranges import Counts
from trellis.core.sizing.governors import Governor
from trellis.core.sizing.shapes import PodShape
from trellis.core.sizing.sizes import PodSize, size_pod


def unboosted(pod: Pod) -> Pod:
    """The pod with what its boosted containers had before; itself if none is boosted."""
    memory = {name: had for name, had in read_memory(pod.metadata.annotations).items() if not had.problem}
    if not memory:
        return pod
    spec = msgspec.structs.replace(
        pod.spec,
        containers=tuple(_before(each, memory) for each in pod.spec.containers),
        init_containers=tuple(_before(each, memory) for each in pod.spec.init_containers),
    )
    return msgspec.structs.replace(pod, spec=spec)


def starting_boosts(
    spec: PodSpec, governor: Governor | None, limits: NamespaceLimits, settings: BoostSettings
) -> Counts:
    """By container, the millicores with which a new pod of this spec would start; only those that are boosted."""
    if governor is None or not settings.enabled or not governor.vpa.boosts:
        return {}
    shape, applies = PodShape.of(spec), governor.applies
    size = size_pod(shape, governor.advice, governor.vpa, limits) if applies and governor.advice else PodSize()
    found = boost_pod(
        shape, size, governor.vpa, applies=applies, limits=limits, settings=settings, resizable=is_resizable(spec)
    )
    return {each.container.name: each.request for each in found.raised}


def _before(container: Container, memory: dict[str, Remembered]) -> Container:
    had = memory.get(container.name)
    if had is None:
        return container
    now = container.resources
    changed = Resources(
        limits=_with(now.limits, had.limits), requests=_with(now.requests, had.requests), claims=now.claims
    )
    return msgspec.structs.replace(container, resources=changed)


def _with(now: Quantities, had: Counts) -> dict[str, str]:
    """CPU as it was: no other resource is ever boosted."""
    found = {name: text for name, text in now.items() if name != "cpu"}
    if "cpu" in had:
        found["cpu"] = quantity_text("cpu", had["cpu"])
    return found
