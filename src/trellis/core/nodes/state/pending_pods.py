"""Pending pods in equivalence groups: what is found for one pod of a group holds for all.

Of pods that wait for the same ReadWriteOncePod claim, the one with the highest priority gets it, then the first by
name, except a pod that no node could take, because it would keep the others from theirs. No node helps the rest while
that pod waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from trellis.core.cluster.store import ObjectKey
from trellis.core.fit import Demand, fits
from trellis.core.fit.resources import CPU, MEMORY
from trellis.core.nodes.state.node_templates import pods_per_new_node
from trellis.core.nodes.state.pods import PendingPod
from trellis.core.nodes.state.simulation import ClusterSimulation


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
