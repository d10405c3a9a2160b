"""What may one container of a pod request? Its LimitRange, its policy and its limit decide, in this order.

A later bound wins, as upstream has it: a policy may break a LimitRange. Where limits do not follow requests
(`RequestsOnly`) a LimitRange bounds the request itself, whereas upstream looks at a limit that nobody changes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from trellis.api.kube.containers import Resources
from trellis.api.resolve import ContainerMeaning
from trellis.base.reason import Reason
from trellis.core.recommend.amounts import RESOURCES
from trellis.core.recommend.capping.limit_ranges import Counts, Range, counts
from trellis.core.recommend.capping.policy import UNBOUNDED, Caps, compile_caps
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


_NOTHING_BOUND: Mapping[str, tuple[Bound, ...]] = {}


def bounds_of(container: PodContainer, meaning: ContainerMeaning, limits: Range) -> Mapping[str, tuple[Bound, ...]]:
    """What bounds each resource of a container, in the order in which it is applied; nothing for most containers."""
    caps = compile_caps(meaning)
    if caps is UNBOUNDED and meaning.limits_follow and not limits.least and not limits.most:
        return _NOTHING_BOUND
    return {resource: _bounds(resource, container, meaning, caps, limits) for resource in RESOURCES}


def cap_amount(amount: int, bounds: tuple[Bound, ...]) -> tuple[int, tuple[Bound, ...]]:
    """An amount within its bounds, and those that made it another than was recommended."""
    cutting = []
    for bound in bounds:
        if bound.cuts(amount):
            amount = bound.amount
            cutting.append(bound)
    return amount, tuple(cutting)


def _bounds(
    resource: str, container: PodContainer, meaning: ContainerMeaning, caps: Caps, limits: Range
) -> tuple[Bound, ...]:
    which = RESOURCES.index(resource)
    low, high = limits.least.get(resource, 0), limits.most.get(resource, 0)
    own = container.requests.get(resource, 0), container.limits.get(resource, 0), limits.default_limit.get(resource, 0)
    if meaning.limits_follow:
        # Both request and limit must reach a minimum, so that the higher of the two requests counts.
        low = max(low, request_at_limit(low, *own, at_least=True))
        high = request_at_limit(high, *own, at_least=False)
    most = caps.most[which]
    every = (
        (low, False, CAPPED_TO_RANGE_MIN),
        (high, True, CAPPED_TO_RANGE_MAX),
        (int(caps.least[which]), False, CAPPED_TO_MIN_ALLOWED),
        (int(most) if math.isfinite(most) else 0, True, CAPPED_TO_MAX_ALLOWED),
        (0 if meaning.limits_follow else own[1], True, CAPPED_TO_LIMIT),
    )
    # Zero bounds nothing.
    return tuple(Bound(*each) for each in every if each[0] > 0)
