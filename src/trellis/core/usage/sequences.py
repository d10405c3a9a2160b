"""What came before, where a batch has several samples of one container?

History comes as thousands of samples per container. They are not taken in one after the other: what each of them finds
is worked out for all at once.
"""

from __future__ import annotations

import numpy as np

from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.readings import Readings


def grouped(slots: IntColumn) -> IntColumn:
    """The places of a batch, those of one slot side by side and in the order in which they came."""
    return np.argsort(slots, kind="stable")


def begins(*columns: IntColumn) -> IntColumn:
    """Where a run of equal entries begins, in columns whose equal entries are side by side."""
    changed = np.zeros(len(columns[0]), dtype=np.bool_)
    changed[:1] = True
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changed)


def highest_before(slots: IntColumn, values: FloatColumn) -> FloatColumn:
    """The highest value that came before each in its slot, NaN for the first; `slots` are grouped."""
    found = np.full(len(slots), np.nan)
    starts = begins(slots)
    if len(starts) == len(slots):
        return found
    fallen = values[1:] < values[:-1]
    fallen[starts[1:] - 1] = False
    if not fallen.any():  # as samples nearly always come
        found[1:] = values[:-1]
        found[starts] = np.nan
        return found
    different, ranks = np.unique(values, return_inverse=True)
    # Whole numbers, so that one running maximum serves all groups: a later group is above all earlier ones.
    group = np.zeros(len(slots), dtype=np.int64)
    group[starts] = 1
    running = np.maximum.accumulate(np.cumsum(group) * len(different) + ranks)
    found[1:] = different[running[:-1] % len(different)]
    found[starts] = np.nan
    return found


def one_per_window(found: Readings, ends: FloatColumn, lengths: FloatColumn) -> Readings:
    """The highest value of each slot and memory window, at the time of its first: the others leave no trace.

    Readings are grouped by slot, their times ascending. `ends` is where the window of each reading's slot ends so far,
    NaN if it has none.
    """
    starts = begins(found.slots)
    if len(starts) == len(found.slots):
        return found
    first = np.repeat(found.times[starts], np.diff(starts, append=len(found.slots)))
    ends = np.where(np.isnan(ends), first, ends)
    window = np.where(found.times < ends, 0, np.trunc((found.times - ends) / lengths) + 1).astype(np.int64)
    starts = begins(found.slots, window)
    return found.at(starts)._replace(values=np.maximum.reduceat(found.values, starts))
