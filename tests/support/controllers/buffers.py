"""A Buffer controller with a small API server in memory around it, on a virtual clock.

Everything between the settings and the requests is the real thing. The server keeps to the rules that matter here: the
generation of an object goes up with its spec, an apply of the status leaves the fields of others alone, and a pod that
is only tried comes back as admission would store it.
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
from support.api_server.server_side_apply import applied_status
from support.controllers.world import ControlledWorld, discovery
from support.recordings import Recording
from support.worlds.buffers import NOON, app
from trellis.api.kube.meta import ObjectReference
from trellis.base.reasons import Reason
from trellis.base.times import format_time
from trellis.controllers.buffers.metrics import BUFFER_METRICS
from trellis.controllers.buffers.process import BufferController, build_buffer_controller
from trellis.controllers.buffers.settings import BufferControllerSettings, TranslationSettings
from trellis.controllers.buffers.targets import GroupKind
from trellis.core.buffers import TargetKind
from trellis.core.recording.format import BUFFERS
from trellis.kube.transport.requests import Request
from trellis.testing.scripted_transport import ScriptedResponse, error_response, json_response

NAMESPACE = "shop"
NODES_LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/trellis-nodes"
START = NOON
TWO_OF_WEB: Document = {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}

_KINDS = {
    "v1": [
        ("pods", "Pod"),
        ("pods/resize", "Pod"),
        ("replicationcontrollers", "ReplicationController"),
        ("resourcequotas", "ResourceQuota"),
        ("limitranges", "LimitRange"),
    ],
    "apps/v1": [
        *(("deployments", "Deployment"), ("deployments/scale", "Scale"), ("replicasets", "ReplicaSet")),
        *(("statefulsets", "StatefulSet"), ("daemonsets", "DaemonSet")),
    ],
    "batch/v1": [("jobs", "Job"), ("cronjobs", "CronJob")],
    "autoscaling.k8s.io/v1": [("verticalpodautoscalers", "VerticalPodAutoscaler")],
    "autoscaling.x-k8s.io/v1alpha1": [("hvpas", "Hvpa"), ("buffers", "Buffer")],
    "apps.kruise.io/v1beta1": [("statefulsets", "StatefulSet"), ("statefulsets/scale", "Scale")],
    "example.com/v1": [("rollouts", "Rollout"), ("rollouts/scale", "Scale"), ("games", "Game")],
}


def path(plural: str, name: str, namespace: str = NAMESPACE) -> str:
    group = next(group for group, kinds in _KINDS.items() if any(plural == listed for listed, _ in kinds))
    root = "/api/v1" if group == "v1" else f"/apis/{group}"
    return f"{root}/namespaces/{namespace}/{plural}/{name}"


class World(ControlledWorld):
    """The cluster as the controller sees it, and the controller."""

    def __init__(self, *, admission_dry_run: bool = True, **translation: Any) -> None:
        super().__init__(BUFFER_METRICS, discovery(_KINDS))
        self.admit: Callable[[Document], Document] = lambda pod: pod
        self.dry_runs = 0
        self.writes = 0
        self.events: list[tuple[str, str]] = []
        self.settings = BufferControllerSettings(
            translation=TranslationSettings(admission_dry_run=admission_dry_run, **translation)
        )
        self.kinds: dict[GroupKind, TargetKind] = {}
        self.recording = Recording(BUFFERS)
        # Whether some `trellis nodes` renews its Lease; only then is whether a Buffer is provisioned its business.
        self.nodes_run = True
        self._pods = 0

    # What a test puts there.

    def put(self, where: str, document: Document) -> Document:
        """Create or replace; the generation goes up with the spec."""
        old = self.server.objects.get(where)
        generation = old["metadata"].get("generation", 1) if old else 1
        if old is not None and old.get("spec") != document.get("spec"):
            generation += 1
        created = old["metadata"]["creationTimestamp"] if old else _text(START - 3600 + len(self.server.objects))
        metadata = {"creationTimestamp": created, **document.get("metadata", {}), "generation": generation}
        return self.server.put(where, {**document, "metadata": metadata})

    def edit(self, plural: str, name: str, **spec: Any) -> None:
        result = self.server.objects[path(plural, name)]
        self.put(path(plural, name), {**result, "spec": {**result["spec"], **spec}})

    def add_workload(
        self, name: str = "web", replicas: int = 2, plural: str = "deployments", *, pods: int | None = None, **spec: Any
    ) -> None:
        """A workload, and pods of its template; a Job's parallelism is its count."""
        template = spec.pop("template", None) or {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [app(cpu="500m", memory="1Gi")]},
        }
        is_replication_controller = plural == "replicationcontrollers"
        selector = {"app": name} if is_replication_controller else {"matchLabels": {"app": name}}
        count, status = ("parallelism", {}) if plural == "jobs" else ("replicas", {"replicas": replicas})
        document = {"spec": {count: replicas, "selector": selector, "template": template, **spec}, "status": status}
        self.put(path(plural, name), document)
        for _ in range(replicas if pods is None else pods):
            self.add_pod(name, template["spec"])

    def scale(self, replicas: int, name: str = "web", plural: str = "deployments") -> None:
        """What an HPA and the workload's controller do."""
        result = self.server.objects[path(plural, name)]
        spec, status = {**result["spec"], "replicas": replicas}, {"replicas": replicas}
        self.put(path(plural, name), {**result, "spec": spec, "status": status})

    def add_pod(self, app_name: str, spec: Document | None = None, **metadata: Any) -> str:
        self._pods += 1
        name: str = metadata.pop("name", f"{app_name}-{self._pods}")
        labels = metadata.pop("labels", {"app": app_name})
        created = metadata.pop("created", _text(START - 1800 + self._pods))
        self.put(
            pod_path(name),
            {
                "metadata": {"labels": labels, "creationTimestamp": created, **metadata},
                "spec": spec or {"containers": [app(cpu="500m", memory="1Gi")]},
                "status": {"phase": "Running"},
            },
        )
        return name

    def remove_pods(self, app_name: str) -> None:
        for where, result in list(self.server.objects.items()):
            if where.startswith(pod_path("")) and result["metadata"]["labels"].get("app") == app_name:
                self.server.delete(where)

    def add_buffer(self, name: str = "web", **spec: Any) -> None:
        if not spec:
            spec = {**TWO_OF_WEB, "capacity": {"replicas": {"exactly": 2}}}
        self.put(path("buffers", name), {"spec": spec})

    def add_vpa(
        self, cpu: str, name: str = "web", target: str = "web", *, kind: str = "Deployment", **spec: Any
    ) -> None:
        about = {"apiVersion": "apps/v1", "kind": kind, "name": target}
        part = {"containerName": "app", "target": {"cpu": cpu, "memory": "1Gi"}}
        status = {"recommendation": {"containerRecommendations": [part]}}
        self.put(path("verticalpodautoscalers", name), {"spec": {"targetRef": about, **spec}, "status": status})

    def add_quota(self, name: str, hard: Document, used: Document | None = None) -> None:
        status = {"hard": hard, "used": used or {}}
        self.put(path("resourcequotas", name), {"spec": {"hard": hard}, "status": status})

    def add_node(self, name: str, cpu: str, memory: str = "32Gi", **labels: str) -> None:
        named = {key.replace("__", "/"): value for key, value in labels.items()}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"allocatable": {"cpu": cpu, "memory": memory, "pods": "110"}, "conditions": ready}
        self.put(f"/api/v1/nodes/{name}", {"metadata": {"labels": named}, "spec": {}, "status": status})

    def provisioned(self, name: str = "web", when: str = "2026-11-18T12:00:00Z") -> None:
        """What a node autoscaler writes."""
        result = self.server.objects[path("buffers", name)]
        status = dict(result.get("status", {}))
        others = [condition for condition in status.get("conditions", []) if condition["type"] != "Provisioned"]
        provisioned = {
            "type": "Provisioned",
            "status": "True",
            "reason": "AllThere",
            "message": "",
            "lastTransitionTime": when,
            "observedGeneration": 1,
        }
        status_patch = {"conditions": [provisioned], "lastFullyProvisioned": when}
        status |= {"conditions": others}
        self.put(path("buffers", name), applied_status({**result, "status": status}, "trellis-nodes", status_patch))

    async def wait(self, seconds: float = 1.0) -> None:
        """Let time go by, with the bookmarks that keep a watch alive."""
        until = self.now() + seconds
        while (remaining := until - self.now()) > 1e-4:
            await asyncio.sleep(min(remaining, 60.0))
            self.server.bookmark()

    # What a test reads.

    def status(self, name: str = "web") -> Document:
        status: Document = self.server.objects[path("buffers", name)].get("status", {})
        return status

    def pod_based_spec(self, name: str = "web") -> Document:
        pods: Document = self.status(name).get("podBasedBufferSpec", {})
        return pods

    def chunks(self, name: str = "web") -> int | None:
        return self.pod_based_spec(name).get("replicaNum")

    def requests(self, name: str = "web") -> Document:
        requests: Document = self.pod_based_spec(name)["podSpec"]["containers"][0]["resources"]["requests"]
        return requests

    def condition(self, type_: str = "ReadyForProvisioning", name: str = "web") -> tuple[str, str]:
        result = next(condition for condition in self.status(name)["conditions"] if condition["type"] == type_)
        return result["status"], result["reason"]

    def message(self, type_: str = "ReadyForProvisioning", name: str = "web") -> str:
        text: str = next(condition for condition in self.status(name)["conditions"] if condition["type"] == type_)[
            "message"
        ]
        return text

    def owners(self, name: str = "web") -> dict[str, set[str]]:
        """By field manager, what it owns of the status: conditions by their type, other fields by their name."""
        managed_fields = self.server.objects[path("buffers", name)]["metadata"].get("managedFields", [])
        owned: dict[str, set[str]] = {}
        for managed_field in managed_fields:
            status = managed_field["fieldsV1"]["f:status"]
            types = {key.split('"')[3] for key in status.get("f:conditions", {})}
            owned[managed_field["manager"]] = types | {
                name.removeprefix("f:") for name in status if name != "f:conditions"
            }
        return owned

    def count_events(self, code: str) -> int:
        """How many Events of a reason there were."""
        return sum(recorded == code for recorded, _ in self.events)

    # The cluster.

    def _before(self, request: Request) -> ScriptedResponse | None:
        if (reply := super()._before(request)) is not None:
            return reply
        where, _, last = request.path.rpartition("/")
        if request.path == NODES_LEASE and request.method == "GET" and self.nodes_run:
            return self._lease()
        if last == "scale" and where in self.server.objects:
            return self._scale(where)
        if request.method == "PATCH" and last == "status":
            return self._apply_status(where, request)
        if request.method == "POST" and last == "pods":
            return self._try_pod(request)
        return None

    def _scale(self, where: str) -> ScriptedResponse:
        result = self.server.objects[where]
        status = {"replicas": result["status"]["replicas"], "selector": result["status"].get("selector", "")}
        return json_response({"metadata": result["metadata"], "spec": {}, "status": status})

    def _lease(self) -> ScriptedResponse:
        moment = datetime.fromtimestamp(self.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": "nodes-1", "leaseDurationSeconds": 15, "renewTime": moment}
        return json_response({"metadata": {"name": "trellis-nodes", "namespace": "kube-system"}, "spec": spec})

    def _apply_status(self, where: str, request: Request) -> ScriptedResponse:
        document = self.server.objects.get(where)
        if document is None:
            return error_response(404, "NotFound")
        manager = dict(request.query)["fieldManager"]
        assert manager in {"trellis-buffers", "trellis-buffers-translate", "trellis-nodes"}
        self.writes += 1
        status = msgspec.json.decode(request.body or b"").get("status", {})
        return json_response(self.put(where, applied_status(document, manager, status)))

    def _try_pod(self, request: Request) -> ScriptedResponse:
        assert ("dryRun", "All") in request.query, "a pod was made"
        self.dry_runs += 1
        try:
            pod = self.admit(msgspec.json.decode(request.body or b""))
        except PermissionError as error:
            return error_response(403, "Forbidden", str(error))
        name = f"{pod['metadata']['generateName']}x{self.dry_runs}"
        return json_response({**pod, "metadata": {**pod["metadata"], "name": name, "uid": name}}, 201)

    # The controller.

    @asynccontextmanager
    async def controlling(self) -> AsyncIterator[BufferController]:
        """The controller while it works."""
        with self.recording.recorder() as recorder:
            namespaces = self.settings.scope.vpa_object_namespace
            context = await self.context(namespaces=namespaces, recorder=recorder)
            controller = build_buffer_controller(context, self.settings, kinds=self.kinds)
            async with virtual_time.in_background(self.running(context, controller)):
                yield controller

    def run(self, play: Callable[[BufferController], Awaitable[None]], start: float = START) -> None:
        """Let a play go on while the controller works."""

        async def main() -> None:
            async with self.controlling() as controller:
                await self.wait(2.0)
                await play(controller)

        virtual_time.run(main(), start=start)
        assert not self.metric_value("trellis_buffers_failures_total")

    def _record(self, about: ObjectReference, reason: Reason, message: str) -> None:
        assert about.kind == "Buffer"
        self.events.append((reason.code, message))


def _text(moment: float) -> str:
    return format_time(datetime.fromtimestamp(moment, UTC))
