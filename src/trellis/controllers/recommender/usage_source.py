"""Sources of live usage: metrics.k8s.io, external metrics or Prometheus, as the settings say.

A source that does not respond is counted and logged, and the pass goes on without new samples.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

from trellis.base.errors import KubeError, PrometheusError
from trellis.base.selectors import Selector
from trellis.controllers.recommender.metrics import (
    CLIENT_NAME,
    PROMETHEUS_REQUESTS,
    PROMETHEUS_SECONDS,
    RESPONSES,
    SAMPLES,
)
from trellis.controllers.recommender.settings import RecommenderSettings
from trellis.core.cluster.store import ObjectKey
from trellis.core.usage.samples import Samples
from trellis.kube.client import Client
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics
from trellis.sources.external_metrics import ExternalMetrics, ExternalQuery
from trellis.sources.metrics_api import MetricsApi
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.live_usage import read_newest
from trellis.sources.prometheus.settings import PrometheusSettings

# The namespace of a request for all of them.
ALL_NAMESPACES: Final = ""

_log: Final = Logger("trellis.recommender")


class UsageScope(Protocol):
    """The VPAs whose usage is fetched, as far as sources need them."""

    def list_namespaces(self) -> Sequence[str]:
        """The namespaces of served VPAs."""

    def list_selectors(self) -> Sequence[tuple[ObjectKey, Selector, tuple[str, ...]]]:
        """The VPAs that govern pods, with their selectors and the names of the pods."""


class UsageSource(Protocol):
    """A source of the newest samples."""

    async def fetch(self, scope: UsageScope, now: float) -> Samples:
        """The newest samples; none if the source does not respond."""


@asynccontextmanager
async def open_usage_source(
    client: Client, settings: RecommenderSettings, metrics: Metrics
) -> AsyncIterator[UsageSource]:
    """The source that the settings name."""
    response_metrics = _ResponseMetrics(metrics)
    live = settings.live
    if live.use_external_metrics:
        yield _ExternalMetricsSource(
            ExternalMetrics(
                client,
                cpu_metric=live.external_metrics_cpu_metric,
                memory_metric=live.external_metrics_memory_metric,
                container_label=settings.prometheus.container_name_label,
            ),
            response_metrics,
        )
    elif settings.prometheus.prometheus_live:
        async with PrometheusClient(settings.prometheus, observe=create_prometheus_observer(metrics)) as prometheus:
            yield _PrometheusSource(prometheus, settings.prometheus, response_metrics)
    else:
        namespaces = settings.scope.vpa_object_namespace or (ALL_NAMESPACES,)
        yield _MetricsApiSource([MetricsApi(client, name) for name in namespaces], response_metrics)


def create_prometheus_observer(metrics: Metrics) -> Callable[[str, str, float], None]:
    """Counts and times requests to Prometheus."""

    def observe(code: str, method: str, seconds: float) -> None:
        metrics.add(PROMETHEUS_REQUESTS, 1, code, method)
        metrics.observe(PROMETHEUS_SECONDS, seconds, code, method)

    return observe


class _ResponseMetrics:
    """Counts responses of a source, and unreadable entries."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        for is_error in ("true", "false"):
            metrics.add(RESPONSES, 0, is_error, CLIENT_NAME)

    def count_response(self, problem: object = None) -> None:
        """Count a response, or the problem if there was none."""
        self._metrics.add(RESPONSES, 1, "false" if problem is None else "true", CLIENT_NAME)
        if problem is not None:
            _log.error("no new usage samples in this pass", why=problem)

    def count_unread(self, counts: dict[str, int]) -> None:
        """Entries that could not be read, by reason."""
        for code, number in counts.items():
            self._metrics.add(SAMPLES, number, code)
        if counts:
            _log.warning("some usage samples are invalid", counts=counts)


class _MetricsApiSource:
    """metrics.k8s.io of all namespaces, or of each that is named: one that fails takes no usage from the others."""

    def __init__(self, sources: Sequence[MetricsApi], counted: _ResponseMetrics) -> None:
        self._sources = sources
        self._counted = counted

    async def fetch(self, scope: UsageScope, now: float) -> Samples:  # noqa: ARG002 - it returns all pods
        first, *others = await asyncio.gather(*map(self._fetch, self._sources))
        return Samples.concatenate([first, *others]) if others else first

    async def _fetch(self, source: MetricsApi) -> Samples:
        try:
            batch = await source.fetch()
        except KubeError as error:
            self._counted.count_response(error)
            return Samples.empty()
        self._counted.count_response()
        self._counted.count_unread(dict(batch.unread))
        return batch.samples


class _ExternalMetricsSource:
    def __init__(self, source: ExternalMetrics, counted: _ResponseMetrics) -> None:
        self._source = source
        self._counted = counted

    async def fetch(self, scope: UsageScope, now: float) -> Samples:  # noqa: ARG002 - responses have their times
        queries = [ExternalQuery(*key, selector, pods) for key, selector, pods in scope.list_selectors()]
        batch = await self._source.fetch(queries)
        for problem in batch.problems:
            self._counted.count_response(f"{problem.namespace}/{problem.vpa}: {problem.metric}: {problem.message}")
        if not batch.problems:
            self._counted.count_response()
        self._counted.count_unread(dict(batch.unread))
        return batch.samples


class _PrometheusSource:
    def __init__(self, client: PrometheusClient, settings: PrometheusSettings, counted: _ResponseMetrics) -> None:
        self._client = client
        self._settings = settings
        self._counted = counted

    async def fetch(self, scope: UsageScope, now: float) -> Samples:
        try:
            samples = await read_newest(self._client, self._settings, scope.list_namespaces(), now)
        except PrometheusError as error:
            self._counted.count_response(error)
            return Samples.empty()
        self._counted.count_response()
        return samples
