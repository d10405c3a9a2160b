"""Usage from external.metrics.k8s.io: one request per VPA and metric, and isolated failures."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

import pytest

from trellis.base.errors import Unreachable
from trellis.base.selectors import Selector, parse_selector
from trellis.kube.client import Client
from trellis.kube.transport.requests import Request
from trellis.kube.transport.responses import Response
from trellis.sources.amounts import UNREADABLE_AMOUNT, UNREADABLE_ENTRY, WITHOUT_TIME
from trellis.sources.external_metrics import ExternalBatch, ExternalMetrics, ExternalProblem, ExternalQuery
from trellis.testing.scripted_transport import ScriptedResponse, ScriptedTransport, error_response, json_response

NOON = 1_785_585_600.0  # 2026-08-01T12:00:00Z
WEB = ExternalQuery("shop", "web", parse_selector("app=web,tier in (a,b)"))
DB = ExternalQuery("data", "db", parse_selector("app=db"))


def value(pod: str, amount: Any, container: str = "app", time: Any = "2026-08-01T12:00:00Z") -> dict[str, Any]:
    labels = {"pod": pod, "name": container, "cluster": "one"}
    return {"metricName": "x", "metricLabels": labels, "timestamp": time, "window": 60, "value": amount}


def values(*items: object) -> Response:
    return json_response({"kind": "ExternalMetricValueList", "metadata": {}, "items": list(items)})


def fetch(
    responses: dict[str, ScriptedResponse], queries: Sequence[ExternalQuery] = (WEB,), **metrics: str
) -> tuple[ExternalBatch, list[Request]]:
    """The last part of a path is what decides on the answer: the metric, or namespace and metric."""

    def handler(request: Request) -> ScriptedResponse:
        namespace, metric = request.path.split("/")[-2:]
        return responses.get(f"{namespace}/{metric}") or responses[metric]

    transport = ScriptedTransport(handler=handler)
    names = {"cpu_metric": "cpu", "memory_metric": "memory"} | metrics

    async def main() -> ExternalBatch:
        return await ExternalMetrics(Client(transport), container_label="name", **names).fetch(queries)

    return asyncio.run(main()), transport.requests


def test_all_pods_of_a_vpa_are_read_by_one_request_for_each_metric() -> None:
    cpu = values(value("web-1", "250000001n"), value("web-2", "2", "proxy"))
    memory = values(value("web-1", "300Mi"), value("web-2", "1Gi", "proxy"))
    batch, requests = fetch({"cpu": cpu, "memory": memory})
    assert [request.path for request in requests] == [
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/cpu",
        "/apis/external.metrics.k8s.io/v1beta1/namespaces/shop/memory",
    ]
    assert {request.query for request in requests} == {(("labelSelector", "app=web,tier in (a,b)"),)}
    samples = batch.samples
    assert (samples.namespaces, samples.pods, samples.containers) == (
        ["shop", "shop"],
        ["web-1", "web-2"],
        ["app", "proxy"],
    )
    assert samples.times.tolist() == [NOON, NOON]
    assert samples.cpu.tolist() == [0.251, 2.0]
    assert samples.memory.tolist() == [300 * 1024**2, 1024**3]
    assert (batch.problems, batch.unread) == ((), {})


def test_pods_are_requested_one_by_one_as_upstream_where_no_value_names_a_pod() -> None:
    def answered(request: Request) -> ScriptedResponse:
        pod = dict(request.query)["labelSelector"].rpartition(",pod=")[2]
        if request.path.endswith("/memory") or not pod.startswith("web-"):
            return values()
        item = value("", "2" if pod == "web-2" else "1")
        del item["metricLabels"]["pod"]
        return values(item)

    transport = ScriptedTransport(handler=answered)
    source = ExternalMetrics(Client(transport), cpu_metric="cpu", memory_metric="memory", container_label="name")
    query = ExternalQuery("shop", "web", WEB.selector, ("web-1", "web-2"))
    batch = asyncio.run(source.fetch([query]))
    assert (batch.samples.pods, batch.samples.cpu.tolist()) == (["web-1", "web-2"], [1.0, 2.0])
    assert batch.unread == {}
    asked = {dict(request.query)["labelSelector"] for request in transport.requests if request.path.endswith("/cpu")}
    assert asked == {"app=web,tier in (a,b)" + more for more in ("", ",pod=web-1", ",pod=web-2")}


def fetch_one_by_one(responses: dict[str, ScriptedResponse]) -> tuple[ExternalBatch, list[str]]:
    """What comes of three pods, each answered for by its name and the whole by none; and the pods in turn."""
    asked = []

    def answered(request: Request) -> ScriptedResponse:
        pod = dict(request.query)["labelSelector"].rpartition("pod=")[2] if "pod=" in str(request.query) else ""
        asked.append(pod)
        return responses[pod]

    source = ExternalMetrics(
        Client(ScriptedTransport(handler=answered)), cpu_metric="cpu", memory_metric="", container_label="name"
    )
    query = ExternalQuery("shop", "web", WEB.selector, ("web-1", "web-2", "web-3"))
    return asyncio.run(source.fetch([query])), asked


def build_value_response(amount: str) -> Response:
    item = value("", amount)
    del item["metricLabels"]["pod"]
    return values(item)


def test_a_failed_pod_affects_no_other_pod() -> None:
    broken = error_response(500, "InternalError", "the adapter gave up")
    batch, _ = fetch_one_by_one(
        {"": values(), "web-1": build_value_response("1"), "web-2": broken, "web-3": build_value_response("3")}
    )
    assert (batch.samples.pods, batch.samples.cpu.tolist()) == (["web-1", "web-3"], [1.0, 3.0])
    [problem] = batch.problems
    assert (problem.vpa, problem.metric) == ("web", "cpu")
    assert problem.message.startswith("1 of 3 pods have no usage; web-2: ")
    assert "the adapter gave up" in problem.message


def test_pods_are_requested_one_by_one_where_the_list_is_refused() -> None:
    refused = error_response(404, "NotFound", "no series without a pod")
    batch, _ = fetch_one_by_one(
        {
            "": refused,
            "web-1": build_value_response("1"),
            "web-2": build_value_response("2"),
            "web-3": build_value_response("3"),
        }
    )
    assert (batch.samples.pods, batch.samples.cpu.tolist()) == (["web-1", "web-2", "web-3"], [1.0, 2.0, 3.0])
    assert batch.problems == ()


def test_a_metric_refused_for_the_list_and_for_a_pod_is_not_requested_again() -> None:
    refused = error_response(404, "NotFound", "no such metric")
    batch, asked = fetch_one_by_one({"": refused, "web-1": refused})
    assert (batch.samples.pods, asked) == ([], ["", "web-1"])
    [problem] = batch.problems
    assert "no such metric" in problem.message


def test_values_without_a_pod_are_reported_where_no_pod_can_be_requested() -> None:
    item = value("", "1")
    del item["metricLabels"]["pod"]
    batch, _ = fetch({"cpu": values(item), "memory": values()})
    assert (batch.samples.pods, batch.unread) == ([], {UNREADABLE_ENTRY.code: 1})


def test_with_an_empty_selector_each_pod_is_requested_by_its_name_alone() -> None:
    query = ExternalQuery("shop", "web", parse_selector(""), ("web-1",))
    _, requests = fetch({"cpu": values(), "memory": values()}, [query])
    assert [request.query for request in requests if request.path.endswith("/cpu")] == [
        (),
        (("labelSelector", "pod=web-1"),),
    ]


def test_pods_are_not_requested_one_by_one_where_values_name_them() -> None:
    query = ExternalQuery("shop", "web", WEB.selector, ("web-1", "web-2"))
    batch, requests = fetch({"cpu": values(value("web-1", "1")), "memory": values(value("web-1", "1Gi"))}, [query])
    assert (batch.samples.pods, len(requests)) == (["web-1"], 2)


def test_a_metric_without_a_name_is_not_requested() -> None:
    batch, requests = fetch({"memory": values(value("web-1", "1Ki"))}, cpu_metric="")
    assert len(requests) == 1
    assert math.isnan(batch.samples.cpu[0])
    assert batch.samples.memory.tolist() == [1024.0]


def test_no_request_is_sent_for_a_selector_that_selects_nothing() -> None:
    batch, requests = fetch({}, [ExternalQuery("shop", "lost", Selector.nothing())])
    assert (len(batch.samples), requests) == (0, [])


def test_values_of_different_times_are_separate_samples_oldest_first() -> None:
    late = values(value("web-1", "2", time="2026-08-01T12:00:30Z"))
    batch, _ = fetch({"cpu": late, "memory": values(value("web-1", "1Ki"))})
    assert batch.samples.times.tolist() == [NOON, NOON + 30]
    assert [math.isnan(item) for item in batch.samples.cpu] == [True, False]
    assert [math.isnan(item) for item in batch.samples.memory] == [False, True]


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        (
            error_response(404, "NotFound", "the server could not find the metric cpu"),
            "the server could not find the metric",
        ),
        (Unreachable("https://10.0.0.1 closed the connection"), "closed the connection"),
        (Response(200, body=b"<html>"), "ExternalMetricValueList"),
    ],
)
def test_a_failure_of_one_vpa_affects_no_other(trouble: ScriptedResponse, message: str) -> None:
    good = values(value("db-0", "1", "postgres"))
    responses = {"shop/cpu": trouble, "data/cpu": good, "memory": values()}
    batch, _ = fetch(responses, [WEB, DB])
    assert batch.samples.pods == ["db-0"]
    [problem] = batch.problems
    assert problem == ExternalProblem("shop", "web", "cpu", problem.message)
    assert message in problem.message


def test_invalid_values_are_counted_and_affect_no_others() -> None:
    nameless = {"metricName": "x", "metricLabels": {"name": "app"}, "timestamp": "2026-08-01T12:00:00Z", "value": "1"}
    cpu = values(value("web-1", "1"), nameless, 17, value("web-2", "1", time=None), value("web-3", "-1"))
    batch, _ = fetch({"cpu": cpu, "memory": values()})
    assert batch.samples.pods == ["web-1", "web-3"]
    assert batch.samples.cpu[0] == 1.0
    assert math.isnan(batch.samples.cpu[1])
    assert batch.unread == {UNREADABLE_ENTRY.code: 2, WITHOUT_TIME.code: 1, UNREADABLE_AMOUNT.code: 1}


def test_the_number_of_concurrent_requests_is_limited() -> None:
    under_way = most = 0

    class CountingTransport(ScriptedTransport):
        async def send(self, request: Request) -> Response:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            for _ in range(3):
                await asyncio.sleep(0)
            under_way -= 1
            return values(value(request.path.split("/")[5], "1"))

    async def main() -> ExternalBatch:
        source = ExternalMetrics(
            Client(CountingTransport()), cpu_metric="cpu", memory_metric="", container_label="name"
        )
        return await source.fetch([ExternalQuery(f"ns-{n}", "web", parse_selector("app=web")) for n in range(100)])

    assert len(asyncio.run(main()).samples) == 100
    assert 1 < most <= 10
