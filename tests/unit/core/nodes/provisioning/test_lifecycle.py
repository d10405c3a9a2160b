"""When a ProvisioningRequest is tried, how long its capacity is booked, and which pods consume it."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from support.worlds.nodes import START, Cluster, a_buffer, a_group, a_node, a_pod
from support.worlds.provisioning import (
    ATOMIC,
    CHECK,
    a_consumer,
    a_request,
    a_template,
    code,
    conditions,
    decision,
    put,
    put_request,
    put_template,
    write_status,
)
from trellis.core.nodes.provisioning.lifecycle import subtract_consumers
from trellis.core.nodes.provisioning.requests import BookedPods
from trellis.core.nodes.scale_up.remembered_state import (
    ScaleUpMemory,
    record_failed_order,
    record_withdrawn_bookings,
)

DAY = 86_400.0


def a_booked_cluster(count: int = 4, nodes: int = 2) -> Cluster:
    """A request has been provisioned on nodes that hold four of its pods each."""
    cluster = Cluster(a_group("small")).nodes(*(a_node(f"n{at}") for at in range(nodes)))
    put_request(cluster, "job", count, kind=CHECK)
    cluster.plan()
    assert decision(cluster, "job").phase.value == "Booked"
    return cluster


def test_a_request_without_capacity_is_tried_again_after_pauses_that_double_up_to_ten_minutes() -> None:
    cluster = Cluster(a_group("small"))
    put_request(cluster, "job", 1, kind=CHECK)
    attempts = [cluster.now]
    while len(attempts) < 7:
        plan = cluster.plan()
        assert plan.requeue_at is not None
        tried_at = plan.memory.requests["uid-job"].since
        attempts += [tried_at] if tried_at != attempts[-1] else []
        cluster.now = plan.requeue_at
    pauses = [later - earlier for earlier, later in pairwise(attempts)]
    assert pauses == [60.0, 120.0, 240.0, 480.0, 600.0, 600.0]


def test_capacity_that_comes_in_a_pause_is_found_after_it() -> None:
    cluster = Cluster()
    put_request(cluster, "job", 1, kind=CHECK)
    cluster.plan()
    cluster.nodes(a_node("new")).wait(59).plan()
    assert code(cluster, "job") == "CapacityIsNotFound"
    cluster.wait(1).plan()
    assert code(cluster, "job") == "CapacityIsFound"


def test_a_request_that_is_not_retried_fails_at_once_and_for_good() -> None:
    cluster = Cluster()
    put_request(cluster, "job", 1, kind=CHECK, parameters={"noRetry": "true"})
    cluster.plan()
    assert (decision(cluster, "job").phase, code(cluster, "job")) == ("Failed", "CapacityIsNotFound")
    cluster.nodes(a_node("new")).wait(3600).plan()
    assert decision(cluster, "job").phase == "Failed"


@pytest.mark.parametrize(
    ("parameters", "seconds"),
    [({}, 7 * DAY), ({"ValidUntilSeconds": "300"}, 300), ({"ValidUntilSeconds": "0"}, 7 * DAY)],
)
def test_a_request_fails_once_it_is_not_valid_any_more(parameters: dict[str, str], seconds: float) -> None:
    cluster = Cluster(a_group("small", most=0))
    put_request(cluster, "job", 1, kind=ATOMIC, parameters=parameters)
    cluster.now = START + seconds - 1
    cluster.plan()
    assert decision(cluster, "job").phase == "Waiting"
    assert cluster.last is not None
    assert cluster.last.requeue_at == START + seconds
    cluster.wait(1).plan()
    assert (decision(cluster, "job").phase, code(cluster, "job")) == ("Failed", "Expired")


def test_booked_capacity_is_not_free_for_other_pods_requests_and_chunks() -> None:
    cluster = a_booked_cluster(count=8)
    put_request(cluster, "other", 1, kind=CHECK)
    cluster.buffers(a_buffer("spare", 4)).create_pods(4)
    assert cluster.ordered() == {"small": 2}
    assert code(cluster, "other") == "CapacityIsNotFound"
    assert cluster.buffer("spare").on_ready == 0


def test_a_booking_expires_after_ten_minutes() -> None:
    cluster = a_booked_cluster(count=8)
    cluster.create_pods(4).wait(599)
    assert cluster.ordered() == {"small": 1}
    assert cluster.last is not None
    assert cluster.last.requeue_at == START + 600
    cluster = a_booked_cluster(count=8)
    cluster.create_pods(4).wait(600)
    assert cluster.ordered() == {}
    assert (decision(cluster, "job").phase, code(cluster, "job")) == ("Expired", "CapacityReservationTimeExpired")


def test_a_process_that_takes_over_books_until_the_same_time() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("n0"))
    put_template(cluster, a_template("job"))
    request = a_request("job", ("job", 4), kind=CHECK)
    put(cluster, request)
    cluster.plan()
    request = write_status(cluster, request)
    cluster.memory = ScaleUpMemory()
    cluster.wait(599).plan()
    assert decision(cluster, "job").phase == "Booked"
    assert write_status(cluster, request) is request
    cluster.wait(1).plan()
    request = write_status(cluster, request)
    assert conditions(request) == {
        "Accepted": ("True", "Accepted"),
        "Provisioned": ("True", "CapacityIsFound"),
        "BookingExpired": ("True", "CapacityReservationTimeExpired"),
    }
    assert cluster.plan().requests == ()


@pytest.mark.parametrize("annotation", [0, 1])
def test_pods_take_the_places_that_are_booked_for_them(annotation: int) -> None:
    cluster = a_booked_cluster(count=8)
    cluster.create(*(a_consumer(f"job-{at}", "job", annotation=annotation) for at in range(4)))
    assert cluster.ordered() == {}
    assert cluster.last is not None
    assert [(pods.on_ready, pods.reason.reason.code) for pods in cluster.last.pods] == [(4, "PodFits")]
    assert decision(cluster, "job").on_ready == 4
    for at in range(4):
        cluster.place(cluster.pods[f"job-{at}"], "n1")
    assert cluster.create_pods(1).ordered() == {"small": 1}
    assert cluster.memory.chunk_nodes["uid-job/0"] == ("n0",) * 4


def test_a_booking_is_over_when_all_pods_of_the_request_have_a_node() -> None:
    cluster = a_booked_cluster(count=4)
    for at in range(4):
        cluster.place(a_consumer(f"job-{at}", "job"), "n0")
    cluster.plan()
    assert (decision(cluster, "job").phase, code(cluster, "job")) == ("Expired", "CapacityBookingConsumed")


def test_pods_of_a_waiting_request_trigger_no_scale_up() -> None:
    cluster = Cluster(a_group("small", most=1)).create(*(a_consumer(f"job-{at}", "job") for at in range(8)))
    put_request(cluster, "job", 8)
    assert cluster.ordered() == {}
    assert cluster.last is not None
    assert [(pods.unplaced, pods.reason.reason.code) for pods in cluster.last.pods] == [
        (8, "PodConsumesProvisioningRequest")
    ]


def test_pods_that_exist_before_their_request_is_provisioned_get_the_nodes_of_the_request_alone() -> None:
    cluster = Cluster(a_group("small")).create(*(a_consumer(f"job-{at}", "job") for at in range(8)))
    put_request(cluster, "job", 8)
    assert cluster.ordered() == {"small": 2}
    cluster.execute_orders().wait(120)
    cluster.schedule()
    assert cluster.ordered() == {}
    assert not cluster.pending
    assert code(cluster, "job") == "CapacityBookingConsumed"


@pytest.mark.parametrize("over", ["expired", "failed", "deleted", "never there"])
def test_pods_of_a_request_that_is_over_are_like_any_others(over: str) -> None:
    cluster = Cluster(a_group("small"))
    put_template(cluster, a_template("job"))
    kind = {"expired": "BookingExpired", "failed": "Failed"}.get(over)
    status = [{"type": kind, "status": "True"}] if kind else []
    if over != "never there":
        put(cluster, a_request("job", ("job", 4), conditions=status))
    if over == "deleted":
        cluster.snapshot.provisioning.put_request(("default", "job"), None)
    assert cluster.create(a_consumer("job-0", "job")).ordered() == {"small": 1}


def test_a_booked_pod_that_has_lost_its_node_finds_another_place() -> None:
    cluster = a_booked_cluster(count=4, nodes=2)
    cluster.snapshot.put_node("n0", None)
    cluster.plan()
    assert decision(cluster, "job").on_ready == 4
    assert cluster.memory.chunk_nodes["uid-job/0"] == ("n1",) * 4


def test_booked_pods_wait_for_upcoming_nodes_and_order_none_twice() -> None:
    cluster = Cluster(a_group("small", boot_seconds=200))
    put_request(cluster, "job", 8)
    cluster.plan()
    cluster.execute_orders()
    for _ in range(3):
        assert cluster.wait(60).ordered() == {}
        assert decision(cluster, "job").on_upcoming == 8
    assert cluster.wait(60).ordered() == {}
    assert decision(cluster, "job").on_ready == 8


@pytest.mark.parametrize("fails", ["refused", "partly written"])
def test_a_request_waits_again_if_its_order_fails(fails: str) -> None:
    cluster = Cluster(a_group("small"), a_group("other", price=9.0))
    put_request(cluster, "job", 8)
    assert cluster.ordered() == {"small": 2}
    withdraw = record_failed_order if fails == "refused" else record_withdrawn_bookings
    cluster.memory = withdraw(cluster.memory, "small", "no machines", cluster.now, cluster.settings)
    state = cluster.memory.requests["uid-job"]
    assert (state.phase, state.backoff_seconds) == ("Waiting", 60.0)
    assert str(state.reason) == "nodes of small could not be ordered: no machines"
    cluster.memory = msgspec.structs.replace(cluster.memory, unconfirmed_orders={})
    assert cluster.wait(59).ordered() == {}
    assert cluster.wait(1).ordered() == {"small": 2} if fails != "refused" else {"other": 2}


def test_an_order_of_another_group_that_fails_leaves_a_booking_alone() -> None:
    cluster = Cluster(a_group("small"), a_group("other", price=9.0))
    put_request(cluster, "job", 8)
    cluster.plan()
    memory = record_failed_order(cluster.memory, "other", "no machines", cluster.now, cluster.settings)
    assert memory.requests == cluster.memory.requests
    later = record_failed_order(cluster.memory, "small", "no machines", cluster.now + 10, cluster.settings)
    assert later.requests == cluster.memory.requests


def test_a_missing_template_delays_its_request_alone_and_a_bad_one_fails_it() -> None:
    cluster = Cluster().nodes(a_node("n0"))
    put(cluster, a_request("a-missing", ("late", 1), kind=CHECK))
    put_request(cluster, "b-unreadable", 1, "many", kind=CHECK)
    put_request(cluster, "c-empty", 0, kind=CHECK)
    put_request(cluster, "d-good", 1, kind=CHECK)
    cluster.plan()
    assert cluster.last is not None
    assert [(made.key[1], made.phase, made.reason.reason.code) for made in cluster.last.requests] == [
        ("a-missing", "Waiting", "PodTemplateMissing"),
        ("b-unreadable", "Failed", "FailedToCreatePods"),
        ("c-empty", "Failed", "FailedToCreatePods"),
        ("d-good", "Booked", "CapacityIsFound"),
    ]
    put_template(cluster, a_template("late"))
    cluster.plan()
    assert code(cluster, "a-missing") == "CapacityIsFound"


def test_requests_of_other_classes_are_left_alone() -> None:
    cluster = Cluster(a_group("small")).nodes(a_node("n0"))
    put_request(cluster, "job", 1, kind="queued-provisioning.gke.io")
    assert cluster.plan().requests == ()


def test_pods_count_for_the_set_that_requests_the_same_or_else_for_the_first_with_pods_left() -> None:
    cluster = Cluster()
    put_template(cluster, a_template("leader", "2"))
    put_template(cluster, a_template("worker", "1"))
    put(cluster, a_request("job", ("leader", 1), ("worker", 3)))
    pod_sets = cluster.snapshot.provisioning.requests["default", "job"].pod_sets

    def left(*sizes: str) -> list[int]:
        for at, cpu in enumerate(sizes):
            cluster.place(a_consumer(f"p{at}", "job", cpu), "n0")
        demands = [cluster.snapshot.placed["default", f"p{at}"].demand for at in range(len(sizes))]
        return _counts(subtract_consumers(pod_sets, demands))

    assert left("1", "1") == [1, 1]
    assert left("2") == [3]
    assert left("1500m", "1") == [2]
    assert left("3", "3", "3", "3", "3", "3") == []


def _counts(pod_sets: tuple[BookedPods, ...]) -> list[int]:
    return [pods.count for pods in pod_sets]


def test_a_pod_that_has_ended_consumes_nothing() -> None:
    cluster = a_booked_cluster(count=4)
    cluster.place(a_consumer("job-0", "job"), "n0")
    cluster.plan()
    assert decision(cluster, "job").on_ready == 3
    done = a_pod("job-0", status={"phase": "Succeeded"})
    cluster.create(msgspec.structs.replace(done, metadata=a_consumer("job-0", "job").metadata))
    cluster.plan()
    assert decision(cluster, "job").on_ready == 4
