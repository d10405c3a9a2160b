"""Detects eviction loops: evictions of a controller's pods that change nothing.

If the pod that came after an eviction requests just what its predecessor did, the eviction was useless, and the next
one would be too. The cause lies elsewhere: no webhook sizes new pods, or another one undoes it. This needs a person,
and until then evictions are tried at growing intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from trellis.base.reasons import Reason, Severity
from trellis.core.recommend.amounts import ResourceAmounts
from trellis.core.resize.pod_decisions import EvictPod
from trellis.core.resize.settings import UpdateSettings, backoff

EVICTION_LOOP = Reason(
    "EvictionLoop",
    "An eviction changed nothing: the pod after it requests the same, as if no admission webhook were at work.",
    Severity.WARNING,
)
# Requests by container.
ContainerRequests: TypeAlias = Mapping[str, ResourceAmounts]


# Of one controller, so many sizes of evicted pods are remembered: a rollout and a few recommendations ago.
_KEPT: Final = 4


class EvictionRecord(msgspec.Struct, frozen=True):
    """What is remembered of evicted pods of a controller that requested the same, and how often it was to no use.

    `first` and `at` are the times of the first and the last eviction of pods that requested just that. `beside` are the
    uids of pods that were there at the first, and are so new that by their age they might have come after it. `newest`
    is when the last of the evicted pods had been made.
    """

    had: ContainerRequests
    first: float
    at: float
    useless: int = 0
    beside: tuple[str, ...] = ()
    newest: float = 0.0

    def is_repeated_by(self, uid: str, requests: ContainerRequests, created: float | None) -> bool:
        """Whether a pod came after such an eviction and requests the same. Times of creation are whole seconds."""
        came_after = created is not None and created >= math.floor(self.first) and uid not in self.beside
        return came_after and requests == self.had


def find_loop_end(evicted: EvictionRecord, settings: UpdateSettings) -> float:
    """Until when a controller's pods are left alone after an eviction to no use."""
    return evicted.at + backoff(evicted.useless + 1, settings.loop_backoff, settings.longest_loop_backoff)


def find_useless_eviction(
    known: Sequence[EvictionRecord], uid: str, requests: ContainerRequests, created: float | None
) -> EvictionRecord | None:
    """The evictions that a pod came after, if they were of no use."""
    found = next((each for each in known if each.is_repeated_by(uid, requests, created)), None)
    if found is None or created is None:
        return None
    return None if any(math.floor(each.first) <= created for each in _came_of(found, known)) else found


def record_eviction(known: Sequence[EvictionRecord], action: EvictPod, now: float) -> tuple[EvictionRecord, ...]:
    """What is remembered of a controller after one more eviction, the newest first."""
    last = next((each for each in known if each.had == action.had), None)
    newest = EvictionRecord(action.had, now, now, beside=action.beside)
    if last is not None and not any(_came_of(last, known)):
        newest = EvictionRecord(action.had, last.first, now, last.useless + action.again, last.beside, last.newest)
    if action.created is not None:
        newest = msgspec.structs.replace(newest, newest=max(newest.newest, action.created))
    return (newest, *(each for each in known if each.had != action.had))[:_KEPT]


def _came_of(evicted: EvictionRecord, known: Sequence[EvictionRecord]) -> Iterator[EvictionRecord]:
    """Those of another size that came after the first of these evictions, so that it was of use.

    They are evicted in their turn where what is recommended goes back and forth, as by day and by night.
    """
    return (each for each in known if each.had != evicted.had and each.newest > evicted.first)
