"""What actuation requirements ask for, whichever way they are spelled."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from trellis.api.vpa import ActuationRequirement, EvictionRequirement, PodUpdatePolicy


class Change(StrEnum):
    """How a target must compare with a request. `NEVER` stands for a spelling we do not know: nothing satisfies it."""

    HIGHER = "TargetHigherThanRequests"
    HIGHER_OR_EQUAL = "TargetHigherThanOrEqualToRequests"
    LOWER = "TargetLowerThanRequests"
    LOWER_OR_EQUAL = "TargetLowerThanOrEqualToRequests"
    NEVER = "Never"


_KNOWN = {change.value: change for change in Change if change is not Change.NEVER}


class Requirement(msgspec.Struct, frozen=True):
    """One requirement, its resources in the API's spelling (`cpu`, `memory`)."""

    resources: frozenset[str]
    change: Change


def effective_requirements(policy: PodUpdatePolicy) -> tuple[tuple[Requirement, ...], bool]:
    """The requirements, and whether they govern eviction alone (upstream's spelling does)."""
    if policy.actuation_requirements is not None:
        return _read(policy.actuation_requirements), False
    return _read(policy.eviction_requirements or ()), policy.eviction_requirements is not None


def _read(written: Iterable[ActuationRequirement | EvictionRequirement]) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(
            resources=frozenset(name.lower() for name in item.resources or ()),
            change=_KNOWN.get(item.change_requirement, Change.NEVER),
        )
        for item in written
    )
