"""The drain simulation: which nodes can be removed together because their pods and chunks fit elsewhere.

Pending pods, replacements of pods whose resizes do not fit on their nodes, and chunks of Buffers are placed first.
Removals in progress come before candidates, and go on only as long as nothing needs their node: a pending pod that fits
only on such a node keeps it.

The pods and chunks of a node are placed on other ready nodes, beside their pods. If all fit, the node counts as drained
from then on, and they count where they were placed; otherwise nothing has changed. Nodes that are drained one after the
other can therefore be removed together. The node itself stays in the table, because the scheduler counts it while its
pods are evicted.

Nodes that stay keep headroom: candidates are tried beside the growth that VPAs and Hvpas recommend for pods, and beside
the replacements of pods that have to leave their nodes for it. Removals in progress go on without headroom, so that
recommendations that change during a drain do not move pods twice.
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
from trellis.core.fit import Demand, Occupancy
from trellis.core.fit.resources import CPU, MEMORY
from trellis.core.nodes.provisioning.bookings import place_bookings
from trellis.core.nodes.provisioning.lifecycle import NO_REQUESTS, RequestsView
from trellis.core.nodes.provisioning.pod_groups import Gang
from trellis.core.nodes.provisioning.requests import BookedPods
from trellis.core.nodes.scale_down.decisions import (
    NODE_NEEDED_AGAIN,
    NODE_NOT_SIMULATED,
    NODE_RECEIVES_PODS,
    PENDING_POD_FITS,
)
from trellis.core.nodes.scale_down.drainability import PodsToDrain
from trellis.core.nodes.scale_down.held_spaces import HeldSpace, HeldSpaces
from trellis.core.nodes.scale_down.remembered_state import NodeRemoval
from trellis.core.nodes.scale_down.removable_nodes import GroupMinimums, ScaleDownCandidate
from trellis.core.nodes.scale_down.removal_steps import without_leaving_taint
from trellis.core.nodes.state.placement import (
    build_equivalence_groups,
    compute_relative_size,
    place_chunks,
    resolve_claim_conflicts,
)
from trellis.core.nodes.state.pods import (
    BufferChunks,
    PendingPod,
    PlacedPod,
    PlacedPods,
    depends_on_other_pods,
    sort_for_placement,
)
from trellis.core.nodes.state.readiness import NodeReadiness
from trellis.core.nodes.state.replacements import (
    ReplacementDemands,
    find_growth_replacements,
    find_resize_replacements,
)
from trellis.core.nodes.state.simulation import ClusterSimulation, NodeTemplates, simulate_cluster
from trellis.core.nodes.state.snapshot import DEMAND_UNREADABLE, ClusterSnapshot
from trellis.core.nodes.state.transient_taints import NO_TRANSIENT_TAINTS, TransientTaints
from trellis.core.usage.columns import BoolColumn, IntColumn

NO_PLACE_FOR_PODS = Reason("NoPlaceForPods", "Pods of the node would not fit on other ready nodes.")
NO_PLACE_FOR_CHUNKS = Reason("NoPlaceForChunks", "Chunks of a Buffer would not fit on other nodes.")
NO_PLACE_FOR_BOOKED_PODS = Reason(
    "NoPlaceForBookedPods", "Capacity that is booked for a ProvisioningRequest would not fit on other nodes."
)
NO_PLACE_FOR_RESIZES = Reason(
    "NoPlaceForResizes", "The replacement of a pod whose resize does not fit on its node would fit on no other node."
)
NO_HEADROOM_FOR_RECOMMENDATIONS = Reason(
    "NoHeadroomForRecommendations",
    "The node could go only if pods elsewhere did not grow to the size that VPAs and Hvpas recommend.",
)

# Pods are tried on this many nodes before all others.
_FIRST_NODES: Final = 512


class DrainSimulator:
    """Drains one node after the other. `order` are the numbers of nodes that may take pods, the best first."""

    def __init__(
        self,
        simulation: ClusterSimulation,
        replacements: ReplacementDemands,
        order: IntColumn,
        largest_node: tuple[float, float],
    ) -> None:
        self._simulation = simulation
        self._replacements = replacements
        self._order = order
        self._largest_node = largest_node
        # Nodes that take pods or chunks: they cannot be removed at the same time.
        self.hosts: BoolColumn = np.zeros(simulation.table.numbers_end, dtype=np.bool_)
        self._chunk_counts: defaultdict[int, Counter[str]] = defaultdict(Counter)
        self._chunks: dict[str, BufferChunks] = {}
        self._held = HeldSpaces()
        # What is counted as used beyond what the plan is sure of: growth, and space for pods that leave because of it.
        self._headroom: Occupancy | None = None

    def hold(self, spaces: Iterable[HeldSpace]) -> None:
        """Record space that nodes hold for replacements; it has been placed already."""
        for space in spaces:
            self._held.add(space)

    def keep_headroom(self, snapshot: ClusterSnapshot, displaced: Sequence[PendingPod]) -> None:
        """Count recommended growth from now on. `displaced` are pods that have to leave their nodes in any case."""
        running, growth = self._simulation.running, snapshot.growth.added
        running.used.add_occupancy(growth)
        self._headroom = growth.copy()
        staying = self._simulation.build_mask(self._simulation.ready)
        pods = find_growth_replacements(snapshot, running.used, staying, displaced, self._replacements)
        spaces, _ = _place_replacements(snapshot, self._simulation, pods, self._order, for_growth=True)
        self.hold(spaces)
        for space in spaces:
            self._headroom.add(space.number, space.demand)

    def add_chunks(self, chunks: BufferChunks, numbers: IntColumn) -> None:
        """Record the nodes of the chunks of a Buffer."""
        self._chunks[chunks.uid] = chunks
        for number, count in Counter(numbers.tolist()).items():
            self._chunk_counts[number][chunks.uid] += count

    def drain(self, number: int, pods: Sequence[PlacedPod]) -> DetailedReason | None:
        """Move everything on a node elsewhere; if something fits nowhere, change nothing and return the reason."""
        try:
            groups = self._count_demands(pods)
        except InvalidInput as error:
            return DetailedReason(DEMAND_UNREADABLE, str(error))
        attempt = self._begin_attempt(number)
        refusal = self._move_all(number, pods, groups, attempt, with_headroom=True)
        if refusal is not None:
            attempt.undo()
            return self._explain_refusal(number, pods, groups, refusal)
        self._order = attempt.nodes
        self.hosts[attempt.used] = True
        self._chunk_counts.pop(number, None)
        for uid, numbers in attempt.chunks:
            self.add_chunks(self._chunks[uid], numbers)
        self._commit_spaces(attempt)
        return None

    def _begin_attempt(self, number: int) -> _DrainAttempt:
        return _DrainAttempt(self._simulation, self._order[self._order != number])

    def _explain_refusal(
        self, number: int, pods: Sequence[PlacedPod], groups: Sequence[tuple[Demand, int]], refusal: DetailedReason
    ) -> DetailedReason:
        """The refusal, or that the drain would do without headroom."""
        if self._headroom is None:
            return refusal
        used = self._simulation.running.used
        used.add_occupancy(self._headroom, -1)
        attempt = self._begin_attempt(number)
        without_headroom = self._move_all(number, pods, groups, attempt, with_headroom=False)
        attempt.undo()
        used.add_occupancy(self._headroom)
        if without_headroom is not None:
            return without_headroom
        is_headroom = refusal.reason is NO_HEADROOM_FOR_RECOMMENDATIONS
        return refusal if is_headroom else DetailedReason(NO_HEADROOM_FOR_RECOMMENDATIONS, refusal.details)

    def _commit_spaces(self, attempt: _DrainAttempt) -> None:
        for space, number in (*((space, -1) for space in attempt.withdrawn), *attempt.moved):
            if self._headroom is not None and space.for_growth:
                self._headroom.remove(space.number, space.demand)
                self._headroom.add(number, space.demand)
            if number < 0:
                self._held.remove(space)
            else:
                self._held.move(space, number)

    def _move_all(
        self,
        number: int,
        pods: Sequence[PlacedPod],
        groups: Iterable[tuple[Demand, int]],
        attempt: _DrainAttempt,
        *,
        with_headroom: bool,
    ) -> DetailedReason | None:
        running = self._simulation.running
        # The pods move now, and need no space for later.
        for space in self._held.list_of_pods_on(number, with_growth=with_headroom):
            attempt.withdraw(running, space)
        for pod in pods:
            if pod.is_counted:
                attempt.remove(running, number, pod)
        for demand, count in groups:
            if len(attempt.place(running, demand, count)) < count:
                namespace = demand.profile.namespace
                return DetailedReason(
                    NO_PLACE_FOR_PODS, f"{pluralize(count, 'pod')} of namespace {namespace} would fit on no other node"
                )
        for demand, for_growth, spaces in self._held.group_on(number, with_growth=with_headroom):
            numbers = attempt.move(running, number, demand, len(spaces))
            if len(numbers) < len(spaces):
                reason = NO_HEADROOM_FOR_RECOMMENDATIONS if for_growth else NO_PLACE_FOR_RESIZES
                replacements = pluralize(len(spaces), "replacement")
                return DetailedReason(reason, f"{replacements} of pods of namespace {demand.profile.namespace}")
            attempt.moved += zip(spaces, numbers.tolist(), strict=True)
        return self._move_chunks(number, attempt)

    def _move_chunks(self, number: int, attempt: _DrainAttempt) -> DetailedReason | None:
        running = self._simulation.running
        for uid, count in self._chunk_counts.get(number, Counter[str]()).items():
            chunks = self._chunks[uid]
            numbers = attempt.move(running if chunks.on_top else self._simulation.fixed, number, chunks.demand, count)
            if len(numbers) < count:
                is_booked = isinstance(chunks, BookedPods)
                return DetailedReason(NO_PLACE_FOR_BOOKED_PODS if is_booked else NO_PLACE_FOR_CHUNKS, chunks.origin)
            attempt.chunks.append((uid, numbers))
        return None

    def _count_demands(self, pods: Sequence[PlacedPod]) -> list[tuple[Demand, int]]:
        """The demands to place, with the number of equal pods; expendable pods need no place.

        Constrained pods come first, then the largest, so that a drain that fails does so early.
        """
        counts: Counter[Demand] = Counter(self._replacements.build_demand(pod) for pod in pods if pod.is_counted)
        return sorted(
            counts.items(),
            key=lambda group: (_fits_anywhere(group[0]), -compute_relative_size(group[0], self._largest_node)),
        )


def _fits_anywhere(demand: Demand) -> bool:
    return not (demand.selector or demand.node_affinity is not None or demand.volumes or depends_on_other_pods(demand))


class _DrainAttempt:
    """The changes of one drain, so that they can be undone."""

    def __init__(self, simulation: ClusterSimulation, nodes: IntColumn) -> None:
        self.nodes = nodes
        self.chunks: list[tuple[str, IntColumn]] = []
        self.withdrawn: list[HeldSpace] = []
        self.moved: list[tuple[HeldSpace, int]] = []
        self._simulation = simulation
        self._removed: list[tuple[PlacedPods, int, PlacedPod]] = []
        self._placed: list[tuple[PlacedPods, Demand, IntColumn, IntColumn]] = []

    @property
    def used(self) -> IntColumn:
        """The nodes that pods or chunks were placed on."""
        columns = [where[times > 0] for _, _, where, times in self._placed]
        return np.unique(np.concatenate(columns)) if columns else self.nodes[:0]

    def remove(self, placed: PlacedPods, number: int, pod: PlacedPod) -> None:
        placed.remove(number, pod.demand, pod.profile)
        self._removed.append((placed, number, pod))

    def withdraw(self, placed: PlacedPods, space: HeldSpace) -> None:
        """Take back space that was held for a pod."""
        source, removed = np.array([space.number], dtype=np.int64), np.array([-1], dtype=np.int64)
        placed.add_many(source, space.demand, removed)
        self._placed.append((placed, space.demand, source, removed))
        self.withdrawn.append(space)

    def place(self, placed: PlacedPods, demand: Demand, count: int) -> IntColumn:
        """Place equal pods on the first nodes that take them."""
        # Most pods fit on the first nodes, and checking all takes ten times as long.
        numbers = self._simulation.place(placed, demand, count, self.nodes[:_FIRST_NODES])
        if len(numbers) < count:
            others = self._simulation.place(placed, demand, count - len(numbers), self.nodes[_FIRST_NODES:])
            numbers = np.concatenate((numbers, others))
        where, times = np.unique(numbers, return_counts=True)
        if len(where):
            self._placed.append((placed, demand, where, times.astype(np.int64)))
        return numbers

    def move(self, placed: PlacedPods, number: int, demand: Demand, count: int) -> IntColumn:
        """Take chunks from a node and put them on others."""
        source, removed = np.array([number], dtype=np.int64), np.array([-count], dtype=np.int64)
        placed.add_many(source, demand, removed)
        self._placed.append((placed, demand, source, removed))
        return self.place(placed, demand, count)

    def undo(self) -> None:
        """Undo all changes."""
        for placed, demand, where, times in reversed(self._placed):
            placed.add_many(where, demand, -times)
        for placed, number, pod in self._removed:
            placed.add(number, pod.demand, pod.profile)


class OngoingRemoval(msgspec.Struct, frozen=True):
    """A removal that can still be stopped, with the pods to drain."""

    removal: NodeRemoval
    number: int
    pods: PodsToDrain


class DrainSimulationInput(msgspec.Struct, frozen=True):
    """The drains to simulate, in this order.

    Of candidates with pods, at most `max_drained` that were unneeded before are tried, and as many others.
    `chunk_nodes` has, by the UID of a Buffer, the nodes where its chunks were. `requests` are the ProvisioningRequests.
    With `holds_resizes` nodes hold space for pods whose resizes do not fit, with `keeps_headroom` for the growth that
    is recommended.
    """

    snapshot: ClusterSnapshot
    readiness: NodeReadiness
    chunk_nodes: Mapping[str, tuple[str, ...]]
    replacements: ReplacementDemands
    ongoing: Sequence[OngoingRemoval]
    candidates: Sequence[ScaleDownCandidate]
    max_drained: int
    transient_taints: TransientTaints = NO_TRANSIENT_TAINTS
    requests: RequestsView = NO_REQUESTS
    holds_resizes: bool = True
    keeps_headroom: bool = True


class DrainSimulation(msgspec.Struct, frozen=True):
    """Why nodes are needed: those that are being removed, and candidates. A node in neither is not needed.

    `undrainable` are the candidates that are needed because a pod or a chunk on them fits on no other node.
    """

    needed: dict[str, DetailedReason]
    candidates: dict[str, DetailedReason]
    undrainable: frozenset[str]


def simulate_drains(drain_input: DrainSimulationInput, minimums: GroupMinimums) -> DrainSimulation:
    """Simulate the drains of ongoing removals, then of candidates."""
    snapshot, readiness = drain_input.snapshot, drain_input.readiness
    with (
        _without_leaving_taints(drain_input),
        simulate_cluster(
            snapshot, readiness, NodeTemplates(snapshot, readiness, drain_input.transient_taints)
        ) as simulation,
    ):
        draining = np.array([ongoing.number for ongoing in drain_input.ongoing], dtype=np.int64)
        simulation.ready = simulation.ready[~np.isin(simulation.ready, draining)]
        initial = _place_pods_and_chunks(drain_input, simulation)
        needed = _find_needed(simulation, drain_input.ongoing, initial.unplaced)
        order = _order_targets(simulation.ready, [candidate.number for candidate in drain_input.candidates])
        simulator = DrainSimulator(simulation, drain_input.replacements, order, _find_largest_node(snapshot))
        for chunks, numbers in initial.chunk_nodes:
            simulator.add_chunks(chunks, numbers)
        simulator.hold(initial.held)
        _drain_ongoing(drain_input.ongoing, simulator, minimums, needed)
        if drain_input.keeps_headroom and len(snapshot.growth):
            simulator.keep_headroom(snapshot, initial.resizes)
        return _drain_candidates(drain_input, simulator, minimums, initial, needed)


class _InitialPlacement(msgspec.Struct, frozen=True):
    """The nodes that pending pods would get, the nodes of chunks, and the pods and chunks that fit on no node.

    `resizes` are replacements of pods whose resizes do not fit, `held` the space for them.
    """

    expected: frozenset[int]
    chunk_nodes: list[tuple[BufferChunks, IntColumn]]
    unplaced: list[tuple[PlacedPods, Demand, int]]
    resizes: tuple[PendingPod, ...] = ()
    held: Sequence[HeldSpace] = ()


def _place_pods_and_chunks(drain_input: DrainSimulationInput, simulation: ClusterSimulation) -> _InitialPlacement:
    snapshot = drain_input.snapshot
    expected: set[int] = set()
    unplaced: list[tuple[PlacedPods, Demand, int]] = []
    chunk_nodes: list[tuple[BufferChunks, IntColumn]] = []
    for booked, places in place_bookings(simulation, drain_input.requests, drain_input.chunk_nodes):
        chunk_nodes.append((booked, places.ready))
        if places.count < booked.count:
            unplaced.append((simulation.running, booked.demand, booked.count - places.count))
    requests = drain_input.requests
    gangs = snapshot.pod_groups.list_unschedulable_gangs(snapshot.pending, snapshot.placed, requests.list_consumers())
    # Pods of a request that waits, and of a gang that does not fit, keep no node.
    apart = requests.list_consumers(booked=False) | {pod.key for gang in gangs for pod in gang.pods}
    pending = [pod for pod in snapshot.pending.values() if pod.key not in apart] if apart else snapshot.pending.values()
    for group in build_equivalence_groups(resolve_claim_conflicts(pending, simulation), _find_largest_node(snapshot)):
        numbers = simulation.place(simulation.running, group.demand, len(group.pods), simulation.ready)
        expected.update(numbers.tolist())
        if group.needs_node and len(numbers) < len(group.pods):
            unplaced.append((simulation.running, group.demand, len(group.pods) - len(numbers)))
    for gang in gangs:
        expected.update(_place_gang(gang, simulation, _find_largest_node(snapshot)))
    resizes: tuple[PendingPod, ...] = ()
    if drain_input.holds_resizes and snapshot.pending_resizes:
        resizes = find_resize_replacements(snapshot, drain_input.replacements).pods
    held, without_place = _place_replacements(snapshot, simulation, resizes, simulation.ready, for_growth=False)
    unplaced += ((simulation.running, demand, count) for demand, count in without_place)
    buffers = sort_for_placement(snapshot.buffers.values())
    for chunks, places in zip(buffers, place_chunks(simulation, buffers, drain_input.chunk_nodes), strict=True):
        chunk_nodes.append((chunks, places.ready))
        if places.count < chunks.count:
            placed = simulation.running if chunks.on_top else simulation.fixed
            unplaced.append((placed, chunks.demand, chunks.count - places.count))
    return _InitialPlacement(frozenset(expected), chunk_nodes, unplaced, resizes, held)


def _place_replacements(
    snapshot: ClusterSnapshot,
    simulation: ClusterSimulation,
    pods: Iterable[PendingPod],
    nodes: IntColumn,
    *,
    for_growth: bool,
) -> tuple[list[HeldSpace], list[tuple[Demand, int]]]:
    """Place replacements; returns the space for them, and the demands that fit on no node with their numbers."""
    held: list[HeldSpace] = []
    unplaced: list[tuple[Demand, int]] = []
    for group in build_equivalence_groups(pods, _find_largest_node(snapshot)):
        numbers = simulation.place(simulation.running, group.demand, len(group.pods), nodes).tolist()
        homes = [snapshot.table.find(snapshot.placed[pod.key].node) for pod in group.pods]
        held += (
            HeldSpace(home, number, group.demand, for_growth) for home, number in zip(homes, numbers, strict=False)
        )
        if len(numbers) < len(group.pods):
            unplaced.append((group.demand, len(group.pods) - len(numbers)))
    return held, unplaced


def _place_gang(gang: Gang, simulation: ClusterSimulation, largest_node: tuple[float, float]) -> list[int]:
    """The nodes of a gang if its minimum fits on ready nodes; otherwise nothing is placed."""
    running = simulation.running
    placed = [
        (group.demand, simulation.place(running, group.demand, len(group.pods), simulation.ready))
        for group in build_equivalence_groups(gang.pods, largest_node)
    ]
    if sum(len(numbers) for _, numbers in placed) >= gang.missing:
        return [number for _, numbers in placed for number in numbers.tolist()]
    for demand, numbers in reversed(placed):
        nodes, counts = np.unique(numbers, return_counts=True)
        if len(nodes):
            running.add_many(nodes, demand, -counts.astype(np.int64))
    return []


def _find_needed(
    simulation: ClusterSimulation, removals: Sequence[OngoingRemoval], unplaced: list[tuple[PlacedPods, Demand, int]]
) -> dict[str, DetailedReason]:
    """The nodes in removal on which an unplaced pod or chunk fits; they become ready nodes of the simulation again."""
    needed: dict[str, DetailedReason] = {}
    names = {ongoing.number: ongoing.removal.node for ongoing in removals}
    numbers = np.array([*names], dtype=np.int64)
    for placed, demand, count in unplaced:
        for number in simulation.place(placed, demand, count, numbers).tolist():
            namespace = demand.profile.namespace
            needed.setdefault(
                names[number], DetailedReason(NODE_NEEDED_AGAIN, f"for pods or chunks of namespace {namespace}")
            )
    needed_numbers = [number for number, name in names.items() if name in needed]
    simulation.ready = np.concatenate((simulation.ready, np.array(needed_numbers, dtype=np.int64)))
    return needed


def _drain_ongoing(
    removals: Sequence[OngoingRemoval],
    simulator: DrainSimulator,
    minimums: GroupMinimums,
    needed: dict[str, DetailedReason],
) -> None:
    for ongoing in removals:
        name = ongoing.removal.node
        if name in needed:
            continue
        refusal = minimums.find_minimum_problem(ongoing.removal.group) or simulator.drain(
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
    initial: _InitialPlacement,
    needed: dict[str, DetailedReason],
) -> DrainSimulation:
    needed_candidates: dict[str, DetailedReason] = {}
    undrainable: set[str] = set()
    tried: Counter[bool] = Counter()
    for candidate in drain_input.candidates:
        is_unneeded = candidate.unneeded_since is not None
        refusal = minimums.find_minimum_problem(candidate.group)
        if refusal is not None:
            needed_candidates[candidate.name] = refusal
        elif candidate.number in initial.expected:
            needed_candidates[candidate.name] = DetailedReason(PENDING_POD_FITS)
        elif simulator.hosts[candidate.number]:
            needed_candidates[candidate.name] = DetailedReason(NODE_RECEIVES_PODS)
        elif candidate.pods.to_evict and tried[is_unneeded] >= drain_input.max_drained:
            needed_candidates[candidate.name] = DetailedReason(NODE_NOT_SIMULATED)
        else:
            tried[is_unneeded] += bool(candidate.pods.to_evict)
            refusal = simulator.drain(candidate.number, candidate.pods.to_evict)
            if refusal is None:
                minimums.count_removal(candidate.group)
            else:
                needed_candidates[candidate.name] = refusal
                undrainable.add(candidate.name)
    return DrainSimulation(needed, needed_candidates, frozenset(undrainable))


def _order_targets(ready: IntColumn, candidates: Sequence[int]) -> IntColumn:
    """The order in which nodes take pods: first nodes that are no candidates, then candidates, the first last."""
    last = np.array([*reversed(candidates)], dtype=np.int64)
    return np.concatenate((ready[~np.isin(ready, last)], last[np.isin(last, ready)]))


def _find_largest_node(snapshot: ClusterSnapshot) -> tuple[float, float]:
    cores, memory = (float(snapshot.table.offered(name).max(initial=0)) for name in (CPU, MEMORY))
    return cores, memory


@contextmanager
def _without_leaving_taints(drain_input: DrainSimulationInput) -> Iterator[None]:
    """The table without the leaving taints of nodes in removal, as if they stayed."""
    snapshot = drain_input.snapshot
    nodes = [snapshot.nodes[ongoing.removal.node] for ongoing in drain_input.ongoing]
    try:
        for node in nodes:
            snapshot.table.update(without_leaving_taint(node))
        yield
    finally:
        for node in nodes:
            snapshot.table.update(node)
