"""What has been worked out of a row's runs already?

An answer stays the same until something of the row's runs has changed, another pod has started, or the run is in
another place of time. Between two runs that can be days.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from trellis.core.recommend.coming_phases import TOO_FEW, Coming
from trellis.core.recommend.protocol import Rows
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.runs import Runs

Work: TypeAlias = Callable[[IntColumn], Coming]

_ROWS_AT_ONCE = 512  # 40 KB each are worked with
_BOUNDS = 6
_WIDTH = _BOUNDS + 6


class PhaseWork:
    """Answers, by the number that a row has in the memory of runs."""

    def __init__(self) -> None:
        self._runs: Runs | None = None
        self._forget()

    def done(self, rows: Rows, now: float, work: Work) -> Coming:
        """The answers for all rows: `work` is asked for positions where something is new."""
        runs, numbers = rows.usage.runs, rows.usage.run_rows
        if runs is not self._runs:
            self._runs = runs
            self._forget()
        kept = np.flatnonzero(numbers >= 0)
        found = _nothing(len(rows))
        if not len(kept):
            return found
        numbers = numbers[kept]
        self._reserve(int(numbers.max()) + 1)
        revisions, started = runs.revisions(numbers), rows.started[kept]
        same = (self._revisions[numbers] == revisions) & ~(now < self._since[numbers]) & (now < self._until[numbers])
        same &= (self._started[numbers] == started) | (np.isnan(self._started[numbers]) & np.isnan(started))
        new = np.flatnonzero(~same)
        for begin in range(0, len(new), _ROWS_AT_ONCE):
            part = new[begin : begin + _ROWS_AT_ONCE]
            self._columns[:, numbers[part]] = _packed(work(kept[part]))
        self._revisions[numbers[new]], self._started[numbers[new]] = revisions[new], started[new]
        self._since[numbers[new]], self._until[numbers[new]] = now, self._columns[-1, numbers[new]]
        return _unpacked(self._columns[:, numbers], kept, found)

    def _forget(self) -> None:
        self._revisions: IntColumn = np.zeros(0, dtype=np.int64)
        self._started: FloatColumn = np.zeros(0)
        self._since: FloatColumn = np.zeros(0)
        self._until: FloatColumn = np.zeros(0)
        self._columns: FloatColumn = np.zeros((_WIDTH, 0))

    def _reserve(self, size: int) -> None:
        more = size - len(self._revisions)
        if more > 0:
            more = max(more, len(self._revisions) // 2)
            self._revisions = np.append(self._revisions, np.full(more, -1))
            self._started = np.append(self._started, np.full(more, np.nan))
            self._since = np.append(self._since, np.full(more, np.inf))
            self._until = np.append(self._until, np.full(more, -np.inf))
            self._columns = np.append(self._columns, np.zeros((_WIDTH, more)), axis=1)


def _nothing(rows: int) -> Coming:
    """What is said of rows that remember no runs."""
    return Coming(
        bounds=np.full((3, 2, rows), np.nan),
        why=np.full(rows, TOO_FEW),
        runs=np.zeros(rows, dtype=np.int64),
        alike=np.zeros(rows, dtype=np.int64),
        phase=np.zeros(rows, dtype=np.int64),
        rise=np.full(rows, np.nan),
        until=np.full(rows, np.inf),
    )


def _packed(found: Coming) -> FloatColumn:
    counts = (found.why, found.runs, found.alike, found.phase)
    return np.concatenate(
        [found.bounds.reshape(_BOUNDS, -1), *(each[np.newaxis] for each in (*counts, found.rise, found.until))]
    )


def _unpacked(columns: FloatColumn, kept: IntColumn, into: Coming) -> Coming:
    into.bounds[:, :, kept] = columns[:_BOUNDS].reshape(3, 2, -1)
    for column, values in zip(into[1:], columns[_BOUNDS:], strict=True):
        column[kept] = values
    return into
