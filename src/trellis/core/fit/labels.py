"""Which nodes have which labels?

A label gets its column when somebody first asks about it, because nodes carry dozens that nobody does.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import numpy as np

from trellis.base.label_requirements import Operator, Requirement
from trellis.core.fit.codes import CodeColumn
from trellis.core.usage.columns import BoolColumn, IntColumn

# Labels asked about; whoever makes pods can ask about any, and a column for 5,000 nodes takes 20 KB and its answers.
_MOST_COLUMNS: Final = 128


class LabelIndex:
    """The labels of all nodes, by the node's number in its table."""

    def __init__(self) -> None:
        self._capacity = 0
        self._labels: dict[int, Mapping[str, str]] = {}
        self._columns: dict[str, CodeColumn[str]] = {}

    def put(self, number: int, labels: Mapping[str, str]) -> None:
        """Note the labels of one node."""
        if self._labels.get(number) == labels:
            return
        self._labels[number] = labels
        for key, column in self._columns.items():
            column.put(number, labels.get(key))

    def drop(self, number: int) -> None:
        """Forget a node. What the columns have of it is overwritten when its number stands for another."""
        self._labels.pop(number, None)

    def reserve(self, capacity: int) -> None:
        """Have room for more nodes."""
        self._capacity = capacity
        for column in self._columns.values():
            column.reserve(capacity)

    def mask(self, requirement: Requirement) -> BoolColumn:
        """The nodes that satisfy a requirement, whether or not they exist; not to be changed."""
        return self._column(requirement.key).mask(requirement, partial(_satisfying, requirement))

    def domains(self, key: str) -> tuple[IntColumn, int]:
        """Which nodes have the same value of a label, as `CodeColumn.domains` says it."""
        return self._column(key).domains

    def _column(self, key: str) -> CodeColumn[str]:
        column = self._columns.get(key)
        if column is None:
            if len(self._columns) >= _MOST_COLUMNS:
                self._columns.clear()
            column = self._columns[key] = CodeColumn(self._capacity)
            for number, labels in self._labels.items():
                if key in labels:
                    column.put(number, labels[key])
        return column


def _satisfying(requirement: Requirement, values: Mapping[str, int]) -> BoolColumn:
    """Of each numbered value, whether it satisfies; the last entry is for nodes without the label."""
    operator = requirement.operator
    if operator in (Operator.IN, Operator.NOT_IN):
        # The one question asked about labels of which every node has its own: not to be put to each of them.
        answers = np.full(len(values) + 1, operator is Operator.NOT_IN)
        answers[[values[value] for value in requirement.values if value in values]] = operator is Operator.IN
        return answers
    wanted = [requirement.matches({requirement.key: value}) for value in values]
    return np.array([*wanted, requirement.matches({})], dtype=np.bool_)
