"""Nodes are ordered for the minimum of pods of a PodGroup, or for none of them."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st

from support.builders.nodes_and_pods import seeded, sometimes
from support.worlds.nodes import Cluster, a_buffer, a_group, a_node, a_pod
from support.worlds.provisioning import a_consumer, a_pod_group, code, put_request
from support.worlds.scale_down import ShrinkingCluster
from trellis.core.nodes.provisioning.pod_groups import POD_GROUP_LABEL
from trellis.core.nodes.scale_up.decisions import PendingPodsDecision
from trellis.core.nodes.settings import ScaleUpSettings

GANG = {POD_GROUP_LABEL: "gang"}


def put_gang(cluster: Cluster, minimum: int, pods: int, cpu: str = "1") -> Cluster:
    cluster.snapshot.pod_groups.put_group(("default", "gang"), a_pod_group("gang", minimum))
    cluster.create_pods(pods, "gang", cpu=cpu, labels=GANG)
    return cluster


def gang_decision(cluster: Cluster) -> PendingPodsDecision:
    assert cluster.last is not None
    return next(pods for pods in cluster.last.pods if pods.pods[0][1].startswith("gang"))


def test_nodes_are_ordered_for_all_pods_of_a_gang() -> None:
    cluster = put_gang(Cluster(a_group("small")), 8, 10)
    assert cluster.ordered() == {"small": 3}
    cluster.execute_orders()
    assert cluster.ordered() == {}
    assert gang_decision(cluster).reason.reason.code == "PodAwaitsNode"


def test_no_node_is_ordered_if_fewer_pods_than_the_minimum_would_fit() -> None:
    cluster = put_gang(Cluster(a_group("small", most=2)).nodes(a_node("there", "1")), 10, 12)
    assert cluster.ordered() == {}
    made = gang_decision(cluster)
    assert (made.reason.reason.code, made.unplaced, made.on_ready) == ("GangUnsatisfiable", 12, 0)
    assert str(made.reason).startswith("9 of 10 pods that PodGroup default/gang needs would get a place: ")
    assert "GroupAtMaximum: small" in str(made.reason)


def test_the_minimum_suffices() -> None:
    cluster = put_gang(Cluster(a_group("small", most=2)), 8, 12)
    assert cluster.ordered() == {"small": 2}
    made = gang_decision(cluster)
    assert (made.reason.reason.code, made.ordered, made.unplaced) == ("GroupsExhausted", {"small": 8}, 4)


def test_no_node_is_ordered_while_pods_of_the_gang_are_missing() -> None:
    cluster = put_gang(Cluster(a_group("small")), 4, 3)
    assert cluster.ordered() == {}
    assert str(gang_decision(cluster).reason) == "3 of 4 pods that PodGroup default/gang needs would get a place"
    assert cluster.create(a_pod("gang-last", labels=GANG)).ordered() == {"small": 1}


def test_running_pods_count_for_the_minimum_and_others_then_get_nodes_one_by_one() -> None:
    cluster = Cluster(a_group("small", most=1)).nodes(a_node("there"))
    for at in range(3):
        cluster.place(a_pod(f"run-{at}", labels=GANG), "there")
    put_gang(cluster, 7, 4)
    assert cluster.ordered() == {"small": 1}
    cluster = Cluster(a_group("small", most=1)).nodes(a_node("there"))
    for at in range(4):
        cluster.place(a_pod(f"run-{at}", labels=GANG), "there")
    put_gang(cluster, 4, 9)
    assert cluster.ordered() == {"small": 1}
    assert gang_decision(cluster).unplaced == 5


@pytest.mark.parametrize("known", [False, True])
def test_pods_without_their_pod_group_are_like_any_others(known: bool) -> None:
    cluster = Cluster(a_group("small", most=1)).create_pods(9, "gang", labels=GANG)
    if known:
        cluster.snapshot.pod_groups.put_group(("default", "gang"), a_pod_group("gang", 9))
    assert cluster.ordered() == ({} if known else {"small": 1})


def test_a_pod_group_of_another_namespace_does_not_count() -> None:
    cluster = Cluster(a_group("small", most=1)).create_pods(9, "gang", labels=GANG)
    cluster.snapshot.pod_groups.put_group(("other", "gang"), a_pod_group("gang", 9))
    assert cluster.ordered() == {"small": 1}


def test_other_pods_chunks_and_requests_go_on_as_if_a_gang_that_does_not_fit_were_not_there() -> None:
    cluster = put_gang(Cluster(a_group("small", most=3)), 20, 20).create_pods(4, "web").buffers(a_buffer("spare", 4))
    put_request(cluster, "job", 4)
    assert cluster.ordered() == {"small": 3}
    assert code(cluster, "job") == "CapacityIsProvisioned"
    assert gang_decision(cluster).reason.reason.code == "GangUnsatisfiable"


def test_pods_that_consume_a_request_are_no_gang() -> None:
    cluster = Cluster(a_group("small")).create(*(a_consumer(f"gang-{at}", "job", labels=GANG) for at in range(4)))
    cluster.snapshot.pod_groups.put_group(("default", "gang"), a_pod_group("gang", 4))
    put_request(cluster, "job", 4)
    assert cluster.ordered() == {"small": 1}
    assert gang_decision(cluster).reason.reason.code == "PodConsumesProvisioningRequest"


def test_a_gang_that_does_not_fit_keeps_no_node_and_one_that_fits_does() -> None:
    for minimum, kept in ((9, "NodeUnneeded"), (8, "PendingPodFits")):
        cluster = ShrinkingCluster(a_group("small", most=2)).add_group_nodes("small", 2)
        put_gang(cluster, minimum, minimum)
        cluster.plan_removals()
        assert {cluster.reason_code("small-1"), cluster.reason_code("small-2")} == {kept}


@given(rng=st.integers(0, 2**32).map(seeded))
@tries(max_examples=60, deadline=None)
def test_a_gang_gets_its_minimum_or_nothing_and_then_others_are_as_without_it(rng: Random) -> None:
    def build(rng: Random) -> Cluster:
        settings = ScaleUpSettings(max_nodes_total=rng.choice((0, 4)), balance_similar_node_groups=sometimes(rng, 0.5))
        groups = [a_group(f"g{at}", rng.choice(("2", "4")), most=rng.choice((0, 1, 4))) for at in range(2)]
        cluster = Cluster(*groups, settings=settings)
        cluster.nodes(*(a_node(f"own-{at}", "2") for at in range(rng.choice((0, 1, 2)))))
        cluster.create_pods(rng.choice((0, 3)), "web", cpu=rng.choice(("500m", "2")))
        return cluster.buffers(a_buffer("spare", rng.choice((0, 2))))

    seed, minimum = rng.randrange(2**32), rng.choice((1, 4, 9, 14))
    cluster, without = build(seeded(seed)), build(seeded(seed))
    put_gang(cluster, minimum, minimum + rng.choice((0, 2)), rng.choice(("500m", "1", "2")))
    plan, other = cluster.plan(), without.plan()
    made = gang_decision(cluster)
    placed = made.on_ready + made.on_upcoming + sum(made.ordered.values())
    assert placed >= minimum or placed == 0
    if made.reason.reason.code == "GangUnsatisfiable":
        assert placed == 0
        assert (plan.orders, plan.buffers) == (other.orders, other.buffers)
        assert [pods for pods in plan.pods if pods is not made] == list(other.pods)
