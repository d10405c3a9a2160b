"""A list of pods as an API server sends it: every pod different, about 5.5 KB of JSON each.

Drawn from the index alone, so every process and every run measures the same bytes. A third of the pods have
a native sidecar, one in forty waits for a resize, one in twenty-five was killed for memory; all carry the
`managedFields` that make up a quarter of a pod and that Trellis never reads.
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

_NAMESPACES = 40
_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def pod_list(count: int) -> bytes:
    """A `PodList` of so many pods, as one response body."""
    body = {
        "kind": "PodList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "81923344"},
        "items": [_pod(i) for i in range(count)],
    }
    return msgspec.json.encode(body)


def _hex(i: int, salt: str, length: int) -> str:
    return hashlib.sha256(f"{salt}{i}".encode()).hexdigest()[:length]


def _uid(i: int, salt: str) -> str:
    h = _hex(i, salt, 32)
    return f"{h[:8]}-{h[8:12]}-4{h[13:16]}-a{h[17:20]}-{h[20:]}"


def _time(i: int) -> str:
    return f"2026-0{1 + i % 9}-{1 + i % 28:02}T{i % 24:02}:{i % 60:02}:{i * 7 % 60:02}Z"


def _pod(i: int) -> dict[str, Any]:
    app = f"service-{i // 5 % 1500}"
    return {
        "metadata": _metadata(i, app),
        "spec": _spec(i, app),
        "status": _status(i, app),
    }


def _metadata(i: int, app: str) -> dict[str, Any]:
    replica_set = f"{app}-{_hex(i // 5, 'rs', 9)}"
    return {
        "name": f"{replica_set}-{_hex(i, 'pod', 5)}",
        "generateName": f"{replica_set}-",
        "namespace": f"team-{i % _NAMESPACES}",
        "uid": _uid(i, "uid"),
        "resourceVersion": str(70_000_000 + i * 13),
        "generation": 1 + i % 3,
        "creationTimestamp": _time(i),
        "labels": {
            "app.kubernetes.io/name": app,
            "app.kubernetes.io/version": f"1.{i % 40}.{i % 7}",
            "pod-template-hash": _hex(i // 5, "rs", 9),
        },
        "annotations": {
            "checksum/config": _hex(i // 5, "config", 64),
            "vpaObservedContainers": "app, proxy",
        },
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": replica_set,
                "uid": _uid(i // 5, "rs-uid"),
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
        "managedFields": _managed_fields(i),
    }


def _managed_fields(i: int) -> list[dict[str, Any]]:
    container: dict[str, Any] = {
        ".": {},
        "f:env": {".": {}, 'k:{"name":"LOG_LEVEL"}': {".": {}, "f:name": {}, "f:value": {}}},
        "f:image": {},
        "f:name": {},
        "f:readinessProbe": {".": {}, "f:httpGet": {".": {}, "f:path": {}, "f:port": {}}},
        "f:resources": {".": {}, "f:limits": {".": {}, "f:memory": {}}, "f:requests": {".": {}, "f:cpu": {}}},
    }
    return [
        {
            "manager": "kube-controller-manager",
            "operation": "Update",
            "apiVersion": "v1",
            "time": _time(i),
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {
                    "f:labels": {".": {}, "f:app.kubernetes.io/name": {}},
                    "f:ownerReferences": {},
                },
                "f:spec": {"f:containers": {'k:{"name":"app"}': container}, "f:restartPolicy": {}},
            },
        },
        {
            "manager": "kubelet",
            "operation": "Update",
            "apiVersion": "v1",
            "time": _time(i + 1),
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": _status_fields()},
            "subresource": "status",
        },
    ]


def _status_fields() -> dict[str, Any]:
    condition: dict[str, Any] = {
        ".": {},
        "f:lastProbeTime": {},
        "f:lastTransitionTime": {},
        "f:status": {},
        "f:type": {},
    }
    return {
        "f:conditions": {f'k:{{"type":"{kind}"}}': condition for kind in _CONDITIONS},
        "f:containerStatuses": {},
        "f:hostIP": {},
        "f:phase": {},
        "f:podIP": {},
        "f:podIPs": {".": {}, 'k:{"ip":"10.4.0.1"}': {".": {}, "f:ip": {}}},
        "f:startTime": {},
    }


def _spec(i: int, app: str) -> dict[str, Any]:
    token = f"kube-api-access-{_hex(i, 'token', 5)}"
    mounts = [
        {"name": "config", "mountPath": "/etc/service", "readOnly": True},
        {"name": token, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
    ]
    spec: dict[str, Any] = {
        "volumes": _volumes(i, app, token),
        "containers": [_app_container(i, app, mounts)],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": app,
        "nodeName": f"gke-production-pool-{i % 12}-{_hex(i % 400, 'node', 8)}",
        "securityContext": {"fsGroup": 2000},
        "schedulerName": "default-scheduler",
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{taint}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for taint in ("not-ready", "unreachable")
        ],
        "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }
    if i % 3 == 0:
        spec["initContainers"] = [_proxy(mounts)]
    if i % 3 == 1:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app.kubernetes.io/name": app}},
            }
        ]
    return spec


def _volumes(i: int, app: str, token: str) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [
        {"name": "config", "configMap": {"name": f"{app}-config", "defaultMode": 420}},
        {
            "name": token,
            "projected": {
                "sources": [
                    {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                    {
                        "configMap": {
                            "name": "kube-root-ca.crt",
                            "items": [{"key": "ca.crt", "path": "ca.crt"}],
                        }
                    },
                ],
                "defaultMode": 420,
            },
        },
    ]
    if i % 10 == 0:
        volumes.append({"name": "data", "persistentVolumeClaim": {"claimName": f"data-{app}-{i % 5}"}})
    return volumes


def _resources(i: int) -> dict[str, Any]:
    memory = f"{128 * (1 + i % 16)}Mi"
    return {"limits": {"memory": memory}, "requests": {"cpu": f"{50 + i % 40 * 25}m", "memory": memory}}


def _app_container(i: int, app: str, mounts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": "app",
        "image": f"registry.example.com/{app}:1.{i % 40}.{i % 7}",
        "ports": [
            {"name": "http", "containerPort": 8080, "protocol": "TCP"},
        ],
        "env": [
            {"name": "LOG_LEVEL", "value": "info"},
            {"name": "DATABASE_URL", "valueFrom": {"secretKeyRef": {"name": f"{app}-db", "key": "url"}}},
        ],
        "resources": _resources(i),
        "resizePolicy": [
            {"resourceName": "cpu", "restartPolicy": "NotRequired"},
            {"resourceName": "memory", "restartPolicy": "NotRequired"},
        ],
        "volumeMounts": mounts,
        "readinessProbe": {
            "httpGet": {"path": "/ready", "port": "http", "scheme": "HTTP"},
            "periodSeconds": 10,
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
    }


def _proxy(mounts: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": "proxy",
        "image": "registry.example.com/mesh/proxy:1.24.1",
        "restartPolicy": "Always",
        "resources": {"limits": {"memory": "128Mi"}, "requests": {"cpu": "20m", "memory": "64Mi"}},
        "volumeMounts": mounts,
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }


def _container_status(i: int, name: str, image: str, resources: dict[str, Any]) -> dict[str, Any]:
    killed = {"exitCode": 137, "reason": "OOMKilled", "startedAt": _time(i), "finishedAt": _time(i + 1)}
    return {
        "name": name,
        "state": {"running": {"startedAt": _time(i + 2)}},
        "lastState": {"terminated": killed} if i % 25 == 0 else {},
        "ready": True,
        "restartCount": 1 if i % 25 == 0 else 0,
        "image": image,
        "imageID": f"{image.rsplit(':', 1)[0]}@sha256:{_hex(i // 5, 'image', 64)}",
        "containerID": f"containerd://{_hex(i, name, 64)}",
        "started": True,
        "allocatedResources": resources["requests"],
        "resources": resources,
    }


def _status(i: int, app: str) -> dict[str, Any]:
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": _time(i + n)}
        for n, kind in enumerate(_CONDITIONS)
    ]
    if i % 40 == 0:
        conditions.append(
            {
                "type": "PodResizePending",
                "status": "True",
                "lastProbeTime": _time(i),
                "lastTransitionTime": _time(i),
                "reason": "Deferred",
                "message": "Node didn't have enough resource: cpu, requested: 4000, used: 1200",
            }
        )
    status: dict[str, Any] = {
        "observedGeneration": 1 + i % 3,
        "phase": "Running",
        "conditions": conditions,
        "hostIP": f"10.128.{i % 200}.{i % 250}",
        "podIP": f"10.4.{i // 250}.{i % 250}",
        "podIPs": [{"ip": f"10.4.{i // 250}.{i % 250}"}],
        "startTime": _time(i),
        "containerStatuses": [
            _container_status(i, "app", f"registry.example.com/{app}:1.{i % 40}.{i % 7}", _resources(i))
        ],
        "qosClass": "Burstable",
    }
    if i % 3 == 0:
        proxy = {"limits": {"memory": "128Mi"}, "requests": {"cpu": "20m", "memory": "64Mi"}}
        image = "registry.example.com/mesh/proxy:1.24.1"
        status["initContainerStatuses"] = [_container_status(i, "proxy", image, proxy)]
    return status
