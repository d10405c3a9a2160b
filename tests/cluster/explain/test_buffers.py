"""`trellis explain buffer` on a real API server: it says what the Buffer controller writes there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from support.cluster.buffers import Start, buffer, buffer_controllers, count_chunks, find_buffer_condition, get_requests
from support.cluster.vpas import vpa, vpa_path
from testbed.cluster import Cluster
from testbed.waiting import until
from testbed.workloads import container, deployment
from trellis.cli.main import trellis


@pytest.fixture
def controller(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    with buffer_controllers(cluster, tmp_path) as start:
        yield start


def explained(cluster: Cluster, namespace: str, name: str) -> Any:
    asked = ["explain", "buffer", name, "-n", namespace, "--kubeconfig", str(cluster.kubeconfig), "--json"]
    result = CliRunner().invoke(trellis, asked)
    assert result.exit_code in (0, 1), (result.output, result.exception)
    return json.loads(result.stdout)["buffer"]


def test_what_is_explained_before_the_controller_starts_is_what_it_then_writes(
    cluster: Cluster, namespace: str, controller: Start
) -> None:
    cluster.api.create(deployment("web", container(), replicas=5), namespace)
    cluster.wait_for_ready_pods(namespace, "web", 5)
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    until("all to be counted", lambda: cluster.api.get(path)["status"].get("replicas") == 5)
    cluster.api.create(vpa("web", updatePolicy={"updateMode": "Initial"}), namespace)
    target = {"cpu": "300m", "memory": "200Mi"}
    recommended = [{"containerName": "app", "target": target, "lowerBound": target, "upperBound": target}]
    status = {"status": {"recommendation": {"containerRecommendations": recommended}}}
    cluster.api.patch(f"{vpa_path(namespace, 'web')}/status", status)
    percent = {"percent": 50, "minCount": 1}
    cluster.api.create(buffer("web", capacity={"replicas": {"percent": percent}}), namespace)

    before = explained(cluster, namespace, "web")
    assert (before["desiredChunks"], before["chunks"], before["requestedCapacity"]["replicas"]) == (3, 3, 5)
    assert before["chunk"]["governor"] == "VerticalPodAutoscaler web"
    assert before["headroom"]["chunks"] == 3
    assert "isStored" not in before

    controller(namespace)
    until("its chunks", lambda: count_chunks(cluster, namespace, "web") == before["chunks"])
    written = get_requests(cluster, namespace, "web")
    assert before["chunk"]["containers"][0]["requests"] == written
    assert find_buffer_condition(cluster, namespace, "web") == ("True", before["ready"]["reason"]["code"])

    after = explained(cluster, namespace, "web")
    assert (after["isStored"], after["storedChunks"]) == (True, 3)
    assert after["chunk"] == before["chunk"]
