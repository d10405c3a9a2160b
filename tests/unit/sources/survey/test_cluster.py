"""Workloads of a cluster, missing rights, and discovery of its Prometheus."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

from support.api_server.server import ModelServer
from support.builders.dumps import HASH, hide, shop
from support.virtual_time import run
from trellis.base.errors import InvalidInput, Unreachable
from trellis.core.advice.survey.model import SurveyedWorkload
from trellis.core.advice.survey.scope import SurveyObjects, WorkloadFilter
from trellis.core.advice.survey.workloads import find_workloads
from trellis.core.recommend.capping import NamespaceLimits
from trellis.kube.transport.requests import Request
from trellis.kube.transport.responses import Response
from trellis.sources.survey.cluster import list_cluster_workloads
from trellis.sources.survey.prometheus_discovery import PrometheusServer, find_prometheus
from trellis.sources.survey.settings import survey_settings
from trellis.testing.scripted_transport import ScriptedResponse, error_response


def present(server: ModelServer, *patterns: str) -> SurveyObjects:
    return run(list_cluster_workloads(server.client, WorkloadFilter.parse(patterns), "shop"))


def workloads(result: SurveyObjects, choice: WorkloadFilter = WorkloadFilter()) -> dict[str, SurveyedWorkload]:  # noqa: B008
    return {
        f"{workload.namespace}/{workload.kind}/{workload.name}": workload
        for workload in find_workloads(result, choice).workloads.values()
    }


def test_workloads_are_listed_with_their_pods_and_other_autoscalers() -> None:
    result = workloads(present(shop()))
    assert list(result) == ["kube-system/Deployment/vpa-updater", "office/Pod/alone", "shop/Deployment/web"]
    web = result["shop/Deployment/web"]
    assert (web.pods, web.desired_replicas, web.vpas) == (2, 2, ("web-vpa",))
    assert [(hpa.name, hpa.targets[0].utilization) for hpa in web.hpas] == [("web-hpa", 60)]
    assert web.labels["example.com/team"] == "payments"
    [container] = web.containers
    assert (container.request.cpu, container.request.memory) == (500, 256 * 2**20)
    assert (container.limit.memory, container.differing) == (512 * 2**20, 0)


def test_forbidden_kinds_are_reported_and_the_others_are_read() -> None:
    server = shop()
    hide(server, "office", "kube-system")
    result = present(server)
    assert list(workloads(result)) == ["shop/Deployment/web"]
    assert {(item.what, item.where) for item in result.missing if item.what == "Pod"} == {
        ("Pod", "office"),
        ("Pod", "kube-system"),
    }
    assert {item.why for item in result.missing} == {"may not be read"}


def test_without_the_right_to_list_replica_sets_labels_identify_the_owners_of_pods() -> None:
    server = shop()
    server.before = lambda request: _refused() if request.path.endswith("/replicasets") else None
    result = present(server)
    assert workloads(result)["shop/Deployment/web"].pods == 2
    assert [item.what for item in result.missing] == ["ReplicaSet"]


def test_limit_ranges_are_read_and_missing_rights_are_reported() -> None:
    assert workloads(present(shop()))["shop/Deployment/web"].limits != NamespaceLimits()
    server = shop()
    server.before = lambda request: _refused() if request.path.endswith("/limitranges") else None
    result = present(server)
    assert workloads(result)["shop/Deployment/web"].limits == NamespaceLimits()
    assert [str(item) for item in result.missing] == ["LimitRange: may not be read"]


def with_nodes(server: ModelServer) -> SurveyObjects:
    return run(list_cluster_workloads(server.client, WorkloadFilter(), "shop", nodes=True))


def test_the_largest_node_is_read_on_request_and_missing_rights_are_reported() -> None:
    server = shop()
    server.put("/api/v1/nodes/large", {"status": {"allocatable": {"cpu": "30", "memory": "1Gi"}}})
    assert math.isnan(present(server).largest_node.cpu)
    result = with_nodes(server)
    assert result.largest_node.cpu == 30_000
    assert result.largest_node.memory > 2**30
    server.before = lambda request: _refused() if request.path.endswith("/nodes") else None
    refused = with_nodes(server)
    assert math.isnan(refused.largest_node.memory)
    assert [str(item) for item in refused.missing] == ["Node: may not be read"]


def test_a_missing_namespace_is_reported_with_the_nearest_existing_one() -> None:
    result = present(shop(), "shopp")
    assert result.pods == []
    assert [str(item) for item in result.missing] == ['Namespace in shopp: does not exist (did you mean "shop"?)']


def test_a_cluster_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(Unreachable):
        present(_silent())


def _silent() -> ModelServer:
    server = shop()
    server.before = lambda _request: Unreachable("gone")
    return server


def _refused() -> ScriptedResponse:

    return error_response(403, "Forbidden", "no")


def service(labels: Mapping[str, str], *ports: tuple[str, int]) -> dict[str, Any]:
    return {"metadata": {"labels": dict(labels)}, "spec": {"ports": [{"name": n, "port": p} for n, p in ports]}}


def monitored(responses: Mapping[str, int], *services: tuple[str, dict[str, Any]]) -> ModelServer:
    """A cluster with Services; those that are named answer with so many series, the others with 503."""
    server = ModelServer()
    for name, document in services:
        server.put(f"/api/v1/namespaces/monitoring/services/{name}", document)

    def before(request: Request) -> ScriptedResponse | None:
        if "/proxy" not in request.path:
            return None
        name = request.path.split("/services/http:")[1].split(":")[0]
        if name not in responses:
            return Response(503, {}, b"no endpoints available")
        value = b'{"metric":{},"value":[0,"5"]}' if responses[name] else b""
        return Response(200, {}, b'{"status":"success","data":{"resultType":"vector","result":[' + value + b"]}}")

    server.before = before
    return server


def find(server: ModelServer) -> PrometheusServer:
    async def main() -> PrometheusServer:
        async with find_prometheus(server.client, survey_settings(), 0.0) as (client, place):
            response = await client.query("up", 5.0)
            assert response.values.tolist() == [5.0]
            return place

    return run(main())


THANOS = service(
    {"app.kubernetes.io/name": "thanos", "app.kubernetes.io/component": "query"}, ("grpc", 10901), ("http", 9090)
)
STACK = service({"app": "kube-prometheus-stack-prometheus"}, ("reloader-web", 8080), ("http-web", 9090))
MIMIR = service(
    {"app.kubernetes.io/name": "mimir", "app.kubernetes.io/component": "query-frontend"}, ("http-metrics", 8080)
)
SELECT = service({"app.kubernetes.io/name": "vmselect"}, ("http", 8481))


@pytest.mark.parametrize(
    ("document", "sort", "ending"),
    [
        (THANOS, "Thanos", "http:it:9090/proxy"),
        (STACK, "Prometheus", "http:it:9090/proxy"),
        (MIMIR, "Mimir", "http:it:8080/proxy/prometheus"),
        (SELECT, "VictoriaMetrics", "http:it:8481/proxy/select/0/prometheus"),
    ],
)
def test_a_server_is_known_by_the_labels_of_its_service(document: dict[str, Any], sort: str, ending: str) -> None:
    place = find(monitored({"it": 1}, ("it", document), ("web", service({"app": "web"}, ("http", 80)))))
    assert place.sort == sort
    assert place.path.endswith(ending)


def test_long_term_stores_are_queried_first_and_servers_without_usage_are_skipped() -> None:
    both = (("thanos", THANOS), ("stack", STACK))
    assert str(find(monitored({"thanos": 1, "stack": 1}, *both))) == "Thanos monitoring/thanos"
    assert find(monitored({"thanos": 0, "stack": 1}, *both)).service == "stack"
    assert find(monitored({"stack": 1}, *both)).service == "stack"


@pytest.mark.parametrize(
    ("responses", "services", "says"),
    [
        ({}, (), "no Service has the labels"),
        ({}, (("stack", STACK),), "answers 503"),
        ({"stack": 0}, (("stack", STACK),), "has no metric container_memory_working_set_bytes"),
    ],
)
def test_a_missing_prometheus_is_reported_with_a_remedy(
    responses: dict[str, int], services: tuple[tuple[str, dict[str, Any]], ...], says: str
) -> None:
    with pytest.raises(InvalidInput, match=f"{says}.*--prometheus-url"):
        find(monitored(responses, *services))


def test_resized_pods_count_with_their_current_requests() -> None:
    server = shop()
    resized = {"name": "app", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}
    for path in [path for path in server.objects if f"/pods/web-{HASH}" in path and "metrics" not in path]:
        document = server.objects[path]
        server.put(path, {**document, "status": {**document["status"], "containerStatuses": [resized]}})
    [container] = workloads(present(server))["shop/Deployment/web"].containers
    assert (container.request.cpu, container.request.memory) == (2000, 2**30)
    assert math.isnan(container.limit.memory)
