"""In which order are count and size changed, so that Ready pods never hold less than is needed in between?

More and smaller replicas: the old ones keep their size until the new ones are Ready. Fewer and larger ones: all grow
before any goes, however long that takes: pods that cannot grow are not enough when they are fewer.
"""

from __future__ import annotations

import msgspec

from trellis.base.reason import Reason
from trellis.core.hvpa.memory import Decision
from trellis.core.hvpa.settings import HvpaSettings
from trellis.core.hvpa.views import View, summed
from trellis.core.recommend.capping.limit_ranges import Counts

READY_FIRST = Reason("ReadyFirst", "Replicas keep their larger size until the new ones are Ready.")
GROW_FIRST = Reason("GrowFirst", "Replicas grow before there are fewer of them.")


class Turn(msgspec.Struct, frozen=True):
    """The count and the size of now, on the way to what was decided; why it is not all of it, and until when."""

    count: int
    size: Counts
    reason: Reason | None = None
    look: float | None = None


def turn(view: View, decided: Decision, totals: Counts, now: float, settings: HvpaSettings) -> Turn:
    """What is done now. Resources without a total have no size of their own to wait for."""
    count, size = decided.shape.count, decided.shape.size
    has = {**summed(view.containers, "requests"), **summed(view.containers, "published")}
    larger = {name: max(amount, has.get(name, 0)) for name, amount in size.items()}
    if count < view.replicas:
        least = summed(view.containers, "least")
        # Not the larger of both: what was published may be more than any node has, and so many replicas need less.
        grows = any(size[name] > least.get(name, 0) for name in totals)
        return Turn(view.replicas, size, GROW_FIRST) if grows else Turn(count, size)
    if larger != size and decided.grew is not None:
        until = decided.grew + settings.ready_patience
        if count > view.replicas or (not view.all_ready and now < until):
            return Turn(count, larger, READY_FIRST, until)
    return Turn(count, size)
