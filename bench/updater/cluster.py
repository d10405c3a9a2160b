"""A cluster for the updater: VPAs, each for a ReplicaSet of two pods, none of which is as recommended.

Where there are no controllers and no kubelets, pods are as the bench wrote them, and one that is evicted has no
successor. So exactly one pod of each ReplicaSet can be evicted, and an updater that has done so has nothing more to do.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from bench.client.request_rate import Request, created, patched, send_all
from testbed.cluster import Cluster, is_ready
from testbed.kwok.nodes import Node
from testbed.workloads import container

Json = dict[str, Any]

PODS_EACH = 2
NODE = "node-0"
APP = "app"
BOOST = f"vpaCpuStartupBoost/{APP}"
IN_FLIGHT = 24

_VPAS = "autoscaling.k8s.io/v1"
_HAS, _GETS, _BOOSTED = "100m", "250m", "500m"
_MEMORY = "128Mi"
# The API server's own count of requests.
_REQUEST = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class Group(msgspec.Struct, frozen=True):
    """VPAs of one namespace, which affect no other namespace.

    With `boost` their pods are boosted, not Ready yet, and recommended is what they have without their boost.
    """

    namespace: str
    vpas: int
    mode: str = "Recreate"
    boost: int | None = None  # seconds after Ready
    governed: bool = True
    replaced: bool = False  # by a controller, which makes the pods as well

    @property
    def pods(self) -> int:
        return self.vpas * PODS_EACH

    @property
    def path(self) -> str:
        """Of its pods."""
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def names(self) -> Iterator[str]:
        """Of its pods."""
        return (f"web-{vpa}-{number}" for vpa in range(self.vpas) for number in range(PODS_EACH))


class Calls(msgspec.Struct, frozen=True):
    """Requests by verb, resource and subresource, as the API server has counted them."""

    by_kind: Counter[tuple[str, str, str]]

    def __sub__(self, other: Calls) -> Calls:
        return Calls(self.by_kind - other.by_kind)

    def count(self, verb: str, resource: str, subresource: str = "") -> int:
        return self.by_kind[verb, resource, subresource]


LARGE_NODE = Node(name=NODE, cpu="10000", memory="100Ti", pods=100_000)


def announce_admission(cluster: Cluster) -> None:
    """The Lease of an admission controller that will be live for an hour."""
    renewed = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    metadata = {"name": "vpa-admission-controller", "namespace": "kube-system"}
    spec = {"holderIdentity": "bench", "leaseDurationSeconds": 10, "renewTime": renewed}
    cluster.api.create({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec})


def populate(cluster: Cluster, group: Group) -> None:
    """All that belongs to a group."""
    cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": group.namespace}})
    if not group.replaced:
        account = {"name": "default", "namespace": group.namespace}
        cluster.api.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
    send_all(cluster, _list_request_chains(group), IN_FLIGHT)


def list_ready_pods(cluster: Cluster, group: Group) -> list[str]:
    """The names of its pods that are Ready."""
    return [pod["metadata"]["name"] for pod in cluster.api.list_items(group.path) if is_ready(pod)]


def count_calls(cluster: Cluster) -> Calls:
    """What the API server has been asked so far."""
    text: str = cluster.api.send("GET", "/metrics")["message"]
    counter: Counter[tuple[str, str, str]] = Counter()
    for labels, count in _REQUEST.findall(text):
        labels_of_request = dict(_LABEL.findall(labels))
        counter[labels_of_request["verb"], labels_of_request["resource"], labels_of_request["subresource"]] += int(
            float(count)
        )
    return Calls(counter)


def status(*, ready: bool, cpu: str, at: datetime | None = None) -> Json:
    """What a kubelet would write of a pod that runs."""
    time = (at or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")
    state = {
        "name": APP,
        "image": "example/app:1.0",
        "imageID": "example/app@sha256:0",
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": {"running": {"startedAt": time}},
        "resources": {"requests": {"cpu": cpu, "memory": _MEMORY}},
    }
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": time}
    return {"status": {"phase": "Running", "startTime": time, "conditions": [condition], "containerStatuses": [state]}}


def becoming_ready(at: datetime) -> Json:
    """What a kubelet would write of a boosted pod that has become Ready."""
    return status(ready=True, cpu=_BOOSTED, at=at)


def is_boosted(pod: Json) -> bool:
    requested: str = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return requested == _BOOSTED


def _list_request_chains(group: Group) -> Iterator[tuple[Request, ...]]:
    apps = f"/apis/apps/v1/namespaces/{group.namespace}/replicasets"
    vpas = f"/apis/{_VPAS}/namespaces/{group.namespace}/verticalpodautoscalers"
    has = _HAS if group.boost is None else _BOOSTED
    written = status(ready=group.boost is None, cpu=has)
    for name in () if group.replaced else group.names():
        yield created(group.path, _pod(group, name, has)), patched(f"{group.path}/{name}/status", written)
    recommended = {"status": {"recommendation": _recommended(_HAS if group.boost is not None else _GETS)}}
    for name in (f"web-{vpa}" for vpa in range(group.vpas)):
        if group.governed or group.replaced:
            yield (created(apps, _replica_set(name, has)),)
        if group.governed:
            yield created(vpas, _vpa(group, name)), patched(f"{vpas}/{name}/status", recommended)


def _pod(group: Group, name: str, has: str) -> Json:
    owner = name.rpartition("-")[0]
    controller = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
    metadata: Json = {"name": name, "labels": {"app": owner}, "ownerReferences": [controller]}
    if group.boost is not None:
        before = {"requests": {"cpu": _HAS, "memory": _MEMORY}}
        metadata["annotations"] = {BOOST: msgspec.json.encode(before).decode()}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _spec(has)}


def _replica_set(name: str, has: str) -> Json:
    template = {"metadata": {"labels": {"app": name}}, "spec": _spec(has)}
    spec = {"replicas": PODS_EACH, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": spec}


def _spec(has: str) -> Json:
    containers = [container(APP, cpu=has, memory=_MEMORY)]
    # Placed by hand, which spares the scheduler's share of the work.
    return {"containers": containers, "terminationGracePeriodSeconds": 0, "nodeName": NODE}


def _vpa(group: Group, name: str) -> Json:
    spec: Json = {
        "targetRef": {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name},
        "updatePolicy": {"updateMode": group.mode},
    }
    if group.boost is not None:
        spec["startupBoost"] = {"cpu": {"type": "Factor", "factor": 5, "duration": f"{group.boost}s"}}
    return {"apiVersion": _VPAS, "kind": "VerticalPodAutoscaler", "metadata": {"name": name}, "spec": spec}


def _recommended(gets: str) -> Json:
    target = {"cpu": gets, "memory": _MEMORY}
    return {
        "containerRecommendations": [
            {"containerName": APP, "target": target, "lowerBound": target, "upperBound": target}
        ]
    }
