"""An Hvpa controller with a small API server in memory around it, on a virtual clock.

Everything between the flags and the requests is the real thing. The cluster lives a little: pods come and go with the
count of their workload, become Ready after a while, and an updater gives them what the Hvpa publishes. All plans are
recorded, and when the play is over they are made again: they must be the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec

from support import virtual_time
from support.api_server.server import Document, pod_path
from support.controllers.world import ControlledWorld, discovery
from support.json_patch import PatchRefused, apply_patch
from support.recordings import Recording
from trellis.api.kube.meta import ObjectReference
from trellis.base.reasons import Reason
from trellis.base.times import format_time
from trellis.controllers.hvpa.metrics import HVPA_METRICS
from trellis.controllers.hvpa.process import HvpaController
from trellis.controllers.hvpa.settings import HvpaControllerSettings
from trellis.core.recording.format import HVPA
from trellis.kube.transport.requests import Request
from trellis.testing.scripted_transport import ScriptedResponse, error_response, json_response

START = 1_800_000_000.0
NAMESPACE = "shop"
STORY_1 = {"replicas": {"min": 1, "max": 8}, "cpu": {"min": "0", "max": "24"}, "memory": {"min": "500M", "max": "25G"}}

_KINDS = {
    "v1": [("pods", "Pod")],
    "apps/v1": [("deployments", "Deployment"), ("deployments/scale", "Scale")],
    "autoscaling/v2": [("horizontalpodautoscalers", "HorizontalPodAutoscaler")],
    "autoscaling.k8s.io/v1": [("verticalpodautoscalers", "VerticalPodAutoscaler")],
    "autoscaling.x-k8s.io/v1alpha1": [("hvpas", "Hvpa")],
    "example.com/v1": [("rollouts", "Rollout"), ("rollouts/scale", "Scale")],
}


def path(plural: str, name: str) -> str:
    group = next(group for group, kinds in _KINDS.items() if any(plural == listed for listed, _ in kinds))
    return f"/apis/{group}/namespaces/{NAMESPACE}/{plural}/{name}"


class World(ControlledWorld):
    """The cluster as the controller sees it, and the controller."""

    def __init__(self) -> None:
        super().__init__(HVPA_METRICS, discovery(_KINDS))
        self.start_seconds = 5.0
        self.updates = True
        # What the status of a workload says for as long as its own controller is late.
        self.late_counts: dict[str, int] = {}
        self.events: list[tuple[str, str]] = []
        self.scalings: list[tuple[float, int]] = []
        self.written_back: list[int] = []
        self.settings = HvpaControllerSettings()
        self.recording = Recording(HVPA)
        self._pods = 0

    def time_text(self, at: float | None = None) -> str:
        """A time, or now, as objects have it."""
        return format_time(datetime.fromtimestamp(self.now() if at is None else at, UTC))

    # What a test puts there.

    def add_workload(
        self, name: str = "web", replicas: int = 2, cpu: str = "6", memory: str = "2G", plural: str = "deployments"
    ) -> None:
        size = {"cpu": cpu, "memory": memory}
        self.server.put(path(plural, name), {"spec": {"replicas": replicas, "size": size}})
        for _ in range(replicas):
            self._add_pod(name, size, ready=True)

    def add_hvpa(self, name: str = "web", kind: str = "Deployment", **spec: Any) -> None:
        version = "apps/v1" if kind == "Deployment" else "example.com/v1"
        target = {"apiVersion": version, "kind": kind, "name": spec.pop("target", name)}
        metadata = {"creationTimestamp": spec.pop("created", "2026-01-01T00:00:00Z")}
        document = {"metadata": metadata, "spec": {"targetRef": target, "buckets": [STORY_1], **spec}}
        self.server.put(path("hvpas", name), document)

    def add_vpa(self, name: str, mode: str = "Off", **metadata: Any) -> None:
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        spec = {"targetRef": target, "updatePolicy": {"updateMode": mode}}
        self.server.put(path("verticalpodautoscalers", name), {"metadata": metadata, "spec": spec})

    def add_hpa(self, name: str, kind: str = "Hvpa", **spec: Any) -> None:
        about = {"apiVersion": "autoscaling.x-k8s.io/v1alpha1", "kind": kind, "name": "web"}
        document = {"spec": {"scaleTargetRef": about, "maxReplicas": 16, **spec}}
        self.server.put(path("horizontalpodautoscalers", name), document)

    def advise(self, cpu: str, memory: str, total_cpu: str, total_memory: str, name: str = "web") -> None:
        """What a recommender writes: for a pod, and for all of them together."""
        part = {
            "containerName": "app",
            "target": {"cpu": cpu, "memory": memory},
            "totalTarget": {"cpu": total_cpu, "memory": total_memory},
        }
        where = path("verticalpodautoscalers", name)
        status = {"recommendation": {"containerRecommendations": [part]}}
        self.server.put(where, {**self.server.objects[where], "status": status})

    def recommend(self, cpu: str, memory: str, name: str = "web") -> None:
        """What a recommender writes that knows nothing of whole workloads."""
        where = path("verticalpodautoscalers", name)
        part = {"containerName": "app", "target": {"cpu": cpu, "memory": memory}}
        status = {"recommendation": {"containerRecommendations": [part]}}
        self.server.put(where, {**self.server.objects[where], "status": status})

    def totals(self, cpu: str, memory: str, name: str = "web") -> None:
        """What the Trellis recommender writes into the Hvpa's status."""
        document = self.server.objects[path("hvpas", name)]
        status = {**document.get("status", {}), "totals": {"cpu": cpu, "memory": memory}}
        self.server.put(path("hvpas", name), {**document, "status": status})

    def request_replicas(self, replicas: int, name: str = "web", by: str = "") -> None:
        """What an HPA writes through the Hvpa's scale, or another scaler of this name."""
        if by:
            document = self.server.objects[path("hvpas", name)]
            owned = {"manager": by, "operation": "Update", "subresource": "scale"}
            fields: Document = {"fieldsV1": {"f:spec": {"f:replicas": {}}}}
            metadata = {**document["metadata"], "managedFields": [{**owned, **fields}]}
            self.server.objects[path("hvpas", name)] = {**document, "metadata": metadata}
        self.edit("hvpas", name, replicas=replicas)

    def edit(self, plural: str, name: str, **spec: Any) -> None:
        document = self.server.objects[path(plural, name)]
        self.server.put(path(plural, name), {**document, "spec": {**document["spec"], **spec}})
        if plural in ("deployments", "rollouts"):
            self._scale_workload(path(plural, name))

    def resize(self, name: str = "web") -> None:
        """What an updater does: pods get what the Hvpa publishes."""
        self._resize(name, path("hvpas", name))

    def set_pod_requests(self, requests: Document, app: str = "web") -> None:
        """What somebody does who resizes a pod by hand."""
        where = self._list_pod_paths(app)[0]
        containers = [{"name": "app", "resources": {"requests": requests}}]
        self.server.put(where, {**self.server.objects[where], "spec": {"containers": containers}})

    async def wait(self, seconds: float) -> None:
        """Let time go by, with the bookmarks that keep a watch alive."""
        until = self.now() + seconds
        while (remaining := until - self.now()) > 0:
            await asyncio.sleep(min(remaining, 30.0))
            self.server.bookmark()

    # What a test reads.

    def find(self, plural: str, name: str = "web") -> Document | None:
        return self.server.objects.get(path(plural, name))

    def spec(self, plural: str, name: str = "web") -> Document:
        result = self.find(plural, name)
        assert result is not None, f"there is no {plural} {name}"
        spec: Document = result["spec"]
        return spec

    def replicas(self, name: str = "web", plural: str = "deployments") -> int:
        count: int = self.spec(plural, name)["replicas"]
        return count

    def status(self, name: str = "web") -> Document:
        status: Document = self.server.objects[path("hvpas", name)].get("status", {})
        return status

    def size(self, name: str = "web") -> Document:
        """What the status publishes for a pod."""
        parts = self.status(name).get("recommendation", {}).get("containerRecommendations", [])
        target: Document = parts[0]["target"] if parts else {}
        return target

    def conditions(self, name: str = "web") -> dict[str, str]:
        """Reasons by type."""
        return {condition["type"]: condition["reason"] for condition in self.status(name).get("conditions", [])}

    def messages(self, name: str = "web") -> dict[str, str]:
        """Messages of conditions by type."""
        return {condition["type"]: condition["message"] for condition in self.status(name).get("conditions", [])}

    def count_events(self, code: str) -> int:
        """How many Events of a reason there were."""
        return sum(recorded == code for recorded, _ in self.events)

    # The cluster.

    def _before(self, request: Request) -> ScriptedResponse | None:
        if (reply := super()._before(request)) is not None:
            return reply
        where, _, last = request.path.rpartition("/")
        if last == "scale" and where in self.server.objects:
            return self._scale(where, request)
        if request.method == "PATCH" and last == "status" and "/hvpas/" in where:
            return self._apply_status(where, request)
        if request.method == "PATCH" and "json-patch" in request.headers["Content-Type"]:
            return self._patch(request)
        return None

    def _scale(self, where: str, request: Request) -> ScriptedResponse:
        document = self.server.objects[where]
        if request.method == "PATCH":
            scale = msgspec.json.decode(request.body or b"")
            if scale["metadata"]["resourceVersion"] != document["metadata"]["resourceVersion"]:
                return error_response(409, "Conflict", "the object has been modified")
            count = scale["spec"]["replicas"]
            self.scalings.append((self.now(), count))
            document = self.server.put(where, {**document, "spec": {**document["spec"], "replicas": count}})
            self._scale_workload(where)
        count, name = document["spec"]["replicas"], document["metadata"]["name"]
        status = {"replicas": self.late_counts.get(name, len(self._list_pod_paths(name))), "selector": f"app={name}"}
        return json_response({"metadata": document["metadata"], "spec": {"replicas": count}, "status": status})

    def _apply_status(self, where: str, request: Request) -> ScriptedResponse:
        """As server-side apply has it: all that this writer owns is what it says, and `totals` is another's."""
        document = self.server.objects.get(where)
        if document is None:
            return error_response(404, "NotFound")
        totals = {key: value for key, value in document.get("status", {}).items() if key == "totals"}
        status = {**msgspec.json.decode(request.body or b"")["status"], **totals}
        new = self.server.put(where, {**document, "status": status})
        name = document["spec"]["targetRef"]["name"]
        asyncio.get_running_loop().call_later(1.0, self._resize, name, where)
        return json_response(new)

    def _patch(self, request: Request) -> ScriptedResponse:
        document = self.server.objects.get(request.path)
        if document is None:
            return error_response(404, "NotFound")
        operations = []
        for operation in msgspec.json.decode(request.body or b""):
            field = operation["path"].removeprefix("/metadata/")
            if field in ("uid", "resourceVersion"):
                if document["metadata"][field] != operation["value"]:
                    return error_response(409, "Conflict", "the object has been modified")
            else:
                operations.append({**operation, "op": "add" if operation["op"] == "replace" else operation["op"]})
        try:
            patched = apply_patch(document, operations)
        except PatchRefused as error:
            return error_response(422, "Invalid", str(error))
        if "/hvpas/" in request.path:
            self.written_back.append(patched["spec"]["replicas"])
        return json_response(self.server.put(request.path, patched))

    def _list_pod_paths(self, app: str) -> list[str]:
        return [
            where
            for where, document in self.server.objects.items()
            if where.startswith(pod_path("")) and document["metadata"]["labels"]["app"] == app
        ]

    def _scale_workload(self, where: str) -> None:
        """What the workload's own controller does."""
        workload = self.server.objects[where]
        name, count = workload["metadata"]["name"], workload["spec"]["replicas"]
        pods = self._list_pod_paths(name)
        for pod in pods[count:]:
            self.server.delete(pod)
        for _ in range(count - len(pods)):
            self._add_pod(name, self._published(name) or workload["spec"]["size"], ready=False)

    def _published(self, app: str) -> Document:
        """What the webhook would give a new pod."""
        hvpas = [document for where, document in self.server.objects.items() if where.startswith(path("hvpas", ""))]
        matching = [hvpa for hvpa in hvpas if hvpa["spec"]["targetRef"]["name"] == app]
        return self.size(matching[0]["metadata"]["name"]) if matching else {}

    def _resize(self, app: str, where: str) -> None:
        size = self.size(where.rpartition("/")[2]) if where in self.server.objects else {}
        if not size or not self.updates:
            return
        for where_pod in self._list_pod_paths(app):
            document = self.server.objects[where_pod]
            containers = [{"name": "app", "resources": {"requests": size}}]
            if document["spec"]["containers"] != containers:
                self.server.put(where_pod, {**document, "spec": {"containers": containers}})

    def _add_pod(self, app: str, size: Document, *, ready: bool) -> None:
        self._pods += 1
        where = pod_path(f"{app}-{self._pods}")
        spec = {"containers": [{"name": "app", "resources": {"requests": size}}]}
        status = {"phase": "Running", "conditions": [_ready(ready)]}
        self.server.put(where, {"metadata": {"labels": {"app": app}}, "spec": spec, "status": status})
        if not ready:
            asyncio.get_running_loop().call_later(self.start_seconds, self.set_ready, where)

    def set_ready(self, where: str) -> None:
        document = self.server.objects.get(where)
        if document is not None:
            self.server.put(where, {**document, "status": {**document["status"], "conditions": [_ready(True)]}})

    # The controller.

    @asynccontextmanager
    async def controlling(self) -> AsyncIterator[HvpaController]:
        """The controller while it works."""
        with self.recording.recorder() as recorder:
            namespaces = self.settings.scope.vpa_object_namespace
            context = await self.context(namespaces=namespaces, recorder=recorder)
            controller = HvpaController(context, self.settings)
            async with virtual_time.in_background(self.running(context, controller)):
                yield controller

    def run(self, play: Callable[[HvpaController], Awaitable[None]]) -> None:
        """Let a play go on while the controller works."""

        async def main() -> None:
            async with self.controlling() as controller:
                await asyncio.sleep(2.0)
                await play(controller)

        virtual_time.run(main(), start=START)
        assert not self.failures()

    def failures(self) -> float:
        """Looks that ended with an error of our own."""
        return self.metric_value("trellis_hvpa_failures_total")

    def _record(self, _about: ObjectReference, reason: Reason, message: str) -> None:
        self.events.append((reason.code, message))


def _ready(ready: bool) -> Document:
    return {"type": "Ready", "status": "True" if ready else "False"}
