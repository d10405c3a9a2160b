"""Actuation requirements on a real control plane: what they hold back, and what they have no say in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.admission import resources, wait_for_current_advice, wait_for_webhook_calls
from support.cluster.updaters import (
    MEMORY,
    NO_LEASE,
    Start,
    advise,
    advise_containers,
    by_uid,
    count_updater_passes,
    events,
    requests,
    running_pods,
    updaters,
    wait_for_two_passes,
)
from support.cluster.vpas import metric_value, vpa, vpa_path
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.errors import Refused
from testbed.kwok import annotations as ask
from testbed.waiting import until
from testbed.workloads import container, deployment

HIGHER, LOWER = "TargetHigherThanRequests", "TargetLowerThanRequests"
OFTEN = "--updater-interval=1s"


@pytest.fixture
def updater(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start `trellis updater` for the VPAs of one namespace."""
    with updaters(cluster, tmp_path) as start:
        yield start


def needs(change: str, *names: str) -> Json:
    """One requirement."""
    return {"resources": list(names), "changeRequirement": change}


def required(cluster: Cluster, namespace: str, mode: str, *requirements: Json) -> None:
    """A VPA for the Deployment web that has requirements."""
    policy = {"updateMode": mode, "actuationRequirements": list(requirements)}
    cluster.api.create(vpa("web", updatePolicy=policy), namespace)


def of_all(cluster: Cluster, namespace: str) -> list[dict[str, Json]]:
    """The requests of the pods, by container."""
    return [
        {name: resource["requests"] for name, resource in resources(pod).items()}
        for pod in cluster.list_pods(namespace, "web")
    ]


@pytest.mark.req("AR-08", "AR-09")
def test_an_eviction_for_one_container_brings_the_recommendation_to_all(
    cluster: Cluster, namespace: str, admission: Start, updater: Start
) -> None:
    admission(namespace)
    wait_for_webhook_calls(cluster, namespace)
    cluster.api.create(deployment("web", container(), container("mesh", cpu="500m"), replicas=2), namespace)
    before = by_uid(cluster.wait_for_ready_pods(namespace, "web", 2))
    required(cluster, namespace, "Recreate", needs(HIGHER, "cpu"))
    targets = {"app": {"cpu": "250m", "memory": MEMORY}, "mesh": {"cpu": "200m", "memory": MEMORY}}
    advise_containers(cluster, namespace, "web", targets)
    wait_for_current_advice(cluster, namespace)
    updater(namespace, OFTEN)
    until("all pods to be sized", lambda: of_all(cluster, namespace) == [targets] * 2)
    assert not before.keys() & by_uid(cluster.wait_for_ready_pods(namespace, "web", 2)).keys()


@pytest.mark.req("AR-07", "AR-19")
def test_a_pod_that_is_created_gets_the_whole_recommendation_whatever_the_requirements_say(
    cluster: Cluster, namespace: str, admission: Start, updater: Start
) -> None:
    admission(namespace)
    wait_for_webhook_calls(cluster, namespace)
    before = running_pods(cluster, namespace, "web")
    required(cluster, namespace, "Recreate", needs(HIGHER, "cpu"), needs(HIGHER, "memory"))
    advise(cluster, namespace, "web", "50m", "64Mi")
    wait_for_current_advice(cluster, namespace)
    controller = updater(namespace, OFTEN)
    until("the Event", lambda: events(cluster, namespace, "RequirementsForbidEviction"))
    wait_for_two_passes(controller)
    assert by_uid(cluster.list_pods(namespace, "web")).keys() == before.keys()
    # Somebody else ends one of them.
    gone, remaining = before
    name = before[gone]["metadata"]["name"]
    cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods/{name}")
    until("its successor", lambda: gone not in by_uid(cluster.list_pods(namespace, "web")))
    after = by_uid(cluster.wait_for_ready_pods(namespace, "web", 2))
    assert resources(after.pop(remaining))["app"]["requests"] == {"cpu": "100m", "memory": "128Mi"}
    [made] = after.values()
    assert resources(made)["app"]["requests"] == {"cpu": "50m", "memory": "64Mi"}
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0


@pytest.mark.req("AR-11")
def test_in_place_each_resource_of_one_requirement_must_compare_itself(
    cluster: Cluster, namespace: str, updater: Start
) -> None:
    before = running_pods(cluster, namespace, "web")
    required(cluster, namespace, "InPlaceOrRecreate", needs(HIGHER, "cpu", "memory"))
    advise(cluster, namespace, "web", "250m", "64Mi")
    controller = updater(namespace, NO_LEASE, OFTEN)
    wanted = [{"app": {"cpu": "250m", "memory": "128Mi"}}] * 2
    until("the resizes", lambda: of_all(cluster, namespace) == wanted)
    wait_for_two_passes(controller)
    assert of_all(cluster, namespace) == wanted
    assert by_uid(cluster.list_pods(namespace, "web")).keys() == before.keys()


@pytest.mark.req("AR-17", "AR-25")
def test_a_resize_that_restarts_a_container_obeys_the_requirements(
    cluster: Cluster, namespace: str, updater: Start
) -> None:
    restarting = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    cluster.api.create(deployment("web", container(resizePolicy=restarting), replicas=2), namespace)
    before = by_uid(cluster.wait_for_ready_pods(namespace, "web", 2))
    required(cluster, namespace, "InPlaceOrRecreate", needs(HIGHER, "cpu"))
    advise(cluster, namespace, "web", "50m")
    controller = updater(namespace, NO_LEASE, OFTEN)
    until("the Event", lambda: events(cluster, namespace, "RequirementsForbidResize"))
    wait_for_two_passes(controller)
    assert requests(cluster, namespace, "web") == ["100m"] * 2
    # Time to go down: whoever says so may change the requirement while all runs.
    lower = {"spec": {"updatePolicy": {"actuationRequirements": [needs(LOWER, "cpu")]}}}
    cluster.api.patch(vpa_path(namespace, "web"), lower)
    until("the resizes", lambda: requests(cluster, namespace, "web") == ["50m"] * 2)
    advise(cluster, namespace, "web", "250m")
    begun = count_updater_passes(controller)
    until("a pass that knows of it", lambda: count_updater_passes(controller) >= begun + 2)
    wait_for_two_passes(controller)
    assert requests(cluster, namespace, "web") == ["50m"] * 2
    assert by_uid(cluster.list_pods(namespace, "web")).keys() == before.keys()
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0


@pytest.mark.req("AR-26", "AR-27")
def test_two_requirements_for_one_resource_are_refused_on_create_and_on_update(
    cluster: Cluster, namespace: str, admission: Start
) -> None:
    admission(namespace)
    wait_for_webhook_calls(cluster, namespace)
    named = r"actuationRequirements\[0\] and actuationRequirements\[1\]"
    twice = ([needs(HIGHER, "cpu"), needs(LOWER, "cpu")], [needs(HIGHER, "cpu", "memory"), needs(HIGHER, "memory")])
    for entries in twice:
        with pytest.raises(Refused, match=named) as refusal:
            required(cluster, namespace, "Recreate", *entries)
        assert (refusal.value.status, refusal.value.reason) == (422, "Invalid")
    required(cluster, namespace, "Recreate", needs(HIGHER, "cpu"), needs(LOWER, "memory"))
    for entries in twice:
        with pytest.raises(Refused, match=named):
            cluster.api.patch(
                vpa_path(namespace, "web"), {"spec": {"updatePolicy": {"actuationRequirements": entries}}}
            )
    stored = cluster.api.get(vpa_path(namespace, "web"))["spec"]["updatePolicy"]["actuationRequirements"]
    assert stored == [needs(HIGHER, "cpu"), needs(LOWER, "memory")]


@pytest.mark.req("AR-07", "AR-21")
def test_a_resize_that_fails_ends_in_an_eviction_only_when_all_requirements_hold(
    cluster: Cluster, namespace: str, updater: Start
) -> None:
    before = running_pods(cluster, namespace, "web", notes={ask.RESIZE: ask.INFEASIBLE})
    required(cluster, namespace, "InPlaceOrRecreate", needs(HIGHER, "cpu"), needs(HIGHER, "memory"))
    advise(cluster, namespace, "web", "250m")
    controller = updater(namespace, NO_LEASE, OFTEN)
    # In place each resource counts by itself, so that CPU is tried. No node can do it, and memory is what it should be.
    until("the resizes", lambda: metric_value(controller, "vpa_updater_in_place_updated_pods_total") == 2)
    until("the Event", lambda: events(cluster, namespace, "RequirementsForbidEviction"))
    wait_for_two_passes(controller)
    assert by_uid(cluster.list_pods(namespace, "web")).keys() == before.keys()
    assert [pod["status"]["conditions"] for pod in cluster.list_pods(namespace, "web") if not infeasible(pod)] == []
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0
    advise(cluster, namespace, "web", "250m", "256Mi")
    until("an eviction", lambda: metric_value(controller, "vpa_updater_evicted_pods_total") >= 1)
    until("its end", lambda: before.keys() - by_uid(cluster.list_pods(namespace, "web")).keys())


def infeasible(pod: Json) -> bool:
    """Whether the kubelet says of a pod's resize that it never can."""
    pending = [condition for condition in pod["status"]["conditions"] if condition["type"] == "PodResizePending"]
    return [condition["reason"] for condition in pending] == [ask.INFEASIBLE]


@pytest.mark.req("AR-21")
def test_a_deferred_resize_is_waited_for(cluster: Cluster, namespace: str, updater: Start) -> None:
    before = running_pods(cluster, namespace, "web", notes={ask.RESIZE: ask.DEFERRED})
    cluster.api.create(vpa("web", updatePolicy={"updateMode": "InPlaceOrRecreate"}), namespace)
    advise(cluster, namespace, "web")
    controller = updater(namespace, NO_LEASE, OFTEN)
    until("the Event", lambda: events(cluster, namespace, "ResizeDeferred"))
    wait_for_two_passes(controller)
    assert by_uid(cluster.list_pods(namespace, "web")).keys() == before.keys()
    assert metric_value(controller, "vpa_updater_in_place_updated_pods_total") <= 2
    for pod in before.values():
        path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}"
        cluster.api.annotate(path, {ask.RESIZE: None})

    def in_force() -> bool:
        result = [pod["status"]["containerStatuses"][0]["resources"] for pod in cluster.list_pods(namespace, "web")]
        return [resources["requests"]["cpu"] for resources in result] == ["250m"] * 2

    until("the nodes to find room", in_force)
    assert by_uid(cluster.list_pods(namespace, "web")).keys() == before.keys()
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0
