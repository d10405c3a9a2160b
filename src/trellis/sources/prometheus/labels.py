"""Reads label values over the history, and the labels of pods that may be deleted.

Label values are those with a series at any time of the history, not only now: what runs at night has no samples by
day, and what was just scaled down has a past that is worth reading.

For the labels of pods upstream takes a matrix alone, which its own default query does not give, and then throws all
history away. Here a vector will do as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trellis.base.errors import PrometheusLimitExceeded
from trellis.core.cluster.past_pods import PodLabels
from trellis.core.usage.columns import FloatColumn
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.responses import QueryResult
from trellis.sources.prometheus.settings import PrometheusSettings


async def query_label_values(
    client: PrometheusClient, settings: PrometheusSettings, metric: str, labels: Sequence[str], now: float
) -> Sequence[Mapping[str, str]]:
    """The different values of some labels of a metric; where that is too much to ask, those it has now."""
    grouping = f"group by ({', '.join(labels)})"
    try:
        result = await client.query(f"{grouping} (last_over_time({metric}[{settings.history_length}]))", now)
    except PrometheusLimitExceeded:
        result = await client.query(f"{grouping} ({metric})", now)
    return result.labels


async def query_pod_labels(client: PrometheusClient, settings: PrometheusSettings, now: float) -> PodLabels:
    """Labels by namespace and name of the pod; raises `PrometheusError`. Where they changed, the newest count."""
    query = settings.metric_for_pod_labels.strip()
    if not query:
        return {}
    try:
        result = await client.query(query, now)
    except PrometheusLimitExceeded:
        if not query.endswith("]"):
            raise
        # A range has every single sample in it. The last of each series has the same labels.
        result = await client.query(f"last_over_time({query})", now)
    return read_pod_labels(result, settings)


def read_pod_labels(result: QueryResult, settings: PrometheusSettings) -> PodLabels:
    """The labels without their prefix. A series that does not name a pod says nothing."""
    prefix = settings.pod_label_prefix
    labels_by_pod: dict[tuple[str, str], dict[str, str]] = {}
    newest_times: dict[tuple[str, str], float] = {}
    for labels, time in zip(result.labels, _find_newest_times(result).tolist(), strict=True):
        pod = (labels.get(settings.pod_namespace_label, ""), labels.get(settings.pod_name_label, ""))
        if not all(pod) or time < newest_times.get(pod, time):
            continue
        newest_times[pod] = time
        labels_by_pod[pod] = {
            name.removeprefix(prefix): value for name, value in labels.items() if name.startswith(prefix)
        }
    return labels_by_pod


def _find_newest_times(result: QueryResult) -> FloatColumn:
    """The time of each series' last sample; of one without samples, before all others."""
    newest = np.full(len(result.labels), -np.inf)
    filled = result.counts > 0
    newest[filled] = result.times[np.cumsum(result.counts)[filled] - 1]
    return newest
