"""Which count and size is the workload to have? What its totals ask for, as far as its directions are open.

Where one direction is closed, the totals that would go that way stay where they are, and what is left of the step is
taken. It is never chosen anew for what the replicas have: that may be more than was asked for, by a target or by a
minimum, and would grow with each look.
"""

from __future__ import annotations

import msgspec

from trellis.core.hvpa.counts import count_from
from trellis.core.hvpa.sizes import size_of
from trellis.core.hvpa.stabilizing import Settled
from trellis.core.hvpa.steps import (
    MIN_CHANGE,
    STABILIZATION_WINDOW,
    Blocked,
    Direction,
    Shape,
    closed,
    is_too_small,
    shown,
    ways,
)
from trellis.core.hvpa.views import View, summed
from trellis.core.recommend.capping.limit_ranges import Counts


class Choice(msgspec.Struct, frozen=True):
    """The shape to have, and what is held back of the one that was asked for."""

    shape: Shape
    blocked: tuple[Blocked, ...] = ()


def standing(view: View) -> Shape:
    """What the workload has: as decided, or as it was before if a step is on its way; else as its pods are.

    On its way pods may have grown already, which is no demand.
    """
    decided = view.memory.decided
    if decided is not None:
        for shape in (decided.shape, decided.came):
            if shape.count == view.replicas:
                return shape
    return Shape(view.replicas, {**summed(view.containers, "requests"), **summed(view.containers, "published")})


def wanted_for(view: View, totals: Counts, stands: Shape) -> Shape:
    """Count and size for these totals, whatever is open. Kept is a count that was decided, not one of somebody else."""
    decided = view.memory.decided
    kept = stands.count if decided is None else decided.shape.count
    count = count_from(view.meaning.ladders, totals, kept, view.meaning.hvpa.down.overlap_percent)
    return Shape(count, _size(view, totals, stands, count))


def choose(view: View, found: Settled, stands: Shape, now: float) -> Choice:
    """The step that may be taken."""
    hvpa, ladders, binary = view.meaning.hvpa, view.meaning.ladders, view.meaning.binary
    wanted = wanted_for(view, found.totals, stands)
    blocked = list(_too_soon(view, found, stands, wanted))
    shut = closed(hvpa, now)
    against = [way for way in ways(stands, wanted) if way in shut]
    blocked += [Blocked(way, shut[way], shown(stands, wanted, binary=binary)) for way in against]
    reached = _one_way(view, found.totals, stands, wanted, against[0]) if against else wanted
    if any(way in shut for way in ways(stands, reached)):
        return Choice(stands, tuple(blocked))
    if is_too_small(stands, reached, ladders, hvpa.down.min_change_percent):
        return Choice(stands, (*blocked, Blocked(Direction.DOWN, MIN_CHANGE, shown(stands, reached, binary=binary))))
    return Choice(reached, tuple(blocked))


def _one_way(view: View, totals: Counts, stands: Shape, wanted: Shape, shut: Direction) -> Shape:
    """As much of a step as does not go the way that is shut.

    If that is up, replicas keep as much of what they have as their totals need: a count that is too low for its totals
    is no reason to hold a resource to what the count may have. If it is down, a count in no bucket has no bounds, and
    shares at it are below those of the lower count that can hold the totals.
    """
    down, has = shut is Direction.DOWN, stands.totals
    count = max(wanted.count, stands.count) if down else min(wanted.count, stands.count)
    if view.meaning.ladders.configured(count):
        size = dict(_size(view, totals, stands, count))
    elif down:
        size = {**stands.size, **{name: -(-total // count) for name, total in totals.items()}}
    else:
        return stands
    for name in size.keys() & has.keys():
        if down:
            size[name] = max(size[name], -(-has[name] // count))
        else:
            size[name] = min(max(size[name], -(-totals.get(name, 0) // count)), has[name] // count)
    return Shape(count, size)


def _size(view: View, totals: Counts, stands: Shape, count: int) -> Counts:
    targets = summed(view.containers, "target")
    return size_of(view.meaning, totals, targets, count=count, present=stands.size)


def _too_soon(view: View, found: Settled, stands: Shape, wanted: Shape) -> tuple[Blocked, ...]:
    """What the totals of this very moment would do, if nothing had to be waited for."""
    if found.present == found.totals:
        return ()
    sooner = wanted_for(view, found.present, stands)
    if is_too_small(wanted, sooner, view.meaning.ladders, view.meaning.hvpa.down.min_change_percent):
        return ()
    step = shown(wanted, sooner, binary=view.meaning.binary)
    return tuple(Blocked(way, STABILIZATION_WINDOW, step) for way in ways(wanted, sooner))
