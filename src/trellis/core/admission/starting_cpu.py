"""CPU of a pod at its start: the most that any node offers it, its boost, and what it has without the boost.

Buffers and the node autoscaler keep capacity for pods to come: the pod that shows their shape may be boosted at the
moment, and new ones are boosted when they start.
"""

from __future__ import annotations

import msgspec

from trellis.api.kube.pods import Container, Pod, PodSpec, ResourceRequirements
from trellis.api.kube.slices import Quantities
from trellis.base.errors import InvalidInput
from trellis.core.boost.annotation import PreBoostResources, read_pre_boost_resources
from trellis.core.boost.boosted_size import BoostSettings, CpuCeiling, boost_pod
from trellis.core.cluster.json_patches import format_resource_amount
from trellis.core.fit import Demand, NodeTable, find_largest_request
from trellis.core.recommend.amounts import ResourceAmounts
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.sizing.governors import Governor
from trellis.core.sizing.shapes import PodShape, is_resizable
from trellis.core.sizing.sizes import PodSize, size_pod


def find_cpu_ceiling(table: NodeTable, pod: Pod, *, must_fit: bool) -> CpuCeiling | None:
    """The most that this pod could request; None if no node takes it, whatever it requests: then CPU is not why.

    With `must_fit` a boost is cut to what fits, else that is only mentioned.
    """
    try:
        demand = Demand.of(pod.spec)
    except InvalidInput:
        # It has an amount that is none, which the API server refuses in its own words.
        return None
    millicores = find_largest_request(table, demand, "cpu")
    return None if millicores is None else CpuCeiling(millicores, must_fit)


def remove_boost(pod: Pod) -> Pod:
    """The pod with what its boosted containers had before; itself if none is boosted."""
    pre_boost = {
        name: pre_boost_resources
        for name, pre_boost_resources in read_pre_boost_resources(pod.metadata.annotations).items()
        if not pre_boost_resources.problem
    }
    if not pre_boost:
        return pod
    spec = msgspec.structs.replace(
        pod.spec,
        containers=tuple(_restore(container, pre_boost) for container in pod.spec.containers),
        init_containers=tuple(_restore(container, pre_boost) for container in pod.spec.init_containers),
    )
    return msgspec.structs.replace(pod, spec=spec)


def compute_starting_boosts(
    spec: PodSpec, governor: Governor | None, limits: NamespaceLimits, settings: BoostSettings
) -> ResourceAmounts:
    """By container, the millicores with which a new pod of this spec would start; only those that are boosted."""
    if governor is None or not settings.enabled or not governor.vpa.can_boost:
        return {}
    shape, applies = PodShape.from_spec(spec), governor.applies
    size = size_pod(shape, governor.advice, governor.vpa, limits) if applies and governor.advice else PodSize()
    boost = boost_pod(
        shape, size, governor.vpa, applies=applies, limits=limits, settings=settings, resizable=is_resizable(spec)
    )
    return {boosted.container.name: boosted.request for boosted in boost.containers}


def _restore(container: Container, pre_boost: dict[str, PreBoostResources]) -> Container:
    pre_boost_resources = pre_boost.get(container.name)
    if pre_boost_resources is None:
        return container
    resources = container.resources
    changed = ResourceRequirements(
        limits=_restore_cpu(resources.limits, pre_boost_resources.limits),
        requests=_restore_cpu(resources.requests, pre_boost_resources.requests),
        claims=resources.claims,
    )
    return msgspec.structs.replace(container, resources=changed)


def _restore_cpu(now: Quantities, pre_boost_resources: ResourceAmounts) -> dict[str, str]:
    """CPU as it was: no other resource is ever boosted."""
    quantities = {name: text for name, text in now.items() if name != "cpu"}
    if "cpu" in pre_boost_resources:
        quantities["cpu"] = format_resource_amount("cpu", pre_boost_resources["cpu"])
    return quantities
