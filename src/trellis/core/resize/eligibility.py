"""Should this pod change, and why?

Upstream's rules. A pod that requests less or more than its bounds should change at once. So should one that soon ran
out of memory, if anything would be different then. Any other is left alone for its first 12 hours, and later unless the
change is 10 % at least. What is compared is what a new pod would get, and not the bare recommendation: a pod that has
all it could get needs nothing, however far its recommendation is out of reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from trellis.base.reason import Reason, Severity
from trellis.core.recommend.amounts import RESOURCES
from trellis.core.recommend.capping import CappedAdvice
from trellis.core.recommend.capping.limit_ranges import Counts
from trellis.core.resize.requirements import Comparison
from trellis.core.resize.settings import UpdateSettings
from trellis.core.sizing.shapes import PodShape
from trellis.core.sizing.sizes import PodSize

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

# A resource of a container, by their names.
Part: TypeAlias = tuple[str, str]


class Need(msgspec.Struct, frozen=True):
    """A pod should change. `difference` is the sum over resources of how far requests are off, as a share of them."""

    reason: Reason
    rises: bool
    difference: float
    containers: tuple[Comparison, ...]

    @property
    def urgency(self) -> tuple[bool, float]:
        """The greater goes first: pods that need more, then those that are further off."""
        return self.rises, self.difference


class NoNeed(msgspec.Struct, frozen=True):
    """A pod should not change; `until` is when that may be otherwise without anything happening before.

    `difference` is how far requests are off all the same, as in `Need`.
    """

    reason: Reason
    until: float | None = None
    difference: float = 0.0


class Gap(msgspec.Struct, frozen=True):
    """How far a pod of one shape is from one size, over all its containers; pods that are alike have it in common."""

    is_known: bool
    missing: bool
    rises: bool
    outside: bool
    difference: float
    changes: tuple[Comparison, ...]


class _Sums:
    """What adds up over the containers of a pod."""

    def __init__(self) -> None:
        self.requested: dict[str, int] = {}
        self.recommended: dict[str, int] = {}
        self.missing = self.rises = self.outside = False
        self.changes: list[Comparison] = []

    @property
    def difference(self) -> float:
        return sum(
            abs(max(self.requested[resource], 1) - amount) / max(self.requested[resource], 1)
            for resource, amount in self.recommended.items()
        )


def gap_of(shape: PodShape, size: PodSize, bounds: Mapping[str, CappedAdvice]) -> Gap:
    """What a pod of this shape lacks of this size; what is not to be looked at has none."""
    sums = _add_up(shape, size, bounds)
    return Gap(bool(sums.recommended), sums.missing, sums.rises, sums.outside, sums.difference, tuple(sums.changes))


def judge(gap: Gap, *, started: float | None, quick_oom: bool, now: float, settings: UpdateSettings) -> Need | NoNeed:
    """Whether a pod with this gap should change."""
    if not gap.is_known:
        return NoNeed(NOTHING_RECOMMENDED)
    if not gap.changes:
        return NoNeed(SIZE_AS_RECOMMENDED)
    if not gap.outside and not quick_oom:
        if started is None:
            return NoNeed(POD_TOO_YOUNG, difference=gap.difference)
        if gap.difference < settings.update_threshold:
            return NoNeed(CHANGE_TOO_SMALL, difference=gap.difference)
        if now < started + settings.lifetime:
            return NoNeed(POD_TOO_YOUNG, started + settings.lifetime, gap.difference)
    return Need(_why(gap, quick_oom), gap.rises, gap.difference, gap.changes)


def _why(gap: Gap, quick_oom: bool) -> Reason:
    if quick_oom:
        return QUICK_OOM
    if gap.missing:
        return REQUEST_MISSING
    return OUTSIDE_BOUNDS if gap.outside else SIGNIFICANT_CHANGE


def _add_up(shape: PodShape, size: PodSize, bounds: Mapping[str, CappedAdvice]) -> _Sums:
    sums = _Sums()
    had = {each.name: each.requests for each in shape.containers}
    for sized in size.containers:
        name = sized.container.name
        for resource, target in sized.requests.items():
            _add(sums, resource, target, had[name].get(resource), bounds[name])
        if any(had[name].get(resource) != target for resource, target in sized.requests.items()):
            sums.changes.append(Comparison(name, sized.requests, had[name]))
    return sums


def _add(sums: _Sums, resource: str, target: int, request: int | None, bounds: CappedAdvice) -> None:
    sums.recommended[resource] = sums.recommended.get(resource, 0) + target
    sums.requested[resource] = sums.requested.get(resource, 0) + (request or 0)
    if request is None:
        sums.missing = sums.rises = sums.outside = True
    elif request != target:
        sums.rises |= target > request
        sums.outside |= not _within(resource, request, bounds.lower, bounds.upper)


def _within(resource: str, request: int, lower: Counts, upper: Counts) -> bool:
    """Only bounds that exist bound anything."""
    return lower.get(resource, request) <= request <= upper.get(resource, request)


def amounts_of(shape: PodShape) -> dict[str, Counts]:
    """What the containers of a pod request, by name."""
    return {
        each.name: {name: each.requests[name] for name in RESOURCES if name in each.requests}
        for each in shape.containers
    }
