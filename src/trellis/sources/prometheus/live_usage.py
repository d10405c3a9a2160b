"""Reads the newest sample of each container, with the time it was taken.

The time of a response is that of the query, and would make a new sample of an old one each time. So Prometheus is
also asked when it last heard of a container; the same time again is the same sample again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Sequence

import numpy as np

from trellis.base.errors import PrometheusLimitExceeded
from trellis.core.usage.samples import Samples
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.queries import (
    build_cpu_query,
    build_memory_query,
    build_memory_time_query,
    get_container_labels,
    group_namespaces,
)
from trellis.sources.prometheus.responses import QueryResult
from trellis.sources.prometheus.samples import join_results
from trellis.sources.prometheus.settings import PrometheusSettings


async def read_newest(
    client: PrometheusClient, settings: PrometheusSettings, namespaces: Collection[str] | None, now: float
) -> Samples:
    """One sample of each container of these namespaces, of all namespaces if None; raises `PrometheusError`."""
    groups: Sequence[tuple[str, ...] | None] = [None]
    if namespaces is not None:
        groups = group_namespaces(namespaces, settings.prometheus_namespaces_per_query)
    waiting, batches = deque(groups), []
    while waiting:
        group = waiting.popleft()
        try:
            batches.append(await _read_group(client, settings, group, now))
        except PrometheusLimitExceeded:
            if group is None or len(group) < 2:
                raise
            middle = len(group) // 2
            waiting.extendleft((group[middle:], group[:middle]))
    return Samples.concatenate(batches)


async def _read_group(
    client: PrometheusClient, settings: PrometheusSettings, namespaces: tuple[str, ...] | None, now: float
) -> Samples:
    queries = (
        build_cpu_query(settings, namespaces, settings.prometheus_live_window),
        build_memory_query(settings, namespaces),
        build_memory_time_query(settings, namespaces),
    )
    results = [await client.query(query, now) for query in queries]
    return await asyncio.to_thread(_join, results, get_container_labels(settings), now)


def _join(results: Sequence[QueryResult], labels: tuple[str, str, str], now: float) -> Samples:
    joined = join_results(results, labels, now, 1.0)
    cpu, memory, measured = joined.columns
    return joined.build_samples(np.where(np.isnan(measured), now, measured), cpu, memory)
