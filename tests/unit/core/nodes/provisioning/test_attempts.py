"""Capacity is provided for all pods of a ProvisioningRequest, or for none."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st

from support.builders.nodes_and_pods import seeded, sometimes
from support.worlds.nodes import START, ZONE, Cluster, a_buffer, a_group, a_node, a_pod, a_spec, apart, spread
from support.worlds.provisioning import (
    ATOMIC,
    CHECK,
    a_request,
    a_template,
    code,
    decision,
    put,
    put_request,
    put_template,
)
from trellis.base.reasons import DetailedReason
from trellis.core.nodes.node_groups import GROUP_AT_MAXIMUM
from trellis.core.nodes.settings import ScaleUpSettings

WORLDS = st.integers(0, 2**32).map(seeded)


def test_nodes_are_ordered_for_all_pods_of_an_atomic_request_at_once() -> None:
    cluster = Cluster(a_group("small"))
    put_request(cluster, "job", 10)
    [order] = cluster.plan().orders
    assert (order.group, order.count, order.reason.reason.code) == ("small", 3, "OrderedForProvisioningRequests")
    made = decision(cluster, "job")
    assert (made.phase, made.reason.reason.code, made.ordered) == ("Booked", "CapacityIsProvisioned", {"small": 10})


def test_no_node_is_ordered_for_an_atomic_request_that_does_not_fit_within_limits() -> None:
    cluster = Cluster(a_group("small", most=2))
    put_request(cluster, "job", 10)
    assert cluster.ordered() == {}
    made = decision(cluster, "job")
    assert (made.phase, made.reason.reason.code, made.ordered) == ("Waiting", "CapacityIsNotFound", {})
    assert str(made.reason).startswith("2 of 10 pods fit on no node: ")
    assert "GroupAtMaximum: small" in str(made.reason)


@pytest.mark.parametrize(
    "limits",
    [ScaleUpSettings(max_nodes_total=2), ScaleUpSettings(cores_total=8), ScaleUpSettings(max_nodes_per_scaleup=2)],
)
def test_limits_of_the_cluster_hold_for_all_nodes_of_an_atomic_request(limits: ScaleUpSettings) -> None:
    cluster = Cluster(a_group("small"), settings=limits)
    put_request(cluster, "large", 9)
    assert cluster.ordered() == {}
    put_request(cluster, "small", 8)
    assert cluster.ordered() == {"small": 2}


def test_pods_of_an_atomic_request_may_fill_existing_upcoming_and_new_nodes_of_several_groups() -> None:
    cluster = Cluster(a_group("one", most=2), a_group("two", most=1)).nodes(a_node("there"))
    cluster._order_instance("one", START)
    cluster.update_groups()
    put_request(cluster, "job", 16)
    assert cluster.ordered() == {"one": 1, "two": 1}
    made = decision(cluster, "job")
    assert (made.on_ready, made.on_upcoming, made.ordered) == (4, 4, {"one": 4, "two": 4})
    put_request(cluster, "other", 1)
    assert cluster.ordered() == {}
    assert code(cluster, "other") == "CapacityIsNotFound"


def test_all_sets_of_a_request_count() -> None:
    cluster = Cluster(a_group("small", most=4), a_group("large", "16", "64Gi", most=1, price=9.0))
    put_template(cluster, a_template("worker", "2"))
    put_template(cluster, a_template("leader", "12"))
    put(cluster, a_request("fits", ("worker", 4), ("leader", 1)))
    put(cluster, a_request("fits-not", ("worker", 1), ("leader", 1), created=START + 1))
    assert cluster.ordered()["large"] == 1
    assert (code(cluster, "fits"), code(cluster, "fits-not")) == ("CapacityIsProvisioned", "CapacityIsNotFound")


def test_a_check_capacity_request_is_provisioned_if_all_of_its_pods_fit_on_ready_nodes() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("one"), a_node("two"))
    put_request(cluster, "job", 8, kind=CHECK)
    assert cluster.ordered() == {}
    made = decision(cluster, "job")
    assert (made.phase, made.reason.reason.code, made.on_ready) == ("Booked", "CapacityIsFound", 8)


def test_no_node_is_ordered_for_a_check_capacity_request() -> None:
    cluster = Cluster(a_group("small", boot_seconds=300)).nodes(a_node("one"))
    cluster._order_instance("small", START)
    cluster.update_groups()
    put_request(cluster, "job", 8, kind=CHECK)
    assert cluster.ordered() == {}
    assert code(cluster, "job") == "CapacityIsNotFound"
    assert str(decision(cluster, "job").reason) == "4 of 8 pods fit on no node"


def test_requests_are_tried_in_the_order_of_their_creation() -> None:
    cluster = Cluster().nodes(a_node("one"))
    for name, created in (("a-late", START), ("b-first", START - 9)):
        put_request(cluster, name, 3, kind=CHECK, created=created)
    put_request(cluster, "c-small", 1, kind=CHECK, created=START + 9)
    cluster.plan()
    assert {made.key[1]: made.phase.value for made in cluster.last.requests} == {  # type: ignore[union-attr]
        "b-first": "Booked",
        "a-late": "Waiting",
        "c-small": "Booked",
    }


def test_pending_pods_get_their_nodes_before_requests() -> None:
    cluster = Cluster(a_group("small", most=3)).create_pods(4)
    put_request(cluster, "job", 12)
    assert cluster.ordered() == {"small": 1}
    assert code(cluster, "job") == "CapacityIsNotFound"


def test_a_request_may_take_the_places_of_chunks_for_which_nodes_are_then_ordered() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("one")).buffers(a_buffer("spare", 4))
    assert cluster.ordered() == {}
    put_request(cluster, "job", 4, kind=CHECK)
    assert cluster.ordered() == {"small": 1}
    assert code(cluster, "job") == "CapacityIsFound"


def test_a_suspended_group_has_no_nodes_for_a_request() -> None:
    cluster = Cluster(a_group("small"))
    cluster.suspend("small", DetailedReason(GROUP_AT_MAXIMUM, "paused"))
    put_request(cluster, "job", 1)
    assert cluster.ordered() == {}


def a_cluster_with_a_request(rng: Random) -> Cluster:
    """A cluster with little capacity, pending pods, Buffers and a request of one or two sets with rules."""
    groups = [
        a_group(f"g{at}", rng.choice(("2", "4", "8")), most=rng.choice((0, 1, 3, 8)), labels={ZONE: rng.choice("ab")})
        for at in range(rng.choice((1, 2, 3)))
    ]
    settings = ScaleUpSettings(
        max_nodes_total=rng.choice((0, 0, 5)),
        max_nodes_per_scaleup=rng.choice((1_000, 2)),
        balance_similar_node_groups=sometimes(rng, 0.5),
    )
    cluster = Cluster(*groups, settings=settings)
    for group in groups:
        cluster.add_group_nodes(group.name, min(group.max_size, rng.choice((0, 1))))
    cluster.create_pods(rng.choice((0, 2, 7)), cpu=rng.choice(("500m", "1", "3")))
    cluster.buffers(a_buffer("spare", rng.choice((0, 3)), a_spec(rng.choice(("500m", "2")))))
    app = {"app": "job"}
    for at in range(2):
        rules = rng.choice(({}, {}, apart(app), spread(app), {"nodeSelector": {ZONE: "a"}}))
        put_template(cluster, a_template(f"set-{at}", rng.choice(("500m", "1", "2")), labels=app, **rules))
    return cluster


def put_random_request(cluster: Cluster, rng: Random) -> int:
    """A request for the sets of the cluster; returns the number of its pods."""
    pod_sets = [(f"set-{at}", rng.choice((1, 3, 9, 25))) for at in range(rng.choice((1, 2)))]
    put(cluster, a_request("job", *pod_sets, kind=rng.choice((CHECK, ATOMIC, ATOMIC))))
    return sum(count for _, count in pod_sets)


@given(rng=WORLDS)
@tries(max_examples=60, deadline=None)
def test_a_request_gets_the_capacity_of_all_of_its_pods_or_of_none(rng: Random) -> None:
    cluster = a_cluster_with_a_request(rng)
    count = put_random_request(cluster, rng)
    plan = cluster.plan()
    made = decision(cluster, "job")
    promised = made.on_ready + made.on_upcoming + sum(made.ordered.values())
    assert promised == (count if made.phase.value == "Booked" else 0)
    # What is promised exists once the nodes are up.
    cluster.execute_orders(plan).wait(120)
    cluster.plan()
    if made.phase.value == "Booked":
        assert decision(cluster, "job").on_ready == count


@given(rng=WORLDS)
@tries(max_examples=60, deadline=None)
def test_an_attempt_that_fails_leaves_nothing_behind(rng: Random) -> None:
    """Pods, chunks and orders are what they are in a cluster without the request."""
    seed = rng.randrange(2**32)
    without, with_request = a_cluster_with_a_request(seeded(seed)), a_cluster_with_a_request(seeded(seed))
    put_random_request(with_request, rng)
    plan, other = with_request.plan(), without.plan()
    if decision(with_request, "job").phase.value == "Booked":
        return
    assert plan.orders == other.orders
    assert (plan.pods, plan.buffers) == (other.pods, other.buffers)
    assert plan.memory.pod_nodes == other.memory.pod_nodes
    assert plan.memory.chunk_nodes == other.memory.chunk_nodes


def test_a_request_uses_what_is_left_of_nodes_that_are_ordered_for_pods() -> None:
    cluster = Cluster(a_group("small", most=1)).create(a_pod("alone", cpu="2"))
    put_request(cluster, "job", 1, "2")
    assert cluster.ordered() == {"small": 1}
    assert (code(cluster, "job"), decision(cluster, "job").ordered) == ("CapacityIsProvisioned", {"small": 1})
    put_request(cluster, "other", 1, "100m")
    assert cluster.ordered() == {}
    assert code(cluster, "other") == "CapacityIsNotFound"
