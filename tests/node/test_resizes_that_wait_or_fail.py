"""Resizes that a real node puts off or refuses: what the updater decides, and that the kernel keeps the old size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.cluster.controllers import shipped_controllers
from support.cluster.updaters import NO_LEASE, Start, wait_for_two_passes
from support.cluster.vpas import metric_value
from support.node.install import prevent_installation
from support.node.pods import container, pod_spec
from support.node.resizes import (
    MIB,
    SizedWorkload,
    amounts,
    create_plain_workload,
    create_workload,
    guaranteed,
    read_instances,
)
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.node.real_node import RealNode
from testbed.waiting import until

# What an API server says of a right that is missing; of a size that no node has it says "forbidden" too.
DENIED = 'forbidden: user "'

# Holds 40 MiB in memory, and ends at once when it is asked to.
HOLDS_MEMORY = (
    "sh",
    "-c",
    "trap 'exit 0' TERM; dd if=/dev/zero of=/dev/shm/held bs=1M count=40; while :; do sleep 1 & wait $!; done",
)


@pytest.fixture
def updater(cluster: Cluster, tmp_path: Path) -> Iterator[Start]:
    """Start `trellis updater` for the VPAs of one namespace, under the account that Trellis ships."""
    with shipped_controllers(
        cluster, tmp_path, "updater", lambda _: ["--updater-interval=1s"], never=(DENIED, "traceback")
    ) as start:
        yield start


def count_writes(controller: Controller, result: str) -> float:
    """How many resizes ended so."""
    return metric_value(controller, "trellis_writes_total", action="ResizePod", result=result)


def test_a_resize_waits_while_the_node_is_full_and_reaches_the_kernel_when_room_is_freed(
    cluster: Cluster, node: RealNode, namespace: str, updater: Start
) -> None:
    web = create_workload(cluster, node, namespace, "web", pod_spec(guaranteed("50m", "64Mi")), replicas=1)
    # Pods of the components have a priority by which they would preempt the one that fills the node.
    with prevent_installation(cluster):
        # Two thirds of the node: the other third is too little for what is recommended, whatever else runs.
        big = container(requests={"cpu": "10m", "memory": "2800Mi"})
        create_workload(cluster, node, namespace, "big", pod_spec(big), replicas=1)
        before = read_instances(web.get_pods())
        web.recommend("InPlaceOrRecreate", {"app": {"cpu": "80m", "memory": "1300Mi"}}, minReplicas=1)
        controller = updater(namespace, NO_LEASE)
        until("the Event", lambda: web.list_events("ResizeDeferred"))
        wait_for_two_passes(controller)
        explanation = web.explain()
        assert (web.read_pods(), web.read_containers("app")) == ([amounts(50, 64)], [amounts(50, 64)])
        assert web.find_resize_conditions() == {("PodResizePending", "Deferred")}
        assert explanation.decision == ("Wait", "ResizeDeferred")
        assert {counterfactual["code"] for counterfactual in explanation.pod["counterfactuals"]} == {
            "NodeAnswered",
            "TimePassed",
        }
        assert count_writes(controller, "Applied") == 1
    cluster.api.delete(f"/apis/apps/v1/namespaces/{namespace}/deployments/big")
    until("the kernel to follow", lambda: web.has(amounts(80, 1300)))
    wait_for_two_passes(controller)
    # The node has done it by itself: nothing was asked for again.
    assert count_writes(controller, "Applied") == 1
    assert read_instances(web.get_pods()) == before
    explanation = web.explain()
    assert explanation.decision == ("Leave", "SizeAsRecommended")
    assert {"ResizeDeferred", "ResizeCompleted"} <= explanation.events


def test_a_memory_limit_below_usage_leaves_the_pod_alive_under_its_old_limit(
    cluster: Cluster, node: RealNode, namespace: str, updater: Start
) -> None:
    [web, again] = [create_holding_workload(cluster, node, namespace, name) for name in ("web", "again")]
    before, replaced = read_instances(web.get_pods()), read_instances(again.get_pods())
    web.recommend("InPlace", {"app": {"cpu": "60m", "memory": "32Mi"}})
    again.recommend("InPlaceOrRecreate", {"app": {"cpu": "60m", "memory": "32Mi"}})
    controller = updater(namespace, NO_LEASE)
    # The kubelet finds out by usage that it read some seconds ago.
    until("the kubelet to give up", lambda: web.find_resize_conditions() == {("PodResizeInProgress", "Error")})
    until("the Event", lambda: web.list_events("ResizeFailing"))
    wait_for_two_passes(controller)
    # CPU could go up, and does not as long as memory cannot go down.
    assert web.has(amounts(50, 64))
    assert read_instances(web.get_pods()) == before
    explanation = web.explain()
    assert explanation.decision == ("Wait", "ResizeFailing")
    assert {"InPlaceResizedByVPA", "ResizeError", "ResizeFailing"} <= explanation.events
    # The other mode evicts for it, one pod after the other.
    until("an eviction", lambda: again.list_events("EvictedPod"))
    assert "reason=ResizeFailed" in controller.read_logs()
    assert replaced - read_instances_that_run(again)
    # More is recommended: the kernel follows, and the pod has run all the time.
    web.change_recommendation({"app": {"cpu": "60m", "memory": "96Mi"}})
    until("the kernel to follow", lambda: web.has(amounts(60, 96)))
    assert read_instances(web.get_pods()) == before
    assert min(node.get_container_cgroup(pod, "app").read_memory_usage() for pod in web.get_pods()) >= 40 * MIB


def create_holding_workload(cluster: Cluster, node: RealNode, namespace: str, name: str) -> SizedWorkload:
    """Two pods that use 40 of their 64 MiB."""
    workload = create_workload(
        cluster, node, namespace, name, pod_spec(guaranteed("50m", "64Mi", command=HOLDS_MEMORY))
    )

    def is_held() -> bool:
        cgroups = [node.get_container_cgroup(pod, "app") for pod in workload.get_pods()]
        return all(cgroup.read_memory_usage() >= 40 * MIB for cgroup in cgroups)

    until("the memory to be held", is_held)
    return workload


def read_instances_that_run(workload: SizedWorkload) -> set[tuple[str, str, int]]:
    """Containers of pods that run."""
    return read_instances([pod for pod in workload.get_pods() if pod["status"]["phase"] == "Running"])


def test_a_size_beyond_the_node_is_asked_for_once_and_a_smaller_one_at_once(
    cluster: Cluster, node: RealNode, namespace: str, updater: Start
) -> None:
    web = create_plain_workload(cluster, node, namespace, "web")
    other = create_plain_workload(cluster, node, namespace, "other")
    before = read_instances([*web.get_pods(), *other.get_pods()])
    web.recommend("InPlace", {"app": {"cpu": "50m", "memory": "64Gi"}})
    other.recommend("InPlaceOrRecreate", {"app": {"cpu": "64", "memory": "64Mi"}})
    controller = updater(namespace, NO_LEASE, "--require-fit")
    until("the refusals", lambda: count_writes(controller, "Infeasible") == 4)
    until("the Events", lambda: web.list_events("ResizeRefused") and other.list_events("WouldNotFit"))
    for _ in range(2):
        wait_for_two_passes(controller)
    assert count_writes(controller, "Infeasible") == 4
    assert count_writes(controller, "Applied") == 0
    assert web.has(amounts(50, 64))
    assert other.has(amounts(50, 64))
    assert web.find_resize_conditions() == other.find_resize_conditions() == set()
    assert all("node didn't have enough allocatable resources" in text for text in web.list_events("PodUpdateRefused"))
    assert {"PodUpdateRefused", "ResizeRefused"} <= web.explain().events
    web.change_recommendation({"app": {"cpu": "60m", "memory": "96Mi"}})
    until("the kernel to follow", lambda: web.has(amounts(60, 96)))
    assert read_instances([*web.get_pods(), *other.get_pods()]) == before
    assert metric_value(controller, "vpa_updater_evicted_pods_total") == 0
