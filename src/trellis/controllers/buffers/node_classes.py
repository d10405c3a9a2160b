"""The free capacity of the nodes of each class, computed in columns over all nodes after a change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.slices import Labels
from trellis.core.buffers import NodeClassFacts, is_live, observe_node_class
from trellis.core.buffers.pod_summaries import PodDemands, find_daemon_node
from trellis.core.fit import NodeTable
from trellis.core.usage.columns import IntColumn
from trellis.kube.watch.cache import ObjectChange
from trellis.kube.watch.informer import Informer

BY_DAEMON_NODE: Final = "daemon-node"
_RESOURCES: Final = ("cpu", "memory")


def daemon_node(pod: Pod) -> tuple[str, ...]:
    """Index the pods of DaemonSets by their node; other pods are not indexed."""
    node = find_daemon_node(pod)
    return (node,) if node else ()


class NodeClasses:
    """All nodes, kept current by a watch, and the usage of DaemonSet pods on each of them."""

    def __init__(self, pods: Informer[Pod], demands: PodDemands) -> None:
        self._pods = pods
        self._demands = demands
        self._table = NodeTable()
        self._nodes: dict[str, Node] = {}
        self._daemon_usage: Mapping[str, IntColumn] | None = None
        self._facts: dict[tuple[tuple[str, str], ...], NodeClassFacts] = {}

    def node_changed(self, change: ObjectChange[Node]) -> bool:
        """Apply the change of a node; returns whether it can affect chunks."""
        name, new = change.key[1], change.new
        if new is None:
            self._table.remove(name)
            self._nodes.pop(name, None)
        else:
            self._table.update(new)
            self._nodes[name] = new
        if change.old is not None and new is not None and _node_key(change.old) == _node_key(new):
            return False
        self._begin_anew()
        return True

    def pod_changed(self, change: ObjectChange[Pod]) -> bool:
        """Apply the change of a pod; returns whether it can affect chunks, as pods of DaemonSets can."""
        daemons = any(daemon_node(pod) for pod in (change.old, change.new) if pod is not None)
        if not daemons or not self._demands.is_relevant_change(change.old, change.new):
            return False
        self._begin_anew()
        return True

    def find_facts(self, labels: Labels) -> NodeClassFacts:
        """The facts about the nodes with these labels."""
        key = tuple(sorted(labels.items()))
        facts = self._facts.get(key)
        if facts is None:
            if self._daemon_usage is None:
                self._daemon_usage = self._sum_daemon_usage()
            facts = self._facts[key] = observe_node_class(self._table, self._nodes, labels, self._daemon_usage)
        return facts

    def _begin_anew(self) -> None:
        self._daemon_usage = None
        self._facts.clear()

    def _sum_daemon_usage(self) -> Mapping[str, IntColumn]:
        columns = {name: np.zeros(self._table.numbers_end, dtype=np.int64) for name in _RESOURCES}
        for node in self._nodes:
            number = self._table.find(node)
            for pod in self._pods.by_index(BY_DAEMON_NODE, node):
                if is_live(pod):
                    for name, amount in self._demands.find(pod):
                        if name in columns:
                            columns[name][number] += amount
        return columns


def _node_key(node: Node) -> tuple[object, ...]:
    return node.metadata.labels, node.spec.taints, node.status.allocatable
