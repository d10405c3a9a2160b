"""The updater resizes running pods on a real node: what it decides, and what the kernel enforces then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.updaters import NO_LEASE, Start, updaters, wait_for_two_passes
from support.cluster.vpas import metric_value
from support.node.pods import container, pod_spec
from support.node.resizes import (
    MIB,
    amounts,
    create_plain_workload,
    create_workload,
    guaranteed,
    read_instances,
)
from testbed.cluster import Cluster
from testbed.node.kernel import KernelResources
from testbed.node.real_node import RealNode
from testbed.waiting import until

HIGHER = "TargetHigherThanRequests"


@pytest.fixture
def updater(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start `trellis updater` for the VPAs of one namespace, under the account that Trellis ships."""
    with updaters(cluster, tmp_path) as start:
        yield start


def test_pods_and_native_sidecars_follow_a_recommendation_up_and_down_and_nothing_restarts(
    cluster: Cluster, node: RealNode, namespace: str, updater: Start
) -> None:
    mesh = guaranteed("20m", "32Mi", "mesh", restartPolicy="Always")
    web = create_workload(cluster, node, namespace, "web", pod_spec(guaranteed("50m", "64Mi"), initContainers=[mesh]))
    assert web.has(amounts(70, 96), {"app": amounts(50, 64), "mesh": amounts(20, 32)})
    before = read_instances(web.get_pods())
    up = {"app": {"cpu": "80m", "memory": "96Mi"}, "mesh": {"cpu": "40m", "memory": "48Mi"}}
    web.recommend("InPlaceOrRecreate", up)
    controller = updater(namespace, NO_LEASE)
    up_in_force = {"app": amounts(80, 96), "mesh": amounts(40, 48)}
    until("the kernel to follow", lambda: web.has(amounts(120, 144), up_in_force))
    down = {"app": {"cpu": "40m", "memory": "48Mi"}, "mesh": {"cpu": "20m", "memory": "32Mi"}}
    web.change_recommendation(down)
    down_in_force = {"app": amounts(40, 48), "mesh": amounts(20, 32)}
    until("the kernel to follow down", lambda: web.has(amounts(60, 80), down_in_force))
    wait_for_two_passes(controller)
    assert web.has(amounts(60, 80), down_in_force)
    assert read_instances(web.get_pods()) == before
    assert metric_value(controller, "vpa_updater_in_place_updated_pods_total") == 4
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0
    explanation = web.explain()
    assert explanation.decision == ("Leave", "SizeAsRecommended")
    assert {"InPlaceResizedByVPA", "ResizeCompleted"} <= explanation.events
    assert not {"Killing", "EvictedByVPA"} & explanation.events


@pytest.mark.req("AR-10", "AR-12")
def test_requirements_let_only_the_permitted_resource_through_to_the_kernel(
    cluster: Cluster, node: RealNode, namespace: str, updater: Start
) -> None:
    growing = create_plain_workload(cluster, node, namespace, "growing")
    keeping = create_plain_workload(cluster, node, namespace, "keeping")
    before = read_instances([*growing.get_pods(), *keeping.get_pods()])
    each = [{"resources": [resource], "changeRequirement": HIGHER} for resource in ("cpu", "memory")]
    growing.recommend("InPlaceOrRecreate", {"app": {"cpu": "80m", "memory": "32Mi"}}, actuationRequirements=each)
    keeping.recommend("InPlaceOrRecreate", {"app": {"cpu": "25m", "memory": "32Mi"}}, actuationRequirements=each[1:])
    controller = updater(namespace, NO_LEASE)
    until("CPU to go up", lambda: growing.has(amounts(80, 64)))
    until("CPU to go down", lambda: keeping.has(amounts(25, 64)))
    wait_for_two_passes(controller)
    assert (growing.has(amounts(80, 64)), keeping.has(amounts(25, 64))) == (True, True)
    assert read_instances([*growing.get_pods(), *keeping.get_pods()]) == before
    assert growing.explain().decision == ("Leave", "RequirementsForbidResize")
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0


@pytest.mark.req("AR-25")
def test_a_container_that_must_restart_for_memory_restarts_once_for_it_and_not_for_cpu(
    cluster: Cluster, node: RealNode, namespace: str, updater: Start
) -> None:
    policy = [{"resourceName": "memory", "restartPolicy": "RestartContainer"}]
    web = create_workload(cluster, node, namespace, "web", pod_spec(guaranteed("50m", "64Mi", resizePolicy=policy)))
    pods = web.get_pods()
    grow = [{"resources": ["memory"], "changeRequirement": HIGHER}]
    web.recommend("InPlaceOrRecreate", {"app": {"cpu": "60m", "memory": "48Mi"}}, actuationRequirements=grow)
    controller = updater(namespace, NO_LEASE)
    until("CPU alone", lambda: web.has(amounts(60, 64)))
    wait_for_two_passes(controller)
    assert web.has(amounts(60, 64))
    assert read_instances(web.get_pods()) == read_instances(pods)
    web.change_recommendation({"app": {"cpu": "60m", "memory": "96Mi"}})
    until("memory", lambda: web.has(amounts(60, 96)))
    wait_for_two_passes(controller)
    after = read_instances(web.get_pods())
    assert {(uid, restarts) for uid, _, restarts in after} == {(pod["metadata"]["uid"], 1) for pod in pods}
    assert web.has(amounts(60, 96))
    assert metric_value(controller, "vpa_updater_in_place_updated_pods_total") == 4
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0
    explanation = web.explain()
    assert explanation.decision == ("Leave", "SizeAsRecommended")
    assert {"InPlaceResizedByVPA", "ResizeCompleted"} <= explanation.events


def test_containers_are_resized_within_the_resources_of_their_pod_and_get_no_limit_they_do_not_have(
    cluster: Cluster, node: RealNode, namespace: str, updater: Start
) -> None:
    own = {"requests": {"cpu": "100m", "memory": "96Mi"}, "limits": {"cpu": "200m", "memory": "96Mi"}}
    app = container(requests={"cpu": "50m", "memory": "32Mi"}, limits={"memory": "64Mi"})
    web = create_workload(cluster, node, namespace, "web", pod_spec(app, resources=own))
    whole = KernelResources(100, 200, 96 * MIB)
    # The kubelet reports the pod's CPU limit as if the container had set it.
    assert web.has(whole, {"app": KernelResources(50, 200, 64 * MIB)})
    assert {pod["status"]["containerStatuses"][0]["resources"]["limits"]["cpu"] for pod in web.get_pods()} == {"200m"}
    before = read_instances(web.get_pods())
    web.recommend("InPlaceOrRecreate", {"app": {"cpu": "80m", "memory": "40Mi"}})
    controller = updater(namespace, NO_LEASE)
    until("the containers to follow", lambda: web.has(whole, {"app": KernelResources(80, 200, 80 * MIB)}))
    # More than the pod has: the request ends at its request, the limit at its limit.
    web.change_recommendation({"app": {"cpu": "300m", "memory": "256Mi"}})
    until("the pod to be filled", lambda: web.has(whole, {"app": KernelResources(100, 200, 96 * MIB)}))
    wait_for_two_passes(controller)
    assert [pod["spec"]["containers"][0]["resources"]["limits"] for pod in web.get_pods()] == [{"memory": "96Mi"}] * 2
    assert web.has(whole, {"app": KernelResources(100, 200, 96 * MIB)})
    assert read_instances(web.get_pods()) == before
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0
    explanation = web.explain()
    assert explanation.decision == ("Leave", "SizeAsRecommended")
    steps = {step["reason"]["code"] for part in explanation.pod["containers"] for step in part["steps"]}
    assert {"FittedToPodRequest", "CappedToPodLimit"} <= steps
    # A new pod would get the same.
    assert explanation.new_containers == {
        "app": {
            "requests": {"cpu": ["50m", "100m"], "memory": ["32Mi", "96Mi"]},
            "limits": {"memory": ["64Mi", "96Mi"]},
            "why": ["cpu FittedToPodRequest", "memory CappedToPodLimit", "cpu LimitNotSet"],
        }
    }
