"""An API server as far as `trellis run` needs one for VPAs: in a process of its own, on 127.0.0.1.

It has the VPAs, Deployments and ReplicaSets of `bench.admission.cluster`, two pods of each Deployment, and their usage,
which is another at each list. A status or checkpoint that is written is acknowledged, and does not come back.
"""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from itertools import count
from typing import Any

import msgspec
from aiohttp import web

from bench.admission.cluster import ClusterServer, Size, pod
from bench.server_process import serve, server_process

Json = dict[str, Any]

PODS = 2
_PODS = "/api/v1/pods"
_METRICS = "/apis/metrics.k8s.io/v1beta1/pods"
_AUTOSCALING = "autoscaling.k8s.io"


def serving(size: Size) -> AbstractContextManager[str]:
    """The server's URL, for as long as it is needed."""
    return server_process(__name__, size.vpas, size.replica_sets)


class RunServer(ClusterServer):
    """What the admission controller's server answers, pods, their usage, and writes."""

    def __init__(self, size: Size) -> None:
        super().__init__(size)
        self._size = size
        self._versions = count(1_000_000)
        self._counts = count()
        self._kinds[_PODS] = (size.vpas * PODS, self._pod)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "GET":
            return await self._write(request)
        if request.path == "/apis":
            return web.json_response({"groups": [_group(_AUTOSCALING, "v1"), _group("metrics.k8s.io", "v1beta1")]})
        if request.path == f"/apis/{_AUTOSCALING}/v1":
            names = ("verticalpodautoscalers", "verticalpodautoscalercheckpoints")
            return web.json_response({"resources": [{"name": name, "namespaced": True} for name in names]})
        if request.path == _METRICS:
            return web.Response(body=self._usage(), content_type="application/json")
        return await super().handle(request)

    async def _write(self, request: web.Request) -> web.Response:
        """Acknowledge it with a version of its own."""
        body = await request.read()
        sent = msgspec.json.decode(body) if body.startswith(b"{") else {}
        name = sent.get("metadata", {}).get("name") or request.path.rpartition("/")[2]
        metadata = {"name": name, "uid": name, "resourceVersion": str(next(self._versions))}
        spec = sent.get("spec", {})
        return web.json_response({"metadata": metadata, "spec": spec}, status=201 if request.method == "POST" else 200)

    def _pod(self, number: int) -> Json:
        made = pod(number // PODS, self._size)
        name = f"{made['metadata'].pop('generateName')}{number:06d}"
        made["metadata"] |= {"name": name, "uid": name, "resourceVersion": "7", "creationTimestamp": _now()}
        made["spec"]["nodeName"] = f"node-{number % 100}"
        running = {"startedAt": "2026-05-01T08:00:00Z"}
        names = [container["name"] for container in made["spec"]["containers"]]
        statuses = [{"name": name, "ready": True, "state": {"running": running}} for name in names]
        made["status"] = {"phase": "Running", "startTime": _now(), "containerStatuses": statuses}
        return made

    def _usage(self) -> bytes:
        turn = next(self._counts)
        items = []
        for number in range(self._size.vpas * PODS):
            metadata = self._pod_metadata(number)
            use = 50 + (number * 7 + turn * 37) % 400
            usage = {"cpu": f"{use}m", "memory": f"{(100 + (number + turn * 13) % 200) * 1024}Ki"}
            containers = [{"name": name, "usage": usage} for name in ("app", "proxy")]
            items.append({"metadata": metadata, "timestamp": _now(), "window": "15s", "containers": containers})
        return msgspec.json.encode({"kind": "PodMetricsList", "metadata": {}, "items": items})

    def _pod_metadata(self, number: int) -> Json:
        metadata = pod(number // PODS, self._size)["metadata"]
        return {"name": f"{metadata['generateName']}{number:06d}", "namespace": metadata["namespace"]}


def _group(name: str, version: str) -> Json:
    versions = [{"groupVersion": f"{name}/{version}", "version": version}]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _now() -> str:
    return datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


async def _serve(size: Size) -> None:
    await serve(web.ServerRunner(web.Server(RunServer(size).handle)))  # type: ignore[arg-type]


if __name__ == "__main__":
    asyncio.run(_serve(Size(*map(int, sys.argv[1:]))))
