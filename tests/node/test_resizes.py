"""Resizes in place, as the kernel enforces them."""

from __future__ import annotations

from support.node.pods import container, create_pod, pod_spec, resize
from testbed.cluster import Cluster
from testbed.node.kernel import KernelResources
from testbed.node.real_node import RealNode
from testbed.waiting import until

MIB = 2**20


def test_a_resize_reaches_the_kernel_and_restarts_nothing(cluster: Cluster, node: RealNode, namespace: str) -> None:
    size = {"cpu": "100m", "memory": "64Mi"}
    pod = create_pod(
        cluster, namespace, "web", pod_spec(container(requests=size, limits={"cpu": "200m", "memory": "64Mi"}))
    )
    kernel = node.get_container_cgroup(pod, "app")
    assert kernel.read_resources() == KernelResources(100, 200, 64 * MIB)
    larger = {"requests": {"cpu": "250m", "memory": "96Mi"}, "limits": {"cpu": "500m", "memory": "96Mi"}}
    resize(cluster, pod, "app", larger)
    until("the kernel to follow", lambda: kernel.read_resources() == KernelResources(250, 500, 96 * MIB))
    assert node.get_pod_cgroup(pod).read_resources() == KernelResources(250, 500, 96 * MIB)
    now = cluster.api.get(f"/api/v1/namespaces/{namespace}/pods/web")
    assert [status["restartCount"] for status in now["status"]["containerStatuses"]] == [0]
