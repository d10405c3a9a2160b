"""Orders pending pods for their placement on nodes of a simulation, and places chunks of Buffers after them.

Pending pods are placed in equivalence groups: what is found for one pod of a group holds for all. Of pods that wait for
the same ReadWriteOncePod claim, the one with the highest priority gets it, then the first by name, except a pod that no
node could take, because it would keep the others from theirs. No node helps the rest while that pod waits.

A chunk stays where it was as long as it fits there, so that nodes do not alternate in being needed. It never takes a
place from a pod: what a pod takes is no longer free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from trellis.core.cluster.store import ObjectKey
from trellis.core.fit import Demand, fits
from trellis.core.fit.resources import CPU, MEMORY
from trellis.core.nodes.state.pods import BufferChunks, PendingPod, PlacedPods, depends_on_other_pods
from trellis.core.nodes.state.simulation import ClusterSimulation, pods_per_new_node
from trellis.core.usage.columns import IntColumn


class PodEquivalenceGroup(msgspec.Struct, frozen=True):
    """Pods with equal demands, in the order of their names.

    `needs_node` says that the scheduler found them unschedulable; others may be placed soon.
    """

    demand: Demand
    priority: int
    needs_node: bool
    pods: tuple[PendingPod, ...]

    @property
    def keys(self) -> tuple[ObjectKey, ...]:
        """Namespaces and names of the pods."""
        return tuple(pod.key for pod in self.pods)


def build_equivalence_groups(pods: Iterable[PendingPod], largest: tuple[float, float]) -> list[PodEquivalenceGroup]:
    """The groups by priority, then by size relative to the CPU and memory of the largest node."""
    alike: dict[tuple[int, int, bool], list[PendingPod]] = {}
    for pod in pods:
        # Equal demands are one object, so that they need not be compared in depth.
        alike.setdefault((id(pod.demand), pod.priority, pod.is_unschedulable), []).append(pod)
    groups = [_equivalence_group(pods) for pods in alike.values()]
    return sorted(groups, key=lambda group: (-group.priority, -relative_size(group.demand, largest), group.pods[0].key))


def relative_size(demand: Demand, largest: tuple[float, float]) -> float:
    """The size of a pod relative to the largest node; larger pods are placed first."""
    requests = demand.requests
    millicores, bytes_ = largest
    return requests.get(CPU, 0) / max(millicores, 1.0) + requests.get(MEMORY, 0) / max(bytes_, 1.0)


def _equivalence_group(pods: Sequence[PendingPod]) -> PodEquivalenceGroup:
    first = pods[0]
    ordered = tuple(sorted(pods, key=lambda pod: pod.key))
    return PodEquivalenceGroup(first.demand, first.priority, first.is_unschedulable, ordered)


def resolve_claim_conflicts(pods: Iterable[PendingPod], simulation: ClusterSimulation) -> list[PendingPod]:
    """All pods; one whose claim goes to another pod gets a volume that no node can reach."""
    all_pods = [*pods]
    with_claims = [pod for pod in all_pods if pod.exclusive_claims]
    waiting = Counter(claim for pod in with_claims for claim in pod.exclusive_claims)
    rivals = [pod for pod in with_claims if any(waiting[claim] > 1 for claim in pod.exclusive_claims)]
    taken: set[ObjectKey] = set()
    late: dict[ObjectKey, PendingPod] = {}
    # Equal demands are one object, as everywhere.
    demands: dict[int, Demand] = {}
    for pod in sorted(rivals, key=lambda pod: (-pod.priority, pod.key)):
        if not taken.isdisjoint(pod.exclusive_claims):
            demand = demands.setdefault(id(pod.demand), _without_volume(pod.demand))
            late[pod.key] = msgspec.structs.replace(pod, demand=demand)
        elif _fits_any_node(pod.demand, simulation):
            taken.update(pod.exclusive_claims)
    return [late.get(pod.key, pod) for pod in all_pods] if late else all_pods


def _without_volume(demand: Demand) -> Demand:
    return msgspec.structs.replace(demand, volumes=(*demand.volumes, ()))


def _fits_any_node(demand: Demand, simulation: ClusterSimulation) -> bool:
    """Whether the pod fits on an existing node or a new one."""
    running = simulation.running
    return bool(
        pods_per_new_node(simulation.templates, demand).any()
        or fits(simulation.table, demand, running.used, running.existing_pods).any()
    )


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
