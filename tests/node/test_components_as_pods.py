"""Trellis installed from its manifests: its components are pods on the node, and size pods beside them."""

from __future__ import annotations

from functools import partial
from typing import Final

from support.cluster.admission import wait_for_webhook_calls
from support.cluster.updaters import events
from support.cluster.vpas import get_target, vpa
from support.node.install import NAMESPACE, installed, read_log
from support.node.pods import container, create_deployment, pod_spec
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.node.real_node import RealNode
from testbed.waiting import until
from trellis.base.quantities import Quantity

# Holds 40 MiB, and uses much more CPU than it requests.
LOAD: Final = ("sh", "-c", "dd if=/dev/zero of=/dev/shm/held bs=1M count=40 2>/dev/null; while :; do :; done")

# Short intervals, bounds that are trusted at once, and no minimum.
FLAGS: Final = {
    "recommender": (
        "--leader-elect=true",
        "--recommender-interval=1s",
        "--confidence-interval-cpu=1s",
        "--confidence-interval-memory=1s",
        "--pod-recommendation-min-cpu-millicores=1",
        "--pod-recommendation-min-memory-mb=1",
    ),
    "updater": ("--leader-elect=true", "--updater-interval=1s"),
    # A pod that had to wait for a busy machine would come as it is.
    "admission": ("--webhook-timeout-seconds=30",),
}

LEASES: Final = {
    "recommender": "vpa-recommender-lease",
    "updater": "vpa-updater",
    "admission": "vpa-admission-controller",
    "hvpa": "trellis-hvpa",
    "buffers": "trellis-buffers",
    "nodes": "trellis-nodes",
}


def test_components_from_the_manifests_size_pods_by_what_they_use(
    cluster: Cluster, node: RealNode, namespace: str
) -> None:
    with installed(cluster, node, namespace, FLAGS) as components:
        check_confinement(node, components)
        check_leases(cluster, components)
        wait_for_webhook_calls(cluster, namespace)
        first = create_workload(cluster, namespace)
        check_resize(cluster, node, namespace, first)
        check_creation(cluster, node, namespace, first)
        check_memory(node, components)
        for component, pod in components.items():
            log = read_log(cluster, pod).lower()
            assert [phrase for phrase in ("forbidden", "traceback", " error ") if phrase in log] == [], component
            now = cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}")
            assert now["status"]["containerStatuses"][0]["restartCount"] == 0, component


def check_confinement(node: RealNode, components: dict[str, Json]) -> None:
    """As the kernel has it: no root, no capability, and nothing to write to but volumes."""
    for component, pod in components.items():
        [container] = pod["spec"]["containers"]
        [process] = node.get_container_cgroup(pod, container["name"]).list_processes()
        status = process.read_status()
        assert status["Uid"].split() == ["65534"] * 4, component
        assert status["CapEff"] == status["CapBnd"] == "0" * 16, component
        assert status["NoNewPrivs"] == "1", component
        assert "ro" in process.read_root_options(), component


def check_leases(cluster: Cluster, components: dict[str, Json]) -> None:
    for component, name in LEASES.items():
        pod = components[component]["metadata"]["name"]
        until(f"the lease of {component}", partial(is_held_by, cluster, name, pod))


def is_held_by(cluster: Cluster, lease: str, pod: str) -> bool:
    found = cluster.api.find(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{lease}")
    holder: str = found["spec"].get("holderIdentity") or "" if found else ""
    return holder.startswith(pod)


def create_workload(cluster: Cluster, namespace: str) -> Json:
    requests, limits = {"cpu": "10m", "memory": "20Mi"}, {"cpu": "150m", "memory": "128Mi"}
    spec = pod_spec(container(command=LOAD, requests=requests, limits=limits))
    create_deployment(cluster, namespace, "web", spec)
    cluster.api.create(
        vpa(
            "web",
            updatePolicy={"updateMode": "InPlaceOrRecreate", "minReplicas": 1},
            resourcePolicy={"containerPolicies": [{"containerName": "*", "controlledValues": "RequestsOnly"}]},
        ),
        namespace,
    )
    [pod] = cluster.wait_for_ready_pods(namespace, "web")
    return pod


def check_resize(cluster: Cluster, node: RealNode, namespace: str, first: Json) -> None:
    """The pod that ran without a recommendation gets one, in place."""
    kernel = node.get_container_cgroup(first, "app")
    assert kernel.read_resources().cpu_request == 10

    def is_recommended() -> bool:
        cpu, memory = get_target(cluster, namespace, "web") or (0, 0)
        held = kernel.read_memory_usage()
        return cpu > 20 and held < memory < 1.5 * held

    until("a recommendation of what it uses", is_recommended)
    until("the kernel to follow", lambda: kernel.read_resources().cpu_request > 20)
    [pod] = cluster.list_pods(namespace, "web")
    assert pod["metadata"]["uid"] == first["metadata"]["uid"]
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    until("the Event", lambda: events(cluster, namespace, "InPlaceResizedByVPA"))


def check_creation(cluster: Cluster, node: RealNode, namespace: str, first: Json) -> None:
    """A pod that comes later starts with what is recommended."""
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments/web"
    cluster.api.patch(path, {"spec": {"replicas": 2}})
    [pod] = [
        pod
        for pod in cluster.wait_for_ready_pods(namespace, "web", 2)
        if pod["metadata"]["uid"] != first["metadata"]["uid"]
    ]
    assert "vpaUpdates" in pod["metadata"]["annotations"]
    requested = Quantity.parse(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]).milli
    assert requested > 20
    # The kernel has shares of 1024 for a core.
    assert abs(node.get_container_cgroup(pod, "app").read_resources().cpu_request - requested) <= 1


def check_memory(node: RealNode, components: dict[str, Json]) -> None:
    """What a component uses beside one workload is below what it requests for a cluster."""
    for component, pod in components.items():
        [container] = pod["spec"]["containers"]
        requested = Quantity.parse(container["resources"]["requests"]["memory"]).units
        assert node.get_container_cgroup(pod, container["name"]).read_memory_usage() < requested, component
