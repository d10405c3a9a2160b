"""The node autoscaler on a real control plane: tests start it, and read nodes and pods.

Tests share a cluster. The nodes of each have a taint of their own, and its pods tolerate it and go nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from support.cluster.buffers import GROUP, find_buffer_condition
from support.cluster.controllers import DENIED, shipped_controllers
from support.worlds.providers.kwok_nodes import group
from testbed.access.rights import wait_until_granted
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.workloads import container, deployment

Start = Callable[..., Controller]

ACCOUNT = "system:serviceaccount:kube-system:trellis-nodes"
# The taint of a node that is about to be removed.
LEAVING = "trellis.x-k8s.io/leaving"
# The taint of an unneeded node, on which pods can be placed.
SOFT = "trellis.x-k8s.io/unneeded"
# Tests cannot wait ten minutes.
QUICK = (
    "--scale-down-unneeded-time=3s",
    "--scale-down-delay-after-add=1s",
    "--unremovable-node-recheck-timeout=2s",
    "--node-delete-delay-after-taint=1s",
)


@contextmanager
def node_controllers(cluster: Cluster, directory: Path, *, restarts: bool = False) -> Iterator[Start]:
    """Start `trellis nodes` under the account that Trellis ships. A right that is missing, or a bug, is an error.

    An API server that `restarts` forbids everything for a moment.
    """

    def usual(namespace: str) -> list[str]:
        # Tests run side by side: what yields to a node autoscaler is to yield to that of its own test.
        lease = f"--leader-elect-resource-namespace={namespace}"
        return [f"--kwok-node-groups={namespace}/groups", "--scan-interval=2s", lease]

    # A namespace of another test that is being deleted takes no Event on its pods, whatever the rights are.
    never = (f"{DENIED}: user", "traceback", "pass failed")
    with shipped_controllers(cluster, directory, "nodes", usual, never=never, restarts=restarts) as start:
        yield start


class NodeGroups:
    """The node groups of one namespace, and pods that go to their nodes alone."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace = cluster, namespace
        # With the random part of the namespace: nodes of an earlier run of the same test may still be going.
        test, _, random = namespace.rpartition("-")
        self.group = f"{test[:31].strip('-')}-{random}".strip("-")
        self.failing_group = f"{self.group}-bad"
        self.tolerations = [{"key": namespace, "operator": "Exists"}]
        self._grant_reads()

    def declare(self, *names: str, **spec: Any) -> None:
        """Groups of nodes with 2 CPU that boot in two seconds; the first is called after the namespace."""
        self._apply([self._build_group(name, **spec) for name in names or (self.group,)])

    def _build_group(self, name: str, **spec: Any) -> Json:
        usual: Json = {
            "minSize": 0,
            "maxSize": 5,
            "bootTime": "2s",
            "resources": {"cpu": "2", "memory": "4Gi"},
            "taints": [{"key": self.namespace, "effect": "NoSchedule"}],
            "labels": {"node_groups": self.group},
        }
        return group(name, **{**usual, **spec})

    def _apply(self, documents: list[Json]) -> None:
        data = {"groups.yaml": yaml.safe_dump_all(documents)}
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "groups"}, "data": data}
        self.cluster.api.apply({**config, "metadata": {"name": "groups", "namespace": self.namespace}})

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of `trellis nodes` by which it finds these groups."""
        return "--cloud-provider=kwok", f"--kwok-node-groups={self.namespace}/groups"

    def declare_with_failing(self, how: str) -> None:
        """Two groups, of which the one that is preferred fails: it refuses orders, or its nodes fail to start."""
        documents = [
            self._build_group(self.failing_group, price=0.1, fails={"how": how}),
            self._build_group(self.group, price=1.0),
        ]
        self._apply(documents)

    def get_group(self, node: Json) -> str:
        """The group of a node."""
        return str(node["metadata"]["labels"]["kwok-nodegroup"])

    def pod_spec(self, cpu: str = "500m") -> Json:
        """The spec of a pod for these node groups."""
        return {"containers": [container(cpu=cpu, memory="64Mi")], **self.placement}

    @property
    def placement(self) -> Json:
        return {"tolerations": self.tolerations, "nodeSelector": {"node_groups": self.group}}

    def deploy(self, name: str, replicas: int, cpu: str = "500m", placement: Json | None = None) -> None:
        made = deployment(name, container(cpu=cpu, memory="64Mi"), replicas=replicas, **(placement or self.placement))
        self.cluster.api.create(made, self.namespace)

    def scale(self, name: str, replicas: int) -> None:
        path = f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{name}"
        self.cluster.api.patch(path, {"spec": {"replicas": replicas}})

    def nodes(self) -> dict[str, Json]:
        nodes = self.cluster.api.list_items("/api/v1/nodes", labelSelector=f"node_groups={self.group}")
        return {node["metadata"]["name"]: node for node in nodes}

    def ready_nodes(self) -> list[str]:
        return [
            name
            for name, node in self.nodes().items()
            if _is_ready(node) and len([key for key in taints(node) if key != SOFT]) == 1
        ]

    def pods(self) -> list[Json]:
        pods: list[Json] = self.cluster.api.list_items(f"/api/v1/namespaces/{self.namespace}/pods")
        return pods

    def running(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods() if pod["status"]["phase"] == "Running"]

    def provisioned(self, name: str) -> tuple[str, str] | None:
        """Status and reason of the condition."""
        return find_buffer_condition(self.cluster, self.namespace, name, "Provisioned")

    def is_provisioned(self, name: str) -> bool:
        return self.provisioned(name) == ("True", "BufferProvisioned")

    def close(self) -> None:
        self.cluster.remove_nodes(*self.nodes())

    def _grant_reads(self) -> None:
        grant_reads(self.cluster, self.namespace, "trellis-nodes")


def grant_reads(cluster: Cluster, namespace: str, account: str) -> None:
    """An account may read the ConfigMap and hold the Lease it was told of, as an administrator would see to."""
    meta = {"name": f"read-groups-{account}", "namespace": namespace}
    kind = "rbac.authorization.k8s.io"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
    lease = {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["create", "get", "patch", "watch"],
    }
    role = {"apiVersion": f"{kind}/v1", "kind": "Role", "metadata": meta, "rules": [rule, lease]}
    cluster.api.apply(role)
    cluster.api.apply(
        {
            "apiVersion": f"{kind}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": kind, "kind": "Role", "name": meta["name"]},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "kube-system"}],
        }
    )
    wait_until_granted(cluster.api, f"system:serviceaccount:kube-system:{account}", [role])


def translated(name: str, replicas: int, pod_spec: Json, **spec: Any) -> tuple[Json, Json]:
    """A Buffer of which no controller of ours knows, and the status that another writer gives it."""
    capacity = {"pods": {"replicaNum": replicas, "podSpec": pod_spec}}
    document = {
        "apiVersion": GROUP.removeprefix("/apis/"),
        "kind": "Buffer",
        "metadata": {"name": name},
        "spec": {"capacity": capacity, **spec},
    }
    return document, {"podBasedBufferSpec": {"replicaNum": replicas, "podSpec": pod_spec}}


def taints(node: Json) -> list[str]:
    return [taint["key"] for taint in node["spec"].get("taints", ())]


def _is_ready(node: Json) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in node["status"].get("conditions", ())
    )
