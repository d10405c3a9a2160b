"""What pods on nodes will request in addition, once they have the size that their VPA or Hvpa recommends.

The growth of a pod is what its recommended requests exceed those that count now, of each container by itself: a lower
recommendation of one container makes no space for another. It is kept in columns, in the units of the occupancy, and
is computed again when the pod or its recommended size changes.
"""

from __future__ import annotations

from collections.abc import Mapping

from trellis.api.kube.pods import Container
from trellis.base.errors import InvalidInput
from trellis.core.cluster.store import ObjectKey
from trellis.core.fit import Demand, NodeTable, Occupancy
from trellis.core.fit.demand import ResourceAmounts
from trellis.core.fit.resources import (
    LARGEST_AMOUNT,
    ResourceCounts,
    count_from_nanos,
    parse_nanos_or_zero,
)
from trellis.core.nodes.state.pods import PlacedPod
from trellis.core.nodes.state.recommended_sizes import NO_RECOMMENDED_SIZE, RecommendedSize


class PodGrowth:
    """Recommended sizes of pods on the nodes of a table, and what is to be added to the nodes for them."""

    def __init__(self, table: NodeTable) -> None:
        self.added = Occupancy(table)
        self._table = table
        self._sizes: dict[ObjectKey, RecommendedSize] = {}
        self._growing: dict[ObjectKey, Demand] = {}

    def __len__(self) -> int:
        """How many pods will grow."""
        return len(self._growing)

    def get_size(self, key: ObjectKey) -> RecommendedSize:
        """The recommended size of a pod."""
        return self._sizes.get(key, NO_RECOMMENDED_SIZE)

    def get_amounts(self, key: ObjectKey) -> ResourceAmounts:
        """The growth of a pod."""
        growth = self._growing.get(key)
        return growth.amounts if growth is not None else ()

    def put_size(self, key: ObjectKey, size: RecommendedSize | None, placed: PlacedPod | None) -> None:
        """Set the recommended size of a pod; None: it has none."""
        number = self._table.find(placed.node) if placed is not None else -1
        self.remove_pod(number, key)
        if size is None:
            self._sizes.pop(key, None)
            return
        self._sizes[key] = size
        if placed is not None:
            self.add_pod(number, placed)

    def forget(self, key: ObjectKey) -> None:
        """Forget a pod that is not on a node any more."""
        self._sizes.pop(key, None)

    def add_pod(self, number: int, placed: PlacedPod) -> None:
        """Count the growth of a pod on a node."""
        size = self._sizes.get(placed.key)
        if size is None or not size.updated or not placed.is_counted:
            return
        if placed.pod.metadata.deletion_timestamp is not None:
            return
        growth = compute_growth(placed, size)
        if growth:
            self._growing[placed.key] = Demand(amounts=growth)
            self.added.add(number, self._growing[placed.key])

    def remove_pod(self, number: int, key: ObjectKey) -> None:
        """Stop counting the growth of a pod that was counted on this node."""
        growth = self._growing.pop(key, None)
        if growth is not None:
            self.added.remove(number, growth)


def compute_growth(placed: PlacedPod, size: RecommendedSize) -> ResourceAmounts:
    """What a pod will request beyond what counts for it now."""
    spec = placed.pod.spec
    grown = {
        container.name: _compute_larger_requests(container, size.updated[container.name])
        for container in (*spec.containers, *spec.init_containers)
        if container.name in size.updated
    }
    if not any(grown.values()):
        return ()
    try:
        demand = Demand.of(spec, grown)
    except InvalidInput:
        return ()
    counted = placed.demand.requests
    return tuple(
        (name, amount - counted.get(name, 0)) for name, amount in demand.amounts if amount > counted.get(name, 0)
    )


def _compute_larger_requests(container: Container, recommended: Mapping[str, int]) -> ResourceCounts:
    """The recommended requests that are larger than the present ones."""
    resources = container.resources
    present = {**resources.limits, **resources.requests}
    return {
        name: amount
        for name, amount in recommended.items()
        if amount > count_from_nanos(name, parse_nanos_or_zero(present.get(name, "0")), LARGEST_AMOUNT)
    }
