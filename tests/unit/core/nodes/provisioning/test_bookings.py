"""Booked capacity is kept by scale-down, and keeps its nodes."""

from __future__ import annotations

import pytest

from support.worlds.nodes import a_group
from support.worlds.provisioning import CHECK, a_consumer, put_request
from support.worlds.scale_down import ShrinkingCluster, a_web_pod
from trellis.core.nodes.settings import ScaleDownSettings


def a_shrinking_cluster(nodes: int = 2) -> ShrinkingCluster:
    return ShrinkingCluster(a_group("small")).add_group_nodes("small", nodes)


def test_nodes_that_booked_pods_need_are_not_removed_until_the_booking_expires() -> None:
    cluster = a_shrinking_cluster()
    cluster.plan_removals()
    assert [cluster.reason_code(f"small-{at}") for at in (1, 2)] == ["NodeUnneeded"] * 2
    put_request(cluster, "job", 8, kind=CHECK)
    cluster.plan()
    cluster.run_passes(590)
    assert [cluster.reason_code(f"small-{at}") for at in (1, 2)] == ["NoPlaceForBookedPods"] * 2
    assert "ProvisioningRequest default/job" in str(cluster.decisions["small-1"].reason)
    cluster.run_passes(1300)
    assert not cluster.snapshot.nodes


def test_only_as_many_nodes_are_kept_as_booked_pods_need() -> None:
    cluster = a_shrinking_cluster(nodes=3)
    put_request(cluster, "job", 4, kind=CHECK)
    cluster.plan()
    cluster.plan_removals()
    codes = sorted(cluster.reason_code(f"small-{at}") for at in (1, 2, 3))
    assert codes.count("NodeUnneeded") == 2


def test_pods_are_not_moved_to_booked_places() -> None:
    cluster = a_shrinking_cluster()
    cluster.run("small-2", a_web_pod("web", "1"))
    put_request(cluster, "job", 4, kind=CHECK)
    cluster.plan()
    cluster.plan_removals()
    assert cluster.reason_code("small-2") == "NoPlaceForPods"


def test_booked_pods_that_lose_their_node_stop_the_removal_of_another() -> None:
    down = ScaleDownSettings(scale_down_unneeded_seconds=60)
    cluster = ShrinkingCluster(a_group("small", most=2), down=down).add_group_nodes("small", 2)
    put_request(cluster, "job", 4, kind=CHECK)
    cluster.plan()
    cluster.run_passes(61, every=1)
    assert cluster.reason_code("small-1") in {"NodeTainted", "NodeDeleteDelayAfterTaint"}
    cluster.snapshot.put_node("small-2", None)
    cluster.run_pass()
    assert cluster.reason_code("small-1") == "NodeNeededAgain"


@pytest.mark.parametrize("node", ["small-1", "small-2"])
def test_the_places_that_end_first_are_those_on_the_nodes_of_pods_of_the_request(node: str) -> None:
    cluster = a_shrinking_cluster()
    put_request(cluster, "job", 8, kind=CHECK)
    cluster.plan()
    for at in range(3):
        cluster.place(a_consumer(f"job-{at}", "job"), node)
    for _ in range(3):
        cluster.plan()
        places = cluster.memory.chunk_nodes["uid-job/0"]
        assert (len(places), places.count(node)) == (5, 1)
