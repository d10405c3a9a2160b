"""Where would everything go that is on a node, if the node went?

Pods and chunks of Buffers are put on other nodes that are ready, beside all that is there. If all of them find a place
the node counts as gone from then on, and what found a place as there; otherwise nothing has changed. So nodes that are
found one after the other can go together. The node itself stays in the table: while pods are evicted from it, the
scheduler counts it as one that is there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from trellis.base.counted import counted
from trellis.base.errors import InvalidInput
from trellis.base.reason import Reason
from trellis.core.buffers.said import Said
from trellis.core.fit import Demand
from trellis.core.nodes.chunks import Chunks
from trellis.core.nodes.equivalence import size
from trellis.core.nodes.moves import Successors
from trellis.core.nodes.needs import goes_by_others
from trellis.core.nodes.pods import PlacedPod
from trellis.core.nodes.population import DEMAND_UNREADABLE
from trellis.core.nodes.trial import Trial
from trellis.core.nodes.worlds import World
from trellis.core.usage.columns import BoolColumn, IntColumn

NO_PLACE_FOR_PODS = Reason("NoPlaceForPods", "Pods on the node would find no place on other nodes that are ready.")
NO_PLACE_FOR_CHUNKS = Reason("NoPlaceForChunks", "Chunks of a Buffer would find no place on other nodes.")

# How many nodes are looked at before all others are.
_AT_FIRST: Final = 512


class Clearing:
    """Nodes tried one after the other. `order` are the numbers of nodes that may take something, the best first."""

    def __init__(self, trial: Trial, successors: Successors, order: IntColumn, largest: tuple[float, float]) -> None:
        self._trial = trial
        self._successors = successors
        self._order = order
        self._largest = largest
        # Nodes on which something is to go: they cannot be removed at the same time.
        self.hosts: BoolColumn = np.zeros(trial.table.reach, dtype=np.bool_)
        self._seats: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self._chunks: dict[str, Chunks] = {}

    def seat(self, chunks: Chunks, numbers: IntColumn) -> None:
        """Note on which nodes the chunks of a Buffer are."""
        self._chunks[chunks.uid] = chunks
        for number, count in Counter(numbers.tolist()).items():
            self._seats[number][chunks.uid] += count

    def clear(self, number: int, pods: Sequence[PlacedPod]) -> Said | None:
        """Have everything on a node find a place elsewhere; why it cannot, and then nothing has changed."""
        try:
            groups = self._groups(pods)
        except InvalidInput as error:
            return Said(DEMAND_UNREADABLE, str(error))
        tried = _Tried(self._trial, self._order[self._order != number])
        said = self._move(number, pods, groups, tried)
        if said is not None:
            tried.undo()
            return said
        self._order = tried.nodes
        self.hosts[tried.used] = True
        self._seats.pop(number, None)
        for uid, numbers in tried.chunks:
            self.seat(self._chunks[uid], numbers)
        return None

    def _move(
        self, number: int, pods: Sequence[PlacedPod], groups: Iterable[tuple[Demand, int]], tried: _Tried
    ) -> Said | None:
        running = self._trial.running
        for pod in pods:
            if pod.is_counted:
                tried.take_away(running, number, pod)
        for demand, count in groups:
            if len(tried.put(running, demand, count)) < count:
                whose = demand.resident.namespace
                return Said(NO_PLACE_FOR_PODS, f"no other node takes {counted(count, 'pod')} of namespace {whose}")
        for uid, count in self._seats.get(number, Counter[str]()).items():
            chunks = self._chunks[uid]
            found = tried.move(running if chunks.on_top else self._trial.fixed, number, chunks.demand, count)
            if len(found) < count:
                return Said(NO_PLACE_FOR_CHUNKS, f"Buffer {chunks.key[0]}/{chunks.key[1]}")
            tried.chunks.append((uid, found))
        return None

    def _groups(self, pods: Sequence[PlacedPod]) -> list[tuple[Demand, int]]:
        """What has to find a place, pods that are alike together; those that make way for all need none.

        First those that do not go everywhere, then the largest: who finds no place is found out early.
        """
        counts: Counter[Demand] = Counter(self._successors.demand(each.pod) for each in pods if each.is_counted)
        return sorted(counts.items(), key=lambda each: (_goes_everywhere(each[0]), -size(each[0], self._largest)))


def _goes_everywhere(demand: Demand) -> bool:
    return not (demand.selector or demand.terms is not None or demand.volumes or goes_by_others(demand))


class _Tried:
    """What was done to find out, so that it can be undone."""

    def __init__(self, trial: Trial, nodes: IntColumn) -> None:
        self.nodes = nodes
        self.chunks: list[tuple[str, IntColumn]] = []
        self._trial = trial
        self._gone: list[tuple[World, int, PlacedPod]] = []
        self._put: list[tuple[World, Demand, IntColumn, IntColumn]] = []

    @property
    def used(self) -> IntColumn:
        """The nodes that something was put on."""
        columns = [where[times > 0] for _, _, where, times in self._put]
        return np.unique(np.concatenate(columns)) if columns else self.nodes[:0]

    def take_away(self, world: World, number: int, pod: PlacedPod) -> None:
        world.remove(number, pod.demand, pod.resident)
        self._gone.append((world, number, pod))

    def put(self, world: World, demand: Demand, count: int) -> IntColumn:
        """Put pods that are alike on the first nodes that take them."""
        # Mostly there is room near the front, and to look at all nodes takes ten times as long.
        found = self._trial.put(world, demand, count, self.nodes[:_AT_FIRST])
        if len(found) < count:
            rest = self._trial.put(world, demand, count - len(found), self.nodes[_AT_FIRST:])
            found = np.concatenate((found, rest))
        where, times = np.unique(found, return_counts=True)
        if len(where):
            self._put.append((world, demand, where, times.astype(np.int64)))
        return found

    def move(self, world: World, number: int, demand: Demand, count: int) -> IntColumn:
        """Take chunks from a node and put them on others."""
        here, less = np.array([number], dtype=np.int64), np.array([-count], dtype=np.int64)
        world.add_each(here, demand, less)
        self._put.append((world, demand, here, less))
        return self.put(world, demand, count)

    def undo(self) -> None:
        """Everything as before."""
        for world, demand, where, times in reversed(self._put):
            world.add_each(where, demand, -times)
        for world, number, pod in self._gone:
            world.add(number, pod.demand, pod.resident)
