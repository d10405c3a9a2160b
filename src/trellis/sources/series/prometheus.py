"""Reads series from Prometheus: one for each container of each pod of the requested namespaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

import numpy as np

from trellis.base.errors import InvalidSeries
from trellis.core.usage.columns import FloatColumn
from trellis.core.usage.samples import Samples
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.history import HistoryProgress, read_history
from trellis.sources.prometheus.labels import query_label_values
from trellis.sources.prometheus.settings import PrometheusSettings
from trellis.sources.series.series import ContainerIdentity, Series
from trellis.sources.series.tables import LoadedSeries

_LEAST_SAMPLES = 2


async def read_prometheus(
    client: PrometheusClient,
    settings: PrometheusSettings,
    patterns: Sequence[str],
    now: float,
    report: Callable[[HistoryProgress], None] | None = None,
) -> LoadedSeries:
    """Series of the namespaces that match a pattern, or of all, over the history length in the settings."""
    address = settings.prometheus_address
    namespaces = await _find_namespaces(client, settings, patterns, now) if patterns else None
    if namespaces is not None and not namespaces:
        raise InvalidSeries(address, f"has no containers in a namespace that matches {', '.join(patterns)}")
    parts = [part async for part in read_history(client, settings, namespaces, now, report)]
    if not parts:
        raise InvalidSeries(address, "has no containers; check the names of metrics and labels, and the job")
    return _group_by_container(Samples.concatenate(parts), address)


async def _find_namespaces(
    client: PrometheusClient, settings: PrometheusSettings, patterns: Sequence[str], now: float
) -> list[str]:
    label = settings.container_namespace_label
    label_sets = await query_label_values(client, settings, settings.history_memory_metric, [label], now)
    names = {labels.get(label, "") for labels in label_sets} - {""}
    return sorted(name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns))


def _group_by_container(samples: Samples, source: str) -> LoadedSeries:
    """Samples grouped by container; those of a container keep the order of their times."""
    places: dict[tuple[str, str, str], list[int]] = {}
    for place, key in enumerate(zip(samples.namespaces, samples.pods, samples.containers, strict=True)):
        places.setdefault(key, []).append(place)
    loaded = LoadedSeries([], [], [])
    for (namespace, pod, container), positions in sorted(places.items()):
        name = f"{namespace}/{pod}/{container}"
        if len(positions) < _LEAST_SAMPLES:
            loaded.problems.append(InvalidSeries(source, f"series {name} has fewer than two samples"))
        else:
            cpu, memory = _drop_negative(samples.cpu[positions]), _drop_negative(samples.memory[positions])
            identity = ContainerIdentity(namespace=namespace, pod=pod, container=container)
            loaded.series.append(Series(name, samples.times[positions], cpu, memory, source, identity=identity))
    return loaded


def _drop_negative(values: FloatColumn) -> FloatColumn:
    """Drop negative values, which a reset of a counter may lead to."""
    return np.where(values < 0, np.nan, values)
