"""Expanders choose the node group to order from; orders are balanced between groups that are similar to it.

Each expander scores an option, the lower the better. In a chain, the first expander that prefers some options leaves
the choice among those to the next. A tie after the last goes by name. Similar groups differ only in where their nodes
are, and the smallest of them grows first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

import msgspec
import numpy as np

from trellis.base.errors import InvalidInput
from trellis.base.prices import EXAMPLE_PRICES
from trellis.core.nodes.node_groups import NodeGroup
from trellis.core.usage.columns import FloatColumn, IntColumn


class ScaleUpOptions(msgspec.Struct, frozen=True):
    """One option in each entry of the columns: a number of nodes of a group, for a number of pods.

    `cores` and `memory` are those of the nodes, `requested_cores` and `requested_memory` those of the pods.
    """

    groups: IntColumn
    nodes: FloatColumn
    pods: FloatColumn
    cores: FloatColumn
    memory: FloatColumn
    requested_cores: FloatColumn
    requested_memory: FloatColumn
    price: FloatColumn
    priority: IntColumn

    def select(self, positions: IntColumn) -> ScaleUpOptions:
        """The options of some groups."""
        return ScaleUpOptions(*(getattr(self, name)[positions] for name in self.__struct_fields__))


Expander: TypeAlias = Callable[[ScaleUpOptions], FloatColumn]

# Smaller differences come from rounding.
_TOLERANCE: Final = 1e-9


def least_waste(options: ScaleUpOptions) -> FloatColumn:
    """The share of CPU and memory that would stay idle."""
    idle = _compute_idle_share(options.cores, options.requested_cores) + _compute_idle_share(
        options.memory, options.requested_memory
    )
    return idle / 2


def price(options: ScaleUpOptions) -> FloatColumn:
    """The price of the nodes, relative to that of the requests at the example prices."""
    requested_price = (
        options.requested_cores * EXAMPLE_PRICES.core_hour + options.requested_memory / 2**30 * EXAMPLE_PRICES.gib_hour
    )
    return options.price / np.maximum(requested_price, _TOLERANCE)


def priority(options: ScaleUpOptions) -> FloatColumn:
    """The groups of the highest priority."""
    return -options.priority.astype(np.float64)


def most_pods(options: ScaleUpOptions) -> FloatColumn:
    """As many pods as possible."""
    return -options.pods


def least_nodes(options: ScaleUpOptions) -> FloatColumn:
    """As few nodes as possible."""
    return options.nodes


EXPANDERS: Final[Mapping[str, Expander]] = MappingProxyType(
    {
        "least-waste": least_waste,
        "price": price,
        "priority": priority,
        "most-pods": most_pods,
        "least-nodes": least_nodes,
    }
)


def get_expanders(names: Sequence[str]) -> tuple[Expander, ...]:
    """The expanders of a setting, in its order; an unknown name is refused."""
    for name in names:
        if name not in EXPANDERS:
            raise InvalidInput(name, f"is not a known expander; available: {', '.join(EXPANDERS)}")
    return tuple(EXPANDERS[name] for name in names)


def choose_group(options: ScaleUpOptions, expanders: Sequence[Expander]) -> int:
    """The number of the group to order from; of equal options, the first by name."""
    remaining = options
    for expander in expanders:
        scores = expander(remaining)
        near_best = scores <= scores.min() + _TOLERANCE * max(1.0, abs(float(scores.min())))
        remaining = remaining.select(np.flatnonzero(near_best))
    return int(remaining.groups[0])


def _compute_idle_share(offered: FloatColumn, requested: FloatColumn) -> FloatColumn:
    idle: FloatColumn = 1 - requested / np.maximum(offered, _TOLERANCE)
    return idle


# The labels in which nodes of similar groups differ.
_LOCATION_LABELS: Final = frozenset(
    {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "topology.ebs.csi.aws.com/zone",
        "topology.gke.io/zone",
        "topology.disk.csi.azure.com/zone",
    }
)


def find_similar_groups(groups: Sequence[NodeGroup]) -> list[IntColumn]:
    """The numbers of the groups similar to each group, itself included."""
    positions_by_key: defaultdict[Hashable, list[int]] = defaultdict(list)
    keys = [_build_similarity_key(group) for group in groups]
    for position, key in enumerate(keys):
        positions_by_key[key].append(position)
    columns = {key: np.array(members, dtype=np.int64) for key, members in positions_by_key.items()}
    return [columns[key] for key in keys]


def balance_nodes(count: int, sizes: IntColumn, capacities: IntColumn) -> IntColumn:
    """Divide `count` nodes among groups: the smallest grows first, and none beyond its capacity."""
    shares = np.zeros(len(sizes), dtype=np.int64)
    remaining = min(count, int(capacities.sum()))
    while remaining > 0:
        growing = np.flatnonzero(shares < capacities)
        levels = sizes[growing] + shares[growing]
        lowest = levels == levels.min()
        above = levels[~lowest]
        filled = growing[lowest]
        # All of the lowest rise together to the next level, or until one is full or nothing remains.
        rise = int((capacities - shares)[filled].min())
        if len(above):
            rise = min(rise, int(above.min() - levels.min()))
        rise = min(rise, remaining // len(filled))
        if rise == 0:
            shares[filled[:remaining]] += 1
            break
        shares[filled] += rise
        remaining -= rise * len(filled)
    return shares


def _build_similarity_key(group: NodeGroup) -> Hashable:
    node = group.template
    # A label with the name of the group, as groups of kwok and of clouds have, differs between all groups.
    labels = frozenset(
        (key, value)
        for key, value in node.metadata.labels.items()
        if key not in _LOCATION_LABELS and value != group.name
    )
    taints = frozenset((taint.key, taint.value, taint.effect) for taint in node.spec.taints)
    amounts = frozenset(node.status.allocatable.items())
    return labels, taints, amounts, group.price, group.priority
