"""Bounds of one container of a pod (its LimitRange, its policy and its limit, in this order), and proportional limits.

A later bound wins, as upstream has it: a policy may break a LimitRange. Where limits do not follow requests
(`RequestsOnly`) a LimitRange bounds the request itself, whereas upstream looks at a limit that does not change.

Limits keep the proportion to requests in which the pod's author wrote them. A limit without a request counts as equal
to it, as the API server fills it in. Results are exact and cut off, or rounded up where a minimum must be met; no
product overflows, as upstream's may, but the largest count is 2^63-1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache

import msgspec

from trellis.api.kube.pods import ResourceRequirements
from trellis.api.resolve import EffectiveContainerPolicy
from trellis.base.quantities import LARGEST_COUNT, QuantityFormat
from trellis.base.reasons import Reason
from trellis.core.recommend.amounts import RESOURCES, ResourceAmounts, parse_amounts
from trellis.core.recommend.capping.limit_ranges import ResourceRange
from trellis.core.recommend.capping.policy import read_bound


def compute_exact_limit(recommended: int, request: int, limit: int, default_limit: int) -> Fraction | None:
    """The exact limit beside a recommended request; None if the container has none. Zero is "not set" everywhere."""
    limit = limit or default_limit
    if not limit or not recommended:
        return None
    return Fraction(recommended) if not request else Fraction(recommended * limit, request)


def compute_proportional_limit(recommended: int, request: int, limit: int, default_limit: int) -> int | None:
    """The same as a count, cut off. In whole numbers throughout: every new pod waits for some of these."""
    limit = limit or default_limit
    if not limit or not recommended:
        return None
    return min(recommended * limit // request if request else recommended, LARGEST_COUNT)


def compute_request_at_limit(bound: int, request: int, limit: int, default_limit: int, *, at_least: bool) -> int:
    """The request whose limit is just at a bound, on the side that meets it; 0 if there is no limit to bound."""
    limit = limit or default_limit
    if not limit or not bound:
        return 0
    if not request:
        return bound
    exact = request * bound
    return min(-(-exact // limit) if at_least else exact // limit, LARGEST_COUNT)


def scale_count(count: int, factor: Fraction, *, up: bool) -> int:
    """A count times a factor."""
    exact = count * factor
    return min(-int(-exact // 1) if up else int(exact // 1), LARGEST_COUNT)


CAPPED_TO_MIN_ALLOWED = Reason("CappedToMinAllowed", "The recommendation was raised to the policy's minAllowed.")
CAPPED_TO_MAX_ALLOWED = Reason("CappedToMaxAllowed", "The recommendation was lowered to the policy's maxAllowed.")
CAPPED_TO_LIMIT = Reason("CappedToLimit", "The recommendation was lowered to the container's limit.")
CAPPED_TO_RANGE_MIN = Reason(
    "CappedToLimitRangeMin", "The recommendation was raised to fit the minimum of a container LimitRange."
)
CAPPED_TO_RANGE_MAX = Reason(
    "CappedToLimitRangeMax", "The recommendation was lowered to fit the maximum of a container LimitRange."
)

_NONE: ResourceAmounts = {}


class PodContainer(msgspec.Struct, frozen=True):
    """A container as the pod has it, in millicores and bytes; what is absent is not set."""

    name: str
    requests: ResourceAmounts = _NONE
    limits: ResourceAmounts = _NONE

    @classmethod
    def from_resources(cls, name: str, resources: ResourceRequirements) -> PodContainer:
        """A container with the resources of the pod's spec, or those in force from its status."""
        return cls(name, parse_amounts(resources.requests), parse_amounts(resources.limits))


class AmountBound(msgspec.Struct, frozen=True):
    """A bound of an amount, and the reason that is given when it applies."""

    amount: int
    is_maximum: bool
    reason: Reason

    def is_violated_by(self, amount: int) -> bool:
        """Whether an amount is on the wrong side."""
        return amount > self.amount if self.is_maximum else amount < self.amount


_NOTHING_BOUND: Mapping[str, Sequence[AmountBound]] = {}


def find_bounds(
    container: PodContainer, policy: EffectiveContainerPolicy, limits: ResourceRange
) -> Mapping[str, Sequence[AmountBound]]:
    """The bounds of each resource of a container, in the order in which they apply; most containers have none."""
    least, most = policy.min_allowed, policy.max_allowed
    if policy.scales_limits and not (least or most or limits.least or limits.most):
        return _NOTHING_BOUND
    by_resource = {}
    for resource in RESOURCES:
        low, high, limit = least.get(resource), most.get(resource), container.limits.get(resource, 0)
        bounds = _build_range_bounds(resource, container, policy, limits)
        bounds += _build_policy_bounds(
            resource, low.nanos if low is not None else 0, high.nanos if high is not None else 0
        )
        if limit > 0 and not policy.scales_limits:
            bounds.append(AmountBound(limit, True, CAPPED_TO_LIMIT))
        by_resource[resource] = bounds
    return by_resource


def select_violated_bounds(amount: int, bounds: Sequence[AmountBound]) -> Sequence[AmountBound]:
    """The bounds that change an amount, in the order in which they apply; the last of them determines it."""
    violated = []
    for bound in bounds:
        if bound.is_violated_by(amount):
            amount = bound.amount
            violated.append(bound)
    return violated


def _build_range_bounds(
    resource: str, container: PodContainer, policy: EffectiveContainerPolicy, limits: ResourceRange
) -> list[AmountBound]:
    """A bound for the limit holds for the request in proportion, if the limit follows it."""
    range_bounds = []
    low, high = limits.least.get(resource, 0), limits.most.get(resource, 0)
    if low > 0:
        # Both request and limit must reach a minimum, so that the higher of the two requests counts.
        request = (
            max(low, _compute_request_at(low, resource, container, limits, at_least=True))
            if policy.scales_limits
            else low
        )
        range_bounds.append(AmountBound(request, False, CAPPED_TO_RANGE_MIN))
    if high > 0:
        request = (
            _compute_request_at(high, resource, container, limits, at_least=False) if policy.scales_limits else high
        )
        # Without a limit there is none that could be too high.
        if request > 0:
            range_bounds.append(AmountBound(request, True, CAPPED_TO_RANGE_MAX))
    return range_bounds


def _compute_request_at(
    bound: int, resource: str, container: PodContainer, limits: ResourceRange, *, at_least: bool
) -> int:
    request, limit = container.requests.get(resource, 0), container.limits.get(resource, 0)
    return compute_request_at_limit(bound, request, limit, limits.default_limit.get(resource, 0), at_least=at_least)


# A cluster has few different policies, and a new pod waits until all of its own are read.
@lru_cache(maxsize=4096)
def _build_policy_bounds(resource: str, least: int, most: int) -> tuple[AmountBound, ...]:
    """The bounds of `minAllowed` and `maxAllowed` in nanos; zero is no bound."""
    low, _ = read_bound(least, QuantityFormat.DECIMAL_SI, resource, upper=False)
    high, _ = read_bound(most, QuantityFormat.DECIMAL_SI, resource, upper=True)
    lower = (AmountBound(int(low), False, CAPPED_TO_MIN_ALLOWED),) if low > 0 else ()
    upper = (AmountBound(int(high), True, CAPPED_TO_MAX_ALLOWED),) if math.isfinite(high) else ()
    return lower + upper
