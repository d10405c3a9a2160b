"""What did containers use in the last days? Read at start, a bounded piece at a time, oldest first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from typing import Final, TypeAlias

import msgspec
import numpy as np

from trellis.base.errors import PrometheusTooMuch
from trellis.core.usage.samples import Samples
from trellis.sources.prometheus.answers import Answer
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.joining import join
from trellis.sources.prometheus.pieces import Piece, Pieces
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


class _Times(msgspec.Struct, frozen=True):
    """The times of which something is known: so many, a step apart."""

    start: float
    step: float
    count: int


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
    times = _times(settings, now)
    longest = int(seconds_of(settings.history_chunk) / times.step)
    pieces = Pieces(_groups(settings, namespaces), times.count, max(1, min(longest, _MOST_STEPS)))
    total, found, unread = pieces.size, 0, 0
    while piece := pieces.next():
        try:
            samples, unread_here = await _read(client, settings, piece, times)
        except PrometheusTooMuch:
            if not pieces.too_much():
                raise
            continue
        pieces.done()
        found, unread = found + len(samples), unread + unread_here
        if report:
            report(HistoryProgress(total - pieces.size, total, found, unread))
        if len(samples):
            yield samples


def _times(settings: PrometheusSettings, now: float) -> _Times:
    """Upstream's: from now as far back as history goes, both ends included."""
    length, step = seconds_of(settings.history_length), seconds_of(settings.history_resolution)
    return _Times(now - length, step, int(length / step) + 1)


def _groups(settings: PrometheusSettings, namespaces: Collection[str] | None) -> Sequence[tuple[str, ...] | None]:
    if namespaces is None:
        return [None]
    return namespace_groups(namespaces, settings.prometheus_namespaces_per_query)


async def _read(
    client: PrometheusClient, settings: PrometheusSettings, piece: Piece, times: _Times
) -> tuple[Samples, int]:
    start = times.start + piece.first * times.step
    end = start + (piece.steps - 1) * times.step
    cpu = cpu_query(settings, piece.namespaces, settings.history_resolution)
    memory = memory_query(settings, piece.namespaces)
    answers = [await client.query_range(query, start, end, times.step) for query in (cpu, memory)]
    return await asyncio.to_thread(_joined, answers, container_labels(settings), start, times.step)


def _joined(answers: Sequence[Answer], labels: tuple[str, str, str], start: float, step: float) -> tuple[Samples, int]:
    joined = join(answers, labels, start, step)
    cpu, memory = joined.columns
    return joined.samples(start + joined.ticks.astype(np.float64) * step, cpu, memory), joined.unread
