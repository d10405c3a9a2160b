"""Which namespaces does Prometheus know of? Those with a series at any time of the history, not only now.

What runs at night has no samples by day, and what was just scaled down has a past that is worth reading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trellis.base.errors import PrometheusTooMuch
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.settings import PrometheusSettings


async def labels_over_history(
    client: PrometheusClient, settings: PrometheusSettings, metric: str, labels: Sequence[str], now: float
) -> Sequence[Mapping[str, str]]:
    """The different values of some labels of a metric; where that is too much to ask, those it has now."""
    by = f"group by ({', '.join(labels)})"
    try:
        answer = await client.query(f"{by} (last_over_time({metric}[{settings.history_length}]))", now)
    except PrometheusTooMuch:
        answer = await client.query(f"{by} ({metric})", now)
    return answer.labels
