"""Budgets per hour: how many more pods may be disrupted, in the cluster and in a namespace.

Evictions and resizes that restart a container count for an hour after they were done. Actions under way count as if
they were done, so that plans made at the same time do not spend the same budget twice. Without a budget nothing is
counted.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from trellis.core.resize.disruption_budget import HourlyAllowance
from trellis.core.resize.plan import UpdatePlan
from trellis.core.resize.pod_decisions import Action, EvictPod, ResizePod
from trellis.core.resize.settings import UpdateSettings

_HOUR: Final = 3600.0
_ANY_NUMBER: Final = HourlyAllowance()


class RecentDisruptions(msgspec.Struct, frozen=True):
    """When pods were disturbed and in which namespace, the earliest first."""

    times: tuple[tuple[float, str], ...] = ()

    def noted(self, action: Action, now: float, settings: UpdateSettings) -> RecentDisruptions:
        """The same with one more, if it counts, and without those of more than an hour ago."""
        if not is_disruptive(action) or (settings.hourly is None and settings.namespace_hourly is None):
            return self
        return RecentDisruptions((*(each for each in self.times if each[0] + _HOUR > now), (now, action.pod.namespace)))

    def left(self, namespace: str, now: float, settings: UpdateSettings) -> HourlyAllowance:
        """What is left for a namespace."""
        if settings.hourly is None and settings.namespace_hourly is None:
            return _ANY_NUMBER
        recent = [each for each in self.times if each[0] + _HOUR > now]
        own = [each for each in recent if each[1] == namespace]
        counted = ((settings.hourly, recent), (settings.namespace_hourly, own))
        cluster, here = (None if most is None else max(most - len(found), 0) for most, found in counted)
        # What is used up has room again when as many are an hour old as leave one less than the budget.
        until = [found[len(found) - most][0] + _HOUR for most, found in counted if most and len(found) >= most]
        return HourlyAllowance(cluster, here, max(until) if until else None)


def is_disruptive(action: Action) -> bool:
    """Whether an action takes a pod, or a container, out of service."""
    return isinstance(action, EvictPod) or (isinstance(action, ResizePod) and action.restarts)


class HourlyDisruptions:
    """Disturbances of the last hour and those under way. Times are seconds since 1970."""

    def __init__(self, settings: UpdateSettings) -> None:
        self._settings = settings
        self._is_limited = settings.hourly is not None or settings.namespace_hourly is not None
        self._done = RecentDisruptions()
        self._under_way: Counter[str] = Counter()

    def ledger(self, now: float) -> HourlyLedger:
        """What is left, for one batch of plans."""
        under_way = ((now, namespace) for namespace in self._under_way.elements())
        return HourlyLedger(RecentDisruptions((*self._done.times, *under_way)), now, self._settings)

    def begin(self, plan: UpdatePlan) -> None:
        """A plan is about to be carried out."""
        for action in plan.actions:
            if self._is_limited and is_disruptive(action):
                self._under_way[action.pod.namespace] += 1

    def end(self, action: Action, now: float, *, done: bool) -> None:
        """An action of such a plan is over."""
        if self._is_limited and is_disruptive(action):
            self._under_way[action.pod.namespace] -= 1
            if done:
                self._done = self._done.noted(action, now, self._settings)


class HourlyLedger:
    """What is left while one batch of plans is made; it belongs to the thread that makes them."""

    def __init__(self, disturbed: RecentDisruptions, now: float, settings: UpdateSettings) -> None:
        self._disturbed = disturbed
        self._now = now
        self._settings = settings

    def left(self, namespace: str) -> HourlyAllowance:
        """What a plan may still disturb."""
        return self._disturbed.left(namespace, self._now, self._settings)

    def spend(self, plan: UpdatePlan) -> None:
        """Count what a plan will disturb."""
        for action in plan.actions:
            self._disturbed = self._disturbed.noted(action, self._now, self._settings)
