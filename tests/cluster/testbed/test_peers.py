"""Prometheus remembers what a test wrote down, and upstream's recommender recommends: both are the real programs."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from collections.abc import Callable

import pytest

from testbed.client import Json
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.errors import HarnessError
from testbed.kwok import annotations as ask
from testbed.prometheus import Prometheus
from testbed.waiting import until
from testbed.workloads import deployment
from trellis.base.quantities import Quantity

# 2026-01-01 00:00 UTC: longer ago than Prometheus keeps anything by default.
START = 1_767_225_600
HOURS = range(9 * 24)


def test_prometheus_answers_with_the_samples_it_was_given(prometheus: Callable[..., Prometheus]) -> None:
    lines = [f'container_memory_working_set_bytes{{pod="web"}} {hour} {START + hour * 3600}' for hour in HOURS]
    server = prometheus("# TYPE container_memory_working_set_bytes gauge\n" + "\n".join(lines) + "\n")
    query = {"query": 'container_memory_working_set_bytes{pod="web"}', "start": START, "step": 3600}
    result = _ask(server, "query_range", query | {"end": START + HOURS[-1] * 3600})
    [series] = result["result"]
    assert [float(value) for _, value in series["values"]] == list(HOURS)


def test_prometheus_can_be_empty(prometheus: Callable[..., Prometheus]) -> None:
    assert _ask(prometheus(""), "query", {"query": "up"})["result"] == []


def test_text_that_is_no_openmetrics_is_refused_with_promtools_words(prometheus: Callable[..., Prometheus]) -> None:
    with pytest.raises(HarnessError, match="promtool refused the samples"):
        prometheus("this is { nothing\n")


def test_upstream_recommends_and_is_started_again_after_a_kill(
    cluster: Cluster, namespace: str, upstream_recommender: Callable[..., Controller]
) -> None:
    usage = {ask.USAGE_CPU: "300m", ask.USAGE_MEMORY: "700Mi"}
    cluster.api.create(deployment("web", replicas=2, annotations=usage), namespace)
    path = f"/apis/autoscaling.k8s.io/v1/namespaces/{namespace}/verticalpodautoscalers/web"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    vpa = {"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "web"}}
    cluster.api.create({**vpa, "spec": {"targetRef": target}}, namespace)

    def recommended() -> bool:
        """More than the minimum, which upstream recommends before it has seen any usage."""
        container_recommendations = (
            cluster.api.get(path).get("status", {}).get("recommendation", {}).get("containerRecommendations", [])
        )
        return bool(container_recommendations) and Quantity.parse(
            container_recommendations[0]["target"]["memory"]
        ) > Quantity.parse("700Mi")

    recommender = upstream_recommender(namespace, "--recommender-interval=1s")
    until("a recommendation", recommended)
    assert 'vpa_recommender_execution_latency_seconds_count{step="total"}' in recommender.read_metrics()
    assert "forbidden" not in recommender.read_logs()
    recommender.process.kill()
    cluster.api.patch(f"{path}/status", {"status": None})
    upstream_recommender(namespace, "--recommender-interval=1s")
    until("a recommendation from its successor", recommended)


def _ask(server: Prometheus, endpoint: str, query: dict[str, object]) -> Json:
    url = f"{server.url}/api/v1/{endpoint}?{urllib.parse.urlencode(query)}"
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - our own server
        data: Json = json.load(answer)["data"]
    return data
