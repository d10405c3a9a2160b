"""May this container be changed, as far as actuation requirements say?

| | by eviction | in place |
|---|---|---|
| one requirement lists both resources | either may compare as asked | each must compare as asked itself |
| several requirements | all must hold, for one and the same container | each governs the resources it lists |
| a resource that none lists | has no say | is changed freely |

Compared are the target and the request of the pod that runs. A missing request counts as zero; where there is no
target the request stays, and so it is compared with itself.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from trellis.api.resolve import Change, EffectiveVpa, Requirement
from trellis.base.reason import Reason
from trellis.core.recommend.capping.limit_ranges import Counts

REQUIREMENTS_FORBID_EVICTION = Reason(
    "RequirementsForbidEviction",
    "No container that needs a change satisfies all actuation requirements, so that the pod is not evicted.",
)
REQUIREMENTS_FORBID_RESIZE = Reason(
    "RequirementsForbidResize",
    "The actuation requirements permit no part of the change, so that the pod is left alone.",
)


class Comparison(msgspec.Struct, frozen=True):
    """One container that needs a change: what it should request and what it requests."""

    container: str
    targets: Counts
    requests: Counts


def compares(change: Change, target: int, request: int) -> bool:
    """Whether a target compares with a request as asked."""
    match change:
        case Change.HIGHER:
            return target > request
        case Change.HIGHER_OR_EQUAL:
            return target >= request
        case Change.LOWER:
            return target < request
        case Change.LOWER_OR_EQUAL:
            return target <= request
        case Change.NEVER:
            return False


def permits_eviction(vpa: EffectiveVpa, containers: Iterable[Comparison]) -> bool:
    """Whether some container satisfies all requirements; those given need a change."""
    return any(all(_satisfied(each, of) for each in vpa.requirements) for of in containers)


def permits_resize(vpa: EffectiveVpa, resource: str, target: int, request: int) -> bool:
    """Whether one resource of a container may be changed in place."""
    if vpa.requirements_for_eviction_only:
        return True
    ours = (each for each in vpa.requirements if resource in each.resources)
    return all(compares(each.change, target, request) for each in ours)


def _satisfied(requirement: Requirement, of: Comparison) -> bool:
    for resource in requirement.resources:
        request = of.requests.get(resource, 0)
        if compares(requirement.change, of.targets.get(resource, request), request):
            return True
    return False
