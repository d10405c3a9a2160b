"""Which of the pods that wait are alike? What is found for one of them holds for all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from trellis.core.fit import Demand
from trellis.core.fit.resources import CPU, MEMORY
from trellis.core.model.keys import Key
from trellis.core.nodes.pods import PendingPod


class PodGroup(msgspec.Struct, frozen=True):
    """Pods that ask for the same, in the order of their names.

    Only if the scheduler has looked at them and found no node is one `wanted` for them; others may have one soon.
    """

    demand: Demand
    priority: int
    is_wanted: bool
    pods: tuple[PendingPod, ...]

    @property
    def keys(self) -> tuple[Key, ...]:
        """What the pods are called."""
        return tuple(each.key for each in self.pods)


def pod_groups(pods: Iterable[PendingPod], largest: tuple[float, float]) -> list[PodGroup]:
    """All of them: the most important first, then the largest, beside what the largest node has of CPU and memory."""
    found: dict[tuple[int, int, bool], list[PendingPod]] = {}
    for pod in pods:
        # Equal demands are one object, so that they need not be compared in depth.
        found.setdefault((id(pod.demand), pod.priority, pod.is_unschedulable), []).append(pod)
    groups = [_group(each) for each in found.values()]
    return sorted(groups, key=lambda each: (-each.priority, -size(each.demand, largest), each.pods[0].key))


def size(demand: Demand, largest: tuple[float, float]) -> float:
    """How large a pod is beside the largest node: what fills a node first is to be placed first."""
    requests = demand.requests
    millicores, bytes_ = largest
    return requests.get(CPU, 0) / max(millicores, 1.0) + requests.get(MEMORY, 0) / max(bytes_, 1.0)


def _group(pods: Sequence[PendingPod]) -> PodGroup:
    first = pods[0]
    ordered = tuple(sorted(pods, key=lambda each: each.key))
    return PodGroup(first.demand, first.priority, first.is_unschedulable, ordered)
