"""Decides whether a pod should change, for which reason, and whether actuation requirements permit it.

Upstream's rules. A pod that requests less or more than its bounds should change at once. So should one that ran out of
memory soon after its start, if its size would be different now by more than the unit by which a repeated resize nudges.
Any other is left alone for its first 12 hours, and later unless the change is 10 % at least. The pod is compared with
what a new pod would get, and not with the bare recommendation: a pod that has all it could get needs nothing, however
far its recommendation is out of reach.

Pods of a workload are alike, so that the target size of each shape is computed once per plan.

Actuation requirements:

| | by eviction | in place |
|---|---|---|
| one requirement lists both resources | one of them must satisfy it | each must satisfy it |
| several requirements | all must hold, for one and the same container | each governs the resources it lists |
| a resource that none lists | is not compared | is changed freely |

The target is compared with the request of the running pod. A missing request counts as zero; where there is no target
the request stays, and so it is compared with itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Generic, TypeAlias, TypeVar

import msgspec

from trellis.api.resolve import ChangeRequirement, EffectiveRequirement, EffectiveVpa
from trellis.base.reasons import Reason, Severity
from trellis.core.recommend.amounts import RESOURCES, ResourceAmounts
from trellis.core.recommend.capping import CappedResources, NamespaceLimits, RecommendedResources, cap_for_pod
from trellis.core.resize.settings import UpdateSettings
from trellis.core.sizing.governors import Governor
from trellis.core.sizing.shapes import PodShape
from trellis.core.sizing.sizes import PodSize, size_pod

REQUIREMENTS_FORBID_EVICTION = Reason(
    "RequirementsForbidEviction",
    "No container that needs a change satisfies all actuation requirements, so the pod is not evicted.",
)
REQUIREMENTS_FORBID_RESIZE = Reason(
    "RequirementsForbidResize",
    "The actuation requirements allow no part of the change, so the pod is not changed.",
)
REQUEST_MISSING = Reason("RequestMissing", "A container has no request for a resource that is recommended.")
OUTSIDE_BOUNDS = Reason("OutsideBounds", "A request of a container is outside the recommended bounds.")
QUICK_OOM = Reason("QuickOom", "A container ran out of memory soon after it started, and a new size is recommended.")
RESIZE_MISSED = Reason(
    "ResizeMissed",
    "The last resize was written while a container was down, so the pod's cgroup still has the old limits.",
    Severity.WARNING,
)
SIGNIFICANT_CHANGE = Reason(
    "SignificantChange",
    "The pod is within its recommended bounds, but old enough, and the change is above the update threshold.",
)
NOTHING_RECOMMENDED = Reason("NothingRecommended", "There is no recommendation for the containers of the pod.")
SIZE_AS_RECOMMENDED = Reason(
    "SizeAsRecommended", "The pod has the recommended size, as far as LimitRanges and other rules allow."
)
POD_TOO_YOUNG = Reason("PodTooYoung", "The pod is within its recommended bounds, and too young for a change.")
CHANGE_TOO_SMALL = Reason(
    "ChangeTooSmall", "The pod is within its recommended bounds, and the change is below the update threshold."
)


class RequestComparison(msgspec.Struct, frozen=True):
    """One container that needs a change: what it should request and what it requests."""

    container: str
    targets: ResourceAmounts
    requests: ResourceAmounts


def satisfies_change(change: ChangeRequirement, target: int, request: int) -> bool:
    """Whether a target compares with a request as a requirement demands."""
    match change:
        case ChangeRequirement.HIGHER:
            return target > request
        case ChangeRequirement.HIGHER_OR_EQUAL:
            return target >= request
        case ChangeRequirement.LOWER:
            return target < request
        case ChangeRequirement.LOWER_OR_EQUAL:
            return target <= request
        case ChangeRequirement.NEVER:
            return False


def permits_eviction(vpa: EffectiveVpa, containers: Iterable[RequestComparison]) -> bool:
    """Whether some of the containers that need a change satisfies all requirements."""
    return any(
        all(_is_satisfied(requirement, comparison) for requirement in vpa.requirements) for comparison in containers
    )


def permits_resize(vpa: EffectiveVpa, resource: str, target: int, request: int) -> bool:
    """Whether one resource of a container may be changed in place."""
    if vpa.requirements_for_eviction_only:
        return True
    applicable = (requirement for requirement in vpa.requirements if resource in requirement.resources)
    return all(satisfies_change(requirement.change, target, request) for requirement in applicable)


def _is_satisfied(requirement: EffectiveRequirement, comparison: RequestComparison) -> bool:
    for resource in requirement.resources:
        request = comparison.requests.get(resource, 0)
        if satisfies_change(requirement.change, comparison.targets.get(resource, request), request):
            return True
    return False


# A resource of a container, by their names.
ContainerResource: TypeAlias = tuple[str, str]


class UpdateNeed(msgspec.Struct, frozen=True):
    """A pod should change. `difference` is the sum over resources of how far requests are off, as a share of them."""

    reason: Reason
    rises: bool
    difference: float
    containers: tuple[RequestComparison, ...]

    @property
    def urgency(self) -> tuple[bool, float]:
        """The greater goes first: pods that need more, then those that are further off."""
        return self.rises, self.difference


class NoUpdateNeed(msgspec.Struct, frozen=True):
    """A pod should not change; `until` is when it may need a change without an event before.

    `difference` is how far requests are off, as in `UpdateNeed`.
    """

    reason: Reason
    until: float | None = None
    difference: float = 0.0


# By so much a resource changes that is resized only for the kubelet to write the cgroup of the pod: 1m of CPU, 1Mi.
NUDGE_UNITS: Final[Mapping[str, int]] = {"cpu": 1, "memory": 1 << 20}


class SizeGap(msgspec.Struct, frozen=True):
    """How far a pod of one shape is from one size, over all its containers. Pods of the same shape share it.

    `is_within_nudge` says that no request is off by more than one unit.
    """

    has_recommendation: bool
    lacks_request: bool
    rises: bool
    is_outside_bounds: bool
    is_within_nudge: bool
    difference: float
    changes: tuple[RequestComparison, ...]


class _GapTotals:
    """Sums over the containers of a pod."""

    def __init__(self) -> None:
        self.requested: dict[str, int] = {}
        self.recommended: dict[str, int] = {}
        self.lacks_request = self.rises = self.is_outside_bounds = False
        self.is_within_nudge = True
        self.changes: list[RequestComparison] = []

    @property
    def difference(self) -> float:
        return sum(
            abs(max(self.requested[resource], 1) - amount) / max(self.requested[resource], 1)
            for resource, amount in self.recommended.items()
        )


def measure_gap(shape: PodShape, size: PodSize, bounds: Mapping[str, CappedResources]) -> SizeGap:
    """The gap between a shape and a size; resources without a recommendation do not count."""
    sums = _sum_gaps(shape, size, bounds)
    return SizeGap(
        bool(sums.recommended),
        sums.lacks_request,
        sums.rises,
        sums.is_outside_bounds,
        sums.is_within_nudge,
        sums.difference,
        tuple(sums.changes),
    )


def assess_update_need(
    gap: SizeGap, *, started: float | None, quick_oom: bool, now: float, settings: UpdateSettings
) -> UpdateNeed | NoUpdateNeed:
    """Whether a pod with this gap should change."""
    if not gap.has_recommendation:
        return NoUpdateNeed(NOTHING_RECOMMENDED)
    if not gap.changes:
        return NoUpdateNeed(SIZE_AS_RECOMMENDED)
    quick_oom = quick_oom and not gap.is_within_nudge
    if not gap.is_outside_bounds and not quick_oom:
        if started is None:
            return NoUpdateNeed(POD_TOO_YOUNG, difference=gap.difference)
        if gap.difference < settings.update_threshold:
            return NoUpdateNeed(CHANGE_TOO_SMALL, difference=gap.difference)
        if now < started + settings.lifetime:
            return NoUpdateNeed(POD_TOO_YOUNG, started + settings.lifetime, gap.difference)
    return UpdateNeed(_find_need_reason(gap, quick_oom), gap.rises, gap.difference, gap.changes)


def _find_need_reason(gap: SizeGap, quick_oom: bool) -> Reason:
    if quick_oom:
        return QUICK_OOM
    if gap.lacks_request:
        return REQUEST_MISSING
    return OUTSIDE_BOUNDS if gap.is_outside_bounds else SIGNIFICANT_CHANGE


def _sum_gaps(shape: PodShape, size: PodSize, bounds: Mapping[str, CappedResources]) -> _GapTotals:
    sums = _GapTotals()
    requested = {container.name: container.requests for container in shape.containers}
    for sized in size.containers:
        name = sized.container.name
        for resource, target in sized.requests.items():
            _add_resource(sums, resource, target, requested[name].get(resource), bounds[name])
        if any(requested[name].get(resource) != target for resource, target in sized.requests.items()):
            sums.changes.append(RequestComparison(name, sized.requests, requested[name]))
    return sums


def _add_resource(sums: _GapTotals, resource: str, target: int, request: int | None, bounds: CappedResources) -> None:
    sums.recommended[resource] = sums.recommended.get(resource, 0) + target
    sums.requested[resource] = sums.requested.get(resource, 0) + (request or 0)
    if request is None:
        sums.lacks_request = sums.rises = sums.is_outside_bounds = True
        sums.is_within_nudge = False
    elif request != target:
        sums.rises |= target > request
        sums.is_outside_bounds |= not _is_within_bounds(resource, request, bounds.lower, bounds.upper)
        sums.is_within_nudge &= abs(target - request) <= NUDGE_UNITS[resource]


def _is_within_bounds(resource: str, request: int, lower: ResourceAmounts, upper: ResourceAmounts) -> bool:
    """A missing bound does not limit."""
    return lower.get(resource, request) <= request <= upper.get(resource, request)


def read_container_requests(shape: PodShape) -> dict[str, ResourceAmounts]:
    """What the containers of a pod request, by name."""
    return {
        container.name: {name: container.requests[name] for name in RESOURCES if name in container.requests}
        for container in shape.containers
    }


# A workload in the middle of a rollout has pods of two or three shapes. With many more, a lookup costs as much.
_MAX_CACHED_SHAPES: Final = 8

_T = TypeVar("_T")


class _ShapeCache(Generic[_T]):
    """The last few values by shape and excluded resources; shapes can be compared, but not hashed."""

    def __init__(self) -> None:
        self._entries: list[tuple[PodShape, frozenset[ContainerResource], _T]] = []

    def find(self, shape: PodShape, excluded: frozenset[ContainerResource]) -> _T | None:
        for cached_shape, cached_excluded, value in self._entries:
            if cached_excluded == excluded and (cached_shape is shape or cached_shape == shape):
                return value
        return None

    def put(self, shape: PodShape, excluded: frozenset[ContainerResource], value: _T) -> _T:
        self._entries.append((shape, excluded, value))
        del self._entries[:-_MAX_CACHED_SHAPES]
        return value


class TargetSizes:
    """The sizes of one workload's pods during one plan. `excluded` resources are never changed."""

    def __init__(self, governor: Governor, limits: NamespaceLimits) -> None:
        self._governor, self.limits = governor, limits
        self._gaps: _ShapeCache[SizeGap] = _ShapeCache()
        self._in_place_sizes: _ShapeCache[PodSize] = _ShapeCache()

    def find_gap(self, shape: PodShape, excluded: frozenset[ContainerResource]) -> SizeGap:
        """The gap between a pod and a new pod."""
        return self._gaps.find(shape, excluded) or self._gaps.put(shape, excluded, self._measure_gap(shape, excluded))

    def find_in_place_size(self, shape: PodShape, excluded: frozenset[ContainerResource]) -> PodSize:
        """The size that the pod can be resized to."""
        cached = self._in_place_sizes.find(shape, excluded)
        if cached is not None:
            return cached
        advice = _remove_excluded(self._governor.advice, excluded)
        size = size_pod(shape, advice, self._governor.vpa, self.limits, keep_qos=True)
        return self._in_place_sizes.put(shape, excluded, size)

    def _measure_gap(self, shape: PodShape, excluded: frozenset[ContainerResource]) -> SizeGap:
        vpa, advice = self._governor.vpa, _remove_excluded(self._governor.advice, excluded)
        capped = cap_for_pod(advice, shape.containers, vpa, self.limits)
        # Resources of the pod as a whole change what LimitRanges mean for a size, but not for bounds.
        size = size_pod(shape, advice, vpa, self.limits, capped=None if shape.pod_limits else capped)
        return measure_gap(shape, size, {resources.container: resources for resources in capped})


def _remove_excluded(
    advice: Sequence[RecommendedResources], excluded: Collection[ContainerResource]
) -> Sequence[RecommendedResources]:
    """The recommendation without excluded resources."""
    if not excluded:
        return advice
    return [
        msgspec.structs.replace(
            recommended,
            target={
                name: amount
                for name, amount in recommended.target.items()
                if (recommended.container, name) not in excluded
            },
        )
        for recommended in advice
    ]
