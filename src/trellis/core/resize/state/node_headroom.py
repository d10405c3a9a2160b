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
_PODS_PER_COUNT: Final = 1_000


class NodeHeadroom:
    """All nodes and the pods on them. With `counts_all` every changed pod is counted before an answer."""

    def __init__(self, *, counts_all: bool) -> None:
        self._counts_all = counts_all
        self._table = NodeTable()
        self._used = Occupancy(self._table)
        # Where a pod is counted: the name of its node, and what it holds there.
        self._counted: dict[ObjectKey, tuple[str, Demand]] = {}
        self._pods_by_node: dict[str, dict[ObjectKey, None]] = {}
        self._uncounted: dict[ObjectKey, Pod | None] = {}

    def update(self, nodes: Mapping[str, Node | None], pods: Mapping[ObjectKey, Pod | None]) -> None:
        """Note changed nodes and pods, to be counted later."""
        for name, node in nodes.items():
            if node is not None:
                self._add_node(name, node)
            elif self._table.find(name) >= 0:
                self._used.clear(self._table.find(name))
                self._table.remove(name)
        self._uncounted.update(pods)

    def count_some(self) -> bool:
        """Count some of the pods that have changed; the result is whether any are left."""
        for key in list(islice(self._uncounted, _PODS_PER_COUNT)):
            pod = self._uncounted.pop(key)
            self._uncount_pod(key)
            if pod is not None and pod.spec.node_name:
                self._count_pod(key, pod)
        return bool(self._uncounted)

    def fits(self, pod: Pod, requests: Mapping[str, ResourceAmounts]) -> bool | None:
        """Whether a successor of this pod would fit a node; None if that is unknown."""
        while self._uncounted and (self._counts_all or len(self._uncounted) <= _PODS_PER_COUNT):
            self.count_some()
        if self._uncounted or not self._table.size:
            return None
        demand = Demand.of(pod.spec, requests, moves=True)
        return self._fits(demand) or self._fits_without(pod, demand)

    def _fits(self, demand: Demand) -> bool:
        return bool(find_fitting_nodes(self._table, demand, self._used).any())

    def _fits_without(self, pod: Pod, demand: Demand) -> bool:
        """Whether it would fit once the pod itself is removed."""
        node, demand_on_node = self._counted.get((pod.metadata.namespace, pod.metadata.name), ("", None))
        number = self._table.find(node) if demand_on_node is not None else -1
        if demand_on_node is None or number < 0:
            return False
        self._used.remove(number, demand_on_node)
        try:
            return self._fits(demand)
        finally:
            self._used.add(number, demand_on_node)

    def _add_node(self, name: str, node: Node) -> None:
        is_new = self._table.find(name) < 0
        number = self._table.update(node)
        if is_new:
            # Pods may be observed before their node.
            for key in self._pods_by_node.get(name, ()):
                self._used.add(number, self._counted[key][1])

    def _count_pod(self, key: ObjectKey, pod: Pod) -> None:
        node, demand = pod.spec.node_name, read_running_demand(pod)
        self._counted[key] = (node, demand)
        self._pods_by_node.setdefault(node, {})[key] = None
        self._used.add(self._table.find(node), demand)

    def _uncount_pod(self, key: ObjectKey) -> None:
        demand_on_node = self._counted.pop(key, None)
        if demand_on_node is None:
            return
        node, demand = demand_on_node
        self._used.remove(self._table.find(node), demand)
        del self._pods_by_node[node][key]
        if not self._pods_by_node[node]:
            del self._pods_by_node[node]
