"""Headroom on nodes: whether the successor of a pod would fit some node.

It belongs to the thread in which plans are made: changes are handed over, and nothing here is shared with the watch.
To count a pod takes a tenth of a millisecond, and most plans do not need it. So changes are only noted, and counted a
few at a time; until all are counted the answer is unknown, unless the caller must have one.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.core.cluster.store import ObjectKey
from trellis.core.fit import Demand, NodeTable, Occupancy, find_fitting_nodes, read_running_demand
from trellis.core.recommend.amounts import ResourceAmounts

# Pods counted in one go: a boost that ends meanwhile waits for them.
_AT_ONCE: Final = 1_000


class NodeHeadroom:
    """All nodes and the pods on them. With `must_know` an answer is given however long it takes."""

    def __init__(self, *, must_know: bool) -> None:
        self._must_know = must_know
        self._table = NodeTable()
        self._used = Occupancy(self._table)
        # Where a pod is counted: the name of its node, and what it holds there.
        self._held: dict[ObjectKey, tuple[str, Demand]] = {}
        self._on: dict[str, dict[ObjectKey, None]] = {}
        self._uncounted: dict[ObjectKey, Pod | None] = {}

    def update(self, nodes: Mapping[str, Node | None], pods: Mapping[ObjectKey, Pod | None]) -> None:
        """Note changed nodes and pods, to be counted later."""
        for name, node in nodes.items():
            if node is not None:
                self._came(name, node)
            elif self._table.find(name) >= 0:
                self._used.clear(self._table.find(name))
                self._table.remove(name)
        self._uncounted.update(pods)

    def count(self) -> bool:
        """Count some of the pods that have changed; the result is whether any are left."""
        for key in list(islice(self._uncounted, _AT_ONCE)):
            pod = self._uncounted.pop(key)
            self._leave(key)
            if pod is not None and pod.spec.node_name:
                self._enter(key, pod)
        return bool(self._uncounted)

    def fits(self, pod: Pod, requests: Mapping[str, ResourceAmounts]) -> bool | None:
        """Whether a successor of this pod would fit a node; None if that is unknown."""
        while self._uncounted and (self._must_know or len(self._uncounted) <= _AT_ONCE):
            self.count()
        if self._uncounted or not self._table.size:
            return None
        demand = Demand.of(pod.spec, requests, moves=True)
        return self._fits(demand) or self._fits_without(pod, demand)

    def _fits(self, demand: Demand) -> bool:
        return bool(find_fitting_nodes(self._table, demand, self._used).any())

    def _fits_without(self, pod: Pod, demand: Demand) -> bool:
        """The same, if the pod itself were gone."""
        node, held = self._held.get((pod.metadata.namespace, pod.metadata.name), ("", None))
        number = self._table.find(node) if held is not None else -1
        if held is None or number < 0:
            return False
        self._used.remove(number, held)
        try:
            return self._fits(demand)
        finally:
            self._used.add(number, held)

    def _came(self, name: str, node: Node) -> None:
        is_new = self._table.find(name) < 0
        number = self._table.update(node)
        if is_new:
            # Pods may have been seen before their node.
            for key in self._on.get(name, ()):
                self._used.add(number, self._held[key][1])

    def _enter(self, key: ObjectKey, pod: Pod) -> None:
        node, demand = pod.spec.node_name, read_running_demand(pod)
        self._held[key] = (node, demand)
        self._on.setdefault(node, {})[key] = None
        self._used.add(self._table.find(node), demand)

    def _leave(self, key: ObjectKey) -> None:
        held = self._held.pop(key, None)
        if held is None:
            return
        node, demand = held
        self._used.remove(self._table.find(node), demand)
        del self._on[node][key]
        if not self._on[node]:
            del self._on[node]
