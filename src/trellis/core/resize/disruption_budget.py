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

TOO_FEW_REPLICAS = Reason(
    "TooFewReplicas", "Fewer pods are running than --min-replicas or minReplicas requires for an update."
)
ZERO_REPLICAS_DESIRED = Reason(
    "ZeroReplicasDesired", "The controller of the pod is scaled to zero, so the pod is about to be deleted."
)
EVICTION_TOLERANCE_EXHAUSTED = Reason(
    "EvictionToleranceExhausted",
    "The eviction tolerance of the controller is used up, so no further pod may be disrupted now.",
)
HOURLY_BUDGET_EXHAUSTED = Reason(
    "HourlyBudgetExhausted", "The hourly limit of disrupted pods is used up, in the cluster or in the namespace."
)


class HourlyAllowance(msgspec.Struct, frozen=True):
    """How many pods may still be disrupted within this hour; None is any number. `resets_at` is when more may be."""

    cluster: int | None = None
    namespace: int | None = None
    resets_at: float | None = None

    @property
    def count(self) -> int | None:
        """The lower of both."""
        counts = [count for count in (self.cluster, self.namespace) if count is not None]
        return min(counts) if counts else None


class PodAvailability(msgspec.Struct, frozen=True):
    """Whether a pod counts as available: `serving` unless it is pending, terminating, or in the middle of a resize.

    `ready` unless its Ready condition is false.
    """

    living: bool
    serving: bool
    ready: bool = True


class ReplicaBudget:
    """The budget of one controller's pods during one plan."""

    def __init__(self, configured: int | None, pods: Iterable[PodAvailability], minimum: int, tolerance: float) -> None:
        pods = list(pods)
        self.living = sum(pod.living for pod in pods)
        self.serving = sum(pod.serving for pod in pods)
        self.ready = sum(pod.serving and pod.ready for pod in pods)
        self.configured = len(pods) if configured is None else configured
        self.tolerated = int(self.configured * tolerance)
        self._minimum = minimum
        self._disrupted = 0

    def find_refusal(self, *, serving: bool, ready: bool = True) -> Reason | None:
        """Why no pod may be disrupted now; a pod that does not serve needs no budget."""
        if not self.configured:
            return ZERO_REPLICAS_DESIRED
        if self.living < self._minimum:
            # If enough replicas are configured, the missing one is about to be created, as after every eviction.
            return TOO_FEW_REPLICAS if self.configured < self._minimum else EVICTION_TOLERANCE_EXHAUSTED
        available = self.ready if ready else self.serving
        if not serving or available - self._disrupted > self.configured - self.tolerated:
            return None
        # Otherwise a tolerance of less than one pod would never permit a disruption of a single replica.
        is_only_disruption = not self.tolerated and not self._disrupted and available >= self.configured
        return None if is_only_disruption else EVICTION_TOLERANCE_EXHAUSTED

    def record_disruption(self, *, serving: bool) -> None:
        """Count a pod that is about to be disrupted."""
        self._disrupted += serving

    def read_status(self) -> ReplicaBudgetStatus:
        """The budget as it is now."""
        return ReplicaBudgetStatus(
            self.configured, self.living, self.ready - self._disrupted, self.tolerated, self._minimum
        )


class HourlyBudget:
    """The remaining hourly budget during one plan."""

    def __init__(self, allowance: HourlyAllowance) -> None:
        self._remaining = allowance.count

    @property
    def is_used_up(self) -> bool:
        """Whether no further pod may be disrupted."""
        return self._remaining is not None and self._remaining <= 0

    def record_disruption(self) -> None:
        """Count a pod that is about to be disrupted."""
        if self._remaining is not None:
            self._remaining -= 1


def resolve_min_replicas(configured: int | None, settings: UpdateSettings) -> int:
    """How many pods must live: the setting of the object, or the flag."""
    return settings.min_replicas if configured is None else configured


def exempts_in_place_resizes(governor: Governor, settings: UpdateSettings) -> bool:
    """Whether resizes that restart no container are exempt from the minimum and the tolerance."""
    # By value: from a recording the rank comes back as a plain number.
    return settings.skip_disruption_budget or governor.claim.rank == GovernorRank.HVPA


_HOUR: Final = 3600.0
_ANY_NUMBER: Final = HourlyAllowance()


class RecentDisruptions(msgspec.Struct, frozen=True):
    """Times and namespaces of disruptions, the earliest first."""

    times: tuple[tuple[float, str], ...] = ()

    def with_action(self, action: Action, now: float, settings: UpdateSettings) -> RecentDisruptions:
        """Add an action if it disrupts, and drop disruptions older than an hour."""
        if not is_disruptive(action) or (settings.hourly is None and settings.namespace_hourly is None):
            return self
        return RecentDisruptions(
            (*(disruption for disruption in self.times if disruption[0] + _HOUR > now), (now, action.pod.namespace))
        )

    def compute_allowance(self, namespace: str, now: float, settings: UpdateSettings) -> HourlyAllowance:
        """The remaining budget for a namespace."""
        if settings.hourly is None and settings.namespace_hourly is None:
            return _ANY_NUMBER
        recent = [disruption for disruption in self.times if disruption[0] + _HOUR > now]
        in_namespace = [disruption for disruption in recent if disruption[1] == namespace]
        budgets = ((settings.hourly, recent), (settings.namespace_hourly, in_namespace))
        cluster_remaining, namespace_remaining = (
            None if budget is None else max(budget - len(disruptions), 0) for budget, disruptions in budgets
        )
        # A used-up budget permits a disruption again once enough of the counted ones are an hour old.
        reset_times = [
            disruptions[len(disruptions) - budget][0] + _HOUR
            for budget, disruptions in budgets
            if budget and len(disruptions) >= budget
        ]
        return HourlyAllowance(cluster_remaining, namespace_remaining, max(reset_times) if reset_times else None)


def is_disruptive(action: Action) -> bool:
    """Whether an action takes a pod, or a container, out of service."""
    return isinstance(action, EvictPod) or (isinstance(action, ResizePod) and action.restarts)


class HourlyDisruptions:
    """Disruptions of the last hour, and those in flight. Times are seconds since 1970."""

    def __init__(self, settings: UpdateSettings) -> None:
        self._settings = settings
        self._is_limited = settings.hourly is not None or settings.namespace_hourly is not None
        self._recent = RecentDisruptions()
        self._in_flight: Counter[str] = Counter()

    def set_limit(self, hourly: int | None) -> None:
        """Allow so many disruptions per hour in the cluster: the part of this replica, where several share it."""
        self._settings = msgspec.structs.replace(self._settings, hourly=hourly)

    def open_ledger(self, now: float) -> HourlyLedger:
        """Open a ledger of the remaining budget for one batch of plans."""
        in_flight = ((now, namespace) for namespace in self._in_flight.elements())
        return HourlyLedger(RecentDisruptions((*self._recent.times, *in_flight)), now, self._settings)

    def begin(self, actions: Iterable[Action]) -> None:
        """Count the actions of a plan that is about to be executed."""
        for action in actions:
            if self._is_limited and is_disruptive(action):
                self._in_flight[action.pod.namespace] += 1

    def end(self, action: Action, now: float, *, is_applied: bool) -> None:
        """Stop counting an action as in flight; count it as a disruption if it was applied."""
        if self._is_limited and is_disruptive(action):
            self._in_flight[action.pod.namespace] -= 1
            if is_applied:
                self._recent = self._recent.with_action(action, now, self._settings)


class HourlyLedger:
    """The remaining hourly budget while one batch of plans is made; it belongs to the planning thread."""

    def __init__(self, disruptions: RecentDisruptions, now: float, settings: UpdateSettings) -> None:
        self._disruptions = disruptions
        self._now = now
        self._settings = settings

    def compute_allowance(self, namespace: str) -> HourlyAllowance:
        """The allowance of the next plan for a workload of this namespace."""
        return self._disruptions.compute_allowance(namespace, self._now, self._settings)

    def spend(self, actions: Iterable[Action]) -> None:
        """Count the disruptions of a plan."""
        for action in actions:
            self._disruptions = self._disruptions.with_action(action, self._now, self._settings)
