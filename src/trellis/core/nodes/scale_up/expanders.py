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
    """One option in each entry of the columns: so many nodes of a group, for so many pods.

    `cores` and `memory` are what these nodes have, `asked_cores` and `asked_memory` what the pods ask for.
    """

    groups: IntColumn
    nodes: FloatColumn
    pods: FloatColumn
    cores: FloatColumn
    memory: FloatColumn
    asked_cores: FloatColumn
    asked_memory: FloatColumn
    price: FloatColumn
    priority: IntColumn

    def take(self, which: IntColumn) -> ScaleUpOptions:
        """The options of some groups."""
        return ScaleUpOptions(*(getattr(self, name)[which] for name in self.__struct_fields__))


Expander: TypeAlias = Callable[[ScaleUpOptions], FloatColumn]

# Differences that come from rounding are none.
_SAME: Final = 1e-9


def least_waste(options: ScaleUpOptions) -> FloatColumn:
    """The share of CPU and memory that would stay idle."""
    idle = _idle(options.cores, options.asked_cores) + _idle(options.memory, options.asked_memory)
    return idle / 2


def price(options: ScaleUpOptions) -> FloatColumn:
    """What the nodes cost beside what the pods ask for, at the example prices."""
    worth = options.asked_cores * EXAMPLE_PRICES.core_hour + options.asked_memory / 2**30 * EXAMPLE_PRICES.gib_hour
    return options.price / np.maximum(worth, _SAME)


def priority(options: ScaleUpOptions) -> FloatColumn:
    """The groups that are to come first."""
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


def expanders_by_name(names: Sequence[str]) -> tuple[Expander, ...]:
    """The expanders of a setting, in its order; an unknown name is refused."""
    for name in names:
        if name not in EXPANDERS:
            raise InvalidInput(name, f"expanders: the expanders are {', '.join(EXPANDERS)}")
    return tuple(EXPANDERS[name] for name in names)


def choose_group(options: ScaleUpOptions, expanders: Sequence[Expander]) -> int:
    """The group to order from; groups are numbered by name, so that the first is taken of those that are equal."""
    left = options
    for expander in expanders:
        scores = expander(left)
        near_best = scores <= scores.min() + _SAME * max(1.0, abs(float(scores.min())))
        left = left.take(np.flatnonzero(near_best))
    return int(left.groups[0])


def _idle(offered: FloatColumn, requested: FloatColumn) -> FloatColumn:
    idle: FloatColumn = 1 - requested / np.maximum(offered, _SAME)
    return idle


# Labels by which nodes of groups that are alike differ.
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
    """Of each group those that are alike, itself included, by their numbers."""
    alike: defaultdict[Hashable, list[int]] = defaultdict(list)
    likenesses = [_similarity_key(group) for group in groups]
    for at, likeness in enumerate(likenesses):
        alike[likeness].append(at)
    columns = {likeness: np.array(members, dtype=np.int64) for likeness, members in alike.items()}
    return [columns[key] for key in likenesses]


def balance_nodes(count: int, sizes: IntColumn, capacities: IntColumn) -> IntColumn:
    """How many of so many each gets: always the smallest first, and none more than it has room for."""
    given = np.zeros(len(sizes), dtype=np.int64)
    left = min(count, int(capacities.sum()))
    while left > 0:
        open_ = np.flatnonzero(given < capacities)
        levels = sizes[open_] + given[open_]
        lowest = levels == levels.min()
        above = levels[~lowest]
        filled = open_[lowest]
        # All that are lowest rise together to the next level, or until one is full or nothing is left.
        rise = int((capacities - given)[filled].min())
        if len(above):
            rise = min(rise, int(above.min() - levels.min()))
        rise = min(rise, left // len(filled))
        if rise == 0:
            given[filled[:left]] += 1
            break
        given[filled] += rise
        left -= rise * len(filled)
    return given


def _similarity_key(group: NodeGroup) -> Hashable:
    node = group.template
    # A label that names the group, as groups of kwok and of clouds have, tells it from all others.
    labels = frozenset(
        (key, value)
        for key, value in node.metadata.labels.items()
        if key not in _LOCATION_LABELS and value != group.name
    )
    taints = frozenset((taint.key, taint.value, taint.effect) for taint in node.spec.taints)
    amounts = frozenset(node.status.allocatable.items())
    return labels, taints, amounts, group.price, group.priority
