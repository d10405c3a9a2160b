"""Pods that really run, and what the API server and the kernel say of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from testbed.client import Json
from testbed.cluster import Cluster, is_ready
from testbed.node.images.archives import BUSYBOX
from testbed.waiting import until

# Runs until it is asked to end, and ends at once then.
IDLE = ("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 1 & wait $!; done")
BUSY = ("sh", "-c", "while :; do :; done")


def container(
    name: str = "app",
    command: Sequence[str] = IDLE,
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    **fields: Any,
) -> Json:
    """A container of busybox."""
    resources = {key: dict(value) for key, value in (("requests", requests), ("limits", limits)) if value}
    return {"name": name, "image": BUSYBOX, "command": list(command), "resources": resources, **fields}


def pod_spec(*containers: Json, **fields: Any) -> Json:
    """A pod of these containers that ends quickly."""
    return {"containers": list(containers), "terminationGracePeriodSeconds": 1, **fields}


def create_pod(cluster: Cluster, namespace: str, name: str, spec: Json) -> Json:
    """Create a pod and wait until it is Ready."""
    metadata = {"name": name, "namespace": namespace, "labels": {"app": name}}
    cluster.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return wait_for_pod(cluster, namespace, name, is_ready)


def wait_for_pod(cluster: Cluster, namespace: str, name: str, condition: Any, seconds: float = 60.0) -> Json:
    """The pod, once a condition holds for it."""

    def read() -> Json | None:
        pod = cluster.api.find(f"/api/v1/namespaces/{namespace}/pods/{name}")
        return pod if pod is not None and condition(pod) else None

    return until(f"pod {namespace}/{name}", read, seconds)


def create_deployment(cluster: Cluster, namespace: str, name: str, spec: Json, replicas: int = 1) -> Json:
    """Create a Deployment of such pods; they are not waited for."""
    labels = {"app": name}
    return cluster.api.create(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        }
    )


def resize(cluster: Cluster, pod: Json, name: str, resources: Json) -> Json:
    """Resize a container of a pod in place, as kubectl does."""
    path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/resize"
    body = {"spec": {"containers": [{"name": name, "resources": resources}]}}
    result: Json = cluster.api.send("PATCH", path, body, "application/strategic-merge-patch+json")
    return result
