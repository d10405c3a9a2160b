"""A simulation of the cluster with upcoming nodes and nodes that might be ordered.

A new node is as the provider declares it, unless the newest ready node of the group has less: a group whose nodes are
smaller than declared is judged by the nodes that it delivers. A node whose devices have not come in the time for it
counts here too, so that a group without a working device plugin is not ordered from again and again. DaemonSet pods are
placed on a new node first.

Rows for these nodes are put into the snapshot's table, where the rules about other pods see them beside the existing
nodes, and are removed at the end. Pods are placed in copies of the occupancy.

A row is named by its group and a number, and so has the same name from pass to pass. Empty nodes of a group are equal,
so that a number may stand for any of them: a node that is still upcoming, registered, or ready.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec
import numpy as np

from trellis.api.kube.nodes import Node
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.core.fit import Demand, NodeTable, Occupancy, find_eligible_nodes, pack, place_daemon_pods
from trellis.core.fit.resources import CPU, MEMORY, PODS, parse_nanos_or_zero
from trellis.core.nodes.node_groups import GroupState, InstanceState
from trellis.core.nodes.state.pods import PlacedPods
from trellis.core.nodes.state.readiness import NodeReadiness
from trellis.core.nodes.state.snapshot import ClusterSnapshot
from trellis.core.nodes.state.transient_taints import NO_TRANSIENT_TAINTS, TransientTaints
from trellis.core.nodes.state.upcoming_nodes import UpcomingNodes
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn

GROUP_SHAPE_DIFFERS = Reason(
    "GroupShapeDiffers", "The newest node of the node group is smaller than its template.", Severity.WARNING
)

HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
# What kubelets reserve differs a little from node to node: smaller differences are not reported.
_REPORTED_BELOW: Final = 0.9


class NodeTemplates:
    """A row for each group, in the order of their names, with the DaemonSet pods on it, without transient taints.

    The columns have the cores, bytes, hourly price and priority of a node of each group.
    """

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        readiness: NodeReadiness,
        transient_taints: TransientTaints = NO_TRANSIENT_TAINTS,
    ) -> None:
        self.states: tuple[GroupState, ...] = tuple(snapshot.groups[name] for name in sorted(snapshot.groups))
        self.names: list[str] = [state.group.name for state in self.states]
        self.notes: dict[str, DetailedReason] = {}
        nodes = (_build_delivered_template(state, snapshot, readiness, self.notes) for state in self.states)
        lasting = map(transient_taints.remove_from, nodes)
        self.nodes: tuple[Node, ...] = tuple(map(build_node_from_template, lasting, self.names))
        self.table = NodeTable(self.nodes)
        self.used = Occupancy(self.table)
        demands = list(dict.fromkeys(snapshot.daemons.values()))
        daemon_masks = place_daemon_pods(self.table, self.used, demands)
        self.daemons: tuple[tuple[Demand, ...], ...] = tuple(
            tuple(demand for demand, mask in zip(demands, daemon_masks, strict=True) if mask[row])
            for row in range(len(self.states))
        )
        self.cores: FloatColumn = self.table.offered(CPU) / 1000.0
        self.memory: FloatColumn = self.table.offered(MEMORY).astype(np.float64)
        self.prices: FloatColumn = np.array([state.group.price for state in self.states], dtype=np.float64)
        self.priorities: IntColumn = np.array([state.group.priority for state in self.states], dtype=np.int64)

    def __len__(self) -> int:
        return len(self.states)


def build_node_from_template(template: Node, name: str) -> Node:
    """A node like the template. Names of rows have a colon or are those of groups, which no node has."""
    labels = {**template.metadata.labels, HOSTNAME_LABEL: name}
    return msgspec.structs.replace(
        template, metadata=msgspec.structs.replace(template.metadata, name=name, labels=labels)
    )


def _build_delivered_template(
    state: GroupState, snapshot: ClusterSnapshot, readiness: NodeReadiness, notes: dict[str, DetailedReason]
) -> Node:
    template = state.group.template
    newest = _find_newest_node(state, snapshot, readiness)
    if newest is None:
        return template
    promised, delivered = template.status.allocatable, newest.status.allocatable
    smallest = {name: _find_smaller_amount(name, promised, delivered) for name in promised}
    if smallest == dict(promised):
        return template
    short_resources = [name for name in promised if _is_short(promised[name], delivered.get(name, "0"))]
    if short_resources:
        differences = ", ".join(
            f"{name} {delivered.get(name, '0')} instead of {promised[name]}" for name in sorted(short_resources)
        )
        notes[state.group.name] = DetailedReason(GROUP_SHAPE_DIFFERS, f"{newest.metadata.name} has {differences}")
    return msgspec.structs.replace(template, status=msgspec.structs.replace(template.status, allocatable=smallest))


def _find_newest_node(state: GroupState, snapshot: ClusterSnapshot, readiness: NodeReadiness) -> Node | None:
    """The newest node of the group that is ready, or would be if it had the devices of the group."""
    is_delivered = readiness.ready | readiness.without_devices
    running: Iterable[tuple[float, str]] = (
        (instance.since, snapshot.node_instances.nodes.get((state.group.name, instance.id), ""))
        for instance in state.instances
        if instance.state is InstanceState.RUNNING
    )
    delivered = [(since, name) for since, name in running if name and is_delivered[snapshot.table.find(name)]]
    return snapshot.nodes[max(delivered)[1]] if delivered else None


def _find_smaller_amount(name: str, promised: Mapping[str, str], delivered: Mapping[str, str]) -> str:
    text = delivered.get(name, "0")
    return text if parse_nanos_or_zero(text) < parse_nanos_or_zero(promised[name]) else promised[name]


def _is_short(promised: str, delivered: str) -> bool:
    return parse_nanos_or_zero(delivered) < _REPORTED_BELOW * parse_nanos_or_zero(promised)


def count_pods_per_new_node(templates: NodeTemplates, demand: Demand) -> IntColumn:
    """How many equal pods fit on an empty new node of each group."""
    counts = templates.used.count_fitting(demand, np.arange(len(templates)))
    counts[~find_eligible_nodes(templates.table, demand)] = 0
    return counts


class RowNames:
    """Names of rows. They have a colon, so that they differ from all names of nodes."""

    def __init__(self, groups: Sequence[str]) -> None:
        self._groups = groups
        self._next = [0] * len(groups)
        self._after_upcoming = list(self._next)
        self._aliases: dict[str, int] = {}

    def next(self, group: int) -> str:
        """A name for another row of a group."""
        self._next[group] += 1
        return self._build_name(group, self._next[group] - 1)

    def add_alias(self, group: int, number: int) -> None:
        """Let an existing node be found by the next name as well."""
        self._aliases[self.next(group)] = number

    def end_upcoming(self) -> None:
        """Names from now on are those of nodes to be ordered."""
        self._after_upcoming = list(self._next)

    def find(self, name: str) -> int:
        """The number of the node with this alias; -1 if there is none."""
        return self._aliases.get(name, -1)

    def find_next_names(self, numbers: IntColumn, groups: IntColumn) -> dict[int, str]:
        """The names of new rows in the next pass: numbered without the gaps that removed rows left."""
        serials = list(self._after_upcoming)
        next_names: dict[int, str] = {}
        for number, group in zip(numbers.tolist(), groups.tolist(), strict=True):
            next_names[number] = self._build_name(group, serials[group])
            serials[group] += 1
        return next_names

    def _build_name(self, group: int, serial: int) -> str:
        return f"{self._groups[group]}:{serial}"


def find_empty_nodes(snapshot: ClusterSnapshot, readiness: NodeReadiness) -> dict[str, list[int]]:
    """The ready nodes of each group that run DaemonSet and mirror pods alone."""
    pods = snapshot.fixed.used.free(PODS) - snapshot.running.used.free(PODS)
    empty = readiness.ready & (pods <= 0)
    numbers: dict[str, list[int]] = {}
    for number, name in zip(np.flatnonzero(empty).tolist(), snapshot.table.names(empty), strict=True):
        member = snapshot.node_instances.instances.get(name)
        if member is not None:
            numbers.setdefault(member[0], []).append(number)
    return numbers


_NO_ROWS: IntColumn = np.zeros(0, dtype=np.int64)


class ClusterSimulation:
    """The numbers of `ready` nodes, of `upcoming` nodes, and of `new` nodes that are to be ordered."""

    def __init__(self, snapshot: ClusterSnapshot, readiness: NodeReadiness, templates: NodeTemplates) -> None:
        self.table = snapshot.table
        self.running = snapshot.running.copy()
        self.fixed = snapshot.fixed.copy()
        self.templates = templates
        self.ready: IntColumn = np.flatnonzero(readiness.ready)
        self.upcoming: IntColumn = _NO_ROWS
        self.new: IntColumn = _NO_ROWS
        self._snapshot = snapshot
        # The nodes whose rows show them as they will be, in their present form.
        self._changed: list[Node] = []
        self._names: dict[int, str] = {}
        self._groups: IntColumn = _NO_ROWS
        self._empty = find_empty_nodes(snapshot, readiness)
        self._row_names = RowNames(templates.names)
        self._next_names: dict[int, str] | None = None

    def add_upcoming_nodes(self, upcoming: UpcomingNodes) -> None:
        """Add rows for upcoming nodes. A registered Node that is not ready gets the shape of its group's template."""
        for group, name in enumerate(self.templates.names):
            registered = [self._update_starting_node(group, node) for node in upcoming.nodes.get(name, ())]
            rows = self._add_rows(group, upcoming.counts.get(name, 0) - len(registered))
            self.upcoming = np.concatenate((self.upcoming, np.array(registered, dtype=np.int64), rows))
            for number in (*registered, *self._empty.get(name, ())):
                self._row_names.add_alias(group, number)
        self._row_names.end_upcoming()

    def find(self, name: str) -> int:
        """The number of a node or row; -1 if there is none of the name."""
        number = self._row_names.find(name)
        return number if number >= 0 else self.table.find(name)

    def get_names(self, numbers: IntColumn) -> list[str]:
        """The names of nodes and rows in the next pass, in which ordered rows are upcoming."""
        if self._next_names is None:
            self._next_names = self._row_names.find_next_names(self.new, self.get_groups(self.new))
        next_names, rows = self._next_names, numbers.tolist()
        return [next_names.get(number, name) for number, name in zip(rows, self.table.keys(rows), strict=True)]

    def add_new_nodes(self, group: int, count: int) -> IntColumn:
        """Add rows for nodes to be ordered, with the DaemonSet pods of their group."""
        rows = self._add_rows(group, count)
        self.new = np.concatenate((self.new, rows))
        self._next_names = None
        return rows

    def remove_new_nodes(self, numbers: IntColumn) -> None:
        """Remove rows that are not needed."""
        self.new = self.new[~self.build_mask(numbers)[self.new]]
        self._next_names = None
        for number in numbers.tolist():
            for placed in (self.running, self.fixed):
                placed.used.clear(number)
            self.table.remove(self._names.pop(number))

    def place(self, placed: PlacedPods, demand: Demand, count: int, nodes: IntColumn) -> IntColumn:
        """Place equal pods first fit; return the number of the node of each pod that fits."""
        if not count or not len(nodes):
            return _NO_ROWS
        return pack(self.table, placed.used, [(demand, count)], placed.existing_pods, nodes)[0]

    def get_groups(self, numbers: IntColumn) -> IntColumn:
        """The groups of rows, by their numbers among the templates."""
        return self._groups[numbers]

    def build_mask(self, numbers: IntColumn) -> BoolColumn:
        """The same nodes as a mask over the table."""
        build_mask = np.zeros(self.table.numbers_end, dtype=np.bool_)
        build_mask[numbers] = True
        return build_mask

    def count_new_nodes(self) -> dict[int, int]:
        """How many rows of each group are to be ordered."""
        groups, counts = np.unique(self.get_groups(self.new), return_counts=True)
        return dict(zip(groups.tolist(), counts.tolist(), strict=True))

    def end(self) -> None:
        """Leave the table as it was."""
        # Backwards, so that later nodes get the same numbers as without the simulation: placement is by number.
        for name in reversed(self._names.values()):
            self.table.remove(name)
        self._names.clear()
        for node in self._changed:
            self.table.update(node)
        self._changed.clear()

    def _update_starting_node(self, group: int, name: str) -> int:
        """The number of a starting node in the shape of its template, with the pods that are on it already."""
        self._changed.append(self._snapshot.nodes[name])
        number = self.table.update(build_node_from_template(self.templates.nodes[group], name))
        for placed in (self.running, self.fixed):
            placed.used.clear(number)
        self._add_daemon_pods(group, np.array([number], dtype=np.int64))
        for pod in self._snapshot.pods_on(name).values():
            if pod.is_counted and not pod.is_fixed:
                self.running.used.add(number, pod.demand)
        used_devices = self._snapshot.get_used_devices(name)
        if used_devices is not None:
            self.running.used.add(number, used_devices)
        return number

    def _add_rows(self, group: int, count: int) -> IntColumn:
        rows = np.array([self._add_row(group) for _ in range(count)], dtype=np.int64)
        if count > 0:
            self._add_daemon_pods(group, rows)
        return rows

    def _add_daemon_pods(self, group: int, rows: IntColumn) -> None:
        """Record the group of rows, and place the DaemonSet pods of the group on them."""
        if len(self._groups) < self.table.capacity:
            added = np.full(self.table.capacity - len(self._groups), -1, dtype=np.int64)
            self._groups = np.concatenate((self._groups, added))
        self._groups[rows] = group
        for demand in self.templates.daemons[group]:
            for placed in (self.running, self.fixed):
                placed.used.add_many(rows, demand, np.ones(len(rows), dtype=np.int64))

    def _add_row(self, group: int) -> int:
        name = self._row_names.next(group)
        number = self.table.update(build_node_from_template(self.templates.nodes[group], name))
        self._names[number] = name
        return number


@contextmanager
def simulate_cluster(
    snapshot: ClusterSnapshot, readiness: NodeReadiness, templates: NodeTemplates
) -> Iterator[ClusterSimulation]:
    """Simulate on the snapshot; its table is as before afterwards."""
    simulation = ClusterSimulation(snapshot, readiness, templates)
    try:
        yield simulation
    finally:
        simulation.end()
