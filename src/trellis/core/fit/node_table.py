"""All nodes as a table: a number for each node, and a column for each fact about them.

A watch keeps the table current: the cost of a change is that of its node, and a node keeps its number until it is
removed. All columns and masks are as long as the highest number needs; where no node has the number, every mask is
false.

Each distinct value of a label has a code, and a column holds the code for each node. A requirement is evaluated once
for each value, and the result is spread over all nodes in one step and cached until a node changes. A label gets its
column on first use, because nodes carry dozens of labels that no pod refers to.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from typing import Final, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from trellis.api.kube.meta import Condition
from trellis.api.kube.nodes import Node
from trellis.api.kube.placement import Toleration
from trellis.base.selectors import LabelOperator, LabelRequirement
from trellis.core.fit.constraints.taints import TaintSet, find_tolerated_taint_sets, select_hard_taints
from trellis.core.fit.resources import (
    CPU,
    EPHEMERAL_STORAGE,
    LARGEST_AMOUNT,
    MEMORY,
    PODS,
    count_from_nanos,
    is_counted_by_scheduler,
    parse_nanos_or_zero,
)
from trellis.core.usage.columns import BoolColumn, IntColumn, KeyedTable

V = TypeVar("V", bound=Hashable)

EvaluateValues: TypeAlias = Callable[[Mapping[V, int]], BoolColumn]

# The masks cached for one column; with 5,000 nodes they occupy 4 MB at most.
_MAX_MASKS: Final = 512
_NONE: Final = -1


class CodeColumn(Generic[V]):
    """The values of all nodes, by the node's number in its table."""

    def __init__(self, capacity: int) -> None:
        self._codes: npt.NDArray[np.int32] = np.full(capacity, _NONE, dtype=np.int32)
        self._values: dict[V, int] = {}
        self._masks: dict[Hashable, BoolColumn] = {}
        self._domains: IntColumn | None = None

    def put(self, number: int, value: V | None) -> None:
        """Set the value of one node; None for none."""
        code = _NONE if value is None else self._code(value)
        if self._codes[number] != code:
            self._codes[number] = code
            self._forget_masks()

    @property
    def domains(self) -> tuple[IntColumn, int]:
        """The number of each node's value, counted from 1, with 0 for none; and how many numbers there are, 0 included.

        Read-only. Some numbers may stand for values that no node has any more.
        """
        if self._domains is None:
            self._domains = self._codes.astype(np.int64) + 1
            self._domains.flags.writeable = False
        return self._domains, len(self._values) + 1

    def reserve(self, capacity: int) -> None:
        """Grow to more nodes."""
        added = np.full(capacity - len(self._codes), _NONE, dtype=np.int32)
        self._codes = np.concatenate((self._codes, added))
        self._forget_masks()

    def mask(self, key: Hashable, evaluate: EvaluateValues[V]) -> BoolColumn:
        """The numbers whose value satisfies a condition, whether or not they stand for a node; read-only.

        `evaluate` gets the code of each value, and returns whether each code satisfies the condition, then whether no
        value does.
        """
        mask = self._masks.get(key)
        if mask is None:
            if len(self._masks) >= _MAX_MASKS:
                self._masks.clear()
            # A code of -1 reads the last entry.
            mask = self._masks[key] = evaluate(self._values)[self._codes]
            mask.flags.writeable = False
        return mask

    def _code(self, value: V) -> int:
        code = self._values.get(value)
        if code is None:
            # Otherwise names of deleted machines would be kept for ever.
            if len(self._values) >= 2 * len(self._codes):
                self._forget_unused()
            code = self._values[value] = len(self._values)
        return code

    def _forget_unused(self) -> None:
        used = np.unique(self._codes[self._codes != _NONE])
        names = list(self._values)
        self._values = {names[code]: place for place, code in enumerate(used.tolist())}
        renumbered = np.full(len(names) + 1, _NONE, dtype=np.int32)
        renumbered[used] = np.arange(len(used))
        self._codes = renumbered[self._codes]
        self._forget_masks()

    def _forget_masks(self) -> None:
        self._masks.clear()
        self._domains = None


# Labels that pods refer to; a column for 5,000 nodes takes 20 KB and its masks.
_MAX_COLUMNS: Final = 128


class LabelIndex:
    """The labels of all nodes, by the node's number in its table."""

    def __init__(self) -> None:
        self._capacity = 0
        self._labels: dict[int, Mapping[str, str]] = {}
        self._columns: dict[str, CodeColumn[str]] = {}

    def put(self, number: int, labels: Mapping[str, str]) -> None:
        """Set the labels of one node."""
        if self._labels.get(number) == labels:
            return
        self._labels[number] = labels
        for key, column in self._columns.items():
            column.put(number, labels.get(key))

    def drop(self, number: int) -> None:
        """Forget a node. Its values stay in the columns until its number stands for another node."""
        self._labels.pop(number, None)

    def reserve(self, capacity: int) -> None:
        """Grow to more nodes."""
        self._capacity = capacity
        for column in self._columns.values():
            column.reserve(capacity)

    def mask(self, requirement: LabelRequirement) -> BoolColumn:
        """The nodes that satisfy a requirement, whether or not they exist; not to be changed."""
        return self._column(requirement.key).mask(requirement, partial(_satisfying, requirement))

    def domains(self, key: str) -> tuple[IntColumn, int]:
        """The domains of a label, as `CodeColumn.domains` returns them."""
        return self._column(key).domains

    def _column(self, key: str) -> CodeColumn[str]:
        column = self._columns.get(key)
        if column is None:
            if len(self._columns) >= _MAX_COLUMNS:
                self._columns.clear()
            column = self._columns[key] = CodeColumn(self._capacity)
            for number, labels in self._labels.items():
                if key in labels:
                    column.put(number, labels[key])
        return column


def _satisfying(requirement: LabelRequirement, values: Mapping[str, int]) -> BoolColumn:
    """Whether each numbered value satisfies a requirement; the last entry is for nodes without the label."""
    operator = requirement.operator
    if operator in (LabelOperator.IN, LabelOperator.NOT_IN):
        # A label may have a value per node, such as the hostname: not each of them is evaluated.
        mask = np.full(len(values) + 1, operator is LabelOperator.NOT_IN)
        mask[[values[value] for value in requirement.values if value in values]] = operator is LabelOperator.IN
        return mask
    matches = [requirement.matches({requirement.key: value}) for value in values]
    return np.array([*matches, requirement.matches({})], dtype=np.bool_)


Matrix = npt.NDArray[np.int64]

_INITIAL_RESOURCES = (CPU, MEMORY, PODS, EPHEMERAL_STORAGE)


class NodeTable(KeyedTable[str]):
    """All nodes, by name."""

    initial_values = {"ready": False, "unschedulable": False}

    ready: BoolColumn
    """Whether the kubelet reports it as ready. No filter reads it: a node that is not ready is tainted."""
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
        """The allocatable amounts, (resources, nodes), in the units of a demand's amounts."""
        return self._allocatable[:, : self.numbers_end]

    @property
    def exists(self) -> BoolColumn:
        """Which numbers stand for a node."""
        return self.used[: self.numbers_end]

    @property
    def schedulable(self) -> BoolColumn:
        """The nodes that are not cordoned."""
        return self.exists & ~self.unschedulable[: self.numbers_end]

    def update(self, node: Node) -> int:
        """Add or update a node, and return its number. An amount that cannot be read counts as zero."""
        number = self.find(node.metadata.name)
        if number < 0:
            number = self.add(node.metadata.name)
        self.ready[number] = _is_ready(node.status.conditions)
        self.unschedulable[number] = node.spec.unschedulable
        self._set_allocatable(number, node.status.allocatable)
        self._labels.put(number, node.metadata.labels)
        self._taints.put(number, select_hard_taints(node.spec.taints) or None)
        return number

    def remove(self, name: str) -> bool:
        """Remove a node, and return whether there was one. Its number may stand for another node afterwards."""
        number = self.find(name)
        if number >= 0:
            self.release(np.array([number], dtype=np.int64))
        return number >= 0

    def release(self, numbers: IntColumn) -> None:
        """Free numbers. Taints and labels of a free number mean nothing."""
        for number in numbers.tolist():
            self._allocatable[:, number] = 0
            self._labels.drop(number)
        super().release(numbers)

    def offered(self, resource: str) -> IntColumn:
        """The allocatable amount of one resource, node by node."""
        row = self.resources.get(resource)
        return np.zeros(self.numbers_end, dtype=np.int64) if row is None else self.allocatable[row]

    def row(self, resource: str) -> int:
        """The row of a resource; a new one if it has none yet."""
        row = self.resources.get(resource)
        if row is None:
            row = self.resources[resource] = len(self.resources)
            nothing = np.zeros((1, self.capacity), dtype=np.int64)
            self._allocatable = np.concatenate((self._allocatable, nothing))
        return row

    def names(self, mask: BoolColumn) -> list[str]:
        """The names of the nodes of a mask."""
        return self.keys(np.flatnonzero(mask & self.exists).tolist())

    def labelled(self, requirement: LabelRequirement) -> BoolColumn:
        """The numbers whose labels satisfy a requirement, free numbers included."""
        return self._labels.mask(requirement)[: self.numbers_end]

    def domains(self, key: str) -> tuple[IntColumn, int]:
        """The domain of each node by a label: a number from 1 for each value, 0 for nodes without the label.

        The second result is how many numbers there are, 0 included. The domains of free numbers mean nothing.
        """
        codes, size = self._labels.domains(key)
        return codes[: self.numbers_end], size

    def tolerated(self, tolerations: tuple[Toleration, ...]) -> BoolColumn:
        """The numbers whose taints are all tolerated, free numbers included."""
        return self._taints.mask(tolerations, partial(find_tolerated_taint_sets, tolerations=tolerations))[
            : self.numbers_end
        ]

    def _set_allocatable(self, number: int, allocatable: Mapping[str, str]) -> None:
        self._allocatable[:, number] = 0
        for name, text in allocatable.items():
            if name == PODS or is_counted_by_scheduler(name):
                row = self.row(name)
                self._allocatable[row, number] = count_from_nanos(name, parse_nanos_or_zero(text), LARGEST_AMOUNT)

    def _grow(self, capacity: int) -> None:
        grown = np.zeros((len(self.resources), capacity), dtype=np.int64)
        grown[:, : self.capacity] = self._allocatable
        self._allocatable = grown
        self._labels.reserve(capacity)
        self._taints.reserve(capacity)
        super()._grow(capacity)


def _is_ready(conditions: Iterable[Condition]) -> bool:
    return any(condition.type == "Ready" and condition.status == "True" for condition in conditions)
