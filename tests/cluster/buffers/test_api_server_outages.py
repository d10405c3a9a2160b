"""Spare capacity stays, and follows again, after an outage of the API server and a kill of the controller."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.buffers import Start, buffer, buffer_controllers, count_chunks, get_buffer_status
from support.cluster.vpas import wait_for_further_passes
from testbed.cluster import Cluster
from testbed.control_plane import ControlPlane
from testbed.keeper import list_definitions
from testbed.waiting import until
from testbed.workloads import deployment

SHOP = "shop"
AWAY_SECONDS = 4.0
HALF = {"replicas": {"percent": {"percent": 50}}}
PATH = f"/apis/apps/v1/namespaces/{SHOP}/deployments/web/status"


@pytest.fixture
def cluster(own_api_server: ControlPlane) -> Cluster:
    """An API server of this test's own. Nothing counts replicas there but the test."""
    cluster = own_api_server.cluster
    cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}})
    cluster.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, SHOP)
    cluster.install_definitions(list_definitions())
    cluster.api.create(deployment("web", replicas=0), SHOP)
    count(cluster, 4)
    return cluster


@pytest.fixture
def controller(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    with buffer_controllers(cluster, tmp_path, restarts=True) as start:
        yield start


def count(cluster: Cluster, replicas: int) -> None:
    """The status that the Deployment controller would write."""
    cluster.api.patch(PATH, {"status": {"replicas": replicas}})


def test_headroom_survives_an_api_server_outage_and_a_killed_controller(
    cluster: Cluster, own_api_server: ControlPlane, controller: Start
) -> None:
    cluster.api.create(buffer("web", capacity=HALF), SHOP)
    first = controller(SHOP)
    until("two chunks", lambda: count_chunks(cluster, SHOP, "web") == 2)
    wait_for_further_passes(first, "trellis_buffers")
    before = get_buffer_status(cluster, SHOP, "web")
    own_api_server.kill("kube-apiserver")
    stopped_at = time.monotonic()
    until("some time without it", lambda: time.monotonic() >= stopped_at + AWAY_SECONDS, 2 * AWAY_SECONDS)
    own_api_server.start("kube-apiserver")
    own_api_server.wait_until_ready()
    assert get_buffer_status(cluster, SHOP, "web") == before
    count(cluster, 8)
    until("four chunks", lambda: count_chunks(cluster, SHOP, "web") == 4)
    # What happens while nobody looks is seen by whoever comes next.
    first.process.kill()
    count(cluster, 10)
    before = get_buffer_status(cluster, SHOP, "web")
    controller(SHOP)
    until("five chunks", lambda: count_chunks(cluster, SHOP, "web") == 5)
    times = [
        [condition["lastTransitionTime"] for condition in result["conditions"]]
        for result in (before, get_buffer_status(cluster, SHOP, "web"))
    ]
    assert times[0] == times[1]
