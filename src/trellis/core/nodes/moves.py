"""What would a pod ask for if it were made anew elsewhere?

What it asks for now; and the CPU that it would start with, if it would be boosted again. Its own node says nothing, its
volumes and what it wants of other pods do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from trellis.api.kube.containers import Container
from trellis.api.kube.pods import Pod
from trellis.core.buffers.pod_specs import shared_labels
from trellis.core.fit import Demand, Storage, volume_terms
from trellis.core.fit.resources import CPU, LARGEST, Counts, counted, readable_nanos
from trellis.core.nodes.pods import Demands

# By container, the millicores with which the successor of a pod would start; only those that would be boosted.
Starts: TypeAlias = Callable[[Pod], Counts]


def no_boosts(_pod: Pod) -> Counts:
    """Nothing is boosted."""
    return {}


class Successors:
    """What pods would ask for elsewhere. It raises for a pod that cannot be read."""

    def __init__(self, storage: Storage, starts: Starts) -> None:
        self._storage = storage
        self._starts = starts
        self._demands = Demands()

    def demand(self, pod: Pod) -> Demand:
        """The demand of the successor."""
        spec = msgspec.structs.replace(pod.spec, node_name="")
        boosts = self._starts(pod)
        if not boosts:
            return self._demands.read(msgspec.structs.replace(pod, spec=spec), self._storage)
        raised = {each.name: _raised(each, boosts[each.name]) for each in _all(pod) if each.name in boosts}
        metadata = msgspec.structs.replace(pod.metadata, labels=shared_labels(pod.metadata.labels))
        terms = volume_terms(spec, pod.metadata, self._storage)
        return Demand.of(spec, raised, metadata=metadata, volumes=terms)


def _all(pod: Pod) -> tuple[Container, ...]:
    return (*pod.spec.containers, *pod.spec.init_containers)


def _raised(container: Container, millicores: int) -> Counts:
    """The more of both: a pod that is boosted at this moment asks for it already."""
    written = counted(CPU, readable_nanos(container.resources.requests.get(CPU, "0")), LARGEST)
    return {CPU: max(written, millicores)}
