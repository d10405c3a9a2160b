"""What is in the cluster now, as far as nodes are concerned? One value in columns, kept current change by change.

It belongs to the thread in which plans are made. Whoever sees the cluster puts what has changed: that costs what the
one change costs, and a pass begins with everything counted. An object that cannot be read is named, and stops no other.
"""

from __future__ import annotations

from collections.abc import Iterable

from trellis.api.buffer import Buffer
from trellis.api.kube.nodes import Node
from trellis.api.kube.workloads import DaemonSet
from trellis.base.errors import InvalidInput
from trellis.base.reason import Reason, Severity
from trellis.core.buffers.said import Said
from trellis.core.fit import Demand, daemon_demand
from trellis.core.model.keys import Key
from trellis.core.nodes.chunks import Chunks, chunks_of
from trellis.core.nodes.groups import GroupState
from trellis.core.nodes.population import EXPENDABLE_BELOW, Population
from trellis.core.nodes.ties import Ties, tie

DAEMON_SET_UNREADABLE = Reason(
    "DaemonSetUnreadable", "What the pods of the DaemonSet ask of a node cannot be read.", Severity.WARNING
)


class Snapshot(Population):
    """All nodes and pods, and with them Buffers, DaemonSets and groups."""

    def __init__(self, expendable_below: int = EXPENDABLE_BELOW) -> None:
        super().__init__(expendable_below)
        self.buffers: dict[Key, Chunks] = {}
        self.daemons: dict[Key, Demand] = {}
        self.groups: dict[str, GroupState] = {}
        self._ties: Ties | None = None

    @property
    def ties(self) -> Ties:
        """Which instance is behind which node."""
        if self._ties is None:
            self._ties = tie(self.groups.values(), self.nodes)
        return self._ties

    def group_of(self, node: str) -> GroupState | None:
        """The group that a node is of; None if it is nobody's."""
        known = self.ties.instances.get(node)
        return self.groups.get(known[0]) if known is not None else None

    def put_node(self, name: str, node: Node | None) -> None:
        """A node."""
        before = self.nodes.get(name)
        super().put_node(name, node)
        if before is None or node is None or before.spec.provider_id != node.spec.provider_id:
            self._ties = None

    def put_groups(self, states: Iterable[GroupState]) -> None:
        """All groups."""
        self.groups = {each.group.name: each for each in states}
        self._ties = None

    def put_buffer(self, key: Key, buffer: Buffer | None) -> None:
        """A Buffer."""
        self.buffers.pop(key, None)
        self.problems.pop(("Buffer", key), None)
        found = chunks_of(buffer) if buffer is not None else None
        if isinstance(found, Said):
            self.problems["Buffer", key] = found
        elif found is not None:
            self.buffers[key] = found

    def put_daemon_set(self, key: Key, daemon_set: DaemonSet | None) -> None:
        """A DaemonSet."""
        self.daemons.pop(key, None)
        self.problems.pop(("DaemonSet", key), None)
        if daemon_set is None:
            return
        try:
            self.daemons[key] = daemon_demand(daemon_set)
        except InvalidInput as error:
            self.problems["DaemonSet", key] = Said(DAEMON_SET_UNREADABLE, str(error))
