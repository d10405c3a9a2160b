"""Resizes in place, as the kernel enforces them."""

from __future__ import annotations

import pytest

from support.node.pods import container, create_pod, pod_spec, resize, wait_for_pod
from support.node.resizes import MIB, amounts, guaranteed, patch_resize, read_instances, sized
from testbed.client import Json
from testbed.cluster import Cluster, is_ready
from testbed.node.kernel import KernelResources
from testbed.node.real_node import RealNode
from testbed.waiting import until

SMALL, LARGE = sized("40m", "48Mi"), sized("80m", "96Mi")


def read_pod(cluster: Cluster, pod: Json) -> Json:
    """The pod as it is now."""
    return cluster.api.get(f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}")


def read_requests(cluster: Cluster, pod: Json) -> list[Json]:
    """The requests in force, as the kubelet reports them."""
    status = read_pod(cluster, pod)["status"]
    reported = (*status["containerStatuses"], *status.get("initContainerStatuses", ()))
    return [container_status["resources"]["requests"] for container_status in reported]


@pytest.mark.parametrize(("size", "expected"), [(LARGE, amounts(80, 96)), (SMALL, amounts(40, 48))], ids=["up", "down"])
def test_cpu_and_memory_are_resized_and_nothing_restarts(
    cluster: Cluster, node: RealNode, namespace: str, size: Json, expected: KernelResources
) -> None:
    pod = create_pod(cluster, namespace, "web", pod_spec(guaranteed("60m", "64Mi")))
    kernel, whole = node.get_container_cgroup(pod, "app"), node.get_pod_cgroup(pod)
    assert kernel.read_resources() == whole.read_resources() == amounts(60, 64)
    resize(cluster, pod, "app", size)
    until("the container to follow", lambda: kernel.read_resources() == expected)
    until("the pod to follow", lambda: whole.read_resources() == expected)
    until("the status to follow", lambda: read_requests(cluster, pod) == [size["requests"]])
    assert read_instances([read_pod(cluster, pod)]) == read_instances([pod])


def test_cpu_and_memory_may_go_in_opposite_directions(cluster: Cluster, node: RealNode, namespace: str) -> None:
    requests, limits = {"cpu": "50m", "memory": "64Mi"}, {"cpu": "100m", "memory": "96Mi"}
    pod = create_pod(cluster, namespace, "web", pod_spec(container(requests=requests, limits=limits)))
    kernel, whole = node.get_container_cgroup(pod, "app"), node.get_pod_cgroup(pod)
    assert kernel.read_resources() == KernelResources(50, 100, 96 * MIB)
    resize(
        cluster, pod, "app", {"requests": {"cpu": "80m", "memory": "32Mi"}, "limits": {"cpu": "0.2", "memory": "48Mi"}}
    )
    expected = KernelResources(80, 200, 48 * MIB)
    until("the kernel to follow", lambda: kernel.read_resources() == whole.read_resources() == expected)
    assert read_instances([read_pod(cluster, pod)]) == read_instances([pod])


def test_a_native_sidecar_is_resized_alone(cluster: Cluster, node: RealNode, namespace: str) -> None:
    mesh = guaranteed("20m", "32Mi", "mesh", restartPolicy="Always")
    pod = create_pod(cluster, namespace, "web", pod_spec(guaranteed("50m", "64Mi"), initContainers=[mesh]))
    sidecar, app, whole = (
        node.get_container_cgroup(pod, "mesh"),
        node.get_container_cgroup(pod, "app"),
        node.get_pod_cgroup(pod),
    )
    assert (sidecar.read_resources(), whole.read_resources()) == (amounts(20, 32), amounts(70, 96))
    patch_resize(cluster, pod, {"initContainers": [{"name": "mesh", "resources": sized("40m", "48Mi")}]})
    until("the sidecar to follow", lambda: sidecar.read_resources() == amounts(40, 48))
    until("the pod to follow", lambda: whole.read_resources() == amounts(90, 112))
    assert app.read_resources() == amounts(50, 64)
    assert read_instances([read_pod(cluster, pod)]) == read_instances([pod])


@pytest.mark.parametrize(("resource", "freely"), [("cpu", (50, 96)), ("memory", (60, 64))])
def test_a_container_restarts_once_for_the_resource_whose_policy_says_so(
    cluster: Cluster, node: RealNode, namespace: str, resource: str, freely: tuple[int, int]
) -> None:
    policy = [{"resourceName": resource, "restartPolicy": "RestartContainer"}]
    pod = create_pod(cluster, namespace, "web", pod_spec(guaranteed("50m", "64Mi", resizePolicy=policy)))
    kernel = node.get_container_cgroup(pod, "app")
    cpu, memory = freely
    resize(cluster, pod, "app", sized(f"{cpu}m", f"{memory}Mi"))
    until("the kernel to follow", lambda: kernel.read_resources() == amounts(cpu, memory))
    assert read_instances([read_pod(cluster, pod)]) == read_instances([pod])
    resize(cluster, pod, "app", sized("60m", "96Mi"))

    def has_restarted(now: Json) -> bool:
        return now["status"]["containerStatuses"][0]["restartCount"] == 1 and is_ready(now)

    restarted = wait_for_pod(cluster, namespace, "web", has_restarted)
    until("the old container to be gone", lambda: not kernel.exists())
    assert node.get_container_cgroup(restarted, "app").read_resources() == amounts(60, 96)
    assert node.get_pod_cgroup(restarted).read_resources() == amounts(60, 96)


def test_the_resources_of_the_pod_are_resized_beside_those_of_its_container(
    cluster: Cluster, node: RealNode, namespace: str
) -> None:
    own = {"requests": {"cpu": "100m", "memory": "96Mi"}, "limits": {"cpu": "200m", "memory": "96Mi"}}
    small = {"cpu": "50m", "memory": "32Mi"}
    pod = create_pod(cluster, namespace, "web", pod_spec(container(requests=small), resources=own))
    kernel, whole = node.get_container_cgroup(pod, "app"), node.get_pod_cgroup(pod)
    # A container without a limit of its own has that of its pod.
    assert kernel.read_resources() == KernelResources(50, 200, 96 * MIB)
    assert whole.read_resources() == KernelResources(100, 200, 96 * MIB)
    larger = {"requests": {"cpu": "150m", "memory": "128Mi"}, "limits": {"cpu": "300m", "memory": "128Mi"}}
    patch_resize(cluster, pod, {"resources": larger})
    until("the pod to follow", lambda: whole.read_resources() == KernelResources(150, 300, 128 * MIB))
    until("its container to follow", lambda: kernel.read_resources() == KernelResources(50, 300, 128 * MIB))
    resize(cluster, pod, "app", {"requests": {"cpu": "60m", "memory": "48Mi"}})
    until("the container to follow", lambda: kernel.read_resources() == KernelResources(60, 300, 128 * MIB))
    assert whole.read_resources() == KernelResources(150, 300, 128 * MIB)
    assert read_instances([read_pod(cluster, pod)]) == read_instances([pod])
