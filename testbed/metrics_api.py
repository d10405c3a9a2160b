"""Registers metrics-server with the API server.

As an aggregated API. The aggregator resolves a Service, and Endpoints may not hold a loopback address; an
ExternalName is the one way to 127.0.0.1.
"""

from __future__ import annotations

from base64 import b64encode

from testbed.client import Api
from testbed.components import Layout
from testbed.errors import Refused
from testbed.waiting import until

NAME, NAMESPACE = "metrics-server", "kube-system"

# The name in metrics-server's certificate that the aggregator insists on.
HOST = f"{NAME}.{NAMESPACE}.svc"


def register(api: Api, at: Layout) -> None:
    """Before metrics-server itself is up: until both are, the API server answers 503 for it."""
    until(f"namespace {NAMESPACE}", lambda: api.find(f"/api/v1/namespaces/{NAMESPACE}"))
    metadata = {"name": NAME, "namespace": NAMESPACE}
    service = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": at.metrics}]}
    api.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": service})
    registration = {
        "group": "metrics.k8s.io",
        "version": "v1beta1",
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "service": {**metadata, "port": at.metrics},
        "caBundle": b64encode(at.file("ca.crt").read_bytes()).decode(),
    }
    kind = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}
    api.create({**kind, "metadata": {"name": "v1beta1.metrics.k8s.io"}, "spec": registration})


def is_served(api: Api) -> bool:
    """Whether it answers; samples follow after two scrapes."""
    try:
        api.get("/apis/metrics.k8s.io/v1beta1")
    except Refused:
        return False
    return True
