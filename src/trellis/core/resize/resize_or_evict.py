"""Resizes in place: the table that decides to resize, evict, wait or leave, and the change that could be written.

A pod reaches the table when it needs a change. The row is found by update mode, stage of the resize, and possible
change. `Recreate` evicts. `InPlaceOrRecreate` resizes, and evicts when that has failed. `InPlace` resizes, never
evicts, and tries again when there is another change to try. Whether the pod may be disrupted now, or evicted at all,
is checked after the table.

The change is the size that is recommended now, less what must stay: resources that requirements do not permit to
change, and memory limits that the API server does not let go down. What stays can change the size of the rest (a
LimitRange for the pod, its QoS class), so the size is computed again without it until nothing more has to stay.

A pod that missed its last resize has that size in its spec already, and the API server would take the same patch for
no change. So each resource that would not change otherwise is nudged by one unit: 1m of CPU, 1Mi of memory. The
kubelet writes the cgroup of a pod for a resource when the limit of one of its running containers changes; of CPU also
when a request does. One container is enough, because the cgroup is then written for the pod as a whole. The next
resize of such a pod goes back to the recommended size.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import product
from typing import Final

import msgspec

from trellis.api.resolve import ChangeRequirement, EffectiveVpa, UpdateMode
from trellis.base.reasons import Reason, Severity
from trellis.core.cluster.json_patches import PatchOp, ResourceChange, build_guarded_ops
from trellis.core.recommend.amounts import RESOURCES, ResourceAmounts
from trellis.core.recommend.capping import NamespaceLimits
from trellis.core.resize.actions import DecisionKind
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.update_need import (
    NUDGE_UNITS,
    REQUIREMENTS_FORBID_RESIZE,
    ContainerResource,
    TargetSizes,
    permits_resize,
)
from trellis.core.resize.view import PodView, ResizeState, ResizeStatus
from trellis.core.sizing.shapes import is_resizable
from trellis.core.sizing.sizes import ContainerSize, PodSize

EVICT_TO_RECREATE = Reason(
    "EvictToRecreate", "The update mode applies a new size by eviction: the replacement gets it."
)
RESIZE_IN_PLACE = Reason("ResizeInPlace", "A resize in place gives the pod its new size.")
RESIZE_UNDER_WAY = Reason("ResizeUnderWay", "A resize was requested, and the kubelet has not applied it yet.")
RESIZE_DEFERRED = Reason(
    "ResizeDeferred", "The node has too little free capacity for the resize now; the kubelet retries it."
)
RESIZE_DEFERRED_TOO_LONG = Reason(
    "ResizeDeferredTooLong", "The resize has been deferred for so long that the pod is evicted."
)
RESIZE_STUCK = Reason("ResizeStuck", "The resize has been in progress for so long that the pod is evicted.")
RESIZE_FAILING = Reason("ResizeFailing", "The kubelet fails to resize the pod, and retries.", Severity.WARNING)
RESIZE_FAILED = Reason("ResizeFailed", "The kubelet fails to resize the pod, so the pod is evicted.", Severity.WARNING)
RESIZE_INFEASIBLE = Reason(
    "ResizeInfeasible",
    "The node can never provide this size, so the pod keeps its size until the recommendation changes.",
)
EVICT_INFEASIBLE = Reason("EvictInfeasible", "The node can never provide this size, so the pod is evicted.")
RESIZE_REFUSED = Reason(
    "ResizeRefused",
    "The API server refused this resize; it is tried again with another recommendation or on another node.",
)
EVICT_REFUSED = Reason("EvictRefused", "The API server refused the resize, so the pod is evicted.")
NOT_POSSIBLE_IN_PLACE = Reason(
    "NotPossibleInPlace", "The recommended size needs a new pod, and this update mode never evicts."
)
EVICT_NOT_POSSIBLE = Reason("EvictNotPossibleInPlace", "The recommended size needs a new pod.")
CONTAINER_DOWN = Reason(
    "ContainerDown",
    "A container is down, and the kubelet does not apply a resize to the pod's cgroup until it runs again.",
)
CONTAINER_DOWN_TOO_LONG = Reason(
    "ContainerDownTooLong", "A container has been down for so long that the pod is evicted instead of resized."
)
CLOSEST_POSSIBLE_SIZE = Reason(
    "ClosestPossibleSize",
    "The pod is as close to the recommendation as a resize allows, and the rest is not worth an eviction.",
)


class ResizeStage(StrEnum):
    """The progress of a resize, and whether it has taken too long."""

    IDLE = "not under way"
    REQUESTED = "proposed or in progress"
    STUCK = "in progress for too long"
    DEFERRED = "deferred"
    OVERDUE = "deferred for too long"
    FAILING = "failing"
    INFEASIBLE = "infeasible"


class ResizeProspect(StrEnum):
    """What kind of change could be written to the pod now."""

    UNTRIED = "a change that was not tried"
    DOWN = "a change, once all containers run"
    DOWN_TOO_LONG = "a change, and a container is down for too long"
    TRIED = "nothing beyond what was asked"
    REFUSED = "a change that the API server refused"
    FORBIDDEN = "nothing that requirements permit"
    IMPOSSIBLE = "nothing that a resize can do"
    NEGLIGIBLE = "nothing, and little is missing"


class DecisionTableRow(msgspec.Struct, frozen=True):
    """A row of the decision table."""

    mode: UpdateMode
    stages: tuple[ResizeStage, ...]
    prospects: tuple[ResizeProspect, ...]
    kind: DecisionKind
    reason: Reason


_ANY: Final = tuple(ResizeProspect)
_IDLE: Final = (ResizeStage.IDLE,)
CONTAINER_DOWN_PROSPECTS: Final = (ResizeProspect.DOWN, ResizeProspect.DOWN_TOO_LONG)
_NOT_UNTRIED: Final = tuple(
    prospect
    for prospect in ResizeProspect
    if prospect is not ResizeProspect.UNTRIED and prospect not in CONTAINER_DOWN_PROSPECTS
)
_IN_PLACE_OR_RECREATE: Final = UpdateMode.IN_PLACE_OR_RECREATE
_IN_PLACE: Final = UpdateMode.IN_PLACE

DECISION_TABLE: Final = (
    DecisionTableRow(UpdateMode.RECREATE, (ResizeStage.REQUESTED,), _ANY, DecisionKind.WAIT, RESIZE_UNDER_WAY),
    DecisionTableRow(
        UpdateMode.RECREATE,
        tuple(stage for stage in ResizeStage if stage is not ResizeStage.REQUESTED),
        _ANY,
        DecisionKind.EVICT,
        EVICT_TO_RECREATE,
    ),
    DecisionTableRow(_IN_PLACE_OR_RECREATE, _IDLE, (ResizeProspect.UNTRIED,), DecisionKind.RESIZE, RESIZE_IN_PLACE),
    DecisionTableRow(
        _IN_PLACE_OR_RECREATE,
        (ResizeStage.IDLE, ResizeStage.DEFERRED, ResizeStage.INFEASIBLE),
        (ResizeProspect.DOWN,),
        DecisionKind.WAIT,
        CONTAINER_DOWN,
    ),
    DecisionTableRow(
        _IN_PLACE_OR_RECREATE,
        (ResizeStage.IDLE, ResizeStage.DEFERRED, ResizeStage.INFEASIBLE),
        (ResizeProspect.DOWN_TOO_LONG,),
        DecisionKind.EVICT,
        CONTAINER_DOWN_TOO_LONG,
    ),
    DecisionTableRow(_IN_PLACE_OR_RECREATE, _IDLE, (ResizeProspect.REFUSED,), DecisionKind.EVICT, EVICT_REFUSED),
    DecisionTableRow(
        _IN_PLACE_OR_RECREATE, _IDLE, (ResizeProspect.IMPOSSIBLE,), DecisionKind.EVICT, EVICT_NOT_POSSIBLE
    ),
    DecisionTableRow(
        _IN_PLACE_OR_RECREATE, _IDLE, (ResizeProspect.FORBIDDEN,), DecisionKind.LEAVE, REQUIREMENTS_FORBID_RESIZE
    ),
    DecisionTableRow(
        _IN_PLACE_OR_RECREATE,
        _IDLE,
        (ResizeProspect.TRIED, ResizeProspect.NEGLIGIBLE),
        DecisionKind.LEAVE,
        CLOSEST_POSSIBLE_SIZE,
    ),
    DecisionTableRow(_IN_PLACE_OR_RECREATE, (ResizeStage.REQUESTED,), _ANY, DecisionKind.WAIT, RESIZE_UNDER_WAY),
    DecisionTableRow(_IN_PLACE_OR_RECREATE, (ResizeStage.STUCK,), _ANY, DecisionKind.EVICT, RESIZE_STUCK),
    DecisionTableRow(
        _IN_PLACE_OR_RECREATE, (ResizeStage.DEFERRED,), (ResizeProspect.UNTRIED,), DecisionKind.RESIZE, RESIZE_IN_PLACE
    ),
    DecisionTableRow(_IN_PLACE_OR_RECREATE, (ResizeStage.DEFERRED,), _NOT_UNTRIED, DecisionKind.WAIT, RESIZE_DEFERRED),
    DecisionTableRow(_IN_PLACE_OR_RECREATE, (ResizeStage.OVERDUE,), _ANY, DecisionKind.EVICT, RESIZE_DEFERRED_TOO_LONG),
    DecisionTableRow(_IN_PLACE_OR_RECREATE, (ResizeStage.FAILING,), _ANY, DecisionKind.EVICT, RESIZE_FAILED),
    DecisionTableRow(
        _IN_PLACE_OR_RECREATE,
        (ResizeStage.INFEASIBLE,),
        (ResizeProspect.UNTRIED,),
        DecisionKind.RESIZE,
        RESIZE_IN_PLACE,
    ),
    DecisionTableRow(
        _IN_PLACE_OR_RECREATE, (ResizeStage.INFEASIBLE,), _NOT_UNTRIED, DecisionKind.EVICT, EVICT_INFEASIBLE
    ),
    DecisionTableRow(_IN_PLACE, (ResizeStage.REQUESTED,), _ANY, DecisionKind.WAIT, RESIZE_UNDER_WAY),
    DecisionTableRow(
        _IN_PLACE,
        (
            ResizeStage.IDLE,
            ResizeStage.STUCK,
            ResizeStage.DEFERRED,
            ResizeStage.OVERDUE,
            ResizeStage.FAILING,
            ResizeStage.INFEASIBLE,
        ),
        (ResizeProspect.UNTRIED,),
        DecisionKind.RESIZE,
        RESIZE_IN_PLACE,
    ),
    DecisionTableRow(
        _IN_PLACE,
        tuple(stage for stage in ResizeStage if stage is not ResizeStage.REQUESTED),
        CONTAINER_DOWN_PROSPECTS,
        DecisionKind.WAIT,
        CONTAINER_DOWN,
    ),
    DecisionTableRow(_IN_PLACE, _IDLE, (ResizeProspect.REFUSED,), DecisionKind.LEAVE, RESIZE_REFUSED),
    DecisionTableRow(_IN_PLACE, _IDLE, (ResizeProspect.IMPOSSIBLE,), DecisionKind.LEAVE, NOT_POSSIBLE_IN_PLACE),
    DecisionTableRow(_IN_PLACE, _IDLE, (ResizeProspect.FORBIDDEN,), DecisionKind.LEAVE, REQUIREMENTS_FORBID_RESIZE),
    DecisionTableRow(
        _IN_PLACE, _IDLE, (ResizeProspect.TRIED, ResizeProspect.NEGLIGIBLE), DecisionKind.LEAVE, CLOSEST_POSSIBLE_SIZE
    ),
    DecisionTableRow(_IN_PLACE, (ResizeStage.STUCK,), _NOT_UNTRIED, DecisionKind.WAIT, RESIZE_UNDER_WAY),
    DecisionTableRow(
        _IN_PLACE, (ResizeStage.DEFERRED, ResizeStage.OVERDUE), _NOT_UNTRIED, DecisionKind.WAIT, RESIZE_DEFERRED
    ),
    DecisionTableRow(_IN_PLACE, (ResizeStage.FAILING,), _NOT_UNTRIED, DecisionKind.WAIT, RESIZE_FAILING),
    DecisionTableRow(_IN_PLACE, (ResizeStage.INFEASIBLE,), _NOT_UNTRIED, DecisionKind.LEAVE, RESIZE_INFEASIBLE),
)

_ROWS: Final = {
    (row.mode, stage, prospect): row for row in DECISION_TABLE for stage, prospect in product(row.stages, row.prospects)
}


def look_up_decision(mode: UpdateMode, stage: ResizeStage, prospect: ResizeProspect) -> DecisionTableRow:
    """The row of the decision table for a pod that needs a change."""
    return _ROWS[mode, stage, prospect]


def determine_resize_stage(
    resize: ResizeStatus, requested_at: float | None, now: float, settings: UpdateSettings
) -> tuple[ResizeStage, float | None]:
    """The stage, and when it changes without an event before.

    `requested_at` is when the updater wrote the resize, if known: the kubelet reports none before it has seen it.
    """
    since = resize.since if resize.since is not None else requested_at
    match resize.state:
        case ResizeState.NONE:
            return ResizeStage.IDLE, None
        case ResizeState.INFEASIBLE:
            return ResizeStage.INFEASIBLE, None
        case ResizeState.FAILING:
            return ResizeStage.FAILING, None
        case ResizeState.DEFERRED:
            return _find_stage_at(ResizeStage.DEFERRED, ResizeStage.OVERDUE, since, settings.deferred_patience, now)
        case ResizeState.PROPOSED | ResizeState.IN_PROGRESS:
            return _find_stage_at(ResizeStage.REQUESTED, ResizeStage.STUCK, since, settings.progress_patience, now)


def _find_stage_at(
    early: ResizeStage, late: ResizeStage, since: float | None, patience: float, now: float
) -> tuple[ResizeStage, float | None]:
    if since is None:
        return early, None
    return (late, None) if now >= since + patience else (early, since + patience)


_LOWER: Final = (ChangeRequirement.LOWER, ChangeRequirement.LOWER_OR_EQUAL)


def nudge_size(vpa: EffectiveVpa, size: PodSize, limits: NamespaceLimits) -> PodSize:
    """Change each resource for which the pod has a limit (or a CPU request) by one unit, unless the size changes it."""
    containers = list(size.containers)
    for resource in RESOURCES:
        positions = [position for position, sized in enumerate(containers) if _is_bounded(sized, resource)]
        if positions and not any(_changes_cgroup(sized, resource) for sized in containers):
            # A container that restarts for the change is the last choice: no recommendation requires that restart.
            position = min(positions, key=lambda index: resource in containers[index].container.restarts_on)
            may_rise = _may_rise(vpa, containers, position, resource, limits)
            containers[position] = _change_by_unit(
                containers[position], resource, NUDGE_UNITS[resource] if may_rise else -NUDGE_UNITS[resource]
            )
    return PodSize(tuple(containers))


def _change_by_unit(sized: ContainerSize, resource: str, step: int) -> ContainerSize:
    request, limit = _amounts(sized, resource)
    requests, limits = dict(sized.requests), dict(sized.limits)
    if limit is None or request == limit:
        requests[resource] = (request or 0) + step
    if limit is not None:
        limits[resource] = limit + step
    return msgspec.structs.replace(sized, requests=requests, limits=limits)


def _may_rise(
    vpa: EffectiveVpa, containers: Sequence[ContainerSize], position: int, resource: str, limits: NamespaceLimits
) -> bool:
    """Whether requirements, the policy and LimitRanges permit one unit more."""
    sized, step = containers[position], NUDGE_UNITS[resource]
    request, limit = _amounts(sized, resource)
    limit_range_max = limits.container.most.get(resource)
    if limit_range_max and max(request or 0, limit or 0) + step > limit_range_max:
        return False
    pod_limit = limits.pod.most.get(resource)
    if (
        pod_limit
        and sum(max(amount or 0 for amount in _amounts(sized, resource)) for sized in containers) + step > pod_limit
    ):
        return False
    if limit is not None and request != limit:
        return True
    allowed = vpa.get_container(sized.container.name).max_allowed.get(resource)
    max_allowed = None if allowed is None else allowed.milli if resource == "cpu" else allowed.units
    must_not_rise = any(
        requirement.change in _LOWER for requirement in vpa.requirements if resource in requirement.resources
    )
    return not must_not_rise and (max_allowed is None or (request or 0) + step <= max_allowed)


def _amounts(sized: ContainerSize, resource: str) -> tuple[int | None, int | None]:
    """The request and the limit of the container after the change."""
    spec = sized.container.in_spec
    return (
        sized.requests.get(resource, spec.requests.get(resource)),
        sized.limits.get(resource, spec.limits.get(resource)),
    )


def _changes_cgroup(sized: ContainerSize, resource: str) -> bool:
    """Whether the size changes what the kubelet compares: limits, and of CPU also requests."""
    spec = sized.container.in_spec
    if sized.limits.get(resource, spec.limits.get(resource)) != spec.limits.get(resource):
        return True
    return resource == "cpu" and sized.requests.get("cpu", spec.requests.get("cpu")) != spec.requests.get("cpu")


def _is_bounded(sized: ContainerSize, resource: str) -> bool:
    """Whether the kubelet would notice a nudge of this container; limits that do not follow requests are the user's."""
    if resource in sized.limits:
        return True
    return resource == "cpu" and "cpu" in sized.requests and "cpu" not in sized.container.in_spec.limits


_MEMORY = "memory"


class InPlaceChange(msgspec.Struct, frozen=True):
    """The change to write; `is_forbidden` says that requirements excluded a part of it."""

    patch: tuple[PatchOp, ...] = ()
    requests: Mapping[str, ResourceAmounts] = {}
    restarts: bool = False
    is_forbidden: bool = False


def compute_in_place_change(
    vpa: EffectiveVpa,
    pod: PodView,
    sizes: TargetSizes,
    excluded: Collection[ContainerResource],
    settings: UpdateSettings,
    *,
    missed: bool = False,
) -> InPlaceChange:
    """The change that could be written now, without `excluded`. A pod that `missed` its last resize is nudged."""
    if not settings.resizes or not is_resizable(pod.pod.spec):
        return InPlaceChange()
    omitted, is_forbidden = frozenset(excluded), False
    while True:
        size = sizes.find_in_place_size(pod.in_force, omitted)
        unchangeable = {
            resource: is_required
            for resource, is_required in _find_unchangeable(vpa, size, settings)
            if resource not in omitted
        }
        if not unchangeable:
            if missed:
                size = nudge_size(
                    vpa,
                    _restore_forbidden(sizes.find_in_place_size(pod.in_force, frozenset(excluded)), size),
                    sizes.limits,
                )
            return _build_change(pod, size, is_forbidden)
        omitted |= unchangeable.keys()
        is_forbidden |= any(unchangeable.values())


def _restore_forbidden(full_size: PodSize, size: PodSize) -> PodSize:
    """Add the resources that requirements exclude, unchanged: a nudge may go in the permitted direction."""
    containers = []
    for full in full_size.containers:
        spec, sized = full.container.in_spec, size.find(full.container.name)
        requests = {name: spec.requests[name] for name in full.requests if name in spec.requests}
        limits = {name: spec.limits[name] for name in full.limits if name in spec.limits}
        if sized is not None:
            requests, limits = requests | dict(sized.requests), limits | dict(sized.limits)
        containers.append(msgspec.structs.replace(full, requests=requests, limits=limits))
    return PodSize(tuple(containers))


def _find_unchangeable(
    vpa: EffectiveVpa, size: PodSize, settings: UpdateSettings
) -> Iterator[tuple[ContainerResource, bool]]:
    """Resources that must not change, and whether a requirement forbids an actual change."""
    for sized in size.containers:
        container = sized.container
        for resource, target in sized.requests.items():
            request = container.requests.get(resource, 0)
            if not permits_resize(vpa, resource, target, request):
                yield (container.name, resource), target != request
            elif resource == _MEMORY and not settings.lowers_memory_limits and _lowers_limit(sized):
                yield (container.name, resource), False


def _lowers_limit(sized: ContainerSize) -> bool:
    """Whether the memory limit in the spec would be lowered, which before Kubernetes 1.34 takes a restart."""
    limit = sized.container.in_spec.limits.get(_MEMORY, 0)
    return sized.limits.get(_MEMORY, limit) < limit and _MEMORY not in sized.container.restarts_on


def _build_change(pod: PodView, size: PodSize, is_forbidden: bool) -> InPlaceChange:
    changes = [_build_resource_change(sized) for sized in size.containers]
    patch = tuple(build_guarded_ops(pod.ref.uid, changes))
    if not patch:
        return InPlaceChange(is_forbidden=is_forbidden)
    return InPlaceChange(
        patch,
        {sized.container.name: sized.requests for sized in size.containers if sized.requests},
        any(
            resource in sized.container.restarts_on
            for sized in size.containers
            for resource in _list_changed_resources(sized)
        ),
        is_forbidden,
    )


def _build_resource_change(sized: ContainerSize) -> ResourceChange:
    container = sized.container
    return ResourceChange(
        container.place, container.index, container.name, container.written, sized.requests, sized.limits
    )


def _list_changed_resources(sized: ContainerSize) -> Iterator[str]:
    spec = sized.container.in_spec
    for now, target in ((spec.requests, sized.requests), (spec.limits, sized.limits)):
        yield from (resource for resource, amount in target.items() if now.get(resource) != amount)
