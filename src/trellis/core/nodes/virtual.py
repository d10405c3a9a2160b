"""Where do the chunks of Buffers have room? They are put on nodes like pods, after all pods that are real.

A chunk stays where it was as long as it fits there, so that nodes do not take turns in being needed. It never takes a
place from a pod: what a pod has taken is simply not there any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from trellis.core.fit import Demand, fits
from trellis.core.nodes.chunks import Chunks
from trellis.core.nodes.needs import goes_by_others
from trellis.core.nodes.trial import Trial
from trellis.core.nodes.worlds import World
from trellis.core.usage.columns import IntColumn

_NOWHERE: IntColumn = np.zeros(0, dtype=np.int64)


class Seats(msgspec.Struct, frozen=True):
    """The numbers of the nodes that chunks of a Buffer are on: of those there are, and of those on their way."""

    ready: IntColumn = _NOWHERE
    coming: IntColumn = _NOWHERE

    @property
    def count(self) -> int:
        """How many chunks have a place."""
        return len(self.ready) + len(self.coming)


def seat_all(trial: Trial, buffers: Sequence[Chunks], seats: Mapping[str, Sequence[str]]) -> list[Seats]:
    """Put the chunks of all Buffers where there is room. `seats` has, by UID, the names of nodes where they were.

    Whoever has a place keeps it, whatever the rank of others: first all on nodes that are ready, then, of those who
    found none there either, all who wait for a node on its way.
    """
    before = [seats.get(each.uid, ())[: each.count] for each in buffers]
    ready = _seat(trial, buffers, before, trial.ready, [each.count for each in buffers])
    left = [each.count - len(found) for each, found in zip(buffers, ready, strict=True)]
    coming = _seat(trial, buffers, before, trial.coming, left)
    return [Seats(*each) for each in zip(ready, coming, strict=True)]


def _seat(
    trial: Trial, buffers: Sequence[Chunks], before: Sequence[Sequence[str]], nodes: IntColumn, counts: Sequence[int]
) -> list[IntColumn]:
    """Have chunks of all Buffers keep their places on these nodes, and then others find one, in their turn."""
    kept = [
        keep(trial, world_of(trial, chunks), chunks.demand, names, nodes, count)
        for chunks, names, count in zip(buffers, before, counts, strict=True)
    ]
    return [
        np.concatenate((found, trial.put(world_of(trial, chunks), chunks.demand, count - len(found), nodes)))
        for chunks, found, count in zip(buffers, kept, counts, strict=True)
    ]


def world_of(trial: Trial, chunks: Chunks) -> World:
    """Where chunks are counted."""
    return trial.running if chunks.on_top else trial.fixed


def keep(  # noqa: PLR0917 - one question, and no two of its parts belong together
    trial: Trial, world: World, demand: Demand, before: Sequence[str], among: IntColumn, most: int
) -> IntColumn:
    """Put at most so many pods that are alike back where they were, as far as they fit there: the numbers of nodes."""
    found = np.array([trial.find(name) for name in before if name], dtype=np.int64)
    found = found[found >= 0]
    found = found[trial.mask(among)[found]][:most]
    if not len(found):
        return _NOWHERE
    where, first, times = np.unique(found, return_index=True, return_counts=True)
    if goes_by_others(demand):
        return trial.put(world, demand, len(found), where[np.argsort(first)])
    open_ = fits(trial.table, demand, world.used, world.near)[where]
    times = np.minimum(times, world.used.rooms(demand, where)) * open_
    some = times > 0
    where, times = where[some], times[some]
    if len(where):
        world.add_each(where, demand, times)
    return np.repeat(where, times)


def numbered(before: Sequence[str], places: Sequence[str], count: int) -> tuple[str, ...]:
    """The node of each chunk by its number, empty if it has none: whoever can keep its node does."""
    free = Counter(places)
    found = [""] * count
    for number, name in enumerate(before[:count]):
        if free.get(name, 0) > 0:
            found[number] = name
            free[name] -= 1
    rest = iter(free.elements())
    return tuple(name or next(rest, "") for name in found)
