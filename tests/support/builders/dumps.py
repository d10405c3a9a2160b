"""A small cluster to collect a dump from: a shop with two pods, their VPA and what else has a say, and many secrets."""

from __future__ import annotations

from typing import Any

import numpy as np

from support.api_server.server import ModelServer
from support.virtual_time import run
from trellis.core.cluster.dump_format import ContainerHistory
from trellis.core.cluster.state import ClusterState
from trellis.kube.transport.requests import Request
from trellis.sources.cluster.anonymization import Anonymizer
from trellis.sources.cluster.collector import collect_lines
from trellis.sources.cluster.dump_writer import DumpWriter
from trellis.sources.cluster.lists import CollectionScope
from trellis.testing.scripted_transport import ScriptedResponse, error_response

NOW = 1_784_000_000.0
# Whatever this is in must not be in a dump.
SECRET = "hunter2"  # noqa: S105 - that is the point of it

LABELS = {"app": "web", "example.com/team": "payments"}
HASH = "5d4f8b7c9"


def shop() -> ModelServer:
    """The cluster, in a namespace `shop`; another namespace, `office`, is empty but for a pod without a controller."""
    server = ModelServer()
    server.objects["/version"] = {"major": "1", "minor": "34", "gitVersion": "v1.34.2"}
    pods = [{"name": name, "kind": "Pod", "namespaced": True, "verbs": ["list"]} for name in ("pods", "pods/resize")]
    server.objects |= {"/api": {"versions": ["v1"]}, "/apis": {"groups": []}, "/api/v1": {"resources": pods}}
    put = server.put
    for namespace in ("shop", "office", "kube-system"):
        put(f"/api/v1/namespaces/{namespace}", {"metadata": _metadata()})
    put("/api/v1/nodes/ip-10-0-0-7", _node())
    for kind, name, document in (
        ("apis/apps/v1/{}/deployments", "web", _deployment()),
        ("apis/apps/v1/{}/replicasets", f"web-{HASH}", _replica_set(2)),
        ("apis/apps/v1/{}/replicasets", "web-667788999", _replica_set(0)),
        ("apis/autoscaling.k8s.io/v1/{}/verticalpodautoscalers", "web-vpa", _vpa()),
        ("apis/autoscaling.k8s.io/v1/{}/verticalpodautoscalercheckpoints", "web-vpa-app", _checkpoint()),
        ("apis/autoscaling/v2/{}/horizontalpodautoscalers", "web-hpa", _hpa()),
        ("apis/policy/v1/{}/poddisruptionbudgets", "web-pdb", _budget()),
        ("api/v1/{}/limitranges", "confines", _limits()),
        ("api/v1/{}/secrets", "login", {"data": {"password": SECRET}}),
        ("api/v1/{}/configmaps", "settings", {"data": {"password": SECRET}}),
        ("api/v1/{}/events", "web-1", _event("EvictedByVPA", "vpa-updater")),
        ("api/v1/{}/events", "web-2", _event("Unhealthy", "kubelet", f"probe said {SECRET}")),
    ):
        put(f"/{kind.format('namespaces/shop')}/{name}", document)
    for name in ("x2x9z", "b4b7d"):
        put(f"/api/v1/namespaces/shop/pods/web-{HASH}-{name}", _pod())
        metrics = {"timestamp": "2026-07-14T03:33:00Z", "window": "15s", "containers": [_usage()]}
        put(f"/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods/web-{HASH}-{name}", metrics)
    put("/api/v1/namespaces/office/pods/alone", {"spec": {"containers": [_container()]}})
    put("/apis/apps/v1/namespaces/kube-system/deployments/vpa-updater", _component())
    put("/api/v1/namespaces/kube-system/configmaps/trellis-freeze", {"data": {"by": "alice", "why": "incident 17"}})
    lease = {"spec": {"holderIdentity": "vpa-updater-1", "renewTime": "2026-07-14T03:33:00.000000Z"}}
    put("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/vpa-updater", lease)
    return server


def hide(server: ModelServer, *namespaces: str) -> None:
    """Let only what is in other namespaces be read, and nothing of all namespaces but their list."""

    def before(request: Request) -> ScriptedResponse | None:
        parts = request.path.split("/")
        inside = parts[parts.index("namespaces") + 1] if "namespaces" in parts[:-1] else ""
        is_cluster_wide = not inside and parts[-1] not in ("namespaces", "nodes", "version", "api", "apis", "v1")
        if is_cluster_wide or (inside in namespaces and parts[-2:-1] != ["namespaces"]):
            return error_response(403, "Forbidden", f"{SECRET} may not list this")
        return None

    server.before = before


def collect_dump(
    server: ModelServer, *patterns: str, mask: Anonymizer | None = None, writing: DumpWriter | None = None
) -> list[bytes]:
    """The lines of a dump."""
    into = writing or DumpWriter(mask)

    async def read() -> list[bytes]:
        return [
            *[line async for line in collect_lines(server.client, CollectionScope(patterns), into, NOW)],
            into.encode_end(),
        ]

    return run(read())


def dump_state(server: ModelServer, *patterns: str, mask: Anonymizer | None = None) -> ClusterState:
    """What such a dump says."""
    return ClusterState.from_dump(collect_dump(server, *patterns, mask=mask))


def _metadata(**metadata: Any) -> dict[str, Any]:
    """Metadata as it is found in the wild."""
    applied = {"kubectl.kubernetes.io/last-applied-configuration": f'{{"env": "{SECRET}"}}', "note": SECRET}
    fields = [{"manager": "kubectl", "fieldsV1": {f"f:{SECRET}": {}}}]
    return {"annotations": applied, "managedFields": fields, **metadata}


def _container() -> dict[str, Any]:
    return {
        "name": "app",
        "image": f"registry.example/{SECRET}:1",
        "command": ["serve", f"--password={SECRET}"],
        "args": [SECRET],
        "env": [{"name": "PASSWORD", "value": SECRET}],
        "envFrom": [{"secretRef": {"name": SECRET}}],
        "volumeMounts": [{"name": SECRET, "mountPath": f"/{SECRET}"}],
        "readinessProbe": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": SECRET}]}},
        "lifecycle": {"preStop": {"exec": {"command": [SECRET]}}},
        "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
    }


def _pod_spec(**spec: Any) -> dict[str, Any]:
    volumes = [{"name": "v", "secret": {"secretName": SECRET}}, {"name": "w", "emptyDir": {}}]
    return {"containers": [_container()], "volumes": volumes, "imagePullSecrets": [{"name": SECRET}], **spec}


def _template() -> dict[str, Any]:
    return {"metadata": _metadata(labels=LABELS), "spec": _pod_spec()}


def _deployment() -> dict[str, Any]:
    spec = {"replicas": 2, "selector": {"matchLabels": LABELS}, "template": _template()}
    return {"metadata": _metadata(labels=LABELS), "spec": spec, "status": {"replicas": 2, "readyReplicas": 2}}


def _replica_set(replicas: int) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d-1", "controller": True}
    spec = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": _template()}
    return {
        "metadata": _metadata(labels=LABELS, ownerReferences=[owner]),
        "spec": spec,
        "status": {"replicas": replicas},
    }


def _pod() -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"web-{HASH}", "uid": "r-1", "controller": True}
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": f"back-off {SECRET}"}}
    metadata = _metadata(labels={**LABELS, "pod-template-hash": HASH}, ownerReferences=[owner])
    metadata["annotations"] = {**metadata["annotations"], "vpaObservedContainers": "app"}
    return {
        "metadata": metadata,
        "spec": _pod_spec(nodeName="ip-10-0-0-7", tolerations=[{"key": "example.com/shop", "value": "eu"}]),
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "message": f"said {SECRET}"}],
            "containerStatuses": [{"name": "app", "state": {"running": {}}, "lastState": waiting}],
        },
    }


def _node() -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": "ip-10-0-0-7", "kubernetes.io/arch": "amd64"}
    offered = {"cpu": "8", "memory": "32Gi", "pods": "110", "example.com/gpu": "1"}
    return {"metadata": _metadata(labels=labels), "status": {"capacity": offered, "allocatable": offered}}


def _vpa() -> dict[str, Any]:
    policies = [{"containerName": "app", "maxAllowed": {"cpu": "4"}}, {"containerName": "*", "mode": "Off"}]
    spec = {
        "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "updatePolicy": {"updateMode": "InPlaceOrRecreate"},
        "resourcePolicy": {"containerPolicies": policies},
    }
    advice = {"containerName": "app", "target": {"cpu": "200m", "memory": "300Mi"}}
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": _metadata(),
        "spec": spec,
        "status": {"recommendation": {"containerRecommendations": [advice]}},
    }


def _checkpoint() -> dict[str, Any]:
    weights = {"bucketWeights": {"10": 10_000, "14": 500}, "totalWeight": 80.0}
    memory = {"bucketWeights": {"12": 10_000}, "totalWeight": 8.0}
    status = {
        "version": "v3",
        "cpuHistogram": {"referenceTimestamp": "2026-07-14T00:00:00Z", **weights},
        "memoryHistogram": {"referenceTimestamp": "2026-07-14T00:00:00Z", **memory},
        "firstSampleStart": "2026-07-06T00:00:00Z",
        "lastSampleStart": "2026-07-14T03:33:00Z",
        "totalSamplesCount": 8_000,
    }
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscalerCheckpoint",
        "metadata": _metadata(),
        "spec": {"vpaObjectName": "web-vpa", "containerName": "app"},
        "status": status,
    }


def _hpa() -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": 60}
    metrics = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    about = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {"metadata": _metadata(), "spec": {"scaleTargetRef": about, "maxReplicas": 5, "metrics": metrics}}


def _budget() -> dict[str, Any]:
    return {"metadata": _metadata(), "spec": {"maxUnavailable": 1, "selector": {"matchLabels": LABELS}}}


def _limits() -> dict[str, Any]:
    return {"metadata": _metadata(), "spec": {"limits": [{"type": "Container", "max": {"memory": "2Gi"}}]}}


def _event(reason: str, by: str, message: str = "Pod web was evicted") -> dict[str, Any]:
    about = {"kind": "Pod", "namespace": "shop", "name": f"web-{HASH}-gone1"}
    return {"involvedObject": about, "reason": reason, "message": message, "source": {"component": by}}


def _usage() -> dict[str, Any]:
    return {"name": "app", "usage": {"cpu": "123m", "memory": "200Mi"}}


def _component() -> dict[str, Any]:
    flags = ["--in-recommendation-bounds-eviction-lifetime-threshold=6h", f"--prometheus-bearer-token={SECRET}"]
    container = {"name": "updater", "image": "registry.example/team/trellis:1.0", "command": ["trellis", "updater"]}
    template = {"spec": {"containers": [{**container, "args": [*flags, f"--address=http://me:{SECRET}@prometheus"]}]}}
    return {"metadata": _metadata(), "spec": {"replicas": 1, "template": template}}


def example() -> list[bytes]:
    """A dump with three days of usage, as it is in `examples`."""
    server = shop()
    writing = DumpWriter()
    lines = collect_dump(server, writing=writing)[:-1]
    times = NOW - 3 * 86_400.0 + 1_800.0 * np.arange(144, dtype=np.float64)
    hour = times / 3_600.0 % 24
    day = np.maximum(0.0, np.sin((hour - 6) / 12 * np.pi))
    for number, pod in enumerate(("x2x9z", "b4b7d")):
        cpu = np.round(0.05 + 0.2 * day * (1 + 0.2 * number), 3)
        memory = np.round(150e6 + 60e6 * day + 4e6 * number, -5)
        lines.append(writing.encode_history(ContainerHistory("shop", f"web-{HASH}-{pod}", "app", times, cpu, memory)))
    return [*lines, writing.encode_end()]
