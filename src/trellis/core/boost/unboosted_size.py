"""Computes the CPU that a container goes back to when its boost is over.

This is the current recommendation where the VPA applies one to its CPU, even above the boost; else what it had before,
as the annotation of the pod records. The sizes are made from the pod as it was before the boost, because an added
quantity has changed the proportion of limit and request. CPU alone is set: memory was never boosted, and is updated as
usual later.

A running pod keeps its QoS class, and nothing can be removed from its resources: the API server refuses a resize that
tries either, and the boost would stay for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from trellis.api.resolve import EffectiveVpa
from trellis.base.reasons import Reason, Severity
from trellis.core.boost.annotation import PreBoostResources, restore_pre_boost_shape
from trellis.core.boost.phases import PodBoostPhases
from trellis.core.recommend.amounts import ResourceAmounts
from trellis.core.recommend.capping import NamespaceLimits, PodContainer, RecommendedResources
from trellis.core.sizing.shapes import ContainerShape, PodShape, QosClass, compute_qos
from trellis.core.sizing.sizes import ContainerSize, size_pod

UNBOOSTED_TO_RECOMMENDATION = Reason(
    "UnboostedToRecommendation", "The boost is over, and the container gets the CPU recommended now."
)
UNBOOSTED_TO_SPEC = Reason(
    "UnboostedToSpec", "The boost is over, and the container gets the CPU it requested before the boost."
)
UNBOOST_UNKNOWN = Reason(
    "UnboostUnknown",
    "The boost is over, but there is no recommendation and no record of the original CPU: the container keeps its CPU.",
    Severity.WARNING,
)

_CPU = "cpu"
# A request cannot be removed from a running pod, and one of 0 may leave it in another QoS class.
_LEAST_REQUEST = 1
_NONE: ResourceAmounts = {}
_NO_ANNOTATION = PreBoostResources(problem="the pod has no such annotation")


class UnboostedContainer(msgspec.Struct, frozen=True):
    """What a container is to have, CPU alone.

    `changes` says that the spec does not say so yet. `settled` says that this is in force: what is left to do is to
    remove the annotation. Between the two the kubelet has its say, and the pod counts as boosted.
    """

    container: str
    requests: ResourceAmounts
    limits: ResourceAmounts
    reason: Reason
    changes_spec: bool = False
    is_in_force: bool = True


def unboost_containers(
    shape: PodShape,
    advice: Sequence[RecommendedResources],
    vpa: EffectiveVpa,
    *,
    applies: bool,
    limits: NamespaceLimits,
    phases: PodBoostPhases,
    pre_boost: Mapping[str, PreBoostResources],
) -> tuple[UnboostedContainer, ...]:
    """One for each container that is due; `shape` has the resources in force, `applies` is false in mode `Off`."""
    if not phases.due:
        return ()
    containers = {container.name: container for container in shape.containers}
    # Those that are not due stay as they are, boosted or not, and the others must fit in beside them.
    pre_boost_of_due = {
        container.container: pre_boost.get(container.container, _NO_ANNOTATION) for container in phases.due
    }
    unboosted_shape = restore_pre_boost_shape(
        shape,
        {
            name: _restore_cpu_only(pre_boost_of_due[name], containers[name])
            for name in pre_boost_of_due
            if name in containers
        },
    )
    recommended = [
        RecommendedResources(container.container, {_CPU: container.target[_CPU]})
        for container in advice
        if applies and container.container in pre_boost_of_due and _CPU in container.target
    ]
    size = size_pod(unboosted_shape, recommended, vpa, limits, keep_qos=True)
    unboosted = [
        _unboost(name, containers.get(name), size.find(name), resources) for name, resources in pre_boost_of_due.items()
    ]
    return _keep_qos(unboosted, shape)


def _restore_cpu_only(pre_boost: PreBoostResources, container: ContainerShape) -> PreBoostResources:
    """The CPU that is remembered, and all else as it is now: that may have been sized since, and stays."""
    in_spec = container.in_spec
    requests, limits = (
        {resource: amount for resource, amount in amounts.items() if resource != _CPU}
        | {resource: amount for resource, amount in pre_boost_amounts.items() if resource == _CPU}
        for amounts, pre_boost_amounts in ((in_spec.requests, pre_boost.requests), (in_spec.limits, pre_boost.limits))
    )
    return PreBoostResources(requests, limits, pre_boost.problem)


def _unboost(
    name: str, container: ContainerShape | None, size: ContainerSize | None, pre_boost: PreBoostResources
) -> UnboostedContainer:
    """Compute what one container goes back to, without regard to the others."""
    if container is None:
        return UnboostedContainer(name, _NONE, _NONE, UNBOOST_UNKNOWN)
    # A limit that the boost raised goes back even if limits are no longer controlled.
    limit = pre_boost.limits.get(_CPU, container.limits.get(_CPU, 0))
    if size is not None and size.requests.get(_CPU):
        return _build_unboosted(
            container, size.requests[_CPU], size.limits.get(_CPU, limit), UNBOOSTED_TO_RECOMMENDATION
        )
    if pre_boost.problem:
        return UnboostedContainer(name, _NONE, _NONE, UNBOOST_UNKNOWN)
    request = pre_boost.requests.get(_CPU, 0) or pre_boost.limits.get(_CPU, 0) or _LEAST_REQUEST
    return _build_unboosted(container, request, limit, UNBOOSTED_TO_SPEC)


def _build_unboosted(container: ContainerShape, request: int, limit: int, reason: Reason) -> UnboostedContainer:
    return UnboostedContainer(
        container.name,
        {_CPU: request},
        {_CPU: limit} if limit else _NONE,
        reason,
        changes_spec=not _has_cpu(container.in_spec, request, limit),
        is_in_force=_has_cpu(container, request, limit),
    )


def _has_cpu(container: ContainerShape | PodContainer, request: int, limit: int) -> bool:
    return container.requests.get(_CPU) == request and container.limits.get(_CPU, 0) == limit


def _keep_qos(unboosted: Sequence[UnboostedContainer], shape: PodShape) -> tuple[UnboostedContainer, ...]:
    """The same, moved by as little as keeps the QoS class.

    What was remembered is from before admission, which may have given the pod another class than its author.
    """
    if shape.qos is _compute_qos_with(unboosted, shape):
        return tuple(unboosted)
    containers = {container.name: container for container in shape.containers}
    if shape.qos is QosClass.GUARANTEED:
        return tuple(
            _equalize(container, containers[container.container]) if container.requests else container
            for container in unboosted
        )
    return tuple(
        _separate(container, containers[container.container]) if container.limits else container
        for container in unboosted
    )


def _equalize(unboosted: UnboostedContainer, container: ContainerShape) -> UnboostedContainer:
    """Request and limit of a container in a Guaranteed pod: both what its limit says."""
    limit = unboosted.limits.get(_CPU, 0)
    if not limit:
        return UnboostedContainer(unboosted.container, _NONE, _NONE, UNBOOST_UNKNOWN)
    return _build_unboosted(container, limit, limit, unboosted.reason)


def _separate(unboosted: UnboostedContainer, container: ContainerShape) -> UnboostedContainer:
    """Request and limit of a container in a pod that must not become Guaranteed: 1m apart."""
    request, limit = unboosted.requests[_CPU], unboosted.limits[_CPU]
    if request != limit:
        return unboosted
    unequal = (request - 1, limit) if request > _LEAST_REQUEST else (request, limit + 1)
    return _build_unboosted(container, *unequal, unboosted.reason)


def _compute_qos_with(unboosted: Sequence[UnboostedContainer], shape: PodShape) -> QosClass:
    """The class that the API server would give the pod."""
    if shape.has_pod_resources:
        return shape.qos
    changed = {container.container: container for container in unboosted}
    amounts: list[tuple[ResourceAmounts, ResourceAmounts]] = []
    for container in (*shape.containers, *shape.init_containers):
        in_spec, unboosted_container = container.in_spec, changed.get(container.name)
        amounts.append(
            ({**in_spec.requests, **unboosted_container.requests}, {**in_spec.limits, **unboosted_container.limits})
            if unboosted_container
            else (in_spec.requests, in_spec.limits)
        )
    return compute_qos(amounts)
