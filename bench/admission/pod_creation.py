"""Measures what a webhook adds to the time in which the API server creates a pod.

Pods are created in pairs, one that the webhook is asked about and one that it is not, so that whatever else the machine
does meets both alike.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import closing, contextmanager
from statistics import median
from urllib.parse import urlsplit

import msgspec

from bench.admission.cluster import Size, pod
from bench.measurement import CannotMeasure
from testbed.client import Json
from testbed.cluster import Cluster
from testbed.waiting import until

CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
NAME = "bench"
WEBHOOK_LABELS = {"asked": "yes"}
# What both sides write into every pod that they have a VPA for.
OBSERVED_CONTAINERS = "vpaObservedContainers"

# Of so many workloads, in turn.
_WORKLOADS = 10


class AddedLatency(msgspec.Struct, frozen=True):
    """Seconds of a creation, as medians."""

    without: float
    measure_added_latency: float


def prepare(cluster: Cluster, size: Size) -> None:
    """The accounts that the pods name, which no controller makes here."""
    for number in range(_WORKLOADS):
        made = pod(number, size)
        metadata = {"name": made["spec"]["serviceAccountName"], "namespace": made["metadata"]["namespace"]}
        cluster.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})


def measure_added_latency(cluster: Cluster, size: Size, port: int, authority: bytes, pairs: int) -> AddedLatency:
    """With the webhook that listens there and has a certificate of this authority."""
    with _registered(cluster, port, authority), closing(_connection(cluster)) as connection:
        until("the webhook to be asked", lambda: _create_pod(connection, pod(0, size), reviewed=True)[1], 30.0)
        without, differences = [], []
        for number in range(pairs):
            made = pod(number % _WORKLOADS, size)
            without_review, _ = _create_pod(connection, made, reviewed=False)
            reviewed, was_reviewed = _create_pod(connection, made, reviewed=True)
            if not was_reviewed:
                raise CannotMeasure("a pod was created without the webhook")
            without.append(without_review)
            differences.append(reviewed - without_review)
    return AddedLatency(median(without), median(differences))


@contextmanager
def _registered(cluster: Cluster, port: int, authority: bytes) -> Iterator[None]:
    webhook = {
        "name": "vpa.k8s.io",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "timeoutSeconds": 5,
        "clientConfig": {"url": f"https://127.0.0.1:{port}", "caBundle": b64encode(authority).decode()},
        "objectSelector": {"matchLabels": WEBHOOK_LABELS},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    cluster.api.create({**kind, "metadata": {"name": NAME}, "webhooks": [webhook]})
    try:
        yield
    finally:
        cluster.api.delete(f"{CONFIGURATION}/{NAME}")


def _connection(cluster: Cluster) -> http.client.HTTPSConnection:
    """One that stays open, as a controller's does."""
    access = cluster.directory / "access"
    context = ssl.create_default_context(cafile=str(access / "ca.crt"))
    context.load_cert_chain(access / "admin.crt", access / "admin.key")
    address = urlsplit(cluster.url)
    return http.client.HTTPSConnection(address.hostname or "", address.port, context=context, timeout=30.0)


def _create_pod(connection: http.client.HTTPSConnection, made: Json, *, reviewed: bool) -> tuple[float, bool]:
    """How many seconds it took, and whether the webhook has seen the pod."""
    metadata = made["metadata"]
    labels = {**metadata["labels"], **(WEBHOOK_LABELS if reviewed else {"asked": "no"})}
    body = json.dumps({**made, "metadata": {**metadata, "labels": labels}}).encode()
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods"
    began = time.perf_counter()
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    text = response.read()
    seconds = time.perf_counter() - began
    if response.status != http.client.CREATED:
        raise CannotMeasure(f"a pod was not created: {text[:300]!r}")
    return seconds, OBSERVED_CONTAINERS in json.loads(text)["metadata"].get("annotations", {})
