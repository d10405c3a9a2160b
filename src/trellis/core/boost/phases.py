"""Phases of a boost: decides whether the boost of each container of a pod is over.

A boost is over when the pod has been Ready for the container's duration, each container for itself. Ready turning
false starts the duration anew. A pod that is not Ready stays boosted until it is given up, if its policy or the
updater's flag says when.

A boost without a policy is one whose object was deleted, or no longer gives the container a boost. It ends some time
after that was first observed, Ready or not. The delay is for objects that are replaced: a pod is boosted only when it
is created, so that a boost taken back between deletion and creation would be lost.

While some container is boosted, and be it only because its unboost has failed so far, the updater makes no other
change to the pod. An out-of-memory kill lifts this in modes that evict: the next pod starts with the memory it needs,
and boosted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec

from trellis.api.resolve import Boost, EffectiveVpa, UpdateMode
from trellis.base.reasons import Reason, Severity
from trellis.core.boost.annotation import ANNOTATION_PREFIX

BOOST_GATE_OFF = Reason(
    "BoostGateOff", "The feature gate CPUStartupBoost is off: boosts are neither applied nor ended."
)
BOOST_UNTIL_READY = Reason("BoostUntilReady", "The container is boosted until its pod is Ready.")
BOOST_UNTIL_DURATION = Reason("BoostUntilDuration", "The pod is Ready, and the boost continues for its duration.")
BOOST_OVER = Reason("BoostOver", "The pod has been Ready for the duration of the boost: the boost ends.")
BOOST_GIVEN_UP = Reason(
    "BoostGivenUp", "The pod has not become Ready within the give-up time of its boost: the boost ends."
)
BOOST_WITHOUT_POLICY = Reason(
    "BoostWithoutPolicy",
    "No object boosts the container any more. The updater ends the boost 30 s after it observes this.",
)
BOOST_WITHDRAWN = Reason("BoostWithdrawn", "No object boosts the container any more: the boost ends.")
BOOSTED_FOR_LONG = Reason(
    "BoostedForLong",
    "A container has been boosted for more than 10 minutes, and its policy has no such duration.",
    Severity.WARNING,
)

# How long a boost without a policy is kept. `kubectl replace --force` and Helm delete and create within seconds.
WITHDRAWAL_SECONDS: Final = 30.0
# A start that takes longer than this is worth a look.
LONG_SECONDS: Final = 600.0
# A boost that is due may take this long to end before it counts as overdue.
_ENDING_SECONDS: Final = 60.0

_EVICTING = frozenset({UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE})


class BoostPhase(StrEnum):
    """Whether a boost is held, due to end, or outside of the feature gate."""

    NONE = "None"
    HELD = "Held"
    DUE = "Due"


class ContainerBoostPhase(msgspec.Struct, frozen=True):
    """The same for one container; `at` is when its boost is or was over, as seconds since 1970, infinite if unknown."""

    container: str
    phase: BoostPhase
    reason: Reason
    ends_at: float = math.inf


class PodBoostPhases(msgspec.Struct, frozen=True):
    """The boosted containers of a pod. `next_look` is when one more is due without anything happening before."""

    containers: tuple[ContainerBoostPhase, ...] = ()
    next_transition: float | None = None

    @property
    def due(self) -> tuple[ContainerBoostPhase, ...]:
        """Those to be unboosted now."""
        return tuple(container for container in self.containers if container.phase is BoostPhase.DUE)

    @property
    def held(self) -> tuple[ContainerBoostPhase, ...]:
        """Those that stay boosted."""
        return tuple(container for container in self.containers if container.phase is BoostPhase.HELD)

    def blocks_changes(self, mode: UpdateMode, *, oom_killed: bool) -> bool:
        """Whether nothing but an unboost may change the pod."""
        boosted = any(container.phase is not BoostPhase.NONE for container in self.containers)
        return boosted and not (oom_killed and mode in _EVICTING)

    def find_long_boost_time(self, started: float) -> float:
        """When a pod that started then counts as boosted for long; infinite if it does not.

        A duration after Ready is as long as its policy says, and a boost that is due takes a moment to end.
        """
        return max(started + LONG_SECONDS, min(map(_find_overdue_time, self.containers), default=math.inf))


def determine_boost_phases(
    annotations: Iterable[str],
    vpa: EffectiveVpa,
    now: float,
    *,
    ready: bool,
    ready_since: float,
    started: float,
    without_policy_since: float | None = None,
    give_up_after: float | None = None,
    enabled: bool = True,
) -> PodBoostPhases:
    """The phases of a running pod, whose annotations say what is boosted.

    `ready_since` is when its Ready condition last changed, `started` when the kubelet took it on (infinite: not yet).
    `without_policy_since` is when a boost of the pod was first observed to have no policy; absent, that is now.
    `give_up_after` is for policies that do not say themselves when a pod is given up; absent, it never is.
    `enabled` is the gate: without it nothing is due, and nothing is held back either.
    """
    names = [key.removeprefix(ANNOTATION_PREFIX) for key in annotations if key.startswith(ANNOTATION_PREFIX)]
    if not enabled:
        return PodBoostPhases(tuple(ContainerBoostPhase(name, BoostPhase.NONE, BOOST_GATE_OFF) for name in names))
    observed = now if without_policy_since is None else without_policy_since
    phases = []
    for name in names:
        boost = vpa.get_container(name).boost
        if boost is None:
            phases.append(_build_phase(name, observed + WITHDRAWAL_SECONDS, now, BOOST_WITHOUT_POLICY, BOOST_WITHDRAWN))
        elif ready:
            until = ready_since + boost.duration.total_seconds()
            phases.append(_build_phase(name, until, now, BOOST_UNTIL_DURATION, BOOST_OVER))
        else:
            until = _find_give_up_time(boost, give_up_after, started)
            phases.append(_build_phase(name, until, now, BOOST_UNTIL_READY, BOOST_GIVEN_UP))
    times = [phase.ends_at for phase in phases if phase.phase is BoostPhase.HELD and math.isfinite(phase.ends_at)]
    return PodBoostPhases(tuple(phases), min(times) if times else None)


def lacks_policy(annotations: Iterable[str], vpa: EffectiveVpa) -> bool:
    """Whether some container of a pod with these annotations is boosted without a policy."""
    names = (key.removeprefix(ANNOTATION_PREFIX) for key in annotations if key.startswith(ANNOTATION_PREFIX))
    return any(vpa.get_container(name).boost is None for name in names)


def _find_give_up_time(boost: Boost, default: float | None, started: float) -> float:
    timeout = boost.give_up_after.total_seconds() if boost.give_up_after is not None else default
    return math.inf if timeout is None else started + timeout


def _find_overdue_time(container: ContainerBoostPhase) -> float:
    """Return when the boost of a container becomes overdue."""
    if container.phase is BoostPhase.DUE:
        return container.ends_at + _ENDING_SECONDS
    return -math.inf if container.reason is BOOST_UNTIL_READY else math.inf


def _build_phase(name: str, ends_at: float, now: float, held_reason: Reason, due_reason: Reason) -> ContainerBoostPhase:
    if now >= ends_at:
        return ContainerBoostPhase(name, BoostPhase.DUE, due_reason, ends_at)
    return ContainerBoostPhase(name, BoostPhase.HELD, held_reason, ends_at)
