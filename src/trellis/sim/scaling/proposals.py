"""How many replicas would bring a metric to its target? As the HPA controller of Kubernetes 1.36 works it out.

Pods fall into three groups: those that count, those that are not up yet, and those of which nothing was measured. The
latter two are assumed to use what makes the smaller change, and never turn it round.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

_PERCENT: Final = 100


class Group(msgspec.Struct, frozen=True):
    """Some pods together: how many, and what they request and use, in thousandths of cores or bytes."""

    pods: int = 0
    asked: int = 0
    used: int = 0

    def __add__(self, other: Group) -> Group:
        return Group(self.pods + other.pods, self.asked + other.asked, self.used + other.used)


class Seen(msgspec.Struct, frozen=True):
    """The pods of a target as metrics show them; pods that are going are in no group."""

    counted: Group = Group()
    unready: Group = Group()
    missing: Group = Group()

    def __add__(self, other: Seen) -> Seen:
        return Seen(self.counted + other.counted, self.unready + other.unready, self.missing + other.missing)


class Aim(msgspec.Struct, frozen=True):
    """The target of a metric: `percent` of what is requested, or else `average` thousandths for each pod."""

    percent: int | None = None
    average: int = 0

    def utilization(self, pods: Group) -> int:
        """Whole percentages, cut off."""
        return pods.used * _PERCENT // pods.asked if pods.asked else 0

    def ratio(self, pods: Group) -> float:
        """What is used, over what is aimed at."""
        if self.percent is not None:
            return self.utilization(pods) / self.percent
        return pods.used // pods.pods / self.average

    def assumed(self, missing: Group) -> int:
        """What pods use at most that nothing is known of."""
        if self.percent is None:
            return missing.pods * self.average
        return missing.asked * max(_PERCENT, self.percent) // _PERCENT


class Tolerance(msgspec.Struct, frozen=True):
    """How far off a metric may be before anything is done, on the way down and up."""

    down: float = 0.1
    up: float = 0.1

    def holds(self, ratio: float) -> bool:
        """Whether that is near enough."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


def proposed(seen: Seen, aim: Aim, current: int, tolerance: Tolerance) -> int:
    """The count that a metric asks for, `current` if none. Somebody must count."""
    counted = seen.counted
    ratio = aim.ratio(counted)
    waits = bool(seen.unready.pods) and ratio > 1.0
    if not waits and not seen.missing.pods:
        return current if tolerance.holds(ratio) else math.ceil(ratio * counted.pods)
    pods = counted
    if seen.missing.pods and ratio != 1.0:
        pods += msgspec.structs.replace(seen.missing, used=aim.assumed(seen.missing) if ratio < 1.0 else 0)
    if waits:
        pods += msgspec.structs.replace(seen.unready, used=0)
    corrected = aim.ratio(pods)
    turned = (ratio < 1.0 < corrected) or (corrected < 1.0 < ratio)
    if turned or tolerance.holds(corrected):
        return current
    count = math.ceil(corrected * pods.pods)
    against = count > current if corrected < 1.0 else count < current
    return current if against else count
