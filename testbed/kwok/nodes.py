"""The nodes on which pods are placed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from testbed.client import Api, Json
from testbed.errors import Refused
from testbed.programs.versions import KUBERNETES
from testbed.waiting import TIMEOUT_SECONDS, until

# Where kwok serves a node's usage, in place of the kubelet's /metrics/resource; metrics-server reads it here.
USAGE_PATH = "/metrics/nodes/{node}/metrics/resource"

# By this label a node is given to kwok, which leaves all others alone.
KWOK_LABEL = "kwok.x-k8s.io/node"

# Without these the API server of 1.36 places no pod with pod-level resources or a sidecar that may be resized.
DECLARED_FEATURES = ["InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers"]


class Taint(msgspec.Struct, frozen=True):
    """Keeps pods away that do not tolerate it."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node to be. The defaults are so large that side by side tests do not get in each other's way."""

    name: str
    cpu: str = "64"
    memory: str = "256Gi"
    pods: int = 500
    zone: str = "zone-a"
    region: str = "region-1"
    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    allocatable: Mapping[str, str] = {}  # where it is less than the capacity

    def build_manifest(self) -> Json:
        """The object to create. The API server takes a node's status along, unlike other kinds'."""
        capacity: dict[str, Any] = {"cpu": self.cpu, "memory": self.memory, "pods": str(self.pods)}
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            "topology.kubernetes.io/zone": self.zone,
            "topology.kubernetes.io/region": self.region,
            "node.kubernetes.io/instance-type": "testbed",
            KWOK_LABEL: "fake",
        }
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "labels": labels | dict(self.labels),
                "annotations": {"metrics.k8s.io/resource-metrics-path": USAGE_PATH.format(node=self.name)},
            },
            "spec": {"taints": [msgspec.to_builtins(taint) for taint in self.taints]},
            "status": {
                "capacity": capacity,
                "allocatable": capacity | dict(self.allocatable),
                "nodeInfo": _node_info(),
                "declaredFeatures": DECLARED_FEATURES,
            },
        }


def add(api: Api, nodes: Iterable[Node], seconds: float = TIMEOUT_SECONDS) -> None:
    """Create them and wait until pods may be placed on them."""
    wanted = {node.name for node in nodes}
    for node in nodes:
        api.create(node.build_manifest())
    until(f"nodes {', '.join(sorted(wanted))} to be ready", lambda: wanted <= _list_ready(api) or None, seconds)


def remove(api: Api, names: Iterable[str]) -> None:
    """Delete them; the pods on them are for the controllers to notice."""
    for name in names:
        try:
            api.delete(f"/api/v1/nodes/{name}")
        except Refused as refusal:
            if refusal.status != 404:
                raise


def _list_ready(api: Api) -> set[str]:
    """Ready, and without the taint that a new node carries until the node controller has seen it ready."""
    return {
        node["metadata"]["name"]
        for node in api.list_items("/api/v1/nodes")
        if any(
            condition["type"] == "Ready" and condition["status"] == "True"
            for condition in node["status"].get("conditions", [])
        )
        and not any(taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints", []))
    }


def _node_info() -> dict[str, str]:
    unknown = ["machineID", "systemUUID", "bootID", "kernelVersion", "osImage"]
    known = {"architecture": "amd64", "operatingSystem": "linux", "containerRuntimeVersion": "kwok://0.8.0"}
    versions = {"kubeletVersion": f"v{KUBERNETES}", "kubeProxyVersion": ""}
    return dict.fromkeys(unknown, "") | known | versions
