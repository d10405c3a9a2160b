"""Places chunks of Buffers on nodes like pods, after all real pods.

A chunk stays where it was as long as it fits there, so that nodes do not alternate in being needed. It never takes a
place from a pod: what a pod takes is no longer free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from trellis.core.fit import Demand, fits
from trellis.core.nodes.buffers.virtual_pods import BufferChunks
from trellis.core.nodes.state.pods import PlacedPods, depends_on_other_pods
from trellis.core.nodes.state.simulation import ClusterSimulation
from trellis.core.usage.columns import IntColumn

_NOWHERE: IntColumn = np.zeros(0, dtype=np.int64)


class NodePlaces(msgspec.Struct, frozen=True):
    """The numbers of the nodes that chunks of a Buffer are on, ready and upcoming."""

    ready: IntColumn = _NOWHERE
    upcoming: IntColumn = _NOWHERE

    @property
    def count(self) -> int:
        """How many chunks have a place."""
        return len(self.ready) + len(self.upcoming)


def place_chunks(
    simulation: ClusterSimulation, buffers: Sequence[BufferChunks], nodes_before: Mapping[str, Sequence[str]]
) -> list[NodePlaces]:
    """Place the chunks of all Buffers. `nodes_before` has, by UID, the names of the nodes that they were on.

    A chunk keeps its node before chunks of a higher priority are placed: first on ready nodes, then, for the chunks
    that fit on none of them, on upcoming nodes.
    """
    before = [nodes_before.get(chunks.uid, ())[: chunks.count] for chunks in buffers]
    ready = _place_on(simulation, buffers, before, simulation.ready, [chunks.count for chunks in buffers])
    left = [chunks.count - len(placed) for chunks, placed in zip(buffers, ready, strict=True)]
    upcoming = _place_on(simulation, buffers, before, simulation.upcoming, left)
    return [NodePlaces(*places) for places in zip(ready, upcoming, strict=True)]


def _place_on(
    simulation: ClusterSimulation,
    buffers: Sequence[BufferChunks],
    before: Sequence[Sequence[str]],
    nodes: IntColumn,
    counts: Sequence[int],
) -> list[IntColumn]:
    """Restore the chunks that were on these nodes, then place the others, in the order of the Buffers."""
    restored_places = [
        restore_places(simulation, placed_pods_for(simulation, chunks), chunks.demand, names, nodes, count)
        for chunks, names, count in zip(buffers, before, counts, strict=True)
    ]
    return [
        np.concatenate(
            (
                restored,
                simulation.place(placed_pods_for(simulation, chunks), chunks.demand, count - len(restored), nodes),
            )
        )
        for chunks, restored, count in zip(buffers, restored_places, counts, strict=True)
    ]


def placed_pods_for(simulation: ClusterSimulation, chunks: BufferChunks) -> PlacedPods:
    """The pods that the chunks are placed beside: all pods, or DaemonSet and mirror pods alone."""
    return simulation.running if chunks.on_top else simulation.fixed


def restore_places(  # noqa: PLR0917 - no two of the arguments belong together
    simulation: ClusterSimulation,
    placed: PlacedPods,
    demand: Demand,
    before: Sequence[str],
    among: IntColumn,
    most: int,
) -> IntColumn:
    """Put at most `most` equal pods back on their nodes, where they still fit; return the numbers of the nodes."""
    numbers = np.array([simulation.find(name) for name in before if name], dtype=np.int64)
    numbers = numbers[numbers >= 0]
    numbers = numbers[simulation.mask(among)[numbers]][:most]
    if not len(numbers):
        return _NOWHERE
    where, first, times = np.unique(numbers, return_index=True, return_counts=True)
    if depends_on_other_pods(demand):
        return simulation.place(placed, demand, len(numbers), where[np.argsort(first)])
    open_ = fits(simulation.table, demand, placed.used, placed.existing_pods)[where]
    times = np.minimum(times, placed.used.count_fitting(demand, where)) * open_
    some = times > 0
    where, times = where[some], times[some]
    if len(where):
        placed.add_many(where, demand, times)
    return np.repeat(where, times)


def assign_nodes_to_chunks(before: Sequence[str], places: Sequence[str], count: int) -> tuple[str, ...]:
    """The node of each chunk by its number, empty if it has none. A chunk keeps its node if it can."""
    free = Counter(places)
    names = [""] * count
    for number, name in enumerate(before[:count]):
        if free.get(name, 0) > 0:
            names[number] = name
            free[name] -= 1
    rest = iter(free.elements())
    return tuple(name or next(rest, "") for name in names)
