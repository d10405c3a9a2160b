"""What is a plan for fewer nodes decided on? Everything that was read, looked at once."""

from __future__ import annotations

import msgspec

from trellis.core.nodes.budgets import Budgets
from trellis.core.nodes.down_memory import DownMemory
from trellis.core.nodes.down_settings import DownSettings
from trellis.core.nodes.groups import InstanceState
from trellis.core.nodes.snapshot import Snapshot
from trellis.core.nodes.standing import Standing
from trellis.core.usage.columns import FloatColumn


class DownLook(msgspec.Struct, frozen=True):
    """The cluster, how its nodes stand and how much of each is `used`, what is remembered, and by which figures."""

    snapshot: Snapshot
    stands: Standing
    used: FloatColumn
    budgets: Budgets
    memory: DownMemory
    now: float
    settings: DownSettings

    def group_of(self, name: str) -> str:
        """The group that counts a node as one of its own, empty if none does."""
        known = self.snapshot.ties.instances.get(name)
        return known[0] if known is not None and known[1].state is not InstanceState.LEAVING else ""

    def is_going(self, name: str) -> bool:
        """Whether a node is deleted, or given back to its group."""
        known = self.snapshot.ties.instances.get(name)
        is_given_back = known is not None and known[1].state is InstanceState.LEAVING
        return is_given_back or self.snapshot.nodes[name].metadata.deletion_timestamp is not None
