"""Replica counts of an HPA: the proposal of a metric, and what `behavior` and bounds allow of it.

As the HPA controller of Kubernetes 1.36 computes it. Pods fall into three groups: those that count, those that are not
up yet, and those without metrics. The latter two are assumed to use what makes the smaller change, and never reverse
it.

Without a `behavior` the highest proposal of five minutes decides, and a step up at most doubles, or goes to four. With
one, each direction has a window and policies of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import msgspec

from trellis.api.kube.scaling import ScalingBehavior, ScalingPolicy, ScalingRules

_PERCENT: Final = 100


class MeasuredPods(msgspec.Struct, frozen=True):
    """A group of pods: how many, and what they request and use, in thousandths of cores or bytes."""

    pods: int = 0
    requested: int = 0
    used: int = 0

    def __add__(self, other: MeasuredPods) -> MeasuredPods:
        return MeasuredPods(self.pods + other.pods, self.requested + other.requested, self.used + other.used)


class MeasuredTarget(msgspec.Struct, frozen=True):
    """The pods of a target as metrics show them; pods that terminate are in no group."""

    counted: MeasuredPods = MeasuredPods()
    unready: MeasuredPods = MeasuredPods()
    missing: MeasuredPods = MeasuredPods()

    def __add__(self, other: MeasuredTarget) -> MeasuredTarget:
        return MeasuredTarget(self.counted + other.counted, self.unready + other.unready, self.missing + other.missing)


class MetricGoal(msgspec.Struct, frozen=True):
    """The target of a metric: `percent` of what is requested, or else `average` thousandths for each pod."""

    percent: int | None = None
    average: int = 0

    def utilization(self, pods: MeasuredPods) -> int:
        """The utilization in whole percent, cut off."""
        return pods.used * _PERCENT // pods.requested if pods.requested else 0

    def ratio(self, pods: MeasuredPods) -> float:
        """Usage over the target."""
        if self.percent is not None:
            return self.utilization(pods) / self.percent
        return pods.used // pods.pods / self.average

    def assumed(self, missing: MeasuredPods) -> int:
        """The most that pods without metrics are assumed to use."""
        if self.percent is None:
            return missing.pods * self.average
        return missing.requested * max(_PERCENT, self.percent) // _PERCENT


class HpaTolerance(msgspec.Struct, frozen=True):
    """How far off a metric may be before the count changes, on the way down and up."""

    down: float = 0.1
    up: float = 0.1

    def holds(self, ratio: float) -> bool:
        """Whether a ratio is within the tolerance."""
        return 1.0 - self.down <= ratio <= 1.0 + self.up


def propose_replicas(measured: MeasuredTarget, goal: MetricGoal, current: int, tolerance: HpaTolerance) -> int:
    """The count that a metric proposes, `current` if none. At least one pod must count."""
    counted = measured.counted
    ratio = goal.ratio(counted)
    counts_unready = bool(measured.unready.pods) and ratio > 1.0
    if not counts_unready and not measured.missing.pods:
        return current if tolerance.holds(ratio) else math.ceil(ratio * counted.pods)
    pods = counted
    if measured.missing.pods and ratio != 1.0:
        pods += msgspec.structs.replace(measured.missing, used=goal.assumed(measured.missing) if ratio < 1.0 else 0)
    if counts_unready:
        pods += msgspec.structs.replace(measured.unready, used=0)
    corrected = goal.ratio(pods)
    is_reversed = (ratio < 1.0 < corrected) or (corrected < 1.0 < ratio)
    if is_reversed or tolerance.holds(corrected):
        return current
    count = math.ceil(corrected * pods.pods)
    against = count > current if corrected < 1.0 else count < current
    return current if against else count


READY_FOR_NEW_SCALE: Final = "ReadyForNewScale"
DOWN_STABILIZED: Final = "ScaleDownStabilized"
UP_STABILIZED: Final = "ScaleUpStabilized"
WITHIN_RANGE: Final = "DesiredWithinRange"
TOO_FEW: Final = "TooFewReplicas"
TOO_MANY: Final = "TooManyReplicas"
UP_LIMIT: Final = "ScaleUpLimit"
DOWN_LIMIT: Final = "ScaleDownLimit"

_WINDOW: Final = 300.0
_DISABLED, _LEAST_CHANGE, _BY_PODS = "Disabled", "Min", "Pods"
_UP: Final = (ScalingPolicy("Pods", 4, 15), ScalingPolicy("Percent", 100, 15))
_DOWN: Final = (ScalingPolicy("Percent", 100, 15),)
_NO_RULES: Final = ScalingRules()


class LimitedReplicas(msgspec.Struct, frozen=True):
    """The count to write. `able` and `limited` are reasons of the conditions AbleToScale and ScalingLimited."""

    replicas: int
    able: str
    limited: str


class HpaScaleLimits:
    """The limits of one HPA, with its recent proposals and changes."""

    def __init__(self, least: int, most: int, behavior: ScalingBehavior | None = None) -> None:
        self.least, self.most = least, most
        self._has_behavior = behavior is not None
        self._up = behavior.scale_up or _NO_RULES if behavior is not None else _NO_RULES
        self._down = behavior.scale_down or _NO_RULES if behavior is not None else _NO_RULES
        self._longest = max(
            policy.period_seconds for policy in (*_policies(self._up, _UP), *_policies(self._down, _DOWN))
        )
        self._proposals: list[tuple[float, int]] = []
        self._ups: list[tuple[float, int]] = []
        self._downs: list[tuple[float, int]] = []

    def begin(self, current: int, now: float) -> None:
        """Take the current count as the first proposal."""
        if not self._proposals:
            self._proposals.append((now, current))

    def limit(self, proposed: int, current: int, now: float) -> LimitedReplicas:
        """Limit a proposal. It is remembered as it was made."""
        if self._has_behavior:
            steady = self._stabilize(proposed, current, now)
            count, reason = self._apply_policies(steady, current, now)
        else:
            steady = self._find_highest_proposal(proposed, now)
            count, reason = self._apply_bounds(steady, current)
        able = READY_FOR_NEW_SCALE if steady == proposed else DOWN_STABILIZED if steady > proposed else UP_STABILIZED
        return LimitedReplicas(count, able, reason)

    def record_scaling(self, before: int, after: int, now: float) -> None:
        """Remember a change for as long as any policy looks back."""
        for events in (self._ups, self._downs):
            events[:] = [event for event in events if event[0] > now - self._longest]
        (self._ups if after > before else self._downs).append((now, abs(after - before)))

    def _find_highest_proposal(self, proposed: int, now: float) -> int:
        """The highest proposal of the window, even if it is above the current count."""
        self._proposals = [proposal for proposal in self._proposals if proposal[0] >= now - _WINDOW]
        self._proposals.append((now, proposed))
        return max(count for _, count in self._proposals)

    def _stabilize(self, proposed: int, current: int, now: float) -> int:
        """The current count, moved no further than all proposals of its direction's window agree."""
        up, waits = self._up.stabilization_window_seconds or 0, self._down.stabilization_window_seconds
        down = _WINDOW if waits is None else waits
        least = min((count for time, count in self._proposals if time > now - up), default=proposed)
        most = max((count for time, count in self._proposals if time > now - down), default=proposed)
        self._proposals = [proposal for proposal in self._proposals if proposal[0] > now - max(up, down)]
        self._proposals.append((now, proposed))
        return min(max(current, min(least, proposed)), max(most, proposed))

    def _apply_bounds(self, proposed: int, current: int) -> tuple[int, str]:
        """The count within the bounds, and not too far up at once."""
        least, step = max(self.least, 1), max(2 * current, 4)
        if proposed < least:
            return least, TOO_FEW
        if proposed > min(self.most, step):
            return min(self.most, step), TOO_MANY if self.most <= step else UP_LIMIT
        return proposed, WITHIN_RANGE

    def _apply_policies(self, proposed: int, current: int, now: float) -> tuple[int, str]:
        """The count within the bounds, and no further than policies permit."""
        if proposed > current:
            limit = max(self._find_policy_limit(self._up, 1, current, now), current)
            most, reason = (limit, UP_LIMIT) if self.most > limit else (self.most, TOO_MANY)
            return (most, reason) if proposed > most else (proposed, WITHIN_RANGE)
        if proposed < current:
            limit = min(self._find_policy_limit(self._down, -1, current, now), current)
            least, reason = (limit, DOWN_LIMIT) if self.least < limit else (self.least, TOO_FEW)
            return (least, reason) if proposed < least else (proposed, WITHIN_RANGE)
        return proposed, WITHIN_RANGE

    def _find_policy_limit(self, rules: ScalingRules, sign: int, current: int, now: float) -> int:
        """How far policies permit to go in a direction: by the one that permits most, or least."""
        if rules.select_policy == _DISABLED:
            return current
        counts = []
        for policy in _policies(rules, _UP if sign > 0 else _DOWN):
            since = now - policy.period_seconds
            begin = current - _sum(self._ups, since) + _sum(self._downs, since)
            if policy.type == _BY_PODS:
                counts.append(begin + sign * policy.value)
            elif sign > 0:
                counts.append(math.ceil(begin * (1 + policy.value / 100)))
            else:
                counts.append(int(begin * (1 - policy.value / 100)))
        highest = (rules.select_policy == _LEAST_CHANGE) == (sign < 0)
        return max(counts) if highest else min(counts)


def _policies(rules: ScalingRules, usual: tuple[ScalingPolicy, ...]) -> tuple[ScalingPolicy, ...]:
    return rules.policies or usual


def _sum(events: Iterable[tuple[float, int]], since: float) -> int:
    return sum(count for time, count in events if time > since)
