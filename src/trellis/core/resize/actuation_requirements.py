"""Actuation requirements: whether they permit that a container is changed.

| | by eviction | in place |
|---|---|---|
| one requirement lists both resources | either may compare as asked | each must compare as asked itself |
| several requirements | all must hold, for one and the same container | each governs the resources it lists |
| a resource that none lists | has no say | is changed freely |

The target is compared with the request of the running pod. A missing request counts as zero; where there is no target
the request stays, and so it is compared with itself.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from trellis.api.resolve import ChangeRequirement, EffectiveRequirement, EffectiveVpa
from trellis.base.reasons import Reason
from trellis.core.recommend.amounts import ResourceAmounts

REQUIREMENTS_FORBID_EVICTION = Reason(
    "RequirementsForbidEviction",
    "No container that needs a change satisfies all actuation requirements, so that the pod is not evicted.",
)
REQUIREMENTS_FORBID_RESIZE = Reason(
    "RequirementsForbidResize",
    "The actuation requirements permit no part of the change, so that the pod is left alone.",
)


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
    return any(all(_satisfied(each, of) for each in vpa.requirements) for of in containers)


def permits_resize(vpa: EffectiveVpa, resource: str, target: int, request: int) -> bool:
    """Whether one resource of a container may be changed in place."""
    if vpa.requirements_for_eviction_only:
        return True
    ours = (each for each in vpa.requirements if resource in each.resources)
    return all(satisfies_change(each.change, target, request) for each in ours)


def _satisfied(requirement: EffectiveRequirement, of: RequestComparison) -> bool:
    for resource in requirement.resources:
        request = of.requests.get(resource, 0)
        if satisfies_change(requirement.change, of.targets.get(resource, request), request):
            return True
    return False
