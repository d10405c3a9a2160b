"""A simulation of the cluster with upcoming nodes and nodes that might be ordered.

Rows for these nodes are put into the snapshot's table, where the rules about other pods see them beside the existing
nodes, and are taken out again at the end. Pods are placed in copies of what runs.

A row is named by its group and a number, and so has the same name from pass to pass. Empty nodes of a group are equal,
so what was meant for a number is meant for any of them: one that is still upcoming, one that is registered, or one that
is ready.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from trellis.api.kube.nodes import Node
from trellis.core.fit import Demand, pack
from trellis.core.fit.resources import PODS
from trellis.core.nodes.state.node_templates import NodeTemplates, node_from_template
from trellis.core.nodes.state.pods import PlacedPods
from trellis.core.nodes.state.readiness import NodeReadiness
from trellis.core.nodes.state.snapshot import ClusterSnapshot
from trellis.core.nodes.state.upcoming_nodes import UpcomingNodes
from trellis.core.usage.columns import BoolColumn, IntColumn


class RowNames:
    """Names of rows, none of which any node has: a colon is not allowed in those."""

    def __init__(self, groups: Sequence[str]) -> None:
        self._groups = groups
        self._next = [0] * len(groups)
        self._after_upcoming = list(self._next)
        self._aliases: dict[str, int] = {}

    def next(self, group: int) -> str:
        """A name for another row of a group."""
        self._next[group] += 1
        return self._name(group, self._next[group] - 1)

    def alias(self, group: int, number: int) -> None:
        """Let a node that is there be found by the next name as well."""
        self._aliases[self.next(group)] = number

    def end_upcoming(self) -> None:
        """Names from now on are those of nodes to be ordered."""
        self._after_upcoming = list(self._next)

    def find(self, name: str) -> int:
        """The number of the node that has a name as its second; -1 if none has."""
        return self._aliases.get(name, -1)

    def names_in_next_pass(self, numbers: IntColumn, groups: IntColumn) -> dict[int, str]:
        """The names of new rows in the next pass: numbered without the gaps that removed rows left."""
        serials = list(self._after_upcoming)
        next_names: dict[int, str] = {}
        for number, group in zip(numbers.tolist(), groups.tolist(), strict=True):
            next_names[number] = self._name(group, serials[group])
            serials[group] += 1
        return next_names

    def _name(self, group: int, serial: int) -> str:
        return f"{self._groups[group]}:{serial}"


def empty_nodes(snapshot: ClusterSnapshot, readiness: NodeReadiness) -> dict[str, list[int]]:
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
        # Nodes that are in the table as they will be, as they are.
        self._changed: list[Node] = []
        self._names: dict[int, str] = {}
        self._groups: IntColumn = _NO_ROWS
        self._empty = empty_nodes(snapshot, readiness)
        self._row_names = RowNames(templates.names)
        self._next_names: dict[int, str] | None = None

    def add_upcoming_nodes(self, awaited: UpcomingNodes) -> None:
        """Add rows for upcoming nodes. A registered Node that is not ready gets the shape of its group's template."""
        for group, name in enumerate(self.templates.names):
            there = [self._starting(group, node) for node in awaited.nodes.get(name, ())]
            rows = self._rows(group, awaited.counts.get(name, 0) - len(there))
            self.upcoming = np.concatenate((self.upcoming, np.array(there, dtype=np.int64), rows))
            for number in (*there, *self._empty.get(name, ())):
                self._row_names.alias(group, number)
        self._row_names.end_upcoming()

    def find(self, name: str) -> int:
        """The number of a node or row; -1 if there is none of the name."""
        number = self._row_names.find(name)
        return number if number >= 0 else self.table.find(name)

    def names(self, numbers: IntColumn) -> list[str]:
        """The names of nodes and rows in the next pass, in which ordered rows are upcoming."""
        if self._next_names is None:
            self._next_names = self._row_names.names_in_next_pass(self.new, self.groups_of(self.new))
        next_names, rows = self._next_names, numbers.tolist()
        return [next_names.get(number, name) for number, name in zip(rows, self.table.keys(rows), strict=True)]

    def add_new_nodes(self, group: int, count: int) -> IntColumn:
        """Add rows for nodes to be ordered, with the DaemonSet pods of their group."""
        rows = self._rows(group, count)
        self.new = np.concatenate((self.new, rows))
        self._next_names = None
        return rows

    def remove_new_nodes(self, numbers: IntColumn) -> None:
        """Remove rows that are not needed."""
        self.new = self.new[~self.mask(numbers)[self.new]]
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

    def groups_of(self, numbers: IntColumn) -> IntColumn:
        """The groups of rows, by their numbers among the templates."""
        return self._groups[numbers]

    def mask(self, numbers: IntColumn) -> BoolColumn:
        """The same nodes as a mask over the table."""
        mask = np.zeros(self.table.reach, dtype=np.bool_)
        mask[numbers] = True
        return mask

    def count_new_nodes(self) -> dict[int, int]:
        """How many rows of each group are to be ordered."""
        groups, counts = np.unique(self.groups_of(self.new), return_counts=True)
        return dict(zip(groups.tolist(), counts.tolist(), strict=True))

    def end(self) -> None:
        """Leave the table as it was."""
        # Backwards, so that later nodes get the numbers they would have got: placement goes by numbers.
        for name in reversed(self._names.values()):
            self.table.remove(name)
        self._names.clear()
        for node in self._changed:
            self.table.update(node)
        self._changed.clear()

    def _starting(self, group: int, name: str) -> int:
        """The number of a starting node in the shape of its template, with the pods that are on it already."""
        self._changed.append(self._snapshot.nodes[name])
        number = self.table.update(node_from_template(self.templates.nodes[group], name))
        for placed in (self.running, self.fixed):
            placed.used.clear(number)
        self._add_daemon_pods(group, np.array([number], dtype=np.int64))
        for pod in self._snapshot.pods_on(name).values():
            if pod.is_counted and not pod.is_fixed:
                self.running.used.add(number, pod.demand)
        return number

    def _rows(self, group: int, count: int) -> IntColumn:
        rows = np.array([self._row(group) for _ in range(count)], dtype=np.int64)
        if count > 0:
            self._add_daemon_pods(group, rows)
        return rows

    def _add_daemon_pods(self, group: int, rows: IntColumn) -> None:
        """Record the group of rows, and place the DaemonSet pods of the group on them."""
        if len(self._groups) < self.table.capacity:
            more = np.full(self.table.capacity - len(self._groups), -1, dtype=np.int64)
            self._groups = np.concatenate((self._groups, more))
        self._groups[rows] = group
        for demand in self.templates.daemons[group]:
            for placed in (self.running, self.fixed):
                placed.used.add_many(rows, demand, np.ones(len(rows), dtype=np.int64))

    def _row(self, group: int) -> int:
        name = self._row_names.next(group)
        number = self.table.update(node_from_template(self.templates.nodes[group], name))
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
