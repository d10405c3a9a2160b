"""What scale-down remembers from pass to pass.

All of it may be lost: leaving taints without a known removal are taken off, and nodes have to be unneeded for the whole
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
    """A node on its way out, as it was when that began.

    `pods` are the UIDs of those that were to be moved, and `drains` says that there were any. `marked` is when our mark
    was first seen on the node, `released` when the node was given back. `left` pods were there at the last look, and
    `progress` is when there were last fewer.
    """

    node: str
    uid: str
    group: str
    instance: str
    started_at: float = msgspec.field(name="since")
    progress_at: float = msgspec.field(name="progress")
    pods: frozenset[str] = frozenset()
    drains: bool = False
    pods_left: int = msgspec.field(default=0, name="left")
    tainted_at: float | None = msgspec.field(default=None, name="marked")
    released_at: float | None = msgspec.field(default=None, name="released")


class UnremovableNode(msgspec.Struct, frozen=True):
    """A node that was tried in vain: why, and until when it is not tried again.

    With `since` it is unneeded all the same, and only cannot go.
    """

    reason: DetailedReason = msgspec.field(name="said")
    until: float
    since: float | None = None


class ScaleDownMemory(msgspec.Struct, frozen=True):
    """By node: since when it is unneeded, that it was tried in vain, that it is being removed.

    `added`, `deleted` and `failed` are when a node last was, or could not be removed.
    """

    unneeded_since: Mapping[str, float] = msgspec.field(default=MappingProxyType({}), name="unneeded")
    unremovable: Mapping[str, UnremovableNode] = msgspec.field(default=MappingProxyType({}), name="held")
    removals: Mapping[str, NodeRemoval] = MappingProxyType({})
    last_added_at: float = msgspec.field(default=NEVER, name="added")
    last_deleted_at: float = msgspec.field(default=NEVER, name="deleted")
    last_failed_at: float = msgspec.field(default=NEVER, name="failed")


def record_added_nodes(memory: ScaleDownMemory, now: float) -> ScaleDownMemory:
    """The same after nodes were ordered: nothing is removed for a while."""
    return msgspec.structs.replace(memory, last_added_at=max(memory.last_added_at, now))


def record_failed_removal(memory: ScaleDownMemory, node: str, now: float) -> ScaleDownMemory:
    """The same after a provider refused to take a node back: it is kept, and its mark taken off by the next plan."""
    removals = {name: removal for name, removal in memory.removals.items() if name != node}
    return msgspec.structs.replace(memory, removals=removals, last_failed_at=max(memory.last_failed_at, now))
