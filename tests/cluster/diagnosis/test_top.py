"""`trellis top` with usage from a real metrics-server."""

from __future__ import annotations

import json
from typing import Any

from click.testing import CliRunner

from support.cluster.vpas import USAGE, USAGE_SECONDS, vpa
from testbed import workloads
from testbed.cluster import Cluster
from testbed.waiting import until
from trellis.cli.main import trellis


def top(cluster: Cluster, namespace: str) -> dict[str, Any]:
    command = ["top", "-n", namespace, "-o", "json", "--kubeconfig", str(cluster.kubeconfig)]
    result = CliRunner().invoke(trellis, command, catch_exceptions=False)
    rows: dict[str, Any] = {row["name"]: row for row in json.loads(result.stdout)["workloads"]}
    return rows


def test_usage_now_stands_beside_requests_and_the_recommendation(cluster: Cluster, namespace: str) -> None:
    cluster.api.create(workloads.deployment("web", replicas=2, annotations=USAGE), namespace)
    cluster.api.create(vpa("web", updatePolicy={"updateMode": "Off"}), namespace)
    target = {"containerName": "app", "target": {"cpu": "50m", "memory": "64Mi"}}
    path = f"/apis/autoscaling.k8s.io/v1/namespaces/{namespace}/verticalpodautoscalers/web/status"
    cluster.api.patch(path, {"status": {"recommendation": {"containerRecommendations": [target]}}})
    cluster.wait_for_ready_pods(namespace, "web", 2)
    until(
        "usage of both pods",
        lambda: top(cluster, namespace)["web"]["cpuMillicores"] not in (None, 0.0),
        USAGE_SECONDS,
    )
    web = top(cluster, namespace)["web"]
    assert (web["kind"], web["pods"]) == ("Deployment", 2)
    assert (web["cpuRequestMillicores"], web["cpuRecommendedMillicores"]) == (200.0, 100.0)
    assert web["memoryBytes"] > 0
