"""Replicas of `trellis run` share the components, and take over those of one that is killed or ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from support.cluster.replicas import StartReplica, list_led, replicas
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.waiting import until

COMPONENTS = ("recommender", "updater", "hvpa", "buffers")
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


@pytest.fixture
def start(cluster: Cluster, tmp_path: Path) -> Iterator[StartReplica]:
    """Start a replica of `trellis run` with four components."""
    with replicas(cluster, tmp_path, "run", COMPONENTS) as start_replica:
        yield lambda: start_replica(f"--components={','.join(COMPONENTS)}")


def is_spread(*running: Controller) -> bool:
    """Whether each component has one leader among these, and each of these leads as many."""
    led = [list_led(replica, COMPONENTS) for replica in running]
    return sorted(name for names in led for name in names) == sorted(COMPONENTS) and len({*map(len, led)}) == 1


def list_events(cluster: Cluster) -> Sequence[str]:
    """What Events of Leases say, without the identities of replicas."""
    events = cluster.api.list_items("/api/v1/namespaces/kube-system/events")
    return [event["message"].split(" ", 1)[1] for event in events if event["reason"] == "LeaderElection"]


def test_leaders_are_spread_and_move_when_a_replica_is_killed_or_ends(cluster: Cluster, start: StartReplica) -> None:
    first = start()
    until("the first to lead all", lambda: is_spread(first))
    names = {lease["metadata"]["name"] for lease in cluster.api.list_items(LEASES)}
    assert {"vpa-recommender-lease", "vpa-updater", "trellis-hvpa", "trellis-buffers"} <= names
    assert len([name for name in names if name.startswith("trellis-member-")]) == 1
    second = start()
    until("leaders to be spread", lambda: is_spread(first, second))
    assert {"became leader", "stopped leading"} == {*list_events(cluster)}
    first.process.kill()
    until("the second to lead all", lambda: is_spread(second))
    third = start()
    until("leaders to be spread again", lambda: is_spread(second, third))
    second.process.stop()
    until("the third to lead all", lambda: is_spread(third))
