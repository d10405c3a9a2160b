"""Node groups that differ only in where their nodes are. Orders are balanced between them, the smallest first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from trellis.core.nodes.node_groups import NodeGroup
from trellis.core.usage.columns import IntColumn

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
