"""Which of a few different values does each node have?

A column of numbers, one number for each different value. A question about a value is asked once for each of them and
the answers are spread over all nodes in one step; the spread answer is kept until a node changes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Final, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from trellis.core.usage.columns import BoolColumn, IntColumn

V = TypeVar("V", bound=Hashable)

Answers: TypeAlias = Callable[[Mapping[V, int]], BoolColumn]

# Answers kept for one column; with 5,000 nodes they occupy 4 MB at most.
_MOST_ANSWERS: Final = 512
_NONE: Final = -1


class CodeColumn(Generic[V]):
    """The values of all nodes, by the node's number in its table."""

    def __init__(self, capacity: int) -> None:
        self._codes: npt.NDArray[np.int32] = np.full(capacity, _NONE, dtype=np.int32)
        self._values: dict[V, int] = {}
        self._masks: dict[Hashable, BoolColumn] = {}
        self._domains: IntColumn | None = None

    def put(self, number: int, value: V | None) -> None:
        """Note what one node has; None for nothing."""
        code = _NONE if value is None else self._code(value)
        if self._codes[number] != code:
            self._codes[number] = code
            self._forget_answers()

    @property
    def domains(self) -> tuple[IntColumn, int]:
        """The number of each node's value, counted from 1, and how many numbers there are with the 0 for none.

        Not to be changed. Some of the numbers may be those of values that no node has any more.
        """
        if self._domains is None:
            self._domains = self._codes.astype(np.int64) + 1
            self._domains.flags.writeable = False
        return self._domains, len(self._values) + 1

    def reserve(self, capacity: int) -> None:
        """Have room for more nodes."""
        more = np.full(capacity - len(self._codes), _NONE, dtype=np.int32)
        self._codes = np.concatenate((self._codes, more))
        self._forget_answers()

    def mask(self, question: Hashable, answers: Answers[V]) -> BoolColumn:
        """The nodes for which the answer is yes, whether or not they exist; not to be changed.

        `answers` gets the number of each value, and gives the answer at each number, then that for having none.
        """
        found = self._masks.get(question)
        if found is None:
            if len(self._masks) >= _MOST_ANSWERS:
                self._masks.clear()
            # A code of -1 reads the last answer.
            found = self._masks[question] = answers(self._values)[self._codes]
            found.flags.writeable = False
        return found

    def _code(self, value: V) -> int:
        code = self._values.get(value)
        if code is None:
            # Names of machines that are long gone would be kept for ever.
            if len(self._values) >= 2 * len(self._codes):
                self._forget_unused()
            code = self._values[value] = len(self._values)
        return code

    def _forget_unused(self) -> None:
        kept = np.unique(self._codes[self._codes != _NONE])
        names = list(self._values)
        self._values = {names[code]: place for place, code in enumerate(kept.tolist())}
        renumbered = np.full(len(names) + 1, _NONE, dtype=np.int32)
        renumbered[kept] = np.arange(len(kept))
        self._codes = renumbered[self._codes]
        self._forget_answers()

    def _forget_answers(self) -> None:
        self._masks.clear()
        self._domains = None
