"""How does each node stand: can pods be placed on it, is it on its way, or is it going?"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from trellis.api.kube.nodes import Node
from trellis.core.nodes.groups import InstanceState
from trellis.core.nodes.snapshot import Snapshot
from trellis.core.usage.columns import BoolColumn

# Keeps pods away from a node that we are about to remove.
LEAVING_TAINT: Final = "trellis.x-k8s.io/leaving"
# What others put on nodes that they are about to remove.
_TAINTED_TO_LEAVE: Final = frozenset({LEAVING_TAINT, "ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted"})
# What a control plane takes off a node a moment after it says that it is Ready; until then no pod is placed on it.
_NOT_READY_YET: Final = frozenset(
    f"node.kubernetes.io/{why}" for why in ("not-ready", "unreachable", "network-unavailable")
)
_COMING: Final = (InstanceState.ORDERED, InstanceState.FAILED)


class Standing(msgspec.Struct, frozen=True):
    """Masks over the table; every node is in one of them.

    A node that is `starting` belongs to an instance that is not up yet: what it says of itself does not count, its
    group's template does. One that is `leaving` is deleted, or tainted because it will be.
    """

    ready: BoolColumn
    starting: BoolColumn
    leaving: BoolColumn
    unready: BoolColumn


def standing(snapshot: Snapshot, now: float, patience: float) -> Standing:
    """How all nodes stand. A node that has been up for less than `patience` seconds may yet become ready."""
    table, instances = snapshot.table, snapshot.ties.instances
    starting, leaving = (np.zeros(table.reach, dtype=np.bool_) for _ in range(2))
    is_up = table.ready[: table.reach].copy()
    for name, node in snapshot.nodes.items():
        number, known = table.find(name), instances.get(name)
        instance = known[1] if known is not None else None
        is_up[number] &= not is_held_back(node)
        if is_leaving(node) or (instance is not None and instance.state is InstanceState.LEAVING):
            leaving[number] = True
        elif instance is not None:
            starting[number] = instance.state in _COMING or (not is_up[number] and now - instance.since < patience)
    here = table.exists & ~starting & ~leaving
    ready = here & is_up
    return Standing(ready, starting, leaving, here & ~ready)


def is_held_back(node: Node) -> bool:
    """Whether a control plane keeps pods away from a node, although it may say that it is Ready."""
    return any(taint.key in _NOT_READY_YET for taint in node.spec.taints)


def is_leaving(node: Node) -> bool:
    """Whether a node is deleted, or marked as one that will be."""
    if node.metadata.deletion_timestamp is not None:
        return True
    return any(taint.key in _TAINTED_TO_LEAVE for taint in node.spec.taints)
