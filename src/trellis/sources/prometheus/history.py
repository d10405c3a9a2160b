"""Reads the usage of the last days, a bounded window at a time, oldest first.

A window is some steps of time for a group of namespaces. If a window is too much, half of it is next: half the
time, and when only one step is left half the namespaces. Each group begins anew with the full length, since one
large namespace says nothing about the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np

from trellis.base.errors import PrometheusLimitExceeded
from trellis.core.usage.columns import FloatColumn
from trellis.core.usage.samples import Measurements, Samples
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.queries import (
    build_cpu_query,
    build_memory_query,
    get_container_labels,
    group_namespaces,
)
from trellis.sources.prometheus.samples import JoinedSeries, join_results
from trellis.sources.prometheus.settings import PrometheusSettings, duration_seconds


class QueryWindow(msgspec.Struct, frozen=True):
    """The steps `first` to `first + steps - 1` for these namespaces, for all if None."""

    namespaces: tuple[str, ...] | None
    first: int
    steps: int

    @property
    def size(self) -> int:
        """Steps times namespaces; all namespaces count as one."""
        return self.steps * (len(self.namespaces) if self.namespaces is not None else 1)


class QueryWindows:
    """The windows still to query. Those of a namespace come in the order of time, each once."""

    def __init__(self, groups: Iterable[tuple[str, ...] | None], steps: int, longest: int) -> None:
        self._last = steps
        self._longest = longest
        self._waiting = deque(QueryWindow(group, 0, steps) for group in groups)
        self._steps = longest

    @property
    def size(self) -> int:
        """The size of the remaining windows."""
        return sum(window.size for window in self._waiting)

    def next(self) -> QueryWindow | None:
        """The window to query next; None if all are read."""
        if not self._waiting:
            return None
        window = self._waiting[0]
        return QueryWindow(window.namespaces, window.first, min(self._steps, window.steps))

    def mark_read(self) -> None:
        """Mark the next window as read."""
        window = self._waiting.popleft()
        read = min(self._steps, window.steps)
        if read < window.steps:
            self._waiting.appendleft(QueryWindow(window.namespaces, window.first + read, window.steps - read))
        else:
            self._steps = self._longest

    def halve(self) -> bool:
        """Halve the next window; returns whether it could be halved."""
        window = self._waiting[0]
        steps = min(self._steps, window.steps)
        if steps > 1:
            self._steps = steps // 2
            return True
        if window.namespaces is None or len(window.namespaces) < 2:
            return False
        middle = len(window.namespaces) // 2
        self._waiting.popleft()
        for part in (window.namespaces[middle:], window.namespaces[:middle]):
            self._waiting.appendleft(QueryWindow(part, window.first, window.steps))
        self._steps = self._longest
        return True


# Prometheus refuses queries with more than 11,000 points per series.
_MOST_STEPS: Final = 10_000


class HistoryProgress(msgspec.Struct, frozen=True):
    """The progress of reading: `done` of `total`, in steps times namespaces, and the samples so far.

    `unread` counts the series that do not say of which container they are.
    """

    done: int
    total: int
    samples: int
    unread: int


ReportHistory: TypeAlias = Callable[[HistoryProgress], None]


class TimeGrid(msgspec.Struct, frozen=True):
    """The times of samples: `count` of them, `step` seconds apart."""

    start: float
    step: float
    count: int

    @classmethod
    def until(cls, now: float, settings: PrometheusSettings) -> TimeGrid:
        """Upstream's: from now as far back as history goes, both ends included."""
        length, step = duration_seconds(settings.history_length), duration_seconds(settings.history_resolution)
        return cls(now - length, step, int(length / step) + 1)

    def split_into_windows(self, groups: Sequence[tuple[str, ...] | None], longest: float) -> QueryWindows:
        """Windows of at most `steps` steps."""
        return QueryWindows(groups, self.count, max(1, int(min(longest, _MOST_STEPS))))


class WindowUsage(msgspec.Struct, frozen=True):
    """The usage read from one window: CPU and memory of containers side by side, and the times."""

    joined: JoinedSeries
    times: FloatColumn

    @property
    def measured(self) -> Measurements:
        """The measurements, entry by entry."""
        cpu, memory = self.joined.columns
        return Measurements(self.times, cpu, memory)


# Builds the queries of CPU and memory for some namespaces, all if None.
BuildQueries: TypeAlias = Callable[[tuple[str, ...] | None], tuple[str, str]]


async def read_history(
    client: PrometheusClient,
    settings: PrometheusSettings,
    namespaces: Collection[str] | None,
    now: float,
    report: ReportHistory | None = None,
) -> AsyncIterator[Samples]:
    """Samples of all containers of these namespaces, of all namespaces if None, ascending in time for each container.

    Raises `PrometheusError`. What was yielded before is sound: of each container all there is up to some time.
    """
    times = TimeGrid.until(now, settings)
    windows = times.split_into_windows(
        _group_namespaces(settings, namespaces), duration_seconds(settings.history_chunk) / times.step
    )
    total, samples, unread = windows.size, 0, 0

    def queries(group: tuple[str, ...] | None) -> tuple[str, str]:
        return build_cpu_query(settings, group, settings.history_resolution), build_memory_query(settings, group)

    async for read in read_windows(client, windows, times, queries, get_container_labels(settings)):
        samples, unread = samples + len(read.times), unread + read.joined.unread
        if report:
            report(HistoryProgress(total - windows.size, total, samples, unread))
        if len(read.times):
            cpu, memory = read.joined.columns
            yield await asyncio.to_thread(read.joined.build_samples, read.times, cpu, memory)


async def read_windows(
    client: PrometheusClient,
    windows: QueryWindows,
    times: TimeGrid,
    queries: BuildQueries,
    labels: tuple[str, str, str],
) -> AsyncIterator[WindowUsage]:
    """Piece by piece, smaller ones where one is too much; raises `PrometheusError`."""
    while window := windows.next():
        start = times.start + window.first * times.step
        end = start + (window.steps - 1) * times.step
        try:
            results = [await client.query_range(query, start, end, times.step) for query in queries(window.namespaces)]
        except PrometheusLimitExceeded:
            if not windows.halve():
                raise
            continue
        windows.mark_read()
        joined = await asyncio.to_thread(join_results, results, labels, start, times.step)
        del results  # as long as what was made of them
        yield WindowUsage(joined, start + joined.ticks.astype(np.float64) * times.step)


def _group_namespaces(
    settings: PrometheusSettings, namespaces: Collection[str] | None
) -> Sequence[tuple[str, ...] | None]:
    if namespaces is None:
        return [None]
    return group_namespaces(namespaces, settings.prometheus_namespaces_per_query)
