"""Caches of what recommenders compute from history, and the daily slot of each row.

History changes once an hour, when another hour is over, while recommenders run every minute. So what is computed from
it is cached until the hour is over or something in the row's history has changed, whichever comes first.

There is one cache for each setting that VPAs have. Most VPAs have the defaults, a few something of their own. Beyond a
limit of settings all caches are cleared: that costs time, and memory stays bounded.

What is computed once a day is computed for each row at an hour of its own, by its name, so that the work is spread.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Final, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from trellis.core.recommend.protocol import Rows
from trellis.core.usage.columns import FloatColumn, IntColumn, RowKey
from trellis.core.usage.history.hourly import HourlyHistory
from trellis.core.usage.history.hours import HOUR

_MOST_SETTINGS: Final = 32

SettingT = TypeVar("SettingT", bound=Hashable)
CachedT = TypeVar("CachedT")
ItemT = TypeVar("ItemT", bound=np.generic)


def grow_column(column: npt.NDArray[ItemT], size: int, fill: float, axis: int = -1) -> npt.NDArray[ItemT]:
    """A column with places for at least `rows` rows, and half as many again where it grows; new ones hold `fill`."""
    length = column.shape[axis]
    if size <= length:
        return column
    shape = list(column.shape)
    shape[axis] = max(size - length, length // 2)
    return np.append(column, np.full(shape, fill, dtype=column.dtype), axis=axis)


class SettingsCache(Generic[SettingT, CachedT]):
    """One cached value per setting, created by a function of it."""

    def __init__(self, make: Callable[[SettingT], CachedT]) -> None:
        self._make = make
        self._by_setting: dict[SettingT, CachedT] = {}

    def get(self, setting: SettingT) -> CachedT:
        """The value of a setting."""
        if setting not in self._by_setting:
            if len(self._by_setting) >= _MOST_SETTINGS:
                self._by_setting.clear()
            self._by_setting[setting] = self._make(setting)
        return self._by_setting[setting]


_ROWS_AT_ONCE = 256  # 34 KB each are read: more would not stay in the processor's caches

ComputeColumns = Callable[[IntColumn], FloatColumn]


class HourlyCache:
    """Columns (width, rows) that depend on the history of each row, on the hour, and on a choice that can be named."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._history: HourlyHistory | None = None
        self._reset()

    def get_columns(self, rows: Rows, now: float, choice: IntColumn, compute: ComputeColumns) -> FloatColumn:
        """The columns of all rows; those of positions that changed come from `compute`. NaN without history."""
        history, numbers = rows.usage.history, rows.usage.history_rows
        if history is not self._history:
            self._history = history
            self._reset()
        columns = np.full((self._width, len(rows)), np.nan)
        with_history = np.flatnonzero(numbers >= 0)
        if not len(with_history):
            return columns
        numbers = numbers[with_history]
        self._reserve(int(numbers.max()) + 1)
        hour, revisions = int(now // HOUR), history.revisions(numbers, now)
        same = (self._hours[numbers] == hour) & (self._choices[numbers] == choice[with_history])
        new = np.flatnonzero(~same | (self._revisions[numbers] != revisions).any(axis=1))
        for begin in range(0, len(new), _ROWS_AT_ONCE):
            part = new[begin : begin + _ROWS_AT_ONCE]
            self._columns[:, numbers[part]] = compute(with_history[part])
        self._hours[numbers], self._revisions[numbers], self._choices[numbers] = hour, revisions, choice[with_history]
        columns[:, with_history] = self._columns[:, numbers]
        return columns

    def _reset(self) -> None:
        self._hours: IntColumn = np.zeros(0, dtype=np.int64)
        self._choices: IntColumn = np.zeros(0, dtype=np.int64)
        self._revisions: IntColumn = np.zeros((0, 2), dtype=np.int64)
        self._columns: FloatColumn = np.zeros((self._width, 0))

    def _reserve(self, size: int) -> None:
        self._hours = grow_column(self._hours, size, -1)
        self._choices = grow_column(self._choices, size, 0)
        self._revisions = grow_column(self._revisions, size, 0, axis=0)
        self._columns = grow_column(self._columns, size, 0.0)


_HOURS_PER_DAY = 24


def find_daily_slots(rows: Rows, now: float, positions: IntColumn | None = None) -> tuple[IntColumn, IntColumn]:
    """The hour of each row's last moment, since the epoch, and a number for its name."""
    keys = rows.keys if positions is None else [rows.keys[position] for position in positions.tolist()]
    names = np.array([_hash_key(key) for key in keys], dtype=np.int64)
    hour = int(now // HOUR)
    return hour - (hour - names) % _HOURS_PER_DAY, names


@lru_cache(maxsize=1 << 17)
def _hash_key(key: RowKey) -> int:
    return zlib.crc32("/".join(key).encode())
