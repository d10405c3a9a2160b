"""Updaters that share namespaces, as real processes: one is killed in mid-pass, and no pod is evicted twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.admission import owned
from support.cluster.replicas import StartReplica, replicas
from support.cluster.updaters import NO_LEASE, advise
from support.cluster.vpas import metric_value, vpa
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.waiting import until
from testbed.workloads import deployment, pod

NAMESPACES = tuple(f"team-{number}" for number in range(12))
NOW = "2020-01-01T00:00:00Z"
EVICTED = "vpa_updater_evicted_pods_total"


@pytest.fixture
def start(cluster: Cluster, tmp_path: Path) -> Iterator[StartReplica]:
    """Start an updater that shares the namespaces, each of which has two pods that are to be evicted one by one."""
    for namespace in NAMESPACES:
        create_workload(cluster, namespace)
    with replicas(cluster, tmp_path, "updater", ["updater"]) as start_replica:
        # Slowly, so that there is a middle.
        yield lambda: start_replica(
            "--shard-namespaces", NO_LEASE, "--updater-interval=1s", "--eviction-rate-limit=1", "--concurrent-writes=2"
        )


def create_workload(cluster: Cluster, namespace: str) -> None:
    """A ReplicaSet with a VPA and two pods, as if nodes ran them."""
    cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    cluster.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, namespace)
    owner = cluster.api.create(deployment("web", replicas=2) | {"kind": "ReplicaSet"}, namespace)
    for number in range(2):
        create_pod(cluster, owner, f"web-{number}", namespace)
    document = vpa("web", updatePolicy={"updateMode": "Recreate"})
    document["spec"]["targetRef"]["kind"] = "ReplicaSet"
    cluster.api.create(document, namespace)
    advise(cluster, namespace, "web")


def create_pod(cluster: Cluster, owner: Json, name: str, namespace: str) -> None:
    cluster.api.create(owned(pod(name, nodeName="node-a"), owner), namespace)
    status = {"name": "app", "image": "i", "imageID": "i", "ready": True, "started": True, "restartCount": 0}
    body = {
        "phase": "Running",
        "startTime": NOW,
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": NOW}],
        "containerStatuses": [status | {"state": {"running": {"startedAt": NOW}}}],
    }
    cluster.api.patch(f"/api/v1/namespaces/{namespace}/pods/{name}/status", {"status": body})


def count_pods(cluster: Cluster) -> Counter[str]:
    """The pods of each namespace."""
    return Counter(pod["metadata"]["namespace"] for pod in cluster.api.list_items("/api/v1/pods"))


def test_updaters_share_evictions_and_take_over_those_of_one_that_is_killed(
    cluster: Cluster, start: StartReplica
) -> None:
    first, second = start(), start()
    until("both to evict", lambda: metric_value(first, EVICTED) >= 1 and metric_value(second, EVICTED) >= 1)
    first.process.kill()
    # Nothing replaces a pod here, so that one of two is evicted in each namespace, by whichever replica.
    until("one pod of each to be left", lambda: set(count_pods(cluster).values()) == {1})
    assert count_pods(cluster).keys() == {*NAMESPACES}
    until("the second to serve all", lambda: metric_value(second, "trellis_shard_members") == 1)
    third = start()
    until("two to share the namespaces", lambda: metric_value(third, "trellis_shard_members") == 2)
    assert metric_value(third, EVICTED) == 0
    assert set(count_pods(cluster).values()) == {1}
