"""How many more pods may be disturbed within this hour, in the cluster and in a namespace?

Counted are evictions and resizes that restart a container, from the moment they were done. Nothing is counted, and
nothing has to be kept, unless somebody sets a budget.
"""

from __future__ import annotations

from typing import Final

import msgspec

from trellis.core.resize.actions import Action, EvictPod, ResizePod
from trellis.core.resize.budget import HourlyLeft
from trellis.core.resize.settings import UpdateSettings

_HOUR: Final = 3600.0
_ANY_NUMBER: Final = HourlyLeft()


class Disturbed(msgspec.Struct, frozen=True):
    """When pods were disturbed and in which namespace, the earliest first."""

    times: tuple[tuple[float, str], ...] = ()

    def noted(self, action: Action, now: float, settings: UpdateSettings) -> Disturbed:
        """The same with one more, if it counts, and without those of more than an hour ago."""
        if not disturbs(action) or (settings.hourly is None and settings.namespace_hourly is None):
            return self
        return Disturbed((*(each for each in self.times if each[0] + _HOUR > now), (now, action.pod.namespace)))

    def left(self, namespace: str, now: float, settings: UpdateSettings) -> HourlyLeft:
        """What is left for a namespace."""
        if settings.hourly is None and settings.namespace_hourly is None:
            return _ANY_NUMBER
        recent = [each for each in self.times if each[0] + _HOUR > now]
        own = [each for each in recent if each[1] == namespace]
        counted = ((settings.hourly, recent), (settings.namespace_hourly, own))
        cluster, here = (None if most is None else max(most - len(found), 0) for most, found in counted)
        # What is used up has room again when as many are an hour old as leave one less than the budget.
        until = [found[len(found) - most][0] + _HOUR for most, found in counted if most and len(found) >= most]
        return HourlyLeft(cluster, here, max(until) if until else None)


def disturbs(action: Action) -> bool:
    """Whether an action takes a pod, or a container, out of service."""
    return isinstance(action, EvictPod) or (isinstance(action, ResizePod) and action.restarts)
