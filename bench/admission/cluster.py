"""A cluster as an admission controller sees it, and reviews of its pods: so many VPAs, Deployments and ReplicaSets.

Run as a module it is an API server, as far as lists and watches need one: on 127.0.0.1, in a process of its own, so
that what it generates takes only its own memory. Watches stay open and say nothing.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import msgspec
from aiohttp import web

from bench.server_process import serve, server_process

Json = dict[str, Any]

NAMESPACES = 200
_TIME = "2026-05-01T08:00:00Z"
# What of an object's metadata only a server can say.
_SERVERS = ("uid", "resourceVersion", "generation", "creationTimestamp")


class Size(msgspec.Struct, frozen=True):
    """How many there are; each Deployment has one VPA and the same number of ReplicaSets."""

    vpas: int
    replica_sets: int

    def __str__(self) -> str:
        return f"{self.vpas:,} VPAs, {self.replica_sets:,} ReplicaSets"

    @property
    def generations(self) -> int:
        """ReplicaSets of each Deployment."""
        return max(1, self.replica_sets // self.vpas)


def serving(size: Size) -> AbstractContextManager[str]:
    """The API server's URL, for as long as it is needed."""
    return server_process("bench.admission.cluster", size.vpas, size.replica_sets)


def review(number: int, size: Size, generation: int = 0, *, restarted: bool = False) -> bytes:
    """The API server's question about a new pod of a Deployment, some 5 KB long.

    A Deployment that is restarted for this very pod has a template that is new to the webhook.
    """
    vpa = number % size.vpas
    uid = f"00000000-0000-4000-8000-{number:012d}"
    made = _pod(number, vpa, generation)
    if restarted:
        made["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"] = f"{_TIME[:-1]}.{number:06d}Z"
    gvk = {"group": "", "version": "v1", "kind": "Pod"}
    gvr = {"group": "", "version": "v1", "resource": "pods"}
    request = {
        "uid": uid,
        "kind": gvk,
        "resource": gvr,
        "requestKind": gvk,
        "requestResource": gvr,
        "namespace": _namespace(vpa),
        "operation": "CREATE",
        "userInfo": {
            "username": "system:serviceaccount:kube-system:replicaset-controller",
            "uid": "6f1c9c0e-2f53-4c0c-9a35-7c1d1d3f2f11",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
        },
        "object": made,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    document = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return msgspec.json.encode(document)


def objects(size: Size) -> Iterator[Json]:
    """All that there is, for an API server that is a real one. It takes the statuses for themselves."""
    yield from ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in namespaces(size))
    made: list[tuple[str, str, Iterable[Json]]] = [
        ("v1", "LimitRange", map(_limit_range, range(len(namespaces(size))))),
        ("apps/v1", "Deployment", map(_deployment, range(size.vpas))),
        ("apps/v1", "ReplicaSet", (_replica_set(n, size.generations) for n in range(size.vpas * size.generations))),
        ("autoscaling.k8s.io/v1", "VerticalPodAutoscaler", map(_vpa, range(size.vpas))),
    ]
    for version, kind, listed in made:
        for obj in listed:
            metadata = {key: value for key, value in obj["metadata"].items() if key not in _SERVERS}
            yield {**obj, "apiVersion": version, "kind": kind, "metadata": metadata}


def namespaces(size: Size) -> list[str]:
    """Where they are."""
    return [f"team-{number}" for number in range(min(size.vpas, NAMESPACES))]


def pod(number: int, size: Size) -> Json:
    """What `review` asks about, as a client would send it."""
    vpa = number % size.vpas
    made = _pod(number, vpa, generation=0)
    made["metadata"].pop("managedFields")
    return made


def _namespace(vpa: int) -> str:
    return f"team-{vpa % NAMESPACES}"


def _metadata(kind: str, name: str, vpa: int, number: int, **more: Any) -> Json:
    return {
        "name": name,
        "namespace": _namespace(vpa),
        "uid": f"{kind[:4].encode().hex()}-0000-4000-8000-{number:012d}",
        "resourceVersion": str(100_000 + number),
        "generation": 1,
        "creationTimestamp": _TIME,
        "labels": {"app.kubernetes.io/name": f"app-{vpa}", "team": _namespace(vpa)},
        **more,
    }


def _owner(kind: str, name: str) -> list[Json]:
    uid = "d1b2c3d4-0000-4000-8000-000000000000"
    return [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True}]


def _selector(vpa: int) -> Json:
    return {"matchLabels": {"app.kubernetes.io/name": f"app-{vpa}"}}


def _vpa(vpa: int) -> Json:
    amounts = {"cpu": f"{100 + vpa % 400}m", "memory": f"{(100 + vpa % 300) * 1048576}"}
    bounds = {"lowerBound": {"cpu": "25m", "memory": "262144k"}, "upperBound": {"cpu": "2", "memory": "2Gi"}}
    return {
        "apiVersion": "autoscaling.k8s.io/v1",
        "kind": "VerticalPodAutoscaler",
        "metadata": _metadata("vpa", f"app-{vpa}", vpa, vpa),
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"app-{vpa}"},
            "updatePolicy": {"updateMode": "InPlaceOrRecreate", "minReplicas": 1},
            "resourcePolicy": {
                "containerPolicies": [
                    {
                        "containerName": "*",
                        "minAllowed": {"cpu": "50m", "memory": "64Mi"},
                        "maxAllowed": {"cpu": "400m", "memory": "1Gi"},
                        "controlledResources": ["cpu", "memory"],
                    }
                ]
            },
        },
        "status": {
            "conditions": [{"type": "RecommendationProvided", "status": "True", "lastTransitionTime": _TIME}],
            "recommendation": {
                "containerRecommendations": [
                    {"containerName": name, "target": amounts, "uncappedTarget": amounts, **bounds}
                    for name in ("app", "proxy")
                ]
            },
        },
    }


def _deployment(vpa: int) -> Json:
    template = {"metadata": {"labels": _selector(vpa)["matchLabels"]}, "spec": _spec(vpa, 0)}
    spec = {"replicas": 3, "selector": _selector(vpa), "template": template}
    return {"metadata": _metadata("deployment", f"app-{vpa}", vpa, vpa), "spec": spec}


def _replica_set(number: int, generations: int) -> Json:
    vpa, generation = divmod(number, generations)
    owners = _owner("Deployment", f"app-{vpa}")
    name = _replica_set_name(vpa, generation)
    template = {"metadata": {"labels": _selector(vpa)["matchLabels"]}, "spec": _spec(vpa, 0)}
    return {
        "metadata": _metadata("replicaset", name, vpa, number, ownerReferences=owners),
        "spec": {"replicas": 0, "selector": _selector(vpa), "template": template},
    }


def _replica_set_name(vpa: int, generation: int) -> str:
    return f"app-{vpa}-{0x5D4F8C9B + 7919 * generation:x}"


def _limit_range(namespace: int) -> Json:
    limit = {"type": "Container", "max": {"cpu": "4", "memory": "8Gi"}, "default": {"cpu": "1", "memory": "1Gi"}}
    return {
        "metadata": {"name": "limits", "namespace": f"team-{namespace}", "resourceVersion": "7", "uid": "l"},
        "spec": {"limits": [limit]},
    }


def _pod(number: int, vpa: int, generation: int) -> Json:
    name = _replica_set_name(vpa, generation)
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "generateName": f"{name}-",
            "namespace": _namespace(vpa),
            "labels": {"app.kubernetes.io/name": f"app-{vpa}", "pod-template-hash": name.rpartition("-")[2]},
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090"},
            "ownerReferences": _owner("ReplicaSet", name),
            "managedFields": [
                {
                    "manager": "kube-controller-manager",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": _TIME,
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:metadata": {"f:generateName": {}, "f:labels": {".": {}, "f:app": {}}}},
                }
            ],
        },
        "spec": {**_spec(vpa, number), "schedulerName": "default-scheduler", "enableServiceLinks": True},
        "status": {},
    }


def _spec(vpa: int, number: int) -> Json:
    token = f"kube-api-access-{number % 99_991:05d}"
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]
    return {
        "volumes": [
            {"name": "config", "configMap": {"name": f"app-{vpa}", "defaultMode": 420}},
            {"name": token, "projected": {"sources": sources, "defaultMode": 420}},
        ],
        "containers": [_container("app", vpa, token), _container("proxy", vpa, token)],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": f"app-{vpa}",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "tolerations": [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
        ],
    }


def _container(name: str, vpa: int, token: str) -> Json:
    probe = {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10}
    return {
        "name": name,
        "image": f"registry.example.com/team/app-{vpa}/{name}@sha256:{vpa:064x}",
        "args": ["--config=/etc/app/config.yaml", "--log-format=json", f"--shard={vpa}"],
        "env": [{"name": f"SETTING_{i}", "value": f"value-{i}-of-the-application"} for i in range(12)],
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"cpu": "500m", "memory": "512Mi"}},
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/app", "readOnly": True},
            {"name": token, "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"},
        ],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }


class ClusterServer:
    """Answers discovery, lists in pages, and watches with silence."""

    def __init__(self, size: Size) -> None:
        apps = "/apis/apps/v1"
        self._kinds: dict[str, tuple[int, Callable[[int], Json]]] = {
            "/apis/autoscaling.k8s.io/v1/verticalpodautoscalers": (size.vpas, _vpa),
            f"{apps}/deployments": (size.vpas, _deployment),
            f"{apps}/replicasets": (
                size.vpas * size.generations,
                lambda number: _replica_set(number, size.generations),
            ),
            "/api/v1/limitranges": (min(size.vpas, NAMESPACES), _limit_range),
        }

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            await response.prepare(request)
            await asyncio.Event().wait()
            return response
        if request.path in ("/api", "/apis"):
            return web.json_response({"versions": ["v1"]} if request.path == "/api" else {"groups": []})
        if request.path == "/api/v1":
            pods = [{"name": name, "kind": "Pod", "namespaced": True} for name in ("pods", "pods/resize")]
            return web.json_response({"resources": pods})
        count, make = self._kinds.get(request.path, (0, _vpa))
        start = int(request.query.get("continue", "0"))
        end = min(count, start + int(request.query.get("limit", "500")))
        metadata = {"resourceVersion": "999999", **({"continue": str(end)} if end < count else {})}
        page = {"kind": "List", "metadata": metadata, "items": [make(number) for number in range(start, end)]}
        return web.Response(body=msgspec.json.encode(page), content_type="application/json")


async def _serve(size: Size) -> None:
    await serve(web.ServerRunner(web.Server(ClusterServer(size).handle)))  # type: ignore[arg-type]


if __name__ == "__main__":
    asyncio.run(_serve(Size(*map(int, sys.argv[1:]))))
