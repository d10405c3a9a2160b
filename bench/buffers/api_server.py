"""An API server as far as `trellis buffers` needs one: in a process of its own, on 127.0.0.1.

A thousand Deployments of twenty pods each, every one with a Buffer and every third with a VPA; two hundred nodes and a
quota in every fourth namespace. Lists come in pages, a status that is applied comes back through the watch, and
`/writes` says how many there were.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AbstractContextManager, suppress
from typing import Any

import msgspec
from aiohttp import ClientConnectionResetError, web

from bench.client.generated_pods import pod_list
from bench.server_process import serve, server_process

Json = dict[str, Any]

BUFFERS = 1_000
PODS = 20
NODES = 200
_NAMESPACES = 40
_VERSION = "81923344"
_KINDS = {
    "v1": {
        "pods": "Pod",
        "nodes": "Node",
        "replicationcontrollers": "ReplicationController",
        "resourcequotas": "ResourceQuota",
        "limitranges": "LimitRange",
    },
    "apps/v1": {"deployments": "Deployment", "replicasets": "ReplicaSet", "statefulsets": "StatefulSet"},
    "batch/v1": {"jobs": "Job", "cronjobs": "CronJob"},
    "autoscaling.k8s.io/v1": {"verticalpodautoscalers": "VerticalPodAutoscaler"},
    "autoscaling.x-k8s.io/v1alpha1": {"buffers": "Buffer", "hvpas": "Hvpa"},
}


def serving(buffers: int) -> AbstractContextManager[str]:
    """The server's URL, for as long as it is needed."""
    return server_process(__name__, buffers)


class BufferServer:
    """Answers lists, watches, one pod at a time, and the status of a Buffer."""

    def __init__(self, buffers: int) -> None:
        self._writes = 0
        self._lists: dict[str, dict[str, Json]] = {plural: {} for kinds in _KINDS.values() for plural in kinds}
        self._watches: list[web.StreamResponse] = []
        for number, pod in enumerate(msgspec.json.decode(pod_list(buffers * PODS))["items"]):
            at = number // PODS
            pod["metadata"] |= {"namespace": _namespace(at), "name": f"web-{at}-{number % PODS}"}
            pod["metadata"]["labels"]["app.kubernetes.io/name"] = f"web-{at}"
            self._put("pods", pod)
        for at in range(buffers):
            self._put("deployments", _deployment(at))
            self._put("replicasets", _deployment(at, f"web-{at}-5d{at:07x}"))
            self._put("buffers", _buffer(at))
            if at % 3 == 0:
                self._put("verticalpodautoscalers", _vpa(at))
        for number in range(NODES):
            self._put("nodes", _node(number))
        for number in range(0, _NAMESPACES, 4):
            self._put("resourcequotas", _quota(f"team-{number}"))

    def _put(self, plural: str, document: Json) -> None:
        metadata = document["metadata"]
        metadata.setdefault("resourceVersion", _VERSION)
        metadata.setdefault("uid", f"{plural}-{metadata.get('namespace', '')}-{metadata['name']}")
        self._lists[plural][f"{metadata.get('namespace', '')}/{metadata['name']}"] = document

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """One request."""
        path = request.path.strip("/")
        if path == "writes":
            return web.json_response(self._writes)
        if (discovery := _discovered(path)) is not None:
            return web.json_response(discovery)
        parts = path.split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        if request.method == "POST":
            return web.json_response({"metadata": {}}, status=201)
        if parts[0] == "namespaces" and len(parts) > 3:
            return await self._handle_object(request, parts[1], parts[2], parts[3])
        if "watch" in request.query:
            return await self._watch(request, parts[0])
        return self._page(request, parts[0])

    async def _handle_object(self, request: web.Request, namespace: str, plural: str, name: str) -> web.StreamResponse:
        document = self._lists[plural].get(f"{namespace}/{name}")
        if document is None:
            return web.json_response({"kind": "Status", "code": 404, "reason": "NotFound"}, status=404)
        if request.method == "PATCH":
            self._writes += 1
            document["status"] = msgspec.json.decode(await request.read())["status"]
            document["metadata"]["resourceVersion"] = str(90_000_000 + self._writes)
            line = msgspec.json.encode({"type": "MODIFIED", "object": document}) + b"\n"
            for stream in self._watches:
                await stream.write(line)
        return web.Response(body=msgspec.json.encode(document), content_type="application/json")

    def _page(self, request: web.Request, plural: str) -> web.Response:
        items = list(self._lists[plural].values())
        start, limit = int(request.query.get("continue") or 0), int(request.query.get("limit") or len(items) or 1)
        following = start + limit
        metadata = {"resourceVersion": _VERSION, "continue": str(following) if following < len(items) else ""}
        body = msgspec.json.encode({"kind": "List", "metadata": metadata, "items": items[start:following]})
        return web.Response(body=body, content_type="application/json")

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if plural == "buffers":
            self._watches.append(response)
        with suppress(ClientConnectionResetError):
            while True:
                bookmark = {"kind": "Pod", "metadata": {"resourceVersion": _VERSION}}
                await response.write(msgspec.json.encode({"type": "BOOKMARK", "object": bookmark}) + b"\n")
                await asyncio.sleep(30.0)
        return response


def _discovered(path: str) -> Json | None:
    versions = [
        {"groupVersion": version, "version": version.partition("/")[2]} for version in _KINDS if version != "v1"
    ]
    if path == "api":
        return {"versions": ["v1"]}
    if path == "apis":
        return {"groups": [{"versions": [version], "preferredVersion": version} for version in versions]}
    kinds = _KINDS.get(path.partition("/")[2])
    if kinds is None:
        return None
    return {"resources": [{"name": name, "kind": kind, "namespaced": name != "nodes"} for name, kind in kinds.items()]}


def _namespace(at: int) -> str:
    return f"team-{at % _NAMESPACES}"


def _deployment(at: int, name: str = "") -> Json:
    labels = {"app.kubernetes.io/name": f"web-{at}"}
    containers = [{"name": "app", "image": "example/app:1", "resources": {"requests": {"cpu": "100m"}}}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    return {
        "metadata": {"name": name or f"web-{at}", "namespace": _namespace(at), "generation": 1},
        "spec": {"replicas": PODS, "selector": {"matchLabels": labels}, "template": template},
        "status": {"replicas": PODS},
    }


def _buffer(at: int) -> Json:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"web-{at}"}
    capacity = {"replicas": {"percent": {"percent": 10, "minCount": 1}}}
    metadata = {
        "name": f"web-{at}",
        "namespace": _namespace(at),
        "generation": 1,
        "creationTimestamp": f"2026-01-{1 + at % 28:02}T00:00:00Z",
    }
    return {"metadata": metadata, "spec": {"targetRef": target, "capacity": capacity}}


def _vpa(at: int) -> Json:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"web-{at}"}
    part = {"containerName": "app", "target": {"cpu": f"{100 + at}m", "memory": "1Gi"}}
    return {
        "metadata": {"name": f"web-{at}", "namespace": _namespace(at)},
        "spec": {"targetRef": target},
        "status": {"recommendation": {"containerRecommendations": [part]}},
    }


def _node(number: int) -> Json:
    status = {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"}}
    return {"metadata": {"name": f"node-{number}", "labels": {"zone": f"zone-{number % 3}"}}, "status": status}


def _quota(namespace: str) -> Json:
    hard = {"pods": "10000", "requests.cpu": "100000"}
    status = {"hard": hard, "used": {"pods": "500", "requests.cpu": "500"}}
    return {"metadata": {"name": "compute", "namespace": namespace}, "spec": {"hard": hard}, "status": status}


async def _serve(buffers: int) -> None:
    server = BufferServer(buffers)
    application = web.Application(client_max_size=1 << 24)
    application.router.add_route("*", "/{path:.*}", server.handle)
    await serve(web.AppRunner(application))


if __name__ == "__main__":
    asyncio.run(_serve(int(sys.argv[1])))
