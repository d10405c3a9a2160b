"""An installation on an API server without controllers: Deployments, pods and Leases as nodes would report them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from testbed.client import Json
from testbed.cluster import Cluster
from trellis.base.times import format_micro_time

HOME = "kube-system"
_STARTED = "2020-01-01T00:00:00Z"


def prepare_namespace(cluster: Cluster, name: str = HOME) -> None:
    """The account that pods have by default, which a controller would make."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    cluster.api.apply(account, name)


def add_workload(
    cluster: Cluster,
    name: str,
    *command: str,
    image: str = "trellis:0.1.0",
    pod: str = "",
    address: str = "",
    port: int = 8942,
    waiting: Json | None = None,
    **spec: Any,
) -> str:
    """A Deployment of one replica and its pod, ready unless a container waits; returns the name of the pod."""
    labels = {"app": name}
    container = {
        "name": "main",
        "image": image,
        "command": list(command),
        "ports": [{"name": "prometheus", "containerPort": port}],
    }
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }
    cluster.api.apply(deployment, HOME)
    ready = waiting is None
    counts = {"replicas": 1, "readyReplicas": int(ready), "updatedReplicas": 1}
    cluster.api.patch(f"/apis/apps/v1/namespaces/{HOME}/deployments/{name}/status", {"status": counts})
    pod_name = pod or f"{name}-5d4f8b7c9-x2x9z"
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod_name, "labels": labels}}
    cluster.api.create(document | {"spec": {"containers": [container], "nodeName": "node-a"}}, HOME)
    state = {"waiting": waiting} if waiting is not None else {"running": {"startedAt": _STARTED}}
    status = {"name": "main", "image": image, "imageID": "", "ready": ready, "restartCount": 0, "state": state}
    condition = {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": _STARTED}
    body: Json = {"phase": "Running" if ready else "Pending", "conditions": [condition], "containerStatuses": [status]}
    if address:
        body |= {"podIP": address, "podIPs": [{"ip": address}]}
    cluster.api.patch(f"/api/v1/namespaces/{HOME}/pods/{pod_name}/status", {"status": body})
    return pod_name


def add_lease(cluster: Cluster, name: str, holder: str) -> None:
    """A Lease that has just been renewed."""
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 600,
            "renewTime": format_micro_time(datetime.now(UTC)),
            "acquireTime": format_micro_time(datetime.now(UTC)),
        },
    }
    cluster.api.apply(lease, HOME)


def find_own_address() -> str:
    """An address of this machine that is not its loopback; empty without a network. Nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.254", 9))
        except OSError:
            return ""
        address = str(probe.getsockname()[0])
    return "" if address.startswith("127.") else address


@contextmanager
def serve_text(address: str, text: str) -> Iterator[int]:
    """A server that answers every GET with a text; the value is its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that it has
            """Say nothing."""

    server = ThreadingHTTPServer((address, 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
