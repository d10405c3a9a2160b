"""The drain simulation: which nodes could be removed together because all that is on them fits elsewhere.

Pending pods and chunks of Buffers are placed first. Removals in progress come before candidates, and go on only as long
as nothing needs their node: a pending pod that fits on such a node alone is reason enough to keep it.

The pods and chunks of a node are placed on other ready nodes, beside all that is there. If all fit, the node counts as
drained from then on, and they count where they were placed; otherwise nothing has changed. So nodes that are found one
after the other can go together. The node itself stays in the table, because the scheduler counts it while its pods are
evicted.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec
import numpy as np

from trellis.base.errors import InvalidInput
from trellis.base.reasons import DetailedReason, Reason
from trellis.base.wording import pluralize
from trellis.core.fit import Demand
from trellis.core.fit.resources import CPU, MEMORY
from trellis.core.nodes.scale_down.decisions import NODE_NEEDED_AGAIN, NODE_NOT_TRIED, NODE_TAKES_OVER, PODS_ARE_COMING
from trellis.core.nodes.scale_down.drainability import PodsToDrain, ReplacementDemands
from trellis.core.nodes.scale_down.memory import NodeRemoval
from trellis.core.nodes.scale_down.removal_steps import without_leaving_taint
from trellis.core.nodes.scale_down.view import GroupMinimums, ScaleDownCandidate
from trellis.core.nodes.state.placement import (
    build_equivalence_groups,
    place_chunks,
    relative_size,
    resolve_claim_conflicts,
)
from trellis.core.nodes.state.pods import BufferChunks, PlacedPod, PlacedPods, depends_on_other_pods, in_placement_order
from trellis.core.nodes.state.readiness import NodeReadiness
from trellis.core.nodes.state.simulation import ClusterSimulation, NodeTemplates, simulate_cluster
from trellis.core.nodes.state.snapshot import DEMAND_UNREADABLE, ClusterSnapshot
from trellis.core.usage.columns import BoolColumn, IntColumn

NO_PLACE_FOR_PODS = Reason("NoPlaceForPods", "Pods on the node would find no place on other nodes that are ready.")
NO_PLACE_FOR_CHUNKS = Reason("NoPlaceForChunks", "Chunks of a Buffer would find no place on other nodes.")

# How many nodes are looked at before all others are.
_NODES_TRIED_FIRST: Final = 512


class DrainSimulator:
    """Drains one node after the other. `order` are the numbers of nodes that may take pods, the best first."""

    def __init__(
        self,
        simulation: ClusterSimulation,
        replacements: ReplacementDemands,
        order: IntColumn,
        largest: tuple[float, float],
    ) -> None:
        self._simulation = simulation
        self._replacements = replacements
        self._order = order
        self._largest = largest
        # Nodes that take pods or chunks: they cannot be removed at the same time.
        self.hosts: BoolColumn = np.zeros(simulation.table.reach, dtype=np.bool_)
        self._chunk_counts: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self._chunks: dict[str, BufferChunks] = {}

    def put_chunks(self, chunks: BufferChunks, numbers: IntColumn) -> None:
        """Record the nodes of the chunks of a Buffer."""
        self._chunks[chunks.uid] = chunks
        for number, count in Counter(numbers.tolist()).items():
            self._chunk_counts[number][chunks.uid] += count

    def drain(self, number: int, pods: Sequence[PlacedPod]) -> DetailedReason | None:
        """Move everything on a node elsewhere; if something fits nowhere, change nothing and return the reason."""
        try:
            groups = self._groups(pods)
        except InvalidInput as error:
            return DetailedReason(DEMAND_UNREADABLE, str(error))
        attempt = _DrainAttempt(self._simulation, self._order[self._order != number])
        refusal = self._move(number, pods, groups, attempt)
        if refusal is not None:
            attempt.undo()
            return refusal
        self._order = attempt.nodes
        self.hosts[attempt.used] = True
        self._chunk_counts.pop(number, None)
        for uid, numbers in attempt.chunks:
            self.put_chunks(self._chunks[uid], numbers)
        return None

    def _move(
        self, number: int, pods: Sequence[PlacedPod], groups: Iterable[tuple[Demand, int]], attempt: _DrainAttempt
    ) -> DetailedReason | None:
        running = self._simulation.running
        for pod in pods:
            if pod.is_counted:
                attempt.take_away(running, number, pod)
        for demand, count in groups:
            if len(attempt.put(running, demand, count)) < count:
                namespace = demand.profile.namespace
                return DetailedReason(
                    NO_PLACE_FOR_PODS, f"no other node takes {pluralize(count, 'pod')} of namespace {namespace}"
                )
        for uid, count in self._chunk_counts.get(number, Counter[str]()).items():
            chunks = self._chunks[uid]
            numbers = attempt.move(running if chunks.on_top else self._simulation.fixed, number, chunks.demand, count)
            if len(numbers) < count:
                return DetailedReason(NO_PLACE_FOR_CHUNKS, f"Buffer {chunks.key[0]}/{chunks.key[1]}")
            attempt.chunks.append((uid, numbers))
        return None

    def _groups(self, pods: Sequence[PlacedPod]) -> list[tuple[Demand, int]]:
        """The demands to place, with the number of equal pods; expendable pods need no place.

        Constrained pods come first, then the largest, so that a drain that fails does so early.
        """
        counts: Counter[Demand] = Counter(self._replacements.demand(pod.pod) for pod in pods if pod.is_counted)
        return sorted(
            counts.items(), key=lambda group: (_fits_anywhere(group[0]), -relative_size(group[0], self._largest))
        )


def _fits_anywhere(demand: Demand) -> bool:
    return not (demand.selector or demand.node_affinity is not None or demand.volumes or depends_on_other_pods(demand))


class _DrainAttempt:
    """The changes of one drain, so that they can be undone."""

    def __init__(self, simulation: ClusterSimulation, nodes: IntColumn) -> None:
        self.nodes = nodes
        self.chunks: list[tuple[str, IntColumn]] = []
        self._simulation = simulation
        self._gone: list[tuple[PlacedPods, int, PlacedPod]] = []
        self._put: list[tuple[PlacedPods, Demand, IntColumn, IntColumn]] = []

    @property
    def used(self) -> IntColumn:
        """The nodes that pods or chunks were placed on."""
        columns = [where[times > 0] for _, _, where, times in self._put]
        return np.unique(np.concatenate(columns)) if columns else self.nodes[:0]

    def take_away(self, placed: PlacedPods, number: int, pod: PlacedPod) -> None:
        placed.remove(number, pod.demand, pod.profile)
        self._gone.append((placed, number, pod))

    def put(self, placed: PlacedPods, demand: Demand, count: int) -> IntColumn:
        """Put pods that are alike on the first nodes that take them."""
        # Most pods fit on the first nodes, and checking all takes ten times as long.
        numbers = self._simulation.place(placed, demand, count, self.nodes[:_NODES_TRIED_FIRST])
        if len(numbers) < count:
            rest = self._simulation.place(placed, demand, count - len(numbers), self.nodes[_NODES_TRIED_FIRST:])
            numbers = np.concatenate((numbers, rest))
        where, times = np.unique(numbers, return_counts=True)
        if len(where):
            self._put.append((placed, demand, where, times.astype(np.int64)))
        return numbers

    def move(self, placed: PlacedPods, number: int, demand: Demand, count: int) -> IntColumn:
        """Take chunks from a node and put them on others."""
        here, less = np.array([number], dtype=np.int64), np.array([-count], dtype=np.int64)
        placed.add_many(here, demand, less)
        self._put.append((placed, demand, here, less))
        return self.put(placed, demand, count)

    def undo(self) -> None:
        """Undo all changes."""
        for placed, demand, where, times in reversed(self._put):
            placed.add_many(where, demand, -times)
        for placed, number, pod in self._gone:
            placed.add(number, pod.demand, pod.profile)


class OngoingRemoval(msgspec.Struct, frozen=True):
    """A removal that can still be stopped, with the pods to drain."""

    removal: NodeRemoval
    number: int
    pods: PodsToDrain


class DrainSimulationInput(msgspec.Struct, frozen=True):
    """What is to be tried, in this order; of candidates with pods at most so many, and as many not known as unneeded.

    `seats` has, by the UID of a Buffer, the nodes where its chunks were.
    """

    snapshot: ClusterSnapshot
    readiness: NodeReadiness
    chunk_nodes: Mapping[str, tuple[str, ...]]
    replacements: ReplacementDemands
    ongoing: Sequence[OngoingRemoval]
    candidates: Sequence[ScaleDownCandidate]
    max_drained: int


class DrainSimulation(msgspec.Struct, frozen=True):
    """Why nodes are needed: those that are being removed, and candidates. Who is in neither is not needed.

    `in_vain` are the candidates among them that something on them keeps.
    """

    needed: dict[str, DetailedReason]
    candidates: dict[str, DetailedReason]
    undrainable: frozenset[str]


def simulate_drains(drain_input: DrainSimulationInput, minimums: GroupMinimums) -> DrainSimulation:
    """Simulate the drains of ongoing removals, then of candidates."""
    snapshot, stands = drain_input.snapshot, drain_input.readiness
    with (
        _without_leaving_taints(drain_input),
        simulate_cluster(snapshot, stands, NodeTemplates(snapshot, stands)) as made,
    ):
        out = np.array([ongoing.number for ongoing in drain_input.ongoing], dtype=np.int64)
        made.ready = made.ready[~np.isin(made.ready, out)]
        filled = _place_pods_and_chunks(drain_input, made)
        needed = _find_needed(made, drain_input.ongoing, filled.left)
        order = _target_order(made.ready, [candidate.number for candidate in drain_input.candidates])
        simulator = DrainSimulator(made, drain_input.replacements, order, _largest_node(snapshot))
        for chunks, numbers in filled.seated:
            simulator.put_chunks(chunks, numbers)
        _drain_ongoing(drain_input.ongoing, simulator, minimums, needed)
        return _drain_candidates(drain_input, simulator, minimums, filled, needed)


class _InitialPlacement(msgspec.Struct, frozen=True):
    """Where pods that wait would be, where chunks are, and what has no place."""

    expected: frozenset[int]
    seated: list[tuple[BufferChunks, IntColumn]]
    left: list[tuple[PlacedPods, Demand, int]]


def _place_pods_and_chunks(drain_input: DrainSimulationInput, made: ClusterSimulation) -> _InitialPlacement:
    snapshot = drain_input.snapshot
    expected: set[int] = set()
    left: list[tuple[PlacedPods, Demand, int]] = []
    seated: list[tuple[BufferChunks, IntColumn]] = []
    for group in build_equivalence_groups(
        resolve_claim_conflicts(snapshot.pending.values(), made), _largest_node(snapshot)
    ):
        numbers = made.place(made.running, group.demand, len(group.pods), made.ready)
        expected.update(numbers.tolist())
        if group.needs_node and len(numbers) < len(group.pods):
            left.append((made.running, group.demand, len(group.pods) - len(numbers)))
    buffers = in_placement_order(snapshot.buffers.values())
    for chunks, seats in zip(buffers, place_chunks(made, buffers, drain_input.chunk_nodes), strict=True):
        seated.append((chunks, seats.ready))
        if seats.count < chunks.count:
            placed = made.running if chunks.on_top else made.fixed
            left.append((placed, chunks.demand, chunks.count - seats.count))
    return _InitialPlacement(frozenset(expected), seated, left)


def _find_needed(
    made: ClusterSimulation, going: Sequence[OngoingRemoval], left: list[tuple[PlacedPods, Demand, int]]
) -> dict[str, DetailedReason]:
    """Which of the nodes that are being removed would take something that has no place; those can be used again."""
    needed: dict[str, DetailedReason] = {}
    names = {ongoing.number: ongoing.removal.node for ongoing in going}
    numbers = np.array([*names], dtype=np.int64)
    for placed, demand, count in left:
        for number in made.place(placed, demand, count, numbers).tolist():
            namespace = demand.profile.namespace
            needed.setdefault(
                names[number], DetailedReason(NODE_NEEDED_AGAIN, f"for pods or chunks of namespace {namespace}")
            )
    again = [number for number, name in names.items() if name in needed]
    made.ready = np.concatenate((made.ready, np.array(again, dtype=np.int64)))
    return needed


def _drain_ongoing(
    going: Sequence[OngoingRemoval],
    simulator: DrainSimulator,
    minimums: GroupMinimums,
    needed: dict[str, DetailedReason],
) -> None:
    for ongoing in going:
        name = ongoing.removal.node
        if name in needed:
            continue
        refusal = minimums.why_no_removal(ongoing.removal.group) or simulator.drain(
            ongoing.number, ongoing.pods.to_evict
        )
        if refusal is not None:
            needed[name] = DetailedReason(NODE_NEEDED_AGAIN, str(refusal))
        else:
            minimums.count_removal(ongoing.removal.group)


def _drain_candidates(
    drain_input: DrainSimulationInput,
    simulator: DrainSimulator,
    minimums: GroupMinimums,
    filled: _InitialPlacement,
    needed: dict[str, DetailedReason],
) -> DrainSimulation:
    needed_candidates: dict[str, DetailedReason] = {}
    in_vain: set[str] = set()
    tried: Counter[bool] = Counter()
    for candidate in drain_input.candidates:
        is_known = candidate.unneeded_since is not None
        refusal = minimums.why_no_removal(candidate.group)
        if refusal is not None:
            needed_candidates[candidate.name] = refusal
        elif candidate.number in filled.expected:
            needed_candidates[candidate.name] = DetailedReason(PODS_ARE_COMING)
        elif simulator.hosts[candidate.number]:
            needed_candidates[candidate.name] = DetailedReason(NODE_TAKES_OVER)
        elif candidate.pods.to_evict and tried[is_known] >= drain_input.max_drained:
            needed_candidates[candidate.name] = DetailedReason(NODE_NOT_TRIED)
        else:
            tried[is_known] += bool(candidate.pods.to_evict)
            refusal = simulator.drain(candidate.number, candidate.pods.to_evict)
            if refusal is None:
                minimums.count_removal(candidate.group)
            else:
                needed_candidates[candidate.name] = refusal
                in_vain.add(candidate.name)
    return DrainSimulation(needed, needed_candidates, frozenset(in_vain))


def _target_order(ready: IntColumn, candidates: Sequence[int]) -> IntColumn:
    """The order in which nodes take pods: first nodes that are no candidates, then candidates, the first last."""
    last = np.array([*reversed(candidates)], dtype=np.int64)
    return np.concatenate((ready[~np.isin(ready, last)], last[np.isin(last, ready)]))


def _largest_node(snapshot: ClusterSnapshot) -> tuple[float, float]:
    cores, memory = (float(snapshot.table.offered(name).max(initial=0)) for name in (CPU, MEMORY))
    return cores, memory


@contextmanager
def _without_leaving_taints(drain_input: DrainSimulationInput) -> Iterator[None]:
    """The table as if nodes that are being removed were not marked: they are asked about as if they stayed."""
    snapshot = drain_input.snapshot
    nodes = [snapshot.nodes[ongoing.removal.node] for ongoing in drain_input.ongoing]
    try:
        for node in nodes:
            snapshot.table.update(without_leaving_taint(node))
        yield
    finally:
        for node in nodes:
            snapshot.table.update(node)
