"""Recommenders that share namespaces, as real processes that are killed and added."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path

import pytest

from support.cluster.replicas import StartReplica, is_serving, replicas
from support.cluster.vpas import EVERY_SECOND, get_vpa_status, metric_value, vpa, vpa_path
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.waiting import until

NAMESPACES = tuple(f"team-{number}" for number in range(12))
SHARED, SINGLE = "--shard-namespaces", "--leader-elect"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/vpa-recommender-lease"


@pytest.fixture
def start(cluster: Cluster, tmp_path: Path) -> Iterator[StartReplica]:
    """Start a recommender, which shares the namespaces unless it gets other flags; each namespace has a VPA."""
    for namespace in NAMESPACES:
        cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        # Without a target there is something to say of it at once.
        cluster.api.create(vpa("web"), namespace)
    with replicas(cluster, tmp_path, "recommender", ["recommender"]) as start_replica:
        yield lambda *flags: start_replica(*(flags or (SHARED,)), EVERY_SECOND)


@contextmanager
def never_two(running: Callable[[], list[Controller]]) -> Iterator[None]:
    """Fail if a namespace is served by two replicas at the same moment.

    One is asked before and after the other: if it serves a namespace both times, it did when the other was asked.
    """
    violations: list[str] = []
    over = threading.Event()

    def check() -> None:
        while not over.is_set():
            for namespace in NAMESPACES:
                for one, other in permutations(running(), 2):
                    if _asked(one, namespace) and _asked(other, namespace) and _asked(one, namespace):
                        violations.append(f"{namespace}: {one.url} and {other.url}")

    checking = threading.Thread(target=check)
    checking.start()
    try:
        yield
    finally:
        over.set()
        checking.join()
    assert not violations


def _asked(replica: Controller, namespace: str) -> bool:
    try:
        return is_serving(replica, namespace)
    except OSError:
        return False


def share(*running: Controller) -> bool:
    """Whether each namespace is served by one of these, and all of them know that they are so many."""
    served = [[namespace for namespace in NAMESPACES if is_serving(replica, namespace)] for replica in running]
    members = {metric_value(replica, "trellis_shard_members") for replica in running}
    return members == {len(running)} and sorted(name for names in served for name in names) == sorted(NAMESPACES)


def test_each_vpa_has_one_recommender_while_recommenders_are_killed_and_added(
    cluster: Cluster, start: StartReplica
) -> None:
    running = [start(), start()]

    def observed(generation: int) -> bool:
        statuses = (get_vpa_status(cluster, namespace, "web") for namespace in NAMESPACES)
        return all(status.get("observedGeneration") == generation for status in statuses)

    with never_two(lambda: list(running)):
        until("two to share the namespaces", lambda: share(*running))
        until("all VPAs to have a status", lambda: observed(1))
        assert cluster.api.get(LEASE)["spec"]["holderIdentity"] == "vpa-recommender-lease-shards"
        assert metric_value(running[0], "trellis_shard_members") == 2.0
        running.pop(0).process.kill()
        until("the other to serve all", lambda: share(*running))
        for namespace in NAMESPACES:
            cluster.api.patch(vpa_path(namespace, "web"), {"spec": {"updatePolicy": {"updateMode": "Off"}}})
        until("all VPAs to be served", lambda: observed(2))
        running += [start(), start()]
        until("three to share the namespaces", lambda: share(*running))
        running.pop(0).process.stop()
        until("two to share the namespaces again", lambda: share(*running))
        assert cluster.api.get(LEASE)["spec"]["holderIdentity"] == "vpa-recommender-lease-shards"
        for namespace in NAMESPACES:
            cluster.api.patch(vpa_path(namespace, "web"), {"spec": {"updatePolicy": {"updateMode": "Initial"}}})
        until("all VPAs to be served by them", lambda: observed(3))
    for replica in running:
        replica.process.stop()
    # The last one to end leaves the Lease to upstream's recommender.
    assert not cluster.api.get(LEASE)["spec"].get("holderIdentity")


def leads(replica: Controller) -> bool:
    """Whether a recommender without shards holds the Lease, and serves all namespaces."""
    return metric_value(replica, "trellis_component_leader", component="recommender") == 1.0


def test_sharding_is_switched_off_and_on_by_replacing_replicas_and_none_works_beside_the_others(
    cluster: Cluster, start: StartReplica
) -> None:
    running = [start(SHARED)]
    with never_two(lambda: list(running)):
        until("one to serve all", lambda: share(*running))
        running.append(start(SINGLE))
        until("the other to be ready", lambda: running[1].get("/readyz")[0] == 200)
        assert not leads(running[1])
        assert share(running[0])
        running.pop(0).process.stop()
        until("the other to lead", lambda: leads(running[0]))
        until("it to serve all", lambda: all(is_serving(running[0], namespace) for namespace in NAMESPACES))
        assert "shards" not in cluster.api.get(LEASE)["spec"]["holderIdentity"]
        running.append(start(SHARED))
        until("a member Lease", lambda: metric_value(running[1], "trellis_shard_members") == 1.0)
        assert not any(is_serving(running[1], namespace) for namespace in NAMESPACES)
        running.pop(0).process.stop()
        until("the last one to serve all", lambda: share(*running))
