"""Finds the Prometheus of a cluster by the labels of its Service, and queries it through the API server.

Long-term stores are tried first: Thanos, VictoriaMetrics and Mimir usually stand in front of several Prometheus. The
first server that responds and has usage of containers is used. This takes the right to `get` the proxy of its Service,
and no forwarded port.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import msgspec

from trellis.api.kube.meta import KubeObject
from trellis.api.kube.slices import Slice
from trellis.base.errors import (
    InvalidInput,
    KubeError,
    PrometheusError,
    PrometheusLimitExceeded,
    Unauthorized,
    Unreachable,
)
from trellis.kube.client import Client
from trellis.kube.resources import Resource
from trellis.kube.transport.requests import Request
from trellis.kube.transport.responses import Response, build_error
from trellis.sources.prometheus.client import PrometheusClient
from trellis.sources.prometheus.settings import PrometheusSettings

_FIRST_ERROR: Final = 400


class PrometheusServer(msgspec.Struct, frozen=True):
    """A server that was found: its sort, its Service, and the path through the API server."""

    sort: str
    namespace: str
    service: str
    path: str

    def __str__(self) -> str:
        return f"{self.sort} {self.namespace}/{self.service}"


class ProxiedPrometheus(PrometheusClient):
    """A Prometheus behind the API server."""

    def __init__(self, settings: PrometheusSettings, client: Client, server: PrometheusServer) -> None:
        super().__init__(
            msgspec.structs.replace(settings, prometheus_address=f"http://{server.service}.{server.namespace}")
        )
        self._client = client
        self._server = server
        # POST through a proxy takes the right to create, which read-only roles lack.
        self._method = "GET"

    async def _request(
        self, path: str, parameters: Mapping[str, str], _authorization: Mapping[str, str]
    ) -> tuple[int, Mapping[str, str], bytes]:
        # The API server keeps credentials to itself, so that there is no use in sending those for Prometheus.
        request = Request(
            "GET",
            f"{self._server.path}{path}",
            tuple(parameters.items()),
            self._headers,
            timeout=self._seconds,
        )
        try:
            response = await self._client.transport.send(request)
        except Unreachable as error:
            raise ConnectionError(error.message) from error
        if len(response.body) > self._limit:
            raise PrometheusLimitExceeded(
                f"the response of {self._server} is longer than {self._limit} bytes", response.status
            )
        return response.status, response.headers, _read_response_body(response)


def _read_response_body(response: Response) -> bytes:
    """The body; an error of the API server itself is rewritten in the form of Prometheus."""
    if response.status < _FIRST_ERROR:
        return response.body
    error = build_error(response)
    return msgspec.json.encode({"error": error.message, "errorType": error.reason}) if error.reason else response.body


class ServicePort(Slice, frozen=True):
    """A port of a Service."""

    name: str = ""
    port: int = 0


class ServiceSpec(Slice, frozen=True):
    """The ports of a Service."""

    ports: tuple[ServicePort, ...] = ()


class Service(KubeObject, frozen=True):
    """The slice of a Service that is needed to reach it."""

    spec: ServiceSpec = ServiceSpec()


SERVICES: Final = Resource("", "v1", "services", "Service", True, Service)


class ServerType(msgspec.Struct, frozen=True):
    """A type of server: alternative labels of its Services, and the path of its API."""

    name: str
    labels: tuple[Mapping[str, str], ...]
    path: str = ""


_NAME, _COMPONENT = "app.kubernetes.io/name", "app.kubernetes.io/component"
SERVER_TYPES: Final = (
    ServerType(
        "Thanos",
        (
            {_NAME: "thanos", _COMPONENT: "query-frontend"},
            {_NAME: "thanos", _COMPONENT: "query"},
            {_NAME: "thanos-query"},
            {"app": "thanos-query"},
            {"app": "thanos-querier"},
        ),
    ),
    ServerType(
        "VictoriaMetrics",
        (
            {_NAME: "vmsingle"},
            {_NAME: "victoria-metrics-single"},
            {"app.kubernetes.io/name": "victoria-metrics", "app": "server"},
        ),
    ),
    ServerType(
        "VictoriaMetrics",
        ({_NAME: "vmselect"}, {_NAME: "victoria-metrics-cluster", "app": "vmselect"}),
        "/select/0/prometheus",
    ),
    ServerType(
        "Mimir",
        (
            {_NAME: "mimir", _COMPONENT: "query-frontend"},
            {_NAME: "mimir", _COMPONENT: "nginx"},
            {_NAME: "mimir", _COMPONENT: "gateway"},
        ),
        "/prometheus",
    ),
    ServerType(
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


def find_servers(services: Iterable[Service]) -> list[PrometheusServer]:
    """The servers among some Services, in the order in which they are tried."""
    in_order = sorted(services, key=lambda service: (service.metadata.namespace, service.metadata.name))
    servers: dict[str, PrometheusServer] = {}
    for server_type in SERVER_TYPES:
        for labels in server_type.labels:
            for service in in_order:
                if service.spec.ports and labels.items() <= service.metadata.labels.items():
                    server = _build_server(server_type, service)
                    servers.setdefault(server.path, server)
    return list(servers.values())


@asynccontextmanager
async def find_prometheus(
    client: Client, settings: PrometheusSettings, now: float
) -> AsyncIterator[tuple[PrometheusClient, PrometheusServer]]:
    """The Prometheus of a cluster, while the context is open; raises `InvalidInput` if there is none to be found."""
    try:
        services = await client.list_all(SERVICES)
    except Unauthorized:
        raise
    except KubeError as error:
        raise InvalidInput("services", f"could not be searched for a Prometheus ({error.message}); {_HOW}") from error
    failures: list[str] = []
    # A server that does not respond at once is no candidate: no retries.
    without_retries = msgspec.structs.replace(settings, prometheus_retries=0)
    for server in find_servers(services.items):
        try:
            result = await ProxiedPrometheus(without_retries, client, server).query(_count_query(settings), now)
        except PrometheusError as error:
            failures.append(f"{server}: {error}")
            continue
        if len(result.values):
            yield ProxiedPrometheus(settings, client, server), server
            return
        failures.append(f"{server} has no metric {settings.history_memory_metric}")
    reason = "; ".join(failures) or "no Service has the labels of Prometheus, Thanos, VictoriaMetrics or Mimir"
    raise InvalidInput("Prometheus", f"was not found in the cluster: {reason}; {_HOW}")


def _count_query(settings: PrometheusSettings) -> str:
    return f"count({settings.history_memory_metric})"


def _build_server(server_type: ServerType, service: Service) -> PrometheusServer:
    ports = {port.name: port.port for port in service.spec.ports}
    port = next((ports[name] for name in _PORT_NAMES if name in ports), service.spec.ports[0].port)
    namespace, name = service.metadata.namespace, service.metadata.name
    path = f"/api/v1/namespaces/{namespace}/services/http:{name}:{port}/proxy{server_type.path}"
    return PrometheusServer(server_type.name, namespace, name, path)
