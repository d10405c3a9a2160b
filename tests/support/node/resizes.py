"""Workloads that the updater resizes on a real node, and what the kernel, the API server and `explain` say of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
from click.testing import CliRunner

from support.cluster.updaters import advise_containers
from support.cluster.vpas import vpa
from support.node.pods import container, create_deployment, pod_spec
from testbed.client import STRATEGIC_PATCH, Json
from testbed.cluster import Cluster
from testbed.node.kernel import KernelResources
from testbed.node.real_node import RealNode
from trellis.cli.main import trellis

MIB = 2**20


def sized(cpu: str, memory: str) -> Json:
    """The resources of a container whose requests are equal to its limits."""
    amounts = {"cpu": cpu, "memory": memory}
    return {"requests": dict(amounts), "limits": dict(amounts)}


def guaranteed(cpu: str, memory: str, name: str = "app", **fields: Any) -> Json:
    """A container of that size."""
    return container(name, **sized(cpu, memory), **fields)


class PodExplanation(msgspec.Struct, frozen=True):
    """The answer to `trellis explain pod ... --json`."""

    document: Json

    @property
    def pod(self) -> Json:
        """The part about the pod."""
        [part] = self.document["pods"]
        return dict(part)

    @property
    def decision(self) -> tuple[str, str]:
        """What is done about the pod, and the reason."""
        return self.pod["way"], self.pod["reason"]["code"]

    @property
    def new_containers(self) -> Json:
        """What admission would make of the containers of a new pod: what the template says, and what they get."""
        [part] = self.document["newPods"]
        return dict(part["account"]["containers"])

    @property
    def events(self) -> set[str]:
        """The reasons of the Events that it shows: of the pod, also the kubelet's, and of its VPA."""
        return {event["reason"] for event in self.document.get("events", ())}


class SizedWorkload(msgspec.Struct, frozen=True):
    """A Deployment on the node, and the VPA of its name."""

    cluster: Cluster
    node: RealNode
    namespace: str
    name: str

    def get_pods(self) -> list[Json]:
        """Its pods that are not being deleted, by name."""
        return sorted(self.cluster.list_pods(self.namespace, self.name), key=lambda pod: str(pod["metadata"]["name"]))

    def recommend(self, mode: str, targets: Mapping[str, Mapping[str, str]], **policy: Any) -> None:
        """Create a VPA that recommends these targets, with bounds that leave no room."""
        self.cluster.api.create(vpa(self.name, updatePolicy={"updateMode": mode, **policy}), self.namespace)
        self.change_recommendation(targets)

    def change_recommendation(self, targets: Mapping[str, Mapping[str, str]]) -> None:
        """Recommend something else, as a recommender would."""
        advise_containers(self.cluster, self.namespace, self.name, targets)

    def read_pods(self) -> list[KernelResources]:
        """What the kernel enforces for each pod as a whole."""
        return [self.node.get_pod_cgroup(pod).read_resources() for pod in self.get_pods()]

    def read_containers(self, name: str = "app") -> list[KernelResources]:
        """What the kernel enforces for that container of each pod."""
        return [self.node.get_container_cgroup(pod, name).read_resources() for pod in self.get_pods()]

    def has(self, pod: KernelResources, containers: Mapping[str, KernelResources] | None = None) -> bool:
        """Whether the kernel enforces this for all pods and containers; for a pod with one container just the first."""
        expected = containers or {"app": pod}
        try:
            return set(self.read_pods()) == {pod} and all(
                set(self.read_containers(name)) == {resources} for name, resources in expected.items()
            )
        except FileNotFoundError:  # a container is being restarted
            return False

    def list_events(self, reason: str) -> list[str]:
        """The messages of the Events about its VPA that have this reason."""
        path = f"/api/v1/namespaces/{self.namespace}/events"
        selector = f"reason={reason},involvedObject.kind=VerticalPodAutoscaler,involvedObject.name={self.name}"
        return [event["message"] for event in self.cluster.api.list_items(path, fieldSelector=selector)]

    def find_resize_conditions(self) -> set[tuple[str, str]]:
        """What its pods report of resizes: type and reason of the condition."""
        return {
            (condition["type"], condition.get("reason", ""))
            for pod in self.get_pods()
            for condition in pod["status"]["conditions"]
            if condition["type"] in {"PodResizePending", "PodResizeInProgress"} and condition["status"] == "True"
        }

    def explain(self) -> PodExplanation:
        """What `trellis explain pod` says of the first pod."""
        pod = self.get_pods()[0]["metadata"]["name"]
        command = ["explain", "pod", f"{self.namespace}/{pod}", "--json", "--kubeconfig", str(self.cluster.kubeconfig)]
        result = CliRunner().invoke(trellis, command)
        assert result.exit_code in (0, 1), (result.output, result.exception)
        return PodExplanation(json.loads(result.stdout))


def create_workload(
    cluster: Cluster, node: RealNode, namespace: str, name: str, spec: Json, *, replicas: int = 2
) -> SizedWorkload:
    """A Deployment of such pods, once all are Ready."""
    create_deployment(cluster, namespace, name, spec, replicas)
    cluster.wait_for_ready_pods(namespace, name, replicas)
    return SizedWorkload(cluster, node, namespace, name)


def create_plain_workload(cluster: Cluster, node: RealNode, namespace: str, name: str) -> SizedWorkload:
    """Two pods with one container of 50m and 64Mi."""
    return create_workload(cluster, node, namespace, name, pod_spec(guaranteed("50m", "64Mi")))


def read_instances(pods: list[Json]) -> set[tuple[str, str, int]]:
    """Pod, container ID and restarts of each container: the same only if nothing was replaced or restarted."""
    return {
        (pod["metadata"]["uid"], status["containerID"], status["restartCount"])
        for pod in pods
        for status in (*pod["status"]["containerStatuses"], *pod["status"].get("initContainerStatuses", ()))
    }


def patch_resize(cluster: Cluster, pod: Json, spec: Json) -> Json:
    """Resize a pod in place: any of its containers, native sidecars, or the pod itself."""
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/resize"
    result: Json = cluster.api.send("PATCH", path, {"spec": spec}, STRATEGIC_PATCH)
    return result


def amounts(cpu: int, memory_mib: int) -> KernelResources:
    """What the kernel enforces where requests are equal to limits, in millicores and MiB."""
    return KernelResources(cpu, cpu, memory_mib * MIB)
