"""What the replacement of a pod would ask of another node.

It asks for what the pod asks for now, and for the CPU that it would start with if it were boosted again. The pod's own
node does not count; its volumes and its rules about other pods do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from trellis.api.kube.pods import Container, Pod
from trellis.core.buffers.pods import select_shared_labels
from trellis.core.fit import Demand, Storage, volume_terms
from trellis.core.fit.resources import CPU, LARGEST_AMOUNT, ResourceCounts, count_from_nanos, nanos_or_zero
from trellis.core.nodes.state.pods import DemandReader

# By container, the millicores with which the successor of a pod would start; only those that would be boosted.
StartupBoosts: TypeAlias = Callable[[Pod], ResourceCounts]


def no_boosts(_pod: Pod) -> ResourceCounts:
    """Nothing is boosted."""
    return {}


class ReplacementDemands:
    """What pods would ask for elsewhere. It raises for a pod that cannot be read."""

    def __init__(self, storage: Storage, starts: StartupBoosts) -> None:
        self._storage = storage
        self._starts = starts
        self._demands = DemandReader()

    def demand(self, pod: Pod) -> Demand:
        """The demand of the successor."""
        spec = msgspec.structs.replace(pod.spec, node_name="")
        boosts = self._starts(pod)
        if not boosts:
            return self._demands.read(msgspec.structs.replace(pod, spec=spec), self._storage)
        raised = {
            container.name: _raised(container, boosts[container.name])
            for container in _all_containers(pod)
            if container.name in boosts
        }
        metadata = msgspec.structs.replace(pod.metadata, labels=select_shared_labels(pod.metadata.labels))
        terms = volume_terms(spec, pod.metadata, self._storage)
        return Demand.of(spec, raised, metadata=metadata, volumes=terms)


def _all_containers(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.containers, *pod.spec.init_containers)


def _raised(container: Container, millicores: int) -> ResourceCounts:
    """The more of both: a pod that is boosted at this moment asks for it already."""
    written = count_from_nanos(CPU, nanos_or_zero(container.resources.requests.get(CPU, "0")), LARGEST_AMOUNT)
    return {CPU: max(written, millicores)}
