"""Is evicting pods of this controller of any use?

If the pod that came after an eviction requests just what its predecessor did, then it was of none, and doing it again
will not be either. Something else is broken: no webhook sizes new pods, or another one undoes it. A person has to look,
and until then it is tried now and then, at growing intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from trellis.base.reason import Reason, Severity
from trellis.core.recommend.capping.limit_ranges import Counts
from trellis.core.resize.actions import EvictPod
from trellis.core.resize.settings import UpdateSettings, backoff

EVICTION_LOOP = Reason(
    "EvictionLoop",
    "An eviction changed nothing: the pod after it requests the same, as if no admission webhook were at work.",
    Severity.WARNING,
)
# Requests by container.
Wanted: TypeAlias = Mapping[str, Counts]


# Of one controller, so many sizes of evicted pods are remembered: a rollout and a few recommendations ago.
_KEPT: Final = 4


class Evicted(msgspec.Struct, frozen=True):
    """What is remembered of evicted pods of a controller that requested the same, and how often it was to no use.

    `first` and `at` are the times of the first and the last eviction of pods that requested just that. `beside` are the
    uids of pods that were there at the first, and are so new that by their age they might have come after it. `newest`
    is when the last of the evicted pods had been made.
    """

    had: Wanted
    first: float
    at: float
    useless: int = 0
    beside: tuple[str, ...] = ()
    newest: float = 0.0

    def is_repeated_by(self, uid: str, requests: Wanted, created: float | None) -> bool:
        """Whether a pod came after such an eviction and requests the same. Times of creation are whole seconds."""
        came_after = created is not None and created >= math.floor(self.first) and uid not in self.beside
        return came_after and requests == self.had


def loop_until(evicted: Evicted, settings: UpdateSettings) -> float:
    """Until when a controller's pods are left alone after an eviction to no use."""
    return evicted.at + backoff(evicted.useless + 1, settings.loop_backoff, settings.longest_loop_backoff)


def repeated(known: Sequence[Evicted], uid: str, requests: Wanted, created: float | None) -> Evicted | None:
    """The evictions that a pod came after, if they were of no use."""
    found = next((each for each in known if each.is_repeated_by(uid, requests, created)), None)
    if found is None or created is None:
        return None
    return None if any(math.floor(each.first) <= created for each in _came_of(found, known)) else found


def evicted_again(known: Sequence[Evicted], action: EvictPod, now: float) -> tuple[Evicted, ...]:
    """What is remembered of a controller after one more eviction, the newest first."""
    last = next((each for each in known if each.had == action.had), None)
    newest = Evicted(action.had, now, now, beside=action.beside)
    if last is not None and not any(_came_of(last, known)):
        newest = Evicted(action.had, last.first, now, last.useless + action.again, last.beside, last.newest)
    if action.created is not None:
        newest = msgspec.structs.replace(newest, newest=max(newest.newest, action.created))
    return (newest, *(each for each in known if each.had != action.had))[:_KEPT]


def _came_of(evicted: Evicted, known: Sequence[Evicted]) -> Iterator[Evicted]:
    """Those of another size that came after the first of these evictions, so that it was of use.

    They are evicted in their turn where what is recommended goes back and forth, as by day and by night.
    """
    return (each for each in known if each.had != evicted.had and each.newest > evicted.first)
