"""A cluster in memory whose Prometheus is behind a Service: it has the metrics of cAdvisor, and no series to read."""

from __future__ import annotations

from urllib.parse import unquote

from support.api_server.server import ModelServer
from trellis.kube.transport.requests import Request
from trellis.kube.transport.responses import Response
from trellis.testing.scripted_transport import ScriptedResponse, json_response

PLACE = "Prometheus monitoring/prom"
_SERVICE = "/api/v1/namespaces/monitoring/services/prom"
_PROXY = "/api/v1/namespaces/monitoring/services/http:prom:9090/proxy"


def add_prometheus(server: ModelServer) -> ModelServer:
    """The same cluster with the Service; requests through its proxy are answered as by Prometheus."""
    labels = {"app.kubernetes.io/name": "prometheus", "app.kubernetes.io/component": "server"}
    ports = [{"name": "http-web", "port": 9090}]
    server.put(_SERVICE, {"metadata": {"labels": labels}, "spec": {"ports": ports}})
    earlier = server.before

    def before(request: Request) -> ScriptedResponse | None:
        if request.path.startswith(_PROXY):
            return _answer(request.path.removeprefix(_PROXY), dict(request.query))
        return earlier(request)

    server.before = before
    return server


def _answer(path: str, parameters: dict[str, str]) -> Response:
    if path == "/api/v1/series":
        return json_response({"status": "success", "data": []})
    result: list[object] = []
    if unquote(parameters.get("query", "")).startswith("count("):
        result = [{"metric": {}, "value": [0, "5"]}]
    kind = "matrix" if path == "/api/v1/query_range" else "vector"
    return json_response({"status": "success", "data": {"resultType": kind, "result": result}})
