"""Orders pending pods for their placement on nodes of a simulation, and places chunks of Buffers after them.

Pending pods are placed in equivalence groups: what is found for one pod of a group holds for all. Of pods that wait for
the same ReadWriteOncePod claim, the one with the highest priority gets it, then the first by name, except a pod that no
node could take, because it would keep the others from theirs. No node helps the rest while that pod waits.

A chunk keeps its node as long as it fits there, so that nodes do not alternate in being needed. It never displaces a
pod: the capacity that a pod uses is not free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from trellis.core.cluster.store import ObjectKey
from trellis.core.fit import Demand, find_fitting_nodes
from trellis.core.fit.resources import CPU, MEMORY
from trellis.core.nodes.state.pods import BufferChunks, PendingPod, PlacedPods, depends_on_other_pods
from trellis.core.nodes.state.simulation import ClusterSimulation, count_pods_per_new_node
from trellis.core.usage.columns import IntColumn


class PodEquivalenceGroup(msgspec.Struct, frozen=True):
    """Pods with equal demands, in the order of their names.

    `needs_node` says that the scheduler found them unschedulable; others may be placed soon. With `replaces` they stand
    for replacements of pods that have a node.
    """

    demand: Demand
    priority: int
    needs_node: bool
    pods: tuple[PendingPod, ...]
    replaces: bool = False

    @property
    def keys(self) -> tuple[ObjectKey, ...]:
        """Namespaces and names of the pods."""
        return tuple(pod.key for pod in self.pods)


def build_equivalence_groups(
    pods: Iterable[PendingPod], largest_node: tuple[float, float]
) -> list[PodEquivalenceGroup]:
    """The groups by priority, then by size relative to the CPU and memory of the largest node."""
    pods_by_demand: dict[tuple[int, int, bool], list[PendingPod]] = {}
    for pod in pods:
        # Equal demands are one object, so that they need not be compared in depth.
        pods_by_demand.setdefault((id(pod.demand), pod.priority, pod.is_unschedulable), []).append(pod)
    groups = [_build_equivalence_group(pods) for pods in pods_by_demand.values()]
    return sorted(
        groups,
        key=lambda group: (-group.priority, -compute_relative_size(group.demand, largest_node), group.pods[0].key),
    )


def compute_relative_size(demand: Demand, largest_node: tuple[float, float]) -> float:
    """The size of a pod relative to the largest node; larger pods are placed first."""
    requests = demand.requests
    millicores, bytes_ = largest_node
    return requests.get(CPU, 0) / max(millicores, 1.0) + requests.get(MEMORY, 0) / max(bytes_, 1.0)


def _build_equivalence_group(pods: Sequence[PendingPod]) -> PodEquivalenceGroup:
    first = pods[0]
    ordered = tuple(sorted(pods, key=lambda pod: pod.key))
    return PodEquivalenceGroup(first.demand, first.priority, first.is_unschedulable, ordered, first.replaces)


def resolve_claim_conflicts(pods: Iterable[PendingPod], simulation: ClusterSimulation) -> list[PendingPod]:
    """All pods; a pod whose claim another pod gets has a volume that no node can reach."""
    all_pods = [*pods]
    with_claims = [pod for pod in all_pods if pod.exclusive_claims]
    waiting = Counter(claim for pod in with_claims for claim in pod.exclusive_claims)
    rivals = [pod for pod in with_claims if any(waiting[claim] > 1 for claim in pod.exclusive_claims)]
    claimed: set[ObjectKey] = set()
    changed: dict[ObjectKey, PendingPod] = {}
    # Equal demands are one object.
    demands: dict[int, Demand] = {}
    for pod in sorted(rivals, key=lambda pod: (-pod.priority, pod.key)):
        if not claimed.isdisjoint(pod.exclusive_claims):
            demand = demands.setdefault(id(pod.demand), _without_volume(pod.demand))
            changed[pod.key] = msgspec.structs.replace(pod, demand=demand)
        elif _fits_any_node(pod.demand, simulation):
            claimed.update(pod.exclusive_claims)
    return [changed.get(pod.key, pod) for pod in all_pods] if changed else all_pods


def _without_volume(demand: Demand) -> Demand:
    return msgspec.structs.replace(demand, volumes=(*demand.volumes, ()))


def _fits_any_node(demand: Demand, simulation: ClusterSimulation) -> bool:
    """Whether the pod fits on an existing node or a new one."""
    running = simulation.running
    return bool(
        count_pods_per_new_node(simulation.templates, demand).any()
        or find_fitting_nodes(simulation.table, demand, running.used, running.existing_pods).any()
    )


_NO_NODES: IntColumn = np.zeros(0, dtype=np.int64)


class NodePlaces(msgspec.Struct, frozen=True):
    """The numbers of the nodes that chunks of a Buffer are on, ready and upcoming."""

    ready: IntColumn = _NO_NODES
    upcoming: IntColumn = _NO_NODES

    @property
    def count(self) -> int:
        """How many chunks have a place."""
        return len(self.ready) + len(self.upcoming)


def place_chunks(
    simulation: ClusterSimulation, buffers: Sequence[BufferChunks], previous_by_uid: Mapping[str, Sequence[str]]
) -> list[NodePlaces]:
    """Place the chunks of all Buffers. `previous_by_uid` has, by UID, the names of the nodes that they were on.

    A chunk keeps its node before chunks of a higher priority are placed: first on ready nodes, then, for the chunks
    that fit on none of them, on upcoming nodes.
    """
    previous_nodes = [previous_by_uid.get(chunks.uid, ())[: chunks.count] for chunks in buffers]
    ready = _place_on(simulation, buffers, previous_nodes, simulation.ready, [chunks.count for chunks in buffers])
    remaining = [chunks.count - len(placed) for chunks, placed in zip(buffers, ready, strict=True)]
    upcoming = _place_on(simulation, buffers, previous_nodes, simulation.upcoming, remaining)
    return [NodePlaces(*places) for places in zip(ready, upcoming, strict=True)]


def _place_on(
    simulation: ClusterSimulation,
    buffers: Sequence[BufferChunks],
    previous_nodes: Sequence[Sequence[str]],
    nodes: IntColumn,
    counts: Sequence[int],
) -> list[IntColumn]:
    """Restore the chunks that were on these nodes, then place the others, in the order of the Buffers."""
    restored_by_buffer = [
        restore_places(simulation, select_placed_pods(simulation, chunks), chunks.demand, names, nodes, count)
        for chunks, names, count in zip(buffers, previous_nodes, counts, strict=True)
    ]
    return [
        np.concatenate(
            (
                restored,
                simulation.place(select_placed_pods(simulation, chunks), chunks.demand, count - len(restored), nodes),
            )
        )
        for chunks, restored, count in zip(buffers, restored_by_buffer, counts, strict=True)
    ]


def select_placed_pods(simulation: ClusterSimulation, chunks: BufferChunks) -> PlacedPods:
    """The pods that the chunks are placed beside: all pods, or DaemonSet and mirror pods alone."""
    return simulation.running if chunks.on_top else simulation.fixed


def restore_places(  # noqa: PLR0917 - no two of the arguments belong together
    simulation: ClusterSimulation,
    placed: PlacedPods,
    demand: Demand,
    previous_nodes: Sequence[str],
    candidates: IntColumn,
    max_count: int,
) -> IntColumn:
    """Put at most `max_count` equal pods back on their nodes, where they still fit; return the numbers of the nodes."""
    numbers = np.array([simulation.find(name) for name in previous_nodes if name], dtype=np.int64)
    numbers = numbers[numbers >= 0]
    numbers = numbers[simulation.build_mask(candidates)[numbers]][:max_count]
    if not len(numbers):
        return _NO_NODES
    nodes, first, counts = np.unique(numbers, return_index=True, return_counts=True)
    if depends_on_other_pods(demand):
        return simulation.place(placed, demand, len(numbers), nodes[np.argsort(first)])
    is_open = find_fitting_nodes(simulation.table, demand, placed.used, placed.existing_pods)[nodes]
    counts = np.minimum(counts, placed.used.count_fitting(demand, nodes)) * is_open
    fitting = counts > 0
    nodes, counts = nodes[fitting], counts[fitting]
    if len(nodes):
        placed.add_many(nodes, demand, counts)
    return np.repeat(nodes, counts)


def assign_nodes(previous_nodes: Sequence[str], places: Sequence[str], count: int) -> tuple[str, ...]:
    """The node of each pod or chunk by its number, empty for one without. It keeps its previous node if it can."""
    free = Counter(places)
    names = [""] * count
    for number, name in enumerate(previous_nodes[:count]):
        if free.get(name, 0) > 0:
            names[number] = name
            free[name] -= 1
    rest = iter(free.elements())
    return tuple(name or next(rest, "") for name in names)
