"""What is left of the budgets per hour, while plans are made and carried out?

What is under way counts as if it were done, so that plans made at the same time do not spend the same thing twice. Only
what was carried out counts for an hour.
"""

from __future__ import annotations

from collections import Counter

from trellis.core.resize.actions import Action
from trellis.core.resize.budget import HourlyLeft
from trellis.core.resize.hourly import Disturbed, disturbs
from trellis.core.resize.plan import Plan
from trellis.core.resize.settings import UpdateSettings


class HourlyUse:
    """Disturbances of the last hour and those under way. Times are seconds since 1970."""

    def __init__(self, settings: UpdateSettings) -> None:
        self._settings = settings
        self._is_limited = settings.hourly is not None or settings.namespace_hourly is not None
        self._done = Disturbed()
        self._under_way: Counter[str] = Counter()

    def ledger(self, now: float) -> Ledger:
        """What is left, for one batch of plans."""
        under_way = ((now, namespace) for namespace in self._under_way.elements())
        return Ledger(Disturbed((*self._done.times, *under_way)), now, self._settings)

    def begin(self, plan: Plan) -> None:
        """A plan is about to be carried out."""
        for action in plan.actions:
            if self._is_limited and disturbs(action):
                self._under_way[action.pod.namespace] += 1

    def end(self, action: Action, now: float, *, done: bool) -> None:
        """An action of such a plan is over."""
        if self._is_limited and disturbs(action):
            self._under_way[action.pod.namespace] -= 1
            if done:
                self._done = self._done.noted(action, now, self._settings)


class Ledger:
    """What is left while one batch of plans is made; it belongs to the thread that makes them."""

    def __init__(self, disturbed: Disturbed, now: float, settings: UpdateSettings) -> None:
        self._disturbed = disturbed
        self._now = now
        self._settings = settings

    def left(self, namespace: str) -> HourlyLeft:
        """What a plan may still disturb."""
        return self._disturbed.left(namespace, self._now, self._settings)

    def spend(self, plan: Plan) -> None:
        """Count what a plan will disturb."""
        for action in plan.actions:
            self._disturbed = self._disturbed.noted(action, self._now, self._settings)
