"""All nodes as a table: a number for each node, and a column for each fact about them.

A watch keeps the table current: a change costs what the one node costs, and a node keeps its number until it is
removed. All columns and masks are as long as the highest number needs; where no node has the number, every mask is
false.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

from trellis.api.kube.meta import Condition
from trellis.api.kube.nodes import Node
from trellis.api.kube.placement import Toleration
from trellis.base.selectors import LabelRequirement
from trellis.core.fit.constraints.taints import TaintSet, hard_taints, tolerated_taint_sets
from trellis.core.fit.label_columns import CodeColumn, LabelIndex
from trellis.core.fit.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    LARGEST_AMOUNT,
    MEMORY,
    PODS,
    count_from_nanos,
    is_counted_by_scheduler,
    nanos_or_zero,
)
from trellis.core.usage.columns import BoolColumn, IntColumn, KeyedTable

Matrix = npt.NDArray[np.int64]

_INITIAL_RESOURCES = (CPU, MEMORY, PODS, EPHEMERAL_STORAGE)


class NodeTable(KeyedTable[str]):
    """All nodes there are, by name."""

    fills = {"ready": False, "unschedulable": False}

    ready: BoolColumn
    """Whether the kubelet says so. Placing does not ask: a node that is not ready is tainted before long."""
    unschedulable: BoolColumn
    """Whether the node is cordoned."""

    def __init__(self, nodes: Iterable[Node] = ()) -> None:
        super().__init__()
        self.resources: dict[str, int] = {name: row for row, name in enumerate(_INITIAL_RESOURCES)}
        self._allocatable: Matrix = np.zeros((len(_INITIAL_RESOURCES), 0), dtype=np.int64)
        self._labels = LabelIndex()
        self._taints: CodeColumn[TaintSet] = CodeColumn(0)
        for node in nodes:
            self.update(node)

    @property
    def allocatable(self) -> Matrix:
        """How much pods may request, (resources, nodes), in the counts of a demand's amounts."""
        return self._allocatable[:, : self.reach]

    @property
    def exists(self) -> BoolColumn:
        """Which numbers stand for a node."""
        return self.used[: self.reach]

    @property
    def schedulable(self) -> BoolColumn:
        """The nodes that are not cordoned."""
        return self.exists & ~self.unschedulable[: self.reach]

    def update(self, node: Node) -> int:
        """Take a new or changed node; its number. An amount that cannot be read is one it does not have."""
        number = self.find(node.metadata.name)
        if number < 0:
            number = self.add(node.metadata.name)
        self.ready[number] = _is_ready(node.status.conditions)
        self.unschedulable[number] = node.spec.unschedulable
        self._set_allocatable(number, node.status.allocatable)
        self._labels.put(number, node.metadata.labels)
        self._taints.put(number, hard_taints(node.spec.taints) or None)
        return number

    def remove(self, name: str) -> bool:
        """Forget a node; whether there was one. Its number may stand for another afterwards."""
        number = self.find(name)
        if number >= 0:
            self.release(np.array([number], dtype=np.int64))
        return number >= 0

    def release(self, numbers: IntColumn) -> None:
        """Give numbers back; taints and labels of a number that is free mean nothing."""
        for number in numbers.tolist():
            self._allocatable[:, number] = 0
            self._labels.drop(number)
        super().release(numbers)

    def offered(self, resource: str) -> IntColumn:
        """How much of one resource pods may request, node by node."""
        row = self.resources.get(resource)
        return np.zeros(self.reach, dtype=np.int64) if row is None else self.allocatable[row]

    def row(self, resource: str) -> int:
        """The row of a resource; a new one if it has none yet."""
        row = self.resources.get(resource)
        if row is None:
            row = self.resources[resource] = len(self.resources)
            nothing = np.zeros((1, self.capacity), dtype=np.int64)
            self._allocatable = np.concatenate((self._allocatable, nothing))
        return row

    def names(self, mask: BoolColumn) -> list[str]:
        """What the nodes of a mask are called."""
        return self.keys(np.flatnonzero(mask & self.exists).tolist())

    def labelled(self, requirement: LabelRequirement) -> BoolColumn:
        """The numbers whose labels satisfy a requirement; those of no node are among them."""
        return self._labels.mask(requirement)[: self.reach]

    def domains(self, key: str) -> tuple[IntColumn, int]:
        """Which nodes have the same value of a label: a number from 1 for each, 0 for nodes without it.

        Behind them how many numbers there are, the 0 included. What is there for the number of no node means nothing.
        """
        codes, size = self._labels.domains(key)
        return codes[: self.reach], size

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> BoolColumn:
        """The numbers whose taints are all tolerated; those of no node are among them."""
        return self._taints.mask(tolerations, partial(tolerated_taint_sets, tolerations=tolerations))[: self.reach]

    def _set_allocatable(self, number: int, written: Mapping[str, str]) -> None:
        self._allocatable[:, number] = 0
        for name, text in written.items():
            if name == PODS or is_counted_by_scheduler(name):
                row = self.row(name)
                self._allocatable[row, number] = count_from_nanos(name, nanos_or_zero(text), LARGEST_AMOUNT)

    def _grow(self, capacity: int) -> None:
        grown = np.zeros((len(self.resources), capacity), dtype=np.int64)
        grown[:, : self.capacity] = self._allocatable
        self._allocatable = grown
        self._labels.reserve(capacity)
        self._taints.reserve(capacity)
        super()._grow(capacity)


def _is_ready(conditions: Iterable[Condition]) -> bool:
    return any(condition.type == "Ready" and condition.status == "True" for condition in conditions)
