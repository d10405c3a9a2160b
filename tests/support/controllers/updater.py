"""An updater with a small API server in memory around it, on a virtual clock: an hour of passes takes a moment.

Everything between the flags and the requests is the real thing. The cluster lives a little: evicted pods go and are
replaced, with what the webhook would give them, and kubelets put resizes into force.

All that happens is recorded, and when the play is over it is replayed: the same decisions must come of it.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec

from support import virtual_time
from support.api_server.server import Document, pod_path
from support.controllers.world import ControlledWorld, discovery
from support.json_patch import PatchRefused, apply_patch
from trellis.api.kube.meta import ObjectReference
from trellis.base.json_lines import FORMAT_VERSION, HEADER, RecordingHeader, read_lines
from trellis.base.reasons import Reason
from trellis.base.times import format_time
from trellis.controllers.updater.metrics import UPDATER_METRICS
from trellis.controllers.updater.process import UpdaterController, build_updater
from trellis.controllers.updater.settings import UpdaterSettings, update_settings
from trellis.core.recording.format import UPDATER
from trellis.kube.transport.requests import Request
from trellis.runtime.recorder import Recorder
from trellis.runtime.settings.loader import from_flags, load_settings
from trellis.sim.replay.decisions import ReplayedDecision
from trellis.sim.replay.updater import replay_updater
from trellis.testing.scripted_transport import ScriptedResponse, error_response, json_response

START = 1_800_000_000.0
MINUTE = 60.0
DAY = 86_400.0
NAMESPACE = "shop"
APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}"
VPAS = f"/apis/autoscaling.k8s.io/v1/namespaces/{NAMESPACE}/verticalpodautoscalers"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/vpa-admission-controller"
FREEZE = "/api/v1/namespaces/kube-system/configmaps/trellis-freeze"
BOOST = "vpaCpuStartupBoost/app"

_KINDS = {
    "v1": [("pods", "Pod"), ("pods/resize", "Pod")],
    "autoscaling/v2": [("horizontalpodautoscalers", "HorizontalPodAutoscaler")],
    "autoscaling.x-k8s.io/v1alpha1": [("hvpas", "Hvpa")],
    "example.com/v1": [("rollouts", "Rollout"), ("rollouts/scale", "Scale")],
}
_VERSION = {"/version": {"major": "1", "minor": "36"}}
_BUDGET = {"causes": [{"reason": "DisruptionBudget", "message": "no"}]}


class World(ControlledWorld):
    """The cluster as the updater sees it, and the updater."""

    def __init__(self, *flags: str) -> None:
        super().__init__(UPDATER_METRICS, discovery(_KINDS) | _VERSION)
        self.admission_live = True
        self.webhook = True
        self.budget: Callable[[str], bool] = lambda _pod: True
        self.start_seconds = 5.0
        self.events: list[tuple[str, str, str]] = []
        self.evictions: list[tuple[float, str]] = []
        self.resizes: list[tuple[float, str]] = []
        values = {name.removeprefix("--").replace("-", "_"): value for name, value in (f.split("=", 1) for f in flags)}
        self.settings = load_settings(UpdaterSettings, from_flags(UpdaterSettings, values)).settings
        self.recording = io.BytesIO()
        self._successors = 0
        self.server.put(f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"name": NAMESPACE}})
        self.server.put("/api/v1/nodes/node-1", _node())

    def add_deployment(self, name: str, replicas: int = 2) -> None:
        selector = {"matchLabels": {"app": name}}
        self.server.put(f"{APPS}/deployments/{name}", {"spec": {"replicas": replicas, "selector": selector}})
        metadata = {"ownerReferences": [_owner("Deployment", name)]}
        spec = {"replicas": replicas, "selector": selector}
        self.server.put(f"{APPS}/replicasets/{name}-x", {"metadata": metadata, "spec": spec})

    def add_pod(self, app: str, name: str, cpu: str = "100m", *, ready: bool = True, **fields: Any) -> Document:
        began = _text(fields.pop("began", START - 2 * DAY))
        resources = {"requests": {"cpu": cpu, "memory": "100Mi"}}
        document = {
            "metadata": {
                "labels": {"app": app},
                "annotations": fields.pop("annotations", {}),
                "creationTimestamp": began,
                "ownerReferences": [_owner("ReplicaSet", f"{app}-x")],
            },
            "spec": {"nodeName": "node-1", "containers": [{"name": "app", "resources": resources}]},
            "status": {
                "phase": fields.pop("phase", "Running"),
                "startTime": began,
                "conditions": [_ready(ready, began)],
                "containerStatuses": [{"name": "app", "resources": resources}],
            },
        }
        return self.server.put(pod_path(name), document)

    def add_vpa(self, name: str, cpu: str = "500m", mode: str = "Recreate", **spec: Any) -> None:
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        policy = {"updateMode": mode, **spec.pop("updatePolicy", {})}
        metadata = {"creationTimestamp": _text(START - DAY), "annotations": spec.pop("annotations", {})}
        document = {
            "metadata": metadata,
            "spec": {"targetRef": reference, "updatePolicy": policy, **spec},
            "status": recommendation(cpu),
        }
        self.server.put(f"{VPAS}/{name}", document)

    def add_hvpa(self, name: str, cpu: str = "500m", **spec: Any) -> None:
        path = f"/apis/autoscaling.x-k8s.io/v1alpha1/namespaces/{NAMESPACE}/hvpas/{name}"
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        metadata = {"creationTimestamp": _text(START - DAY)}
        self.server.put(path, {"metadata": metadata, "spec": {"targetRef": reference, **spec}, **_status(cpu)})

    def recommend(self, name: str, cpu: str) -> None:
        vpa = self.server.objects[f"{VPAS}/{name}"]
        self.server.put(f"{VPAS}/{name}", {**vpa, "status": recommendation(cpu)})

    def add_workload(self, name: str = "web", pods: int = 2, mode: str = "Recreate", **vpa_fields: Any) -> None:
        """A Deployment with pods that request 100m, and a VPA that recommends 500m."""
        self.add_deployment(name, pods)
        for number in range(pods):
            self.add_pod(name, f"{name}-{number}")
        self.add_vpa(name, mode=mode, **vpa_fields)

    def add_hpa(self, name: str, resource: str = "cpu") -> None:
        metric = {"type": "Resource", "resource": {"name": resource, "target": {"type": "Utilization"}}}
        spec = {"scaleTargetRef": {"kind": "Deployment", "name": name}, "metrics": [metric]}
        path = f"/apis/autoscaling/v2/namespaces/{NAMESPACE}/horizontalpodautoscalers/{name}"
        self.server.put(path, {"spec": spec})

    def pods(self, app: str = "web") -> dict[str, Document]:
        result = {path: document for path, document in self.server.objects.items() if path.startswith(pod_path(""))}
        return {pod["metadata"]["name"]: pod for pod in result.values() if pod["metadata"]["labels"]["app"] == app}

    def requests(self, app: str = "web") -> list[str]:
        """What the pods of an app request of the CPU."""
        return sorted(
            get_cpu_request(pod) for pod in self.pods(app).values() if "deletionTimestamp" not in pod["metadata"]
        )

    def set_ready(self, name: str, ready: bool = True) -> None:
        pod = self.server.objects[pod_path(name)]
        status = {**pod["status"], "phase": "Running", "conditions": [_ready(ready, _text(self.now()))]}
        self.server.put(pod_path(name), {**pod, "status": status})

    def list_events(self, reason: str) -> list[tuple[str, str]]:
        """The Events of a reason: about whom, and what."""
        return [(about, message) for about, code, message in self.events if code == reason]

    async def passes(self, count: float) -> None:
        """Let so many intervals of a minute go by."""
        for _ in range(max(1, round(count))):
            await asyncio.sleep(MINUTE * count / max(1, round(count)))
            self.server.bookmark()

    # The cluster.

    def _before(self, request: Request) -> ScriptedResponse | None:
        if (reply := super()._before(request)) is not None:
            return reply
        if request.path == LEASE and request.method == "GET" and self.admission_live:
            return json_response(
                {"metadata": {"name": "vpa-admission-controller"}, "spec": {"renewTime": _micro(self.now())}}
            )
        where, _, last = request.path.rpartition("/")
        if last == "eviction":
            return self._evict(where, request)
        if request.method == "PATCH" and "/pods/" in request.path and "json-patch" in request.headers["Content-Type"]:
            return self._patch(where if last == "resize" else request.path, request)
        return None

    def _evict(self, path: str, request: Request) -> ScriptedResponse:
        document = self.server.objects.get(path)
        if document is None:
            return error_response(404, "NotFound")
        uid = msgspec.json.decode(request.body or b"")["deleteOptions"]["preconditions"]["uid"]
        if uid != document["metadata"]["uid"]:
            return error_response(409, "Conflict", "the UID in the precondition does not match")
        name = document["metadata"]["name"]
        if not self.budget(name):
            return error_response(429, "TooManyRequests", "Cannot evict pod", details=_BUDGET)
        if ("dryRun", "All") in request.query:
            return json_response({"kind": "Status"}, 201)
        self.evictions.append((self.now(), name))
        self.server.put(
            path, {**document, "metadata": {**document["metadata"], "deletionTimestamp": _text(self.now())}}
        )
        asyncio.get_running_loop().call_later(1.0, self._replace, path)
        return json_response({"kind": "Status"}, 201)

    def _replace(self, path: str) -> None:
        old = self.server.objects[path]
        self.server.delete(path)
        app = old["metadata"]["labels"]["app"]
        self._successors += 1
        name = f"{app}-new-{self._successors}"
        vpa = self.server.objects[f"{VPAS}/{app}"]
        advice = vpa["status"]["recommendation"]["containerRecommendations"][0]["target"]["cpu"]
        cpu = advice if self.webhook else get_cpu_request(old)
        self.add_pod(app, name, cpu, ready=False, began=self.now(), phase="Pending")
        asyncio.get_running_loop().call_later(self.start_seconds, self.set_ready, name)

    def _patch(self, path: str, request: Request) -> ScriptedResponse:
        document = self.server.objects.get(path)
        if document is None:
            return error_response(404, "NotFound")
        try:
            patched = apply_patch(document, msgspec.json.decode(request.body or b""))
        except PatchRefused as error:
            return error_response(422, "Invalid", str(error))
        if request.path.endswith("/resize"):
            self.resizes.append((self.now(), document["metadata"]["name"]))
            asyncio.get_running_loop().call_later(0.5, self._enforce, path)
        return json_response(self.server.put(path, patched))

    def _enforce(self, path: str) -> None:
        document = self.server.objects.get(path)
        if document is not None:
            in_force = [{"name": "app", "resources": document["spec"]["containers"][0]["resources"]}]
            self.server.put(path, {**document, "status": {**document["status"], "containerStatuses": in_force}})

    # The updater.

    @asynccontextmanager
    async def updating(self) -> AsyncIterator[UpdaterController]:
        """The updater while it works."""
        settings, recorder = self.settings, self._recorder()
        context = await self.context(
            namespaces=settings.scope.vpa_object_namespace,
            recorder=recorder,
            dry_run=settings.loop.dry_run,
            concurrency=settings.loop.concurrent_writes,
        )
        update = update_settings(settings, context.served, await context.client.version())
        updater = build_updater(context, settings, update)
        try:
            async with virtual_time.in_background(self.running(context, updater)):
                yield updater
        finally:
            recorder.flush()

    def _recorder(self) -> Recorder:
        """A process begins, and its recording with it."""
        self.recording = io.BytesIO()
        recorder = Recorder(self.recording)
        recorder.write(HEADER, RecordingHeader(FORMAT_VERSION, UPDATER))
        return recorder

    def replayed(self) -> list[ReplayedDecision]:
        """What was decided, and what would be decided again."""
        return list(replay_updater(read_lines(self.recording.getvalue())))

    def _record(self, about: ObjectReference, reason: Reason, message: str) -> None:
        self.events.append((f"{about.kind}/{about.name}", reason.code, message or reason.meaning))

    def run(self, play: Callable[[UpdaterController], Awaitable[None]]) -> None:
        """Let a play go on while the updater works."""

        async def main() -> None:
            async with self.updating() as updater:
                await play(updater)

        virtual_time.run(main(), start=START)
        for decision in self.replayed():
            assert decision.decided == decision.recorded


def recommendation(cpu: str, lower: str = "", upper: str = "") -> Document:
    memory = {"memory": "100Mi"}
    advice = {
        "containerName": "app",
        "target": {"cpu": cpu, **memory},
        "lowerBound": {"cpu": lower or cpu, **memory},
        "upperBound": {"cpu": upper or cpu, **memory},
    }
    return {"recommendation": {"containerRecommendations": [advice]}}


def _status(cpu: str) -> Document:
    return {"status": recommendation(cpu)}


def get_cpu_request(pod: Document) -> str:
    cpu: str = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return cpu


def _owner(kind: str, name: str) -> Document:
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}


def _ready(ready: bool, since: str) -> Document:
    return {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": since}


def _node() -> Document:
    ready = [{"type": "Ready", "status": "True"}]
    offered = {"cpu": "64", "memory": "256Gi", "pods": "500"}
    return {"metadata": {"name": "node-1"}, "status": {"conditions": ready, "allocatable": offered}}


def _text(seconds: float) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC))


def _micro(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
