"""How well a Buffer serves: hits, misses, and the price of its capacity.

A hit is a pod that came to where a chunk was, a miss is a pod that waits although a chunk like it was meant to be
there; each pod counts once, for one Buffer. A pending pod may be observed before the scheduler has placed it: the chunk
then makes way at once, and the node that it left is remembered for as long as the pod is expected there. The price is
the share of each node that chunks take, at the price of the node.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence

import numpy as np

from trellis.base.prices import GIB
from trellis.core.fit import Demand
from trellis.core.fit.resources import CPU, MEMORY
from trellis.core.nodes.scale_up.view import ScaleUpView
from trellis.core.nodes.state.placement import PodEquivalenceGroup
from trellis.core.nodes.state.pods import BufferChunks
from trellis.core.nodes.state.simulation import ClusterSimulation
from trellis.core.usage.columns import FloatColumn, IntColumn


class ChunkHits:
    """Counts for one plan, one Buffer after the other.

    `arrived` says how many pods have come to each node since the last plan, `expected` where pods that wait would be.
    """

    def __init__(self, arrived: dict[str, int], expected: Iterable[str]) -> None:
        self._arrived = Counter(arrived)
        self._expected = Counter(expected)

    def take_hits(self, before: Iterable[str], after: Sequence[str]) -> tuple[int, tuple[str, ...]]:
        """On how many places of chunks pods have come, and the nodes of those that chunks have left for pods to come.

        `before` has the nodes of chunks at the last plan, and those that they had left then; `after` those of now.
        """
        hits = 0
        left_for: list[str] = []
        stayed = Counter(after)
        for node, count in Counter(name for name in before if name).items():
            left = max(count - stayed[node], 0)
            arrived = min(left, self._arrived[node])
            awaited = min(left - arrived, self._expected[node])
            self._arrived[node] -= arrived
            self._expected[node] -= awaited
            hits += arrived
            left_for += [node] * awaited
        return hits, tuple(left_for)


def count_misses(
    waiting: Iterable[tuple[PodEquivalenceGroup, int]], buffers: Iterable[BufferChunks], counted: frozenset[str]
) -> tuple[Counter[str], frozenset[str]]:
    """By the UID of a Buffer how many pods wait that one of its chunks was meant for, and the UIDs of all such pods.

    `waiting` says how many of each group have no place on a node that is ready; `counted` were counted before.
    """
    misses: Counter[str] = Counter()
    missed: set[str] = set()
    by_place: defaultdict[Hashable, list[BufferChunks]] = defaultdict(list)
    for chunks in buffers:
        by_place[_place(chunks.demand)].append(chunks)
    for group, count in waiting if by_place else ():
        served = _served_by(group, by_place.get(_place(group.demand), ()))
        if served is None:
            continue
        uids = [pod.uid for pod in group.pods[len(group.pods) - count :]]
        missed.update(uids)
        misses[served.uid] += sum(uid not in counted for uid in uids)
    return misses, frozenset(missed)


def _served_by(group: PodEquivalenceGroup, candidates: Sequence[BufferChunks]) -> BufferChunks | None:
    """The Buffer that a pod was to be served by: one of its own namespace if there is one."""
    able = [chunks for chunks in candidates if _covers(chunks.demand, group.demand)]
    own = (chunks for chunks in able if chunks.key[0] == group.pods[0].key[0])
    return next(own, able[0] if able else None)


def _place(demand: Demand) -> Hashable:
    return demand.selector, demand.node_affinity, demand.tolerations


def _covers(chunk: Demand, pod: Demand) -> bool:
    offered = chunk.requests
    return all(amount <= offered.get(name, 0) for name, amount in pod.amounts)


class NodePrices:
    """Money for an hour of each node, by its number; of one that is of no group by its cores and its memory."""

    def __init__(self, view: ScaleUpView, simulation: ClusterSimulation) -> None:
        self._table = simulation.table
        self._hourly: FloatColumn = np.zeros(simulation.table.reach)
        if (prices := view.settings.prices) is not None:
            cores, memory = self._table.offered(CPU) / 1000.0, self._table.offered(MEMORY) / GIB
            self._hourly += cores * prices.core_hour + memory * prices.gib_hour
        groups = view.snapshot.groups
        for name, (group, _) in view.snapshot.node_instances.instances.items():
            number = simulation.table.find(name)
            if number >= 0:
                self._hourly[number] = groups[group].group.price
        for rows in (simulation.upcoming, simulation.new):
            self._hourly[rows] = view.templates.prices[simulation.groups_of(rows)]

    def price_of(self, demand: Demand, numbers: IntColumn) -> float:
        """Of pods that are alike, one on each of these nodes: by CPU or memory, whichever they take more of."""
        requests = demand.requests
        share = np.zeros(len(numbers))
        for name in (CPU, MEMORY):
            offered = np.maximum(self._table.offered(name)[numbers], 1)
            share = np.maximum(share, requests.get(name, 0) / offered)
        return float((share * self._hourly[numbers]).sum())
