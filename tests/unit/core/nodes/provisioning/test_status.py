"""The conditions of a ProvisioningRequest, as queues read them."""

from __future__ import annotations

from support.worlds.nodes import START, Cluster, a_group, a_node
from support.worlds.provisioning import (
    CHECK,
    a_request,
    a_template,
    conditions,
    decision,
    put,
    put_template,
    write_status,
)
from trellis.core.nodes.provisioning.status import build_request_conditions


def test_conditions_follow_the_decisions_and_are_written_once() -> None:
    cluster = Cluster(a_group("small", most=0))
    request = a_request("job", ("job", 4), kind=CHECK)
    put(cluster, request)
    cluster.plan()
    request = write_status(cluster, request)
    assert conditions(request) == {"Accepted": ("False", "PodTemplateMissing")}
    put_template(cluster, a_template("job"))
    cluster.plan()
    request = write_status(cluster, request)
    assert conditions(request) == {
        "Accepted": ("True", "Accepted"),
        "Provisioned": ("False", "CapacityIsNotFound"),
    }
    cluster.wait(30).plan()
    assert write_status(cluster, request) is request
    cluster.nodes(a_node("new")).wait(60).plan()
    request = write_status(cluster, request)
    assert conditions(request)["Provisioned"] == ("True", "CapacityIsFound")
    cluster.wait(10).plan()
    assert write_status(cluster, request) is request


def test_a_condition_whose_status_stays_keeps_its_time() -> None:
    cluster = Cluster()
    put_template(cluster, a_template("job"))
    request = a_request("job", ("job", 4), kind=CHECK)
    put(cluster, request)
    cluster.plan()
    request = write_status(cluster, request)
    cluster.nodes(a_node("small", "1")).wait(60).plan()
    made = build_request_conditions(decision(cluster, "job"), request.status.conditions, 1)
    assert made is not None
    provisioned = next(condition for condition in made if condition["type"] == "Provisioned")
    assert provisioned["message"] == "3 of 4 pods fit on no node"
    [before] = [condition for condition in request.status.conditions if condition.type == "Provisioned"]
    assert before.last_transition_time is not None
    assert before.last_transition_time.timestamp() == START
    assert provisioned["lastTransitionTime"] == before.last_transition_time.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_conditions_of_others_are_not_written() -> None:
    cluster = Cluster().nodes(a_node("n0"))
    put_template(cluster, a_template("job"))
    other = {"type": "Other", "status": "True"}
    put(cluster, a_request("job", ("job", 1), kind=CHECK, conditions=[other]))
    cluster.plan()
    request = cluster.snapshot.provisioning._objects["default", "job"]
    made = build_request_conditions(decision(cluster, "job"), request.status.conditions, 1)
    assert made is not None
    assert [condition["type"] for condition in made] == ["Accepted", "Provisioned"]


def test_a_long_message_is_cut() -> None:
    groups = [a_group(f"group-with-a-rather-long-name-{at:04}", most=0) for at in range(60)]
    cluster = Cluster(*groups)
    put_template(cluster, a_template("job"))
    put(cluster, a_request("job", ("job", 1)))
    cluster.plan()
    made = build_request_conditions(decision(cluster, "job"), (), 1)
    assert made is not None
    assert {len(condition["message"]) for condition in made if condition["type"] == "Provisioned"} == {1024}
