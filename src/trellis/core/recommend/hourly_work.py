"""What has been worked out of a row's history already?

History changes once an hour, when another hour is over, while recommenders are asked every minute. So what is made of
it is kept until the hour is over or something in the row's history has changed, whichever comes first.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trellis.core.recommend.protocol import Rows
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.history import History
from trellis.core.usage.hours import HOUR

_ROWS_AT_ONCE = 256  # 34 KB each are read: more would not stay in the processor's caches

Work = Callable[[IntColumn], FloatColumn]


class HourlyWork:
    """Columns (width, rows) that depend on the history of each row, on the hour, and on a choice that can be named."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._history: History | None = None
        self._forget()

    def done(self, rows: Rows, now: float, choice: IntColumn, work: Work) -> FloatColumn:
        """The columns of all rows: `work` is asked for positions where something is new; NaN without history."""
        history, numbers = rows.usage.history, rows.usage.history_rows
        if history is not self._history:
            self._history = history
            self._forget()
        found = np.full((self._width, len(rows)), np.nan)
        kept = np.flatnonzero(numbers >= 0)
        if not len(kept):
            return found
        numbers = numbers[kept]
        self._reserve(int(numbers.max()) + 1)
        hour, revisions = int(now // HOUR), history.revisions(numbers, now)
        same = (self._hours[numbers] == hour) & (self._choices[numbers] == choice[kept])
        new = np.flatnonzero(~same | (self._revisions[numbers] != revisions).any(axis=1))
        for begin in range(0, len(new), _ROWS_AT_ONCE):
            part = new[begin : begin + _ROWS_AT_ONCE]
            self._columns[:, numbers[part]] = work(kept[part])
        self._hours[numbers], self._revisions[numbers], self._choices[numbers] = hour, revisions, choice[kept]
        found[:, kept] = self._columns[:, numbers]
        return found

    def _forget(self) -> None:
        self._hours: IntColumn = np.zeros(0, dtype=np.int64)
        self._choices: IntColumn = np.zeros(0, dtype=np.int64)
        self._revisions: IntColumn = np.zeros((0, 2), dtype=np.int64)
        self._columns: FloatColumn = np.zeros((self._width, 0))

    def _reserve(self, size: int) -> None:
        more = size - len(self._hours)
        if more > 0:
            more = max(more, len(self._hours) // 2)
            self._hours = np.append(self._hours, np.full(more, -1))
            self._choices = np.append(self._choices, np.zeros(more, dtype=np.int64))
            self._revisions = np.append(self._revisions, np.zeros((more, 2), dtype=np.int64), axis=0)
            self._columns = np.append(self._columns, np.zeros((self._width, more)), axis=1)
