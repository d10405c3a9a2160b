"""What was chosen for each row, and whose turn is it to be looked at again?

Every row has its hour of the day, by its name. A choice is made from the hours before that, so that it does not matter
in which pass it is made.
"""

from __future__ import annotations

import zlib
from functools import lru_cache
from typing import Final

import numpy as np

from trellis.core.recommend.choosing import Choice
from trellis.core.recommend.protocol import Rows
from trellis.core.usage.columns import FloatColumn, IntColumn, RowKey
from trellis.core.usage.history import History
from trellis.core.usage.hours import HOUR

_DAY = 24
_NEVER: Final = -1
_FILLED = 48  # hours that are known more since the last choice: history has come from elsewhere


class Choices:
    """By what a row is called in the history. A history of its own begins anew."""

    def __init__(self, candidates: int) -> None:
        self._candidates = candidates
        self._history: History | None = None
        self._forget()

    def due(self, rows: Rows, now: float, limit: int) -> IntColumn:
        """Positions of rows to be chosen for, those that waited for longest first, and of one moment together."""
        if rows.usage.history is not self._history:
            self._history = rows.usage.history
            self._forget()
        numbers = rows.usage.history_rows
        self._reserve(int(numbers.max(initial=-1)) + 1)
        kept = np.flatnonzero(numbers >= 0)
        numbers = numbers[kept]
        moments, names = moments_of(rows, now)
        current = (self._moments[numbers] == moments[kept]) & (self._names[numbers] == names[kept])
        waiting = np.flatnonzero(~current | (self._known[numbers] - self._known_then[numbers] >= _FILLED))
        order = np.lexsort((moments[kept[waiting]], self._moments[numbers[waiting]]))
        return kept[waiting[order]][:limit]

    def put(self, rows: Rows, positions: IntColumn, now: float, choice: Choice, known: IntColumn) -> None:
        """Note what was chosen for rows at their moment, from so many hours of each of which something was known."""
        numbers = rows.usage.history_rows[positions]
        moments, names = moments_of(rows, now)
        self._moments[numbers], self._names[numbers] = moments[positions], names[positions]
        self._chosen[numbers], self._costs[:, numbers] = choice.number, choice.costs
        self._known_then[numbers] = known

    def note(self, rows: Rows, known: FloatColumn) -> None:
        """Note of how many hours of each row something is known."""
        kept = rows.usage.history_rows >= 0
        self._known[rows.usage.history_rows[kept]] = known[kept]

    def of(self, rows: Rows) -> Choice:
        """What was chosen for all rows; the first candidate where nothing was."""
        numbers = rows.usage.history_rows
        kept = np.flatnonzero(numbers >= 0)
        found = Choice(np.zeros(len(rows), dtype=np.int64), np.full((self._candidates, len(rows)), np.nan))
        found.number[kept] = self._chosen[numbers[kept]]
        found.costs[:, kept] = self._costs[:, numbers[kept]]
        return found

    def _forget(self) -> None:
        self._moments: IntColumn = np.zeros(0, dtype=np.int64)
        self._names: IntColumn = np.zeros(0, dtype=np.int64)
        self._chosen: IntColumn = np.zeros(0, dtype=np.int64)
        self._known: FloatColumn = np.zeros(0)
        self._known_then: FloatColumn = np.zeros(0)
        self._costs: FloatColumn = np.zeros((self._candidates, 0))

    def _reserve(self, size: int) -> None:
        more = size - len(self._moments)
        if more <= 0:
            return
        more = max(more, len(self._moments) // 2)
        none = np.zeros(more, dtype=np.int64)
        self._moments = np.append(self._moments, none + _NEVER)
        self._names, self._chosen = np.append(self._names, none), np.append(self._chosen, none)
        self._known, self._known_then = np.append(self._known, none), np.append(self._known_then, none)
        self._costs = np.append(self._costs, np.full((self._candidates, more), np.nan), axis=1)


def moments_of(rows: Rows, now: float, positions: IntColumn | None = None) -> tuple[IntColumn, IntColumn]:
    """The hour of each row's last moment, since the epoch, and a number for its name."""
    keys = rows.keys if positions is None else [rows.keys[position] for position in positions.tolist()]
    names = np.array([_number(key) for key in keys], dtype=np.int64)
    hour = int(now // HOUR)
    return hour - (hour - names) % _DAY, names


@lru_cache(maxsize=1 << 17)
def _number(key: RowKey) -> int:
    return zlib.crc32("/".join(key).encode())
