"""What a new node of each group would be, with the DaemonSet pods that it would run.

A new node is as the provider declares it, unless the newest ready node of the group has less: a group whose nodes are
smaller than declared is judged by the nodes that it delivers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import numpy as np

from trellis.api.kube.nodes import Node
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.core.fit import Demand, NodeTable, Occupancy, eligible_nodes, place_daemon_pods
from trellis.core.fit.resources import CPU, MEMORY, nanos_or_zero
from trellis.core.nodes.node_groups import GroupState, InstanceState
from trellis.core.nodes.state.readiness import NodeReadiness
from trellis.core.nodes.state.snapshot import ClusterSnapshot
from trellis.core.usage.columns import FloatColumn, IntColumn

GROUP_SHAPE_DIFFERS = Reason(
    "GroupShapeDiffers", "The newest node of the group has less than the group promises.", Severity.WARNING
)

HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
# What kubelets reserve differs a little from node to node: smaller differences are not reported.
_NOTEWORTHY: Final = 0.9


class NodeTemplates:
    """A row for each group, in the order of their names, with the pods of DaemonSets on it.

    In the columns are the cores and bytes of a node of each group, what an hour of it costs, and which come first.
    """

    def __init__(self, snapshot: ClusterSnapshot, readiness: NodeReadiness) -> None:
        self.states: tuple[GroupState, ...] = tuple(snapshot.groups[name] for name in sorted(snapshot.groups))
        self.names: list[str] = [state.group.name for state in self.states]
        self.notes: dict[str, DetailedReason] = {}
        nodes = (_template_as_delivered(state, snapshot, readiness, self.notes) for state in self.states)
        self.nodes: tuple[Node, ...] = tuple(map(node_from_template, nodes, self.names))
        self.table = NodeTable(self.nodes)
        self.used = Occupancy(self.table)
        demands = list(dict.fromkeys(snapshot.daemons.values()))
        landed = place_daemon_pods(self.table, self.used, demands)
        self.daemons: tuple[tuple[Demand, ...], ...] = tuple(
            tuple(demand for demand, where in zip(demands, landed, strict=True) if where[row])
            for row in range(len(self.states))
        )
        self.cores: FloatColumn = self.table.offered(CPU) / 1000.0
        self.memory: FloatColumn = self.table.offered(MEMORY).astype(np.float64)
        self.prices: FloatColumn = np.array([state.group.price for state in self.states], dtype=np.float64)
        self.priorities: IntColumn = np.array([state.group.priority for state in self.states], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.states)


def node_from_template(template: Node, name: str) -> Node:
    """A node like the template. Names of rows have a colon or are those of groups: no node is called so."""
    labels = {**template.metadata.labels, HOSTNAME_LABEL: name}
    return msgspec.structs.replace(
        template, metadata=msgspec.structs.replace(template.metadata, name=name, labels=labels)
    )


def _template_as_delivered(
    state: GroupState, snapshot: ClusterSnapshot, readiness: NodeReadiness, notes: dict[str, DetailedReason]
) -> Node:
    template = state.group.template
    newest = _newest(state, snapshot, readiness)
    if newest is None:
        return template
    promised, delivered = template.status.allocatable, newest.status.allocatable
    least = {name: _less(name, promised, delivered) for name in promised}
    if least == dict(promised):
        return template
    short = [name for name in promised if _is_short(promised[name], delivered.get(name, "0"))]
    if short:
        differences = ", ".join(
            f"{name} {delivered.get(name, '0')} instead of {promised[name]}" for name in sorted(short)
        )
        notes[state.group.name] = DetailedReason(GROUP_SHAPE_DIFFERS, f"{newest.metadata.name} has {differences}")
    return msgspec.structs.replace(template, status=msgspec.structs.replace(template.status, allocatable=least))


def _newest(state: GroupState, snapshot: ClusterSnapshot, readiness: NodeReadiness) -> Node | None:
    """The newest ready node of the group."""
    running: Iterable[tuple[float, str]] = (
        (instance.since, snapshot.node_instances.nodes.get((state.group.name, instance.id), ""))
        for instance in state.instances
        if instance.state is InstanceState.RUNNING
    )
    up = [(since, name) for since, name in running if name and readiness.ready[snapshot.table.find(name)]]
    return snapshot.nodes[max(up)[1]] if up else None


def _less(name: str, promised: Mapping[str, str], delivered: Mapping[str, str]) -> str:
    text = delivered.get(name, "0")
    return text if nanos_or_zero(text) < nanos_or_zero(promised[name]) else promised[name]


def _is_short(promised: str, delivered: str) -> bool:
    return nanos_or_zero(delivered) < _NOTEWORTHY * nanos_or_zero(promised)


def pods_per_new_node(templates: NodeTemplates, demand: Demand) -> IntColumn:
    """How many equal pods fit on an empty new node of each group."""
    counts = templates.used.count_fitting(demand, np.arange(len(templates)))
    counts[~eligible_nodes(templates.table, demand)] = 0
    return counts
