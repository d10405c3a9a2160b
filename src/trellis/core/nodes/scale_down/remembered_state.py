"""What scale-down remembers from pass to pass.

All of it may be lost: leaving taints without a known removal are removed, and nodes have to be unneeded for the full
time again.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from trellis.base.reasons import DetailedReason

NEVER: Final = float("-inf")


class NodeRemoval(msgspec.Struct, frozen=True):
    """A removal in progress, with the node as it was at the start.

    `pods` are the UIDs of the pods to evict, and `drains` says whether there were any. `tainted_at` is when our taint
    was first observed on the node, `released_at` when the node was released. `remaining_pods` is the number of pods in
    the last pass, and `progress_at` is when it last changed. `best_effort_stages` counts the kinds of pods whose
    evictions may fail that have been evicted, `best_effort_pods` are the UIDs of the last ones, and `best_effort_at` is
    when they were.
    """

    node: str
    uid: str
    group: str
    instance: str
    started_at: float
    progress_at: float
    pods: frozenset[str] = frozenset()
    drains: bool = False
    remaining_pods: int = 0
    tainted_at: float | None = None
    released_at: float | None = None
    best_effort_stages: int = 0
    best_effort_pods: frozenset[str] = frozenset()
    best_effort_at: float | None = None


class UnremovableNode(msgspec.Struct, frozen=True):
    """A node that cannot be drained: why, and until when it is not tried again.

    With `since` the node is unneeded, and only a disruption budget keeps it.
    """

    reason: DetailedReason
    until: float
    since: float | None = None


class ScaleDownMemory(msgspec.Struct, frozen=True):
    """By node: since when it is unneeded, why it is unremovable, and its removal if that is in progress.

    The times are those of the last node that was added, deleted, or could not be removed. `soft_tainted` are the nodes
    with a soft taint of this autoscaler, also after their group is gone.
    """

    unneeded_since: Mapping[str, float] = MappingProxyType({})
    unremovable: Mapping[str, UnremovableNode] = MappingProxyType({})
    removals: Mapping[str, NodeRemoval] = MappingProxyType({})
    last_added_at: float = NEVER
    last_deleted_at: float = NEVER
    last_failed_at: float = NEVER
    soft_tainted: frozenset[str] = frozenset()


def record_added_nodes(memory: ScaleDownMemory, now: float) -> ScaleDownMemory:
    """The memory after an order: no node is removed for a while."""
    return msgspec.structs.replace(memory, last_added_at=max(memory.last_added_at, now))


def record_failed_removal(memory: ScaleDownMemory, node: str, now: float) -> ScaleDownMemory:
    """The memory after a provider refused a release: the node is kept, and the next plan removes its taint."""
    removals = {name: removal for name, removal in memory.removals.items() if name != node}
    return msgspec.structs.replace(memory, removals=removals, last_failed_at=max(memory.last_failed_at, now))
