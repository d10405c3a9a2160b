"""The Buffer controller on a real control plane: tests start it, and read statuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.cluster.controllers import DENIED, shipped_controllers
from testbed.access.rights import wait_until_granted
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.controllers import Controller

Start = Callable[..., Controller]

ACCOUNT = "system:serviceaccount:kube-system:trellis-buffers"

GROUP = "/apis/autoscaling.x-k8s.io/v1alpha1"


@contextmanager
def buffer_controllers(cluster: Cluster, directory: Path, *, restarts: bool = False) -> Iterator[Start]:
    """Start `trellis buffers` under the account that Trellis ships. A right that is missing, or a bug, is an error.

    An API server that `restarts` forbids everything for a moment.
    """
    never = (DENIED, "traceback", "reconciling failed")

    def usual(namespace: str) -> list[str]:
        _let_read_the_lease(cluster, namespace)
        return ["--buffer-interval=2s", f"--nodes-lease={namespace}/trellis-nodes"]

    with shipped_controllers(cluster, directory, "buffers", usual, never=never, restarts=restarts) as start:
        yield start


def _let_read_the_lease(cluster: Cluster, namespace: str) -> None:
    """Tests run side by side: the controller yields to the node autoscaler of its own test, by a Lease of its own."""
    meta = {"name": "read-nodes-lease", "namespace": namespace}
    kind = "rbac.authorization.k8s.io"
    rule = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get"]}
    role = {"apiVersion": f"{kind}/v1", "kind": "Role", "metadata": meta, "rules": [rule]}
    cluster.api.apply(role)
    cluster.api.apply(
        {
            "apiVersion": f"{kind}/v1",
            "kind": "RoleBinding",
            "metadata": meta,
            "roleRef": {"apiGroup": kind, "kind": "Role", "name": meta["name"]},
            "subjects": [{"kind": "ServiceAccount", "name": "trellis-buffers", "namespace": "kube-system"}],
        }
    )
    wait_until_granted(cluster.api, ACCOUNT, [role])


def buffer(name: str, kind: str = "Deployment", target: str = "", version: str = "apps/v1", **spec: Any) -> Json:
    """A Buffer of two chunks for the workload of its name, unless its spec says otherwise."""
    about = {"targetRef": {"apiVersion": version, "kind": kind, "name": target or name}} if kind else {}
    shorthand = {"replicaBasedBufferSpec", "nodeClassBufferSpec", "capacity"} & spec.keys()
    fields: Json = spec if shorthand else {"capacity": {"replicas": {"exactly": 2}}, **spec}
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1alpha1",
        "kind": "Buffer",
        "metadata": {"name": name},
        "spec": {**about, **fields},
    }


def buffer_path(namespace: str, name: str) -> str:
    return f"{GROUP}/namespaces/{namespace}/buffers/{name}"


def get_buffer_status(cluster: Cluster, namespace: str, name: str) -> Json:
    status: Json = cluster.api.get(buffer_path(namespace, name)).get("status", {})
    return status


def get_pod_based_spec(cluster: Cluster, namespace: str, name: str) -> Json:
    pods: Json = get_buffer_status(cluster, namespace, name).get("podBasedBufferSpec", {})
    return pods


def count_chunks(cluster: Cluster, namespace: str, name: str) -> int | None:
    return get_pod_based_spec(cluster, namespace, name).get("replicaNum")


def get_requests(cluster: Cluster, namespace: str, name: str) -> Json:
    requests: Json = get_pod_based_spec(cluster, namespace, name)["podSpec"]["containers"][0]["resources"]["requests"]
    return requests


def find_buffer_condition(
    cluster: Cluster, namespace: str, name: str, type_: str = "ReadyForProvisioning"
) -> tuple[str, str] | None:
    """Status and reason of a condition, if the Buffer has it."""
    conditions = get_buffer_status(cluster, namespace, name).get("conditions", [])
    return next(
        ((condition["status"], condition["reason"]) for condition in conditions if condition["type"] == type_), None
    )
