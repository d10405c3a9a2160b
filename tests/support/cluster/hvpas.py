"""The Hvpa controller on a real control plane: tests start it, and read its objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.cluster.controllers import DENIED, shipped_controllers
from support.cluster.vpas import vpa_path
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.controllers import Controller
from testbed.workloads import container, deployment
from trellis.base.quantities import Quantity

Start = Callable[..., Controller]

GROUP = "/apis/autoscaling.x-k8s.io/v1alpha1"
BUCKET = {"replicas": {"min": 1, "max": 8}, "cpu": {"min": "0", "max": "24"}, "memory": {"min": "500M", "max": "25G"}}


@contextmanager
def hvpa_controllers(cluster: Cluster, directory: Path) -> Iterator[Start]:
    """Start `trellis hvpa` under the account that Trellis ships. A right that is missing, or a bug, is an error."""
    never = (DENIED, "traceback", "reconciling failed")
    with shipped_controllers(cluster, directory, "hvpa", lambda _: ["--hvpa-interval=2s"], never=never) as start:
        yield start


def hvpa(name: str, *buckets: Json, kind: str = "Deployment", **spec: Any) -> Json:
    """An Hvpa for the workload of its name; the bucket is that of story 1."""
    target = {"apiVersion": "apps/v1", "kind": kind, "name": name}
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1alpha1",
        "kind": "Hvpa",
        "metadata": {"name": name},
        "spec": {"targetRef": target, "buckets": list(buckets or (BUCKET,)), **spec},
    }


def workload(
    kind: str,
    cpu: str,
    memory: str,
    replicas: int,
    notes: Mapping[str, str] | None = None,
    *,
    name: str = "web",
    node: str = "",
) -> Json:
    """A Deployment or StatefulSet of pods with one container; `node` is where they go, whatever keeps others away."""
    placed = {"nodeSelector": {"kubernetes.io/hostname": node}, "tolerations": [{"operator": "Exists"}]} if node else {}
    manifest = deployment(name, container(cpu=cpu, memory=memory), replicas=replicas, annotations=notes, **placed)
    further_fields = {"serviceName": name, "podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
    return {**manifest, "kind": kind, "spec": {**manifest["spec"], **further_fields}}


def hvpa_path(namespace: str, name: str) -> str:
    return f"{GROUP}/namespaces/{namespace}/hvpas/{name}"


def hpa_path(namespace: str, name: str) -> str:
    return f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers/{name}"


def workload_path(namespace: str, name: str, plural: str = "deployments") -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/{plural}/{name}"


def get_replicas(cluster: Cluster, namespace: str, name: str, plural: str = "deployments") -> int:
    count: int = cluster.api.get(workload_path(namespace, name, plural))["spec"]["replicas"]
    return count


def get_hvpa_status(cluster: Cluster, namespace: str, name: str) -> Json:
    status: Json = cluster.api.get(hvpa_path(namespace, name)).get("status", {})
    return status


def get_published_size(cluster: Cluster, namespace: str, name: str) -> tuple[int, int] | None:
    """What the status says of a pod, in millicores and bytes."""
    parts = get_hvpa_status(cluster, namespace, name).get("recommendation", {}).get("containerRecommendations", [])
    target = parts[0]["target"] if parts else {}
    if not {"cpu", "memory"} <= target.keys():
        return None
    return Quantity.parse(target["cpu"]).milli, Quantity.parse(target["memory"]).units


def get_hvpa_conditions(cluster: Cluster, namespace: str, name: str) -> dict[str, tuple[str, str]]:
    """Status and reason of each condition by its type."""
    conditions = get_hvpa_status(cluster, namespace, name).get("conditions", [])
    return {condition["type"]: (condition["status"], condition["reason"]) for condition in conditions}


def advise(cluster: Cluster, namespace: str, target: int, total: int, *, name: str = "web", memory: str = "2G") -> None:
    """What a recommender would write for a pod and for all of them together, in millicores. Memory is for a pod."""
    both = {"target": {"cpu": f"{target}m", "memory": memory}, "totalTarget": {"cpu": f"{total}m", "memory": memory}}
    status = {"recommendation": {"containerRecommendations": [{"containerName": "app", **both}]}}
    cluster.api.patch(f"{vpa_path(namespace, name)}/status", {"status": status})
