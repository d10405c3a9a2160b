"""Which nodes are there, to ask what a pod could have on them? All of them, kept current by a watch."""

from __future__ import annotations

from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.core.admission.ceilings import cpu_ceiling
from trellis.core.boost.raising import CpuCeiling
from trellis.core.fit import NodeTable
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
        return cpu_ceiling(self._table, pod, must_fit=self._must_fit)
