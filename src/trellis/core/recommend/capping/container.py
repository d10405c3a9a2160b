"""What may one container of a pod request? Its LimitRange, its policy and its limit decide, in this order.

A later bound wins, as upstream has it: a policy may break a LimitRange. Where limits do not follow requests
(`RequestsOnly`) a LimitRange bounds the request itself, whereas upstream looks at a limit that nobody changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from trellis.api.kube.containers import Resources
from trellis.api.resolve import ContainerMeaning
from trellis.base.quantity_text import Format
from trellis.base.reason import Reason
from trellis.core.recommend.amounts import RESOURCES
from trellis.core.recommend.capping.limit_ranges import Counts, Range, counts
from trellis.core.recommend.capping.policy import read_bound
from trellis.core.recommend.capping.proportions import request_at_limit

CAPPED_TO_MIN_ALLOWED = Reason("CappedToMinAllowed", "The recommendation was raised to the policy's minAllowed.")
CAPPED_TO_MAX_ALLOWED = Reason("CappedToMaxAllowed", "The recommendation was lowered to the policy's maxAllowed.")
CAPPED_TO_LIMIT = Reason("CappedToLimit", "The recommendation was lowered to the container's limit.")
CAPPED_TO_RANGE_MIN = Reason(
    "CappedToLimitRangeMin", "The recommendation was raised to fit the minimum of a container LimitRange."
)
CAPPED_TO_RANGE_MAX = Reason(
    "CappedToLimitRangeMax", "The recommendation was lowered to fit the maximum of a container LimitRange."
)

_NONE: Counts = {}


class PodContainer(msgspec.Struct, frozen=True):
    """A container as the pod has it, in millicores and bytes; what is absent is not set."""

    name: str
    requests: Counts = _NONE
    limits: Counts = _NONE

    @classmethod
    def of(cls, name: str, resources: Resources) -> PodContainer:
        """From the resources of a pod's spec, or those in force from its status."""
        return cls(name, counts(resources.requests), counts(resources.limits))


class Bound(msgspec.Struct, frozen=True):
    """One thing that bounds an amount, and what is said when it does."""

    amount: int
    is_maximum: bool
    reason: Reason

    def cuts(self, amount: int) -> bool:
        """Whether an amount is on the wrong side."""
        return amount > self.amount if self.is_maximum else amount < self.amount


_NOTHING_BOUND: Mapping[str, Sequence[Bound]] = {}


def bounds_of(container: PodContainer, meaning: ContainerMeaning, limits: Range) -> Mapping[str, Sequence[Bound]]:
    """What bounds each resource of a container, in the order in which it is applied; nothing for most containers."""
    least, most = meaning.min_allowed, meaning.max_allowed
    if meaning.limits_follow and not (least or most or limits.least or limits.most):
        return _NOTHING_BOUND
    found = {}
    for resource in RESOURCES:
        low, high, limit = least.get(resource), most.get(resource), container.limits.get(resource, 0)
        bounds = _range_bounds(resource, container, meaning, limits)
        bounds += _policy_bounds(resource, low.nanos if low is not None else 0, high.nanos if high is not None else 0)
        if limit > 0 and not meaning.limits_follow:
            bounds.append(Bound(limit, True, CAPPED_TO_LIMIT))
        found[resource] = bounds
    return found


def cutting(amount: int, bounds: Sequence[Bound]) -> Sequence[Bound]:
    """Those that make an amount another than was recommended, one after the other; the last of them tells which."""
    found = []
    for bound in bounds:
        if bound.cuts(amount):
            amount = bound.amount
            found.append(bound)
    return found


def _range_bounds(resource: str, container: PodContainer, meaning: ContainerMeaning, limits: Range) -> list[Bound]:
    """A bound for the limit holds for the request in proportion, if the limit follows it."""
    found = []
    low, high = limits.least.get(resource, 0), limits.most.get(resource, 0)
    if low > 0:
        # Both request and limit must reach a minimum, so that the higher of the two requests counts.
        request = (
            max(low, _request_at(low, resource, container, limits, at_least=True)) if meaning.limits_follow else low
        )
        found.append(Bound(request, False, CAPPED_TO_RANGE_MIN))
    if high > 0:
        request = _request_at(high, resource, container, limits, at_least=False) if meaning.limits_follow else high
        # Without a limit there is none that could be too high.
        if request > 0:
            found.append(Bound(request, True, CAPPED_TO_RANGE_MAX))
    return found


def _request_at(bound: int, resource: str, container: PodContainer, limits: Range, *, at_least: bool) -> int:
    request, limit = container.requests.get(resource, 0), container.limits.get(resource, 0)
    return request_at_limit(bound, request, limit, limits.default_limit.get(resource, 0), at_least=at_least)


# A cluster has few different policies, and a new pod waits until all of its own are read.
@lru_cache(maxsize=4096)
def _policy_bounds(resource: str, least: int, most: int) -> tuple[Bound, ...]:
    """What `minAllowed` and `maxAllowed` of so many nanos come to; zero bounds nothing."""
    low, _ = read_bound(least, Format.DECIMAL_SI, resource, upper=False)
    high, _ = read_bound(most, Format.DECIMAL_SI, resource, upper=True)
    lower = (Bound(int(low), False, CAPPED_TO_MIN_ALLOWED),) if low > 0 else ()
    upper = (Bound(int(high), True, CAPPED_TO_MAX_ALLOWED),) if math.isfinite(high) else ()
    return lower + upper
