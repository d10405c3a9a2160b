"""A recommender starts with the history of a real Prometheus, and without one if none answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.prometheus import Prometheus
from testbed.waiting import until
from testbed.workloads import container, deployment

HOUR = 3600
DAYS = 3
VPA = "/apis/autoscaling.k8s.io/v1/namespaces/{}/verticalpodautoscalers/web"
CHECKPOINT = "/apis/autoscaling.k8s.io/v1/namespaces/{}/verticalpodautoscalercheckpoints"

# Pods of the past. The first is known by its labels, the second by its name alone, and the last is nobody's.
LABELLED, NAMED, STRANGER = "gone-with-labels", "web-6d4b75cb6d-x5k2p", "database-0"


def vpa(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    }


def openmetrics(namespace: str) -> str:
    """Three days: half a core and 300 MiB for the pods of the Deployment, ten times that for the stranger."""
    now = int(time.time())
    counters, gauges = [], []
    for pod, cores, used in ((LABELLED, 0.5, 300), (NAMED, 0.5, 300), (STRANGER, 5.0, 3000)):
        labels = f'{{job="kubernetes-cadvisor",namespace="{namespace}",pod_name="{pod}",name="app"}}'
        for at in range(now - DAYS * 24 * HOUR, now, 600):
            counters.append(
                f"container_cpu_usage_seconds_total{labels} {1e6 + cores * (at - now + DAYS * 24 * HOUR)} {at}"
            )
            gauges.append(f"container_memory_working_set_bytes{labels} {used * 2**20} {at}")
    label = f'kubernetes_namespace="{namespace}",kubernetes_pod_name="{LABELLED}",pod_label_app="web"'
    return "\n".join(
        [
            "# TYPE container_cpu_usage_seconds counter",
            *counters,
            "# TYPE container_memory_working_set_bytes gauge",
            *gauges,
            "# TYPE up gauge",
            f'up{{job="kubernetes-pods",{label}}} 1 {now - 30}',
            "",
        ]
    )


def recommendation(cluster: Cluster, namespace: str) -> dict[str, Any] | None:
    status = cluster.api.get(VPA.format(namespace)).get("status", {})
    container_recommendations = status.get("recommendation", {}).get("containerRecommendations", [])
    return container_recommendations[0] if container_recommendations else None


def condition(cluster: Cluster, namespace: str, kind: str) -> dict[str, Any] | None:
    conditions = cluster.api.get(VPA.format(namespace)).get("status", {}).get("conditions", [])
    return next((condition for condition in conditions if condition["type"] == kind), None)


@pytest.mark.req("CR-23")
def test_history_of_a_real_prometheus_is_backfilled(
    cluster: Cluster,
    namespace: str,
    prometheus: Callable[..., Prometheus],
    recommender: Callable[..., Controller],
) -> None:
    server = prometheus(openmetrics(namespace))
    cluster.api.create(deployment("web", container("app"), replicas=0), namespace)
    cluster.api.create(vpa(namespace), namespace)
    running = recommender(namespace, "--storage=prometheus", f"--prometheus-address={server.url}")
    result = until("a recommendation from history", lambda: recommendation(cluster, namespace))
    assert result["target"] == {"cpu": "587m", "memory": "380258472"}
    # Three days of two pods are more than a day's confidence: the upper bound is near, not a thousand times the target.
    assert result["upperBound"]["cpu"] != result["target"]["cpu"]
    checkpoint = until("a checkpoint", lambda: cluster.api.get(CHECKPOINT.format(namespace))["items"] or None)[0]
    assert checkpoint["status"]["totalSamplesCount"] >= 2 * (DAYS * 24 - 2)
    until("nothing to be fetched", lambda: condition(cluster, namespace, "FetchingHistory") is None)
    assert 'vpa_recommender_prometheus_client_api_requests_count{code="200",method="post"}' in running.read_metrics()
    # A query may take five minutes.
    slow = 'vpa_recommender_prometheus_client_api_requests_duration_seconds_bucket{code="200",method="post",le="300"}'
    assert slow in running.read_metrics()


def test_without_prometheus_checkpoints_are_used_with_a_condition(
    cluster: Cluster, namespace: str, recommender: Callable[..., Controller]
) -> None:
    cluster.api.create(deployment("web", container("app"), replicas=0), namespace)
    cluster.api.create(vpa(namespace), namespace)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    cluster.api.create(
        {
            "apiVersion": "autoscaling.k8s.io/v1",
            "kind": "VerticalPodAutoscalerCheckpoint",
            "metadata": {"name": "web-app", "namespace": namespace},
            "spec": {"vpaObjectName": "web", "containerName": "app"},
            "status": {
                "version": "v3",
                "lastUpdateTime": stamp,
                "firstSampleStart": stamp,
                "lastSampleStart": stamp,
                "totalSamplesCount": 5000,
                "cpuHistogram": {"referenceTimestamp": stamp, "bucketWeights": {"25": 10000}, "totalWeight": 500.0},
                "memoryHistogram": {"referenceTimestamp": stamp, "bucketWeights": {"19": 10000}, "totalWeight": 8.0},
            },
        },
        namespace,
    )
    flags = ("--storage=prometheus", "--prometheus-address=http://127.0.0.1:9", "--prometheus-retries=0")
    recommender(namespace, *flags)
    advice = until("a recommendation from the checkpoint", lambda: recommendation(cluster, namespace))
    assert advice["target"] == {"cpu": "587m", "memory": "380258472"}
    history = until("the condition", lambda: condition(cluster, namespace, "HistoryUnavailable"))
    assert history["status"] == "True"
    assert "127.0.0.1:9" in history["message"]
