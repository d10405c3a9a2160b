"""The updater outlives an API server that goes away in the middle of a pass, and disturbs nothing twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.admission import owned
from support.cluster.updaters import NO_LEASE, Start, advise, events, updaters, wait_for_two_passes
from support.cluster.vpas import metric_value, vpa
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.control_plane import ControlPlane
from testbed.keeper import list_definitions
from testbed.waiting import until
from testbed.workloads import deployment, pod

SHOP = "shop"
WORKLOADS = [f"app-{number}" for number in range(12)]
BLIND = "pass skipped"
NOW = "2020-01-01T00:00:00Z"


@pytest.fixture
def cluster(own_api_server: ControlPlane) -> Cluster:
    """An API server of this test's own. Nothing makes a pod there but the test."""
    cluster = own_api_server.cluster
    cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}})
    cluster.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, SHOP)
    cluster.install_definitions(list_definitions())
    return cluster


@pytest.fixture
def updater(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start `trellis updater` for the VPAs of one namespace."""
    with updaters(cluster, tmp_path, restarts=True) as start:
        yield start


def started(cluster: Cluster, name: str) -> None:
    """A ReplicaSet with a VPA and two pods, as if nodes ran them."""
    made = deployment(name, replicas=2) | {"kind": "ReplicaSet"}
    owner = cluster.api.create(made, SHOP)
    for number in range(2):
        running(cluster, owner, f"{name}-{number}")
    document = vpa(name, updatePolicy={"updateMode": "Recreate"})
    document["spec"]["targetRef"]["kind"] = "ReplicaSet"
    cluster.api.create(document, SHOP)
    advise(cluster, SHOP, name)


def running(cluster: Cluster, owner: Json, name: str) -> None:
    cluster.api.create(owned(pod(name, nodeName="node-a"), owner), SHOP)
    state = {"running": {"startedAt": NOW}}
    status = {"name": "app", "image": "i", "imageID": "i", "ready": True, "started": True, "restartCount": 0}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": NOW}
    body = {
        "phase": "Running",
        "startTime": NOW,
        "conditions": [ready],
        "containerStatuses": [status | {"state": state}],
    }
    cluster.api.patch(f"/api/v1/namespaces/{SHOP}/pods/{name}/status", {"status": body})


def left(cluster: Cluster) -> Counter[str]:
    return Counter(
        pod["metadata"]["labels"]["app"] for pod in cluster.api.list_items(f"/api/v1/namespaces/{SHOP}/pods")
    )


def test_an_api_server_that_goes_away_in_mid_pass_costs_no_pod_twice(
    cluster: Cluster, own_api_server: ControlPlane, updater: Start
) -> None:
    for name in WORKLOADS:
        started(cluster, name)
    # Slowly, so that there is a middle.
    controller = updater(SHOP, NO_LEASE, "--updater-interval=1s", "--eviction-rate-limit=1", "--concurrent-writes=2")
    until("the first evictions", lambda: metric_value(controller, "vpa_updater_evicted_pods_total") >= 2)
    own_api_server.kill("kube-apiserver")
    # It knows that it does not know.
    until("some passes without it", lambda: controller.read_logs().count(BLIND) >= 5)
    failed = metric_value(controller, "vpa_updater_failed_eviction_attempts_total")
    own_api_server.start("kube-apiserver")
    own_api_server.wait_until_ready()
    started(cluster, "late")
    until("one more eviction", lambda: left(cluster)["late"] == 1)
    wait_for_two_passes(controller)
    # Nobody replaces what was evicted, so that no more than one pod of each may go.
    assert set(left(cluster)) == {*WORKLOADS, "late"}
    until("the Events", lambda: events(cluster, SHOP, "EvictedByVPA"))
    evicted = [event["involvedObject"]["uid"] for event in events(cluster, SHOP, "EvictedByVPA")]
    assert len(evicted) == len(set(evicted))
    # What was on its way failed once, and nothing was tried in vain after that.
    assert 1 <= failed < len(WORKLOADS)
    assert metric_value(controller, "vpa_updater_failed_eviction_attempts_total") == failed
