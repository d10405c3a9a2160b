"""Decides whether a pod should change, for which reason, and whether actuation requirements permit it.

Upstream's rules. A pod that requests less or more than its bounds should change at once. So should one that ran out of
memory soon after its start, if its size would be different now. Any other is left alone for its first 12 hours, and
later unless the change is 10 % at least. The pod is compared with what a new pod would get, and not with the bare
recommendation: a pod that has all it could get needs nothing, however far its recommendation is out of reach.

Pods of a workload are alike, so that the target size of each shape is computed once per plan.

Actuation requirements:

| | by eviction | in place |
|---|---|---|
| one requirement lists both resources | either may compare as asked | each must compare as asked itself |
| several requirements | all must hold, for one and the same container | each governs the resources it lists |
| a resource that none lists | has no say | is changed freely |

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
    "No container that needs a change satisfies all actuation requirements, so that the pod is not evicted.",
)
REQUIREMENTS_FORBID_RESIZE = Reason(
    "RequirementsForbidResize",
    "The actuation requirements permit no part of the change, so that the pod is left alone.",
)
REQUEST_MISSING = Reason("RequestMissing", "A container lacks a request that is recommended for it.")
OUTSIDE_BOUNDS = Reason("OutsideBounds", "A container requests less or more than the recommended bounds.")
QUICK_OOM = Reason("QuickOom", "A container ran out of memory soon after it started, and would get another size now.")
RESIZE_MISSED = Reason(
    "ResizeMissed",
    "The last resize was written while a container was down, so that the pod's cgroup still has the old limits.",
    Severity.WARNING,
)
SIGNIFICANT_CHANGE = Reason(
    "SignificantChange", "The pod is within its bounds, but old, and the change is large enough to be worth it."
)
NOTHING_RECOMMENDED = Reason("NothingRecommended", "Nothing is recommended for the containers of the pod.")
SIZE_AS_RECOMMENDED = Reason("SizeAsRecommended", "The pod has what is recommended, as far as it can have it.")
POD_TOO_YOUNG = Reason("PodTooYoung", "The pod is within its bounds, and not old enough to be changed for less.")
CHANGE_TOO_SMALL = Reason("ChangeTooSmall", "The pod is within its bounds, and the change is not worth a disruption.")


class RequestComparison(msgspec.Struct, frozen=True):
    """One container that needs a change: what it should request and what it requests."""

    container: str
    targets: ResourceAmounts
    requests: ResourceAmounts


def satisfies_change(change: ChangeRequirement, target: int, request: int) -> bool:
    """Whether a target compares with a request as asked."""
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
    """Whether some container satisfies all requirements; those given need a change."""
    return any(
        all(_satisfied(requirement, comparison) for requirement in vpa.requirements) for comparison in containers
    )


def permits_resize(vpa: EffectiveVpa, resource: str, target: int, request: int) -> bool:
    """Whether one resource of a container may be changed in place."""
    if vpa.requirements_for_eviction_only:
        return True
    ours = (requirement for requirement in vpa.requirements if resource in requirement.resources)
    return all(satisfies_change(requirement.change, target, request) for requirement in ours)


def _satisfied(requirement: EffectiveRequirement, comparison: RequestComparison) -> bool:
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
    """A pod should not change; `until` is when that may be otherwise without anything happening before.

    `difference` is how far requests are off all the same, as in `Need`.
    """

    reason: Reason
    until: float | None = None
    difference: float = 0.0


class SizeGap(msgspec.Struct, frozen=True):
    """How far a pod of one shape is from one size, over all its containers; pods that are alike have it in common."""

    is_known: bool
    missing: bool
    rises: bool
    outside: bool
    difference: float
    changes: tuple[RequestComparison, ...]


class _GapTotals:
    """What adds up over the containers of a pod."""

    def __init__(self) -> None:
        self.requested: dict[str, int] = {}
        self.recommended: dict[str, int] = {}
        self.missing = self.rises = self.outside = False
        self.changes: list[RequestComparison] = []

    @property
    def difference(self) -> float:
        return sum(
            abs(max(self.requested[resource], 1) - amount) / max(self.requested[resource], 1)
            for resource, amount in self.recommended.items()
        )


def measure_gap(shape: PodShape, size: PodSize, bounds: Mapping[str, CappedResources]) -> SizeGap:
    """What a pod of this shape lacks of this size; what is not to be looked at has none."""
    sums = _add_up(shape, size, bounds)
    return SizeGap(bool(sums.recommended), sums.missing, sums.rises, sums.outside, sums.difference, tuple(sums.changes))


def judge_eligibility(
    gap: SizeGap, *, started: float | None, quick_oom: bool, now: float, settings: UpdateSettings
) -> UpdateNeed | NoUpdateNeed:
    """Whether a pod with this gap should change."""
    if not gap.is_known:
        return NoUpdateNeed(NOTHING_RECOMMENDED)
    if not gap.changes:
        return NoUpdateNeed(SIZE_AS_RECOMMENDED)
    if not gap.outside and not quick_oom:
        if started is None:
            return NoUpdateNeed(POD_TOO_YOUNG, difference=gap.difference)
        if gap.difference < settings.update_threshold:
            return NoUpdateNeed(CHANGE_TOO_SMALL, difference=gap.difference)
        if now < started + settings.lifetime:
            return NoUpdateNeed(POD_TOO_YOUNG, started + settings.lifetime, gap.difference)
    return UpdateNeed(_why(gap, quick_oom), gap.rises, gap.difference, gap.changes)


def _why(gap: SizeGap, quick_oom: bool) -> Reason:
    if quick_oom:
        return QUICK_OOM
    if gap.missing:
        return REQUEST_MISSING
    return OUTSIDE_BOUNDS if gap.outside else SIGNIFICANT_CHANGE


def _add_up(shape: PodShape, size: PodSize, bounds: Mapping[str, CappedResources]) -> _GapTotals:
    sums = _GapTotals()
    had = {container.name: container.requests for container in shape.containers}
    for sized in size.containers:
        name = sized.container.name
        for resource, target in sized.requests.items():
            _add(sums, resource, target, had[name].get(resource), bounds[name])
        if any(had[name].get(resource) != target for resource, target in sized.requests.items()):
            sums.changes.append(RequestComparison(name, sized.requests, had[name]))
    return sums


def _add(sums: _GapTotals, resource: str, target: int, request: int | None, bounds: CappedResources) -> None:
    sums.recommended[resource] = sums.recommended.get(resource, 0) + target
    sums.requested[resource] = sums.requested.get(resource, 0) + (request or 0)
    if request is None:
        sums.missing = sums.rises = sums.outside = True
    elif request != target:
        sums.rises |= target > request
        sums.outside |= not _within(resource, request, bounds.lower, bounds.upper)


def _within(resource: str, request: int, lower: ResourceAmounts, upper: ResourceAmounts) -> bool:
    """Only bounds that exist bound anything."""
    return lower.get(resource, request) <= request <= upper.get(resource, request)


def read_container_requests(shape: PodShape) -> dict[str, ResourceAmounts]:
    """What the containers of a pod request, by name."""
    return {
        container.name: {name: container.requests[name] for name in RESOURCES if name in container.requests}
        for container in shape.containers
    }


# A workload in the middle of a change has pods of two or three shapes. With many more, looking costs as much as making.
_REMEMBERED: Final = 8

_T = TypeVar("_T")


class _ShapeCache(Generic[_T]):
    """The last few answers, by what was asked; shapes can be compared, but not hashed."""

    def __init__(self) -> None:
        self._known: list[tuple[PodShape, frozenset[ContainerResource], _T]] = []

    def find(self, shape: PodShape, spared: frozenset[ContainerResource]) -> _T | None:
        for cached_shape, left_out, answer in self._known:
            if left_out == spared and (cached_shape is shape or cached_shape == shape):
                return answer
        return None

    def keep(self, shape: PodShape, spared: frozenset[ContainerResource], answer: _T) -> _T:
        self._known.append((shape, spared, answer))
        del self._known[:-_REMEMBERED]
        return answer


class TargetSizes:
    """The sizes of one workload's pods, for as long as one plan takes. `spared` is always left alone."""

    def __init__(self, governor: Governor, limits: NamespaceLimits) -> None:
        self._governor, self.limits = governor, limits
        self._gaps: _ShapeCache[SizeGap] = _ShapeCache()
        self._in_place: _ShapeCache[PodSize] = _ShapeCache()

    def gap(self, shape: PodShape, spared: frozenset[ContainerResource]) -> SizeGap:
        """How far a pod is from what a new one would get."""
        return self._gaps.find(shape, spared) or self._gaps.keep(shape, spared, self._made(shape, spared))

    def in_place(self, shape: PodShape, spared: frozenset[ContainerResource]) -> PodSize:
        """What the pod itself can be resized to."""
        cached = self._in_place.find(shape, spared)
        if cached is not None:
            return cached
        advice = _without(self._governor.advice, spared)
        size = size_pod(shape, advice, self._governor.vpa, self.limits, keep_qos=True)
        return self._in_place.keep(shape, spared, size)

    def _made(self, shape: PodShape, spared: frozenset[ContainerResource]) -> SizeGap:
        vpa, advice = self._governor.vpa, _without(self._governor.advice, spared)
        capped = cap_for_pod(advice, shape.containers, vpa, self.limits)
        # What pods have as a whole changes what LimitRanges mean for a size, and not for bounds.
        size = size_pod(shape, advice, vpa, self.limits, capped=None if shape.pod_limits else capped)
        return measure_gap(shape, size, {resources.container: resources for resources in capped})


def _without(
    advice: Sequence[RecommendedResources], spared: Collection[ContainerResource]
) -> Sequence[RecommendedResources]:
    """What is recommended, less what is left alone."""
    if not spared:
        return advice
    return [
        msgspec.structs.replace(
            recommended,
            target={
                name: amount
                for name, amount in recommended.target.items()
                if (recommended.container, name) not in spared
            },
        )
        for recommended in advice
    ]
