"""How well a Buffer serves: hits, misses, and the price of its capacity.

A hit is a pod placed where a chunk was, a miss is a pending pod that a chunk was meant for; each pod counts once, for
one Buffer. A pending pod may be observed before the scheduler has placed it: the chunk then makes way at once, and the
node that it vacated is remembered for as long as the pod is expected there. The price is the share of each node that
chunks take, at the price of the node.
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

    `arrived` has the number of pods placed on each node since the last plan, `expected` the nodes that pending pods
    would get.
    """

    def __init__(self, arrived: dict[str, int], expected: Iterable[str]) -> None:
        self._arrived = Counter(arrived)
        self._expected = Counter(expected)

    def count_hits(self, previous_nodes: Iterable[str], current_nodes: Sequence[str]) -> tuple[int, tuple[str, ...]]:
        """The number of pods placed where chunks were, and the nodes that chunks vacated for pods still pending.

        `previous_nodes` has the nodes of the chunks in the last plan, and those vacated then; `current_nodes` the nodes
        of the chunks now.
        """
        hits = 0
        vacated: list[str] = []
        stayed = Counter(current_nodes)
        for node, count in Counter(name for name in previous_nodes if name).items():
            departed = max(count - stayed[node], 0)
            arrived = min(departed, self._arrived[node])
            expected = min(departed - arrived, self._expected[node])
            self._arrived[node] -= arrived
            self._expected[node] -= expected
            hits += arrived
            vacated += [node] * expected
        return hits, tuple(vacated)


def count_misses(
    waiting: Iterable[tuple[PodEquivalenceGroup, int]], buffers: Iterable[BufferChunks], counted: frozenset[str]
) -> tuple[Counter[str], frozenset[str]]:
    """The number of misses by the UID of a Buffer, and the UIDs of all pods that were missed.

    `waiting` has the number of pods of each group that fit on no ready node; `counted` are UIDs of earlier misses.
    """
    misses: Counter[str] = Counter()
    missed: set[str] = set()
    buffers_by_key: defaultdict[Hashable, list[BufferChunks]] = defaultdict(list)
    for chunks in buffers:
        buffers_by_key[_scheduling_key(chunks.demand)].append(chunks)
    for group, count in waiting if buffers_by_key else ():
        serving = _find_serving_buffer(group, buffers_by_key.get(_scheduling_key(group.demand), ()))
        if serving is None:
            continue
        uids = [pod.uid for pod in group.pods[len(group.pods) - count :]]
        missed.update(uids)
        misses[serving.uid] += sum(uid not in counted for uid in uids)
    return misses, frozenset(missed)


def _find_serving_buffer(group: PodEquivalenceGroup, candidates: Sequence[BufferChunks]) -> BufferChunks | None:
    """The Buffer whose chunks were meant for a pod: one of its own namespace if there is one."""
    fitting = [chunks for chunks in candidates if _covers(chunks.demand, group.demand)]
    in_namespace = (chunks for chunks in fitting if chunks.key[0] == group.pods[0].key[0])
    return next(in_namespace, fitting[0] if fitting else None)


def _scheduling_key(demand: Demand) -> Hashable:
    return demand.selector, demand.node_affinity, demand.tolerations


def _covers(chunk: Demand, pod: Demand) -> bool:
    offered = chunk.requests
    return all(amount <= offered.get(name, 0) for name, amount in pod.amounts)


class NodePrices:
    """The hourly price of each node by its number; without a group it is computed from cores and memory."""

    def __init__(self, view: ScaleUpView, simulation: ClusterSimulation) -> None:
        self._table = simulation.table
        self._hourly: FloatColumn = np.zeros(simulation.table.numbers_end)
        if (prices := view.settings.prices) is not None:
            cores, memory = self._table.offered(CPU) / 1000.0, self._table.offered(MEMORY) / GIB
            self._hourly += cores * prices.core_hour + memory * prices.gib_hour
        groups = view.snapshot.groups
        for name, (group, _) in view.snapshot.node_instances.instances.items():
            number = simulation.table.find(name)
            if number >= 0:
                self._hourly[number] = groups[group].group.price
        for rows in (simulation.upcoming, simulation.new):
            self._hourly[rows] = view.templates.prices[simulation.get_groups(rows)]

    def compute_price(self, demand: Demand, numbers: IntColumn) -> float:
        """The hourly price of equal pods, one on each of these nodes: by the larger share of CPU or memory."""
        requests = demand.requests
        share = np.zeros(len(numbers))
        for name in (CPU, MEMORY):
            offered = np.maximum(self._table.offered(name)[numbers], 1)
            share = np.maximum(share, requests.get(name, 0) / offered)
        return float((share * self._hourly[numbers]).sum())
