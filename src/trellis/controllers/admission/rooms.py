"""How much CPU could a pod have? As much as the best node offers that would take it, if nothing else ran there."""

from __future__ import annotations

from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.base.errors import InvalidInput
from trellis.core.boost.raising import CpuCeiling
from trellis.core.fit import Demand, NodeTable, most_of
from trellis.kube.changes import Change


class Rooms:
    """All nodes, kept current by a watch. With `must_fit` a boost is cut to what fits, else that is only mentioned."""

    def __init__(self, *, must_fit: bool) -> None:
        self._table = NodeTable()
        self._must_fit = must_fit

    def node_changed(self, change: Change[Node]) -> None:
        """A node is new, has changed or is gone."""
        if change.new is None:
            self._table.remove(change.key[1])
        else:
            self._table.update(change.new)

    def ceiling(self, pod: Pod) -> CpuCeiling | None:
        """The most that this pod could request; None if no node takes it, whatever it requests: then CPU is not why."""
        try:
            demand = Demand.of(pod.spec)
        except InvalidInput:
            # It has an amount that is none, which the API server refuses in its own words.
            return None
        found = most_of(self._table, demand, "cpu")
        return None if found is None else CpuCeiling(found, self._must_fit)
