"""Where is the Prometheus of a cluster? Its Service has labels by which everybody who installs one is known.

What keeps metrics for long is asked first: Thanos, VictoriaMetrics and Mimir usually stand in front of several
Prometheus. The first that answers and knows containers is the one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from trellis.api.kube.meta import KubeObject
from trellis.api.kube.slices import Slice
from trellis.base.errors import InvalidInput, KubeError, PrometheusError
from trellis.kube.client import Client
from trellis.kube.resources import Resource
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.settings import PrometheusSettings
from trellis.sources.survey.proxied import Place, ProxiedPrometheus


class ServicePort(Slice, frozen=True):
    """A port of a Service."""

    name: str = ""
    port: int = 0


class ServiceSpec(Slice, frozen=True):
    """The ports."""

    ports: tuple[ServicePort, ...] = ()


class Service(KubeObject, frozen=True):
    """As much of a Service as reaching it takes."""

    spec: ServiceSpec = ServiceSpec()


SERVICES: Final = Resource("", "v1", "services", "Service", True, Service)


class Sort(msgspec.Struct, frozen=True):
    """One sort of server: the labels of its Services, any of these sets, and below which path its API is."""

    name: str
    labels: tuple[Mapping[str, str], ...]
    path: str = ""


_NAME, _COMPONENT = "app.kubernetes.io/name", "app.kubernetes.io/component"
SORTS: Final = (
    Sort(
        "Thanos",
        (
            {_NAME: "thanos", _COMPONENT: "query-frontend"},
            {_NAME: "thanos", _COMPONENT: "query"},
            {_NAME: "thanos-query"},
            {"app": "thanos-query"},
            {"app": "thanos-querier"},
        ),
    ),
    Sort(
        "VictoriaMetrics",
        (
            {_NAME: "vmsingle"},
            {_NAME: "victoria-metrics-single"},
            {"app.kubernetes.io/name": "victoria-metrics", "app": "server"},
        ),
    ),
    Sort(
        "VictoriaMetrics",
        ({_NAME: "vmselect"}, {_NAME: "victoria-metrics-cluster", "app": "vmselect"}),
        "/select/0/prometheus",
    ),
    Sort(
        "Mimir",
        (
            {_NAME: "mimir", _COMPONENT: "query-frontend"},
            {_NAME: "mimir", _COMPONENT: "nginx"},
            {_NAME: "mimir", _COMPONENT: "gateway"},
        ),
        "/prometheus",
    ),
    Sort(
        "Prometheus",
        (
            {"app": "kube-prometheus-stack-prometheus"},
            {_NAME: "prometheus", _COMPONENT: "server"},
            {_NAME: "prometheus", _COMPONENT: "prometheus"},
            {"app": "prometheus", "component": "server"},
            {"app": "prometheus-server"},
            {"app": "prometheus-operator-prometheus"},
            {"app": "rancher-monitoring-prometheus"},
            {"app": "prometheus-prometheus"},
            {_NAME: "prometheus"},
            {"operated-prometheus": "true"},
        ),
    ),
)
_PORT_NAMES: Final = ("http-web", "web", "http", "http-query", "http-metric", "http-metrics")
_HOW: Final = "give its address with --prometheus-url"


def places_in(services: Iterable[Service]) -> list[Place]:
    """The servers among some Services, those first that are to be asked first."""
    known = sorted(services, key=lambda each: (each.metadata.namespace, each.metadata.name))
    found: dict[str, Place] = {}
    for sort in SORTS:
        for labels in sort.labels:
            for each in known:
                if each.spec.ports and labels.items() <= each.metadata.labels.items():
                    place = _place(sort, each)
                    found.setdefault(place.path, place)
    return list(found.values())


@asynccontextmanager
async def found_prometheus(
    client: Client, settings: PrometheusSettings, now: float
) -> AsyncIterator[tuple[PrometheusClient, Place]]:
    """The Prometheus of a cluster, while the context is open; raises `InvalidInput` if there is none to be found."""
    try:
        services = await client.list_all(SERVICES)
    except KubeError as error:
        raise InvalidInput(
            "services", f"could not be looked through for a Prometheus ({error.message}); {_HOW}"
        ) from error
    tried: list[str] = []
    # Who does not answer now is no candidate; nobody waits until it does.
    hasty = msgspec.structs.replace(settings, prometheus_retries=0)
    for place in places_in(services.items):
        try:
            answer = await ProxiedPrometheus(hasty, client, place).query(_count(settings), now)
        except PrometheusError as error:
            tried.append(f"{place}: {error}")
            continue
        if len(answer.values):
            yield ProxiedPrometheus(settings, client, place), place
            return
        tried.append(f"{place} knows no {settings.history_memory_metric}")
    why = "; ".join(tried) or "no Service has the labels of Prometheus, Thanos, VictoriaMetrics or Mimir"
    raise InvalidInput("Prometheus", f"was not found in the cluster: {why}; {_HOW}")


def _count(settings: PrometheusSettings) -> str:
    return f"count({settings.history_memory_metric})"


def _place(sort: Sort, service: Service) -> Place:
    ports = {each.name: each.port for each in service.spec.ports}
    port = next((ports[name] for name in _PORT_NAMES if name in ports), service.spec.ports[0].port)
    namespace, name = service.metadata.namespace, service.metadata.name
    path = f"/api/v1/namespaces/{namespace}/services/http:{name}:{port}/proxy{sort.path}"
    return Place(sort.name, namespace, name, path)
