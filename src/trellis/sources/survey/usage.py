"""What did the containers of a namespace use? Asked of Prometheus in as few queries as it can answer.

One query has all containers of a namespace for as long a time as makes an answer of moderate length; where that is too
much, half of it is next. What came is counted at once and then forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from trellis.core.advice.counting import NamespaceUsage
from trellis.core.advice.kept import KeptNamespace
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.history import Times, read_pieces
from trellis.sources.prometheus.queries import container_labels, cpu_query, memory_peak_query
from trellis.sources.prometheus.settings import PrometheusSettings, seconds_of

# Samples of one resource in an answer, if there are as many containers as were thought: 15 MB of text.
_SAMPLES_AT_ONCE: Final = 500_000


class UsageProgress(msgspec.Struct, frozen=True):
    """How far one namespace is, in steps of time, and the samples there were."""

    done: int
    total: int
    samples: int


Report: TypeAlias = Callable[[UsageProgress], None]


async def read_usage(
    client: PrometheusClient,
    settings: PrometheusSettings,
    counting: NamespaceUsage,
    namespace: str,
    *,
    containers: int,
    now: float,
    report: Report,
) -> KeptNamespace:
    """All of a namespace, where about so many containers run; raises `PrometheusError`."""
    times = Times.until(now, settings)
    most = min(_SAMPLES_AT_ONCE / max(1, containers), seconds_of(settings.history_chunk) / times.step)
    pieces = times.pieces([(namespace,)], most)
    total, samples = pieces.size, 0

    def queries(some: tuple[str, ...] | None) -> tuple[str, str]:
        step = settings.history_resolution
        return cpu_query(settings, some, step), memory_peak_query(settings, some, step)

    async for read in read_pieces(client, pieces, times, queries, container_labels(settings)):
        joined, measured = read.joined, read.measured
        names = [(pod, container) for _, pod, container in joined.containers]
        await asyncio.to_thread(counting.take_in, names, joined.rows, measured, now)
        samples += joined.size
        report(UsageProgress(total - pieces.size, total, samples))
    rows = await asyncio.to_thread(counting.rows, now)
    return KeptNamespace(namespace, tuple(rows), samples, counting.series, counting.totals())
