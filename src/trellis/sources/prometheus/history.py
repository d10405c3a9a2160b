"""What did containers use in the last days? Read at start, a bounded piece at a time, oldest first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np

from trellis.base.errors import PrometheusTooMuch
from trellis.core.usage.columns import FloatColumn
from trellis.core.usage.samples import Measured, Samples
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.joining import Joined, join
from trellis.sources.prometheus.pieces import Pieces
from trellis.sources.prometheus.queries import container_labels, cpu_query, memory_query, namespace_groups
from trellis.sources.prometheus.settings import PrometheusSettings, seconds_of

# Prometheus answers no query with more than 11,000 points to a series.
_MOST_STEPS: Final = 10_000


class HistoryProgress(msgspec.Struct, frozen=True):
    """How far reading has come: `done` of `total`, in steps times namespaces, and the samples so far.

    `unread` counts the series that do not say of which container they are.
    """

    done: int
    total: int
    samples: int
    unread: int


Report: TypeAlias = Callable[[HistoryProgress], None]


class Times(msgspec.Struct, frozen=True):
    """The times of which something is known: so many, a step apart."""

    start: float
    step: float
    count: int

    @classmethod
    def until(cls, now: float, settings: PrometheusSettings) -> Times:
        """Upstream's: from now as far back as history goes, both ends included."""
        length, step = seconds_of(settings.history_length), seconds_of(settings.history_resolution)
        return cls(now - length, step, int(length / step) + 1)

    def pieces(self, groups: Sequence[tuple[str, ...] | None], longest: float) -> Pieces:
        """Where to begin: pieces of at most so many steps."""
        return Pieces(groups, self.count, max(1, int(min(longest, _MOST_STEPS))))


class Read(msgspec.Struct, frozen=True):
    """A piece that was read: CPU and memory of containers side by side, and when that was."""

    joined: Joined
    times: FloatColumn

    @property
    def measured(self) -> Measured:
        """What was measured, entry by entry."""
        cpu, memory = self.joined.columns
        return Measured(self.times, cpu, memory)


# What to ask about some namespaces, all if None: CPU first, then memory.
Queries: TypeAlias = Callable[[tuple[str, ...] | None], tuple[str, str]]


async def history(
    client: PrometheusClient,
    settings: PrometheusSettings,
    namespaces: Collection[str] | None,
    now: float,
    report: Report | None = None,
) -> AsyncIterator[Samples]:
    """Samples of all containers of these namespaces, of all namespaces if None, ascending in time for each container.

    Raises `PrometheusError`. What was yielded before is sound: of each container all there is up to some time.
    """
    times = Times.until(now, settings)
    pieces = times.pieces(_groups(settings, namespaces), seconds_of(settings.history_chunk) / times.step)
    total, found, unread = pieces.size, 0, 0

    def queries(some: tuple[str, ...] | None) -> tuple[str, str]:
        return cpu_query(settings, some, settings.history_resolution), memory_query(settings, some)

    async for read in read_pieces(client, pieces, times, queries, container_labels(settings)):
        found, unread = found + len(read.times), unread + read.joined.unread
        if report:
            report(HistoryProgress(total - pieces.size, total, found, unread))
        if len(read.times):
            cpu, memory = read.joined.columns
            yield await asyncio.to_thread(read.joined.samples, read.times, cpu, memory)


async def read_pieces(
    client: PrometheusClient, pieces: Pieces, times: Times, queries: Queries, labels: tuple[str, str, str]
) -> AsyncIterator[Read]:
    """Piece by piece, smaller ones where one is too much; raises `PrometheusError`."""
    while piece := pieces.next():
        start = times.start + piece.first * times.step
        end = start + (piece.steps - 1) * times.step
        try:
            answers = [await client.query_range(each, start, end, times.step) for each in queries(piece.namespaces)]
        except PrometheusTooMuch:
            if not pieces.too_much():
                raise
            continue
        pieces.done()
        joined = await asyncio.to_thread(join, answers, labels, start, times.step)
        del answers  # as long as what was made of them
        yield Read(joined, start + joined.ticks.astype(np.float64) * times.step)


def _groups(settings: PrometheusSettings, namespaces: Collection[str] | None) -> Sequence[tuple[str, ...] | None]:
    if namespaces is None:
        return [None]
    return namespace_groups(namespaces, settings.prometheus_namespaces_per_query)
