"""Is the boost of a pod over?

It is when the pod has been Ready for the container's duration, each container for itself. Ready turning false starts
the duration anew. A pod that is not Ready stays boosted until it has been given up, if its policy says when. A boost
whose policy has been removed since is over with the first Ready: it has no duration any more.

While some container is boosted, and be it only because its unboost has failed so far, nobody else changes the pod. An
out-of-memory kill lifts this in modes that evict: the next pod starts with the memory it needs, and boosted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from trellis.api.resolve import Boost, EffectiveVpa, UpdateMode
from trellis.base.reason import Reason
from trellis.core.boost.memory import PREFIX

BOOST_GATE_OFF = Reason("BoostGateOff", "Startup boost is switched off, so that boosts are neither made nor ended.")
BOOST_UNTIL_READY = Reason("BoostUntilReady", "The container is boosted until its pod is Ready.")
BOOST_UNTIL_DURATION = Reason("BoostUntilDuration", "The pod is Ready, and its boost lasts for some time after that.")
BOOST_OVER = Reason("BoostOver", "The pod has been Ready for as long as its boost lasts.")
BOOST_GIVEN_UP = Reason("BoostGivenUp", "The pod has not become Ready for so long that its boost is taken back.")

_EVICTING = frozenset({UpdateMode.RECREATE, UpdateMode.IN_PLACE_OR_RECREATE})


class Phase(StrEnum):
    """Where a boost stands."""

    NONE = "None"
    HELD = "Held"
    DUE = "Due"


class ContainerPhase(msgspec.Struct, frozen=True):
    """The same for one container; `at` is when its boost is or was over, as seconds since 1970, infinite if unknown."""

    container: str
    phase: Phase
    reason: Reason
    at: float = math.inf


class PodPhases(msgspec.Struct, frozen=True):
    """The boosted containers of a pod. `next_look` is when one more is due without anything happening before."""

    containers: tuple[ContainerPhase, ...] = ()
    next_look: float | None = None

    @property
    def due(self) -> tuple[ContainerPhase, ...]:
        """Those to be unboosted now."""
        return tuple(each for each in self.containers if each.phase is Phase.DUE)

    @property
    def held(self) -> tuple[ContainerPhase, ...]:
        """Those that stay boosted."""
        return tuple(each for each in self.containers if each.phase is Phase.HELD)

    def hold_back(self, mode: UpdateMode, *, oom_killed: bool) -> bool:
        """Whether nothing but an unboost may change the pod."""
        boosted = any(each.phase is not Phase.NONE for each in self.containers)
        return boosted and not (oom_killed and mode in _EVICTING)


def boost_phases(
    annotations: Iterable[str],
    vpa: EffectiveVpa,
    now: float,
    *,
    ready: bool,
    ready_since: float,
    started: float,
    enabled: bool = True,
) -> PodPhases:
    """The phases of a running pod, whose annotations say what is boosted.

    `ready_since` is when its Ready condition last changed, `started` when the kubelet took it on (infinite: not yet).
    `enabled` is the gate: without it nothing is due, and nothing is held back either.
    """
    names = [key.removeprefix(PREFIX) for key in annotations if key.startswith(PREFIX)]
    if not enabled:
        return PodPhases(tuple(ContainerPhase(name, Phase.NONE, BOOST_GATE_OFF) for name in names))
    found = []
    for name in names:
        boost = vpa.container(name).boost
        at = _ready_end(boost, ready_since) if ready else _given_up(boost, started)
        found.append(_phase(name, ready, at, now))
    times = [each.at for each in found if each.phase is Phase.HELD and math.isfinite(each.at)]
    return PodPhases(tuple(found), min(times) if times else None)


def _ready_end(boost: Boost | None, ready_since: float) -> float:
    return ready_since + (boost.duration.total_seconds() if boost is not None else 0.0)


def _given_up(boost: Boost | None, started: float) -> float:
    patience = boost.give_up_after if boost is not None else None
    return math.inf if patience is None else started + patience.total_seconds()


def _phase(name: str, ready: bool, at: float, now: float) -> ContainerPhase:
    if now >= at:
        return ContainerPhase(name, Phase.DUE, BOOST_OVER if ready else BOOST_GIVEN_UP, at)
    return ContainerPhase(name, Phase.HELD, BOOST_UNTIL_DURATION if ready else BOOST_UNTIL_READY, at)
