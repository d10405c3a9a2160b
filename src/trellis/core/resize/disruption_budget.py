"""Disruption budgets: whether a pod may be disrupted now.

Pods with the same direct controller share a budget: of the configured replicas a share may be out of service at a
time, and of a single replica that one. Pods that are pending, terminating or in the middle of a resize are out of
service already, and so are pods that the same plan has disrupted before. A running pod that is not Ready is out of
service too, so that a Ready one waits for it: upstream checks once a minute and mostly misses such a moment. But pods
that are not Ready are disrupted as if they were, because the change may be what they need. A controller of a kind
whose replica count is unknown counts as having as many replicas as it has pods.

Where fewer pods live than the minimum, none is disrupted.

Budgets per hour, of the cluster and of a namespace, are unlimited by default. Evictions and resizes that restart a
container count for an hour after they were done. Actions under way count as if they were done, so that plans made at
the same time do not spend the same budget twice. Without a budget nothing is counted.

A resize in place that restarts no container takes no replica out of service, so that a minimum has nothing to protect.
What an Hvpa decides is applied in place whatever the budget says. For VPAs that is upstream's
`--in-place-skip-disruption-budget`, which is off by default.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import msgspec

from trellis.base.reasons import Reason
from trellis.core.resize.actions import Action, EvictPod, ReplicaBudgetStatus, ResizePod
from trellis.core.resize.settings import UpdateSettings
from trellis.core.sizing.governors import Governor, GovernorRank

TOO_FEW_REPLICAS = Reason("TooFewReplicas", "Fewer pods live than there must be before one of them is disturbed.")
NO_REPLICAS_WANTED = Reason("NoReplicasWanted", "The controller of the pod wants no pods, so that it is going anyway.")
TOLERANCE_USED_UP = Reason(
    "ToleranceUsedUp", "As many pods of the controller are out of service as may be at the same time."
)
HOURLY_BUDGET_USED_UP = Reason(
    "HourlyBudgetUsedUp", "As many pods were disturbed within an hour as may be, in the cluster or in the namespace."
)


class HourlyAllowance(msgspec.Struct, frozen=True):
    """How many pods may still be disturbed within this hour; None is any number. `until` is when there is more."""

    cluster: int | None = None
    namespace: int | None = None
    until: float | None = None

    @property
    def count(self) -> int | None:
        """The lower of both."""
        counts = [count for count in (self.cluster, self.namespace) if count is not None]
        return min(counts) if counts else None


class PodAvailability(msgspec.Struct, frozen=True):
    """What one pod means for its group: `serving` unless it is pending, going, or in the middle of a resize.

    `ready` unless it says that it is not.
    """

    living: bool
    serving: bool
    ready: bool = True


class ReplicaBudget:
    """The budget of one group during one pass."""

    def __init__(self, configured: int | None, pods: Iterable[PodAvailability], minimum: int, tolerance: float) -> None:
        pods = list(pods)
        self.living = sum(pod.living for pod in pods)
        self.serving = sum(pod.serving for pod in pods)
        self.ready = sum(pod.serving and pod.ready for pod in pods)
        self.configured = len(pods) if configured is None else configured
        self.tolerated = int(self.configured * tolerance)
        self._minimum = minimum
        self._disturbed = 0

    def refuses(self, *, serving: bool, ready: bool = True) -> Reason | None:
        """Why a pod of the group may not be disturbed now; one that does not serve takes nothing away."""
        if not self.configured:
            return NO_REPLICAS_WANTED
        if self.living < self._minimum:
            # Where enough are wanted one is on its way, as after every eviction.
            return TOO_FEW_REPLICAS if self.configured < self._minimum else TOLERANCE_USED_UP
        there = self.ready if ready else self.serving
        if not serving or there - self._disturbed > self.configured - self.tolerated:
            return None
        # A tolerance of less than one pod would otherwise keep a single replica as it is for ever.
        alone = not self.tolerated and not self._disturbed and there >= self.configured
        return None if alone else TOLERANCE_USED_UP

    def disturb(self, *, serving: bool) -> None:
        """Count a pod that is about to be disturbed."""
        self._disturbed += serving

    def figures(self) -> ReplicaBudgetStatus:
        """Where it stands now."""
        return ReplicaBudgetStatus(
            self.configured, self.living, self.ready - self._disturbed, self.tolerated, self._minimum
        )


class HourlyBudget:
    """What is left of the budgets per hour during one pass."""

    def __init__(self, left: HourlyAllowance) -> None:
        self._left = left.count

    @property
    def used_up(self) -> bool:
        """Whether nothing is left."""
        return self._left is not None and self._left <= 0

    def disturb(self) -> None:
        """Count a pod that is about to be disturbed."""
        if self._left is not None:
            self._left -= 1


def resolve_min_replicas(own: int | None, settings: UpdateSettings) -> int:
    """How many pods must live: what the object says, or the flag."""
    return settings.min_replicas if own is None else own


def exempts_in_place_resizes(governor: Governor, settings: UpdateSettings) -> bool:
    """Whether resizes that restart no container are exempt from the minimum and the tolerance."""
    # By value: from a recording the rank comes back as a plain number.
    return settings.skip_disruption_budget or governor.claim.rank == GovernorRank.HVPA


_HOUR: Final = 3600.0
_ANY_NUMBER: Final = HourlyAllowance()


class RecentDisruptions(msgspec.Struct, frozen=True):
    """When pods were disturbed and in which namespace, the earliest first."""

    times: tuple[tuple[float, str], ...] = ()

    def noted(self, action: Action, now: float, settings: UpdateSettings) -> RecentDisruptions:
        """The same with one more, if it counts, and without those of more than an hour ago."""
        if not is_disruptive(action) or (settings.hourly is None and settings.namespace_hourly is None):
            return self
        return RecentDisruptions(
            (*(disruption for disruption in self.times if disruption[0] + _HOUR > now), (now, action.pod.namespace))
        )

    def left(self, namespace: str, now: float, settings: UpdateSettings) -> HourlyAllowance:
        """What is left for a namespace."""
        if settings.hourly is None and settings.namespace_hourly is None:
            return _ANY_NUMBER
        recent = [disruption for disruption in self.times if disruption[0] + _HOUR > now]
        own = [disruption for disruption in recent if disruption[1] == namespace]
        counted = ((settings.hourly, recent), (settings.namespace_hourly, own))
        cluster, here = (None if most is None else max(most - len(disruptions), 0) for most, disruptions in counted)
        # What is used up has room again when as many are an hour old as leave one less than the budget.
        until = [
            disruptions[len(disruptions) - most][0] + _HOUR
            for most, disruptions in counted
            if most and len(disruptions) >= most
        ]
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

    def begin(self, actions: Iterable[Action]) -> None:
        """A plan is about to be carried out."""
        for action in actions:
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

    def spend(self, actions: Iterable[Action]) -> None:
        """Count what a plan will disturb."""
        for action in actions:
            self._disturbed = self._disturbed.noted(action, self._now, self._settings)
