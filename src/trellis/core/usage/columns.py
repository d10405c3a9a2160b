"""Columns: the array types, the key of a usage row, and tables made of columns.

An object is a number in a table, and each of its attributes an entry in a column. Released numbers are allocated again,
so that columns are never longer than the most objects there were at once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

IntColumn: TypeAlias = npt.NDArray[np.int64]
FloatColumn: TypeAlias = npt.NDArray[np.float64]
BoolColumn: TypeAlias = npt.NDArray[np.bool_]


class RowKey(NamedTuple):
    """The key of a usage row: all containers of one name, in all pods that one VPA governs.

    The pods' labels are no part of it, so that a rollout leaves the row, its size and its history as they are.
    """

    namespace: str
    vpa: str
    container: str


def split_into_unique_batches(rows: IntColumn) -> list[IntColumn]:
    """The positions of a batch, split so that no row comes twice in a part and each row's samples keep their order."""
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    begins = np.concatenate(([True], ordered[1:] != ordered[:-1])) if len(rows) else np.zeros(0, dtype=np.bool_)
    if begins.all():
        return [np.arange(len(rows), dtype=np.int64)] if len(rows) else []
    starts = np.flatnonzero(begins)
    occurrences = np.arange(len(rows)) - np.repeat(starts, np.diff(starts, append=len(rows)))
    return [np.sort(order[occurrences == number]) for number in range(int(occurrences.max()) + 1)]


K = TypeVar("K", bound=Hashable)

_FIRST_CAPACITY = 64


class ColumnTable:
    """Numbers in use, and columns that grow with them. Subclasses declare the columns and their initial values."""

    # A fill's type is the column's: float, int or bool.
    initial_values: ClassVar[Mapping[str, float | int | bool]] = {}

    used: BoolColumn

    def __init__(self) -> None:
        self._free: list[int] = []
        self._next = 0
        self.used = np.zeros(0, dtype=np.bool_)
        for name, fill in self.initial_values.items():
            setattr(self, name, np.full(0, fill))

    @property
    def capacity(self) -> int:
        """The length of the columns."""
        return len(self.used)

    @property
    def numbers_end(self) -> int:
        """One more than the highest number ever in use: the end of the part of a column that has entries."""
        return self._next

    @property
    def size(self) -> int:
        """The count of numbers in use."""
        return self._next - len(self._free)

    @property
    def nbytes(self) -> int:
        """The size of the columns."""
        return self.used.nbytes + sum(self._column(name).nbytes for name in self.initial_values)

    def numbers(self) -> IntColumn:
        """The numbers in use, ascending."""
        return np.flatnonzero(self.used)

    def reset(self, numbers: IntColumn, names: Iterable[str]) -> None:
        """Set some columns back to their initial values."""
        for name in names:
            self._column(name)[numbers] = self.initial_values[name]

    def allocate(self, count: int) -> IntColumn:
        """Allocate unused numbers, with the initial values of their columns."""
        return np.array([self._allocate_number() for _ in range(count)], dtype=np.int64)

    def release(self, numbers: IntColumn) -> None:
        """Release numbers for reuse."""
        self.used[numbers] = False
        for name, fill in self.initial_values.items():
            self._column(name)[numbers] = fill
        self._free.extend(numbers.tolist())

    def _allocate_number(self) -> int:
        if self._free:
            number = self._free.pop()
        else:
            number, self._next = self._next, self._next + 1
            if number == self.capacity:
                self._grow(max(2 * self.capacity, _FIRST_CAPACITY))
        self.used[number] = True
        return number

    def _grow(self, capacity: int) -> None:
        # At least doubled, so that each entry is copied once or twice over the life of a table.
        self.used = _grow_column(self.used, capacity, False)
        for name, fill in self.initial_values.items():
            setattr(self, name, _grow_column(self._column(name), capacity, fill))

    def _column(self, name: str) -> np.ndarray[Any, np.dtype[Any]]:
        column: np.ndarray[Any, np.dtype[Any]] = getattr(self, name)
        return column


class KeyedTable(ColumnTable, Generic[K]):
    """A table whose objects have keys."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers: dict[K, int] = {}
        self._keys: list[K | None] = []

    def find(self, key: K) -> int:
        """The number of a key; -1 if it has none."""
        return self._numbers.get(key, -1)

    def add(self, key: K) -> int:
        """Allocate a number for a new key."""
        number = self._allocate_number()
        self._numbers[key] = number
        if number == len(self._keys):
            self._keys.append(key)
        else:
            self._keys[number] = key
        return number

    def keys(self, numbers: Iterable[int]) -> list[K]:
        """The keys of numbers that are in use."""
        return [self._keys[number] for number in numbers]  # type: ignore[misc]  # in use, so there is a key

    def release(self, numbers: IntColumn) -> None:
        """Release numbers and their keys."""
        for number in numbers.tolist():
            key = self._keys[number]
            if key is not None:
                del self._numbers[key]
            self._keys[number] = None
        super().release(numbers)


def _grow_column(column: np.ndarray[Any, np.dtype[Any]], capacity: int, fill: float) -> np.ndarray[Any, np.dtype[Any]]:
    grown = np.full(capacity, fill, dtype=column.dtype)
    grown[: len(column)] = column
    return grown


def find_run_starts(*columns: IntColumn) -> IntColumn:
    """The positions at which runs of equal entries begin, in columns whose equal entries are adjacent."""
    changed = np.zeros(len(columns[0]), dtype=np.bool_)
    changed[:1] = True
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changed)
