"""A node autoscaler with a small API server in memory around it, on a virtual clock.

Everything between the flags and the requests is the real thing. The cluster lives a little: kwok makes its nodes ready,
a scheduler places pods by their CPU and says which it cannot, and whoever is evicted is made anew.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
import yaml

from support import virtual_time
from support.api_server.server import Document, pod_path
from support.api_server.server_side_apply import applied_status
from support.controllers.world import ControlledWorld, discovery
from support.recordings import Recording
from support.worlds.providers.kwok_nodes import group
from trellis.api.kube.meta import ObjectReference
from trellis.base.durations import Duration
from trellis.base.quantities import Quantity
from trellis.base.reasons import Reason
from trellis.base.times import format_time, parse_time
from trellis.controllers.nodes.metrics import NODE_METRICS
from trellis.controllers.nodes.process import NodeController, open_node_controller
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.core.nodes.provisioning.requests import CONSUMED_REQUEST_ANNOTATIONS
from trellis.core.recording.format import NODES as NODES_COMPONENT
from trellis.kube.transport.requests import Request
from trellis.providers.kwok import KwokProvider
from trellis.providers.kwok.plugin import follow_kwok_objects
from trellis.providers.plugins import Options, ProviderContext, RunningProvider
from trellis.providers.protocol import Provider
from trellis.testing.scripted_transport import ScriptedResponse, error_response, json_response

START = 1_800_000_000.0
NAMESPACE = "shop"
NODES = "/api/v1/nodes"
CONFIG = "/api/v1/namespaces/kube-system/configmaps/trellis-kwok-node-groups"
BUFFERS = f"/apis/autoscaling.x-k8s.io/v1alpha1/namespaces/{NAMESPACE}/buffers"
REQUESTS = f"/apis/autoscaling.x-k8s.io/v1/namespaces/{NAMESPACE}/provisioningrequests"
TEMPLATES = f"/api/v1/namespaces/{NAMESPACE}/podtemplates"
BOOT = 30.0

_APPLIED_PARTS = ("conditions", "lastFullyProvisioned")
_KINDS = {
    "v1": [("pods", "Pod"), ("pods/resize", "Pod")],
    "autoscaling.x-k8s.io/v1alpha1": [("buffers", "Buffer")],
    "autoscaling.x-k8s.io/v1": [("provisioningrequests", "ProvisioningRequest")],
    "autoscaling.k8s.io/v1": [("verticalpodautoscalers", "VerticalPodAutoscaler")],
}


def make_kwok_provider(context: ProviderContext) -> Provider:
    return KwokProvider(follow_kwok_objects(context))


def settings_with(**groups: dict[str, Any]) -> NodeControllerSettings:
    """Settings with some of them changed, by group."""
    usual = NodeControllerSettings()
    changed = {name: msgspec.structs.replace(getattr(usual, name), **fields) for name, fields in groups.items()}
    return msgspec.structs.replace(usual, **changed)


def seconds(number: int) -> Duration:
    return Duration.from_seconds(number)


class World(ControlledWorld):
    """The cluster as the autoscaler sees it, and the autoscaler."""

    def __init__(self, *groups: Document, **flags: dict[str, Any]) -> None:
        super().__init__(NODE_METRICS, discovery(_KINDS))
        self.is_cluster_active = True
        self.events: list[tuple[str, str, str, str]] = []
        self.evicted: list[str] = []
        self.providers: tuple[Callable[[ProviderContext], Provider], ...] = (make_kwok_provider,)
        self.settings = settings_with(**flags)
        self.recording = Recording(NODES_COMPONENT)
        self.declare(*(groups or (group(),)))
        self._made = 0

    # What a test puts there.

    def declare(self, *groups: Document) -> None:
        self.server.put(CONFIG, {"data": {"groups.yaml": yaml.safe_dump_all(groups, sort_keys=False)}})

    def add_node(self, name: str, cpu: str = "4", **spec: Any) -> None:
        """A node that is ready, of no group."""
        offered = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
        status = {"allocatable": offered, "capacity": offered, "conditions": [_ready()]}
        labels = {"kubernetes.io/hostname": name}
        self.server.put(f"{NODES}/{name}", {"metadata": {"labels": labels}, "spec": spec, "status": status})

    def add_pod(self, name: str = "", cpu: str = "1", owner: str = "web", **spec: Any) -> str:
        """A pod that waits to be placed, of a ReplicaSet."""
        self._made += 1
        name = name or f"{owner}-{self._made}"
        owners = [{"kind": "ReplicaSet", "name": owner, "uid": f"rs-{owner}", "controller": True}]
        containers = [{"name": "app", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]
        metadata = {"labels": {"app": owner}, "ownerReferences": owners if owner else []}
        document = {"metadata": metadata, "spec": {"containers": containers, **spec}, "status": {"phase": "Pending"}}
        self.server.put(pod_path(name, NAMESPACE), document)
        return name

    def add_pods(self, count: int, **fields: Any) -> None:
        for _ in range(count):
            self.add_pod(**fields)

    def delete_pods(self) -> None:
        for path in [*self._pods()]:
            self.server.delete(path)

    def add_buffer(self, name: str = "spare", chunks: int = 2, cpu: str = "1", **spec: Any) -> None:
        """A translated Buffer."""
        containers = [{"name": "app", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]
        pods = {"replicaNum": chunks, "podSpec": {"containers": containers}}
        conditions = [{"type": "ReadyForProvisioning", "status": "True", "reason": "BufferReady", "message": ""}]
        status = {"podBasedBufferSpec": pods, "conditions": conditions}
        self.server.put(f"{BUFFERS}/{name}", {"metadata": {"generation": 1}, "spec": spec, "status": status})

    def add_request(self, name: str, count: int, kind: str, cpu: str = "1", **parameters: str) -> None:
        """A ProvisioningRequest for equal pods, and its template."""
        containers = [{"name": "app", "resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}]
        self.server.put(f"{TEMPLATES}/{name}", {"metadata": {}, "template": {"spec": {"containers": containers}}})
        pod_sets = [{"podTemplateRef": {"name": name}, "count": count}]
        spec = {"podSets": pod_sets, "provisioningClassName": kind, "parameters": parameters}
        metadata = {"generation": 1, "creationTimestamp": time_text(self.now())}
        self.server.put(f"{REQUESTS}/{name}", {"metadata": metadata, "spec": spec})

    def add_consumers(self, request: str, count: int) -> None:
        """Pods that consume a ProvisioningRequest."""
        for number in range(count):
            path = pod_path(self.add_pod(f"{request}-{number}"), NAMESPACE)
            pod = self.server.objects[path]
            annotations = {CONSUMED_REQUEST_ANNOTATIONS[0]: request}
            self.server.put(path, {**pod, "metadata": {**pod["metadata"], "annotations": annotations}})

    def add_boost(self, owner: str, factor: int) -> None:
        """A VPA that boosts the pods of a ReplicaSet, and sizes none."""
        selector = {"matchLabels": {"app": owner}}
        self.server.put(f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets/{owner}", {"spec": {"selector": selector}})
        boost = {"cpu": {"type": "Factor", "factor": factor}}
        target = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner}
        spec = {"targetRef": target, "updatePolicy": {"updateMode": "Off"}, "startupBoost": boost}
        self.server.put(
            f"/apis/autoscaling.k8s.io/v1/namespaces/{NAMESPACE}/verticalpodautoscalers/{owner}", {"spec": spec}
        )

    def add_vpa(self, owner: str, cpu: str, mode: str = "InPlaceOrRecreate", **policy: Any) -> None:
        """A VPA that recommends CPU for the pods of a ReplicaSet."""
        selector = {"matchLabels": {"app": owner}}
        self.server.put(f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets/{owner}", {"spec": {"selector": selector}})
        target = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner}
        recommended = {"containerName": "app", "target": {"cpu": cpu}}
        document = {
            "spec": {"targetRef": target, "updatePolicy": {"updateMode": mode, **policy}},
            "status": {"recommendation": {"containerRecommendations": [recommended]}},
        }
        self.server.put(f"/apis/autoscaling.k8s.io/v1/namespaces/{NAMESPACE}/verticalpodautoscalers/{owner}", document)

    def resize(self, name: str, cpu: str, reason: str) -> None:
        """A resize is asked for, and the kubelet cannot carry it out."""
        pod = self.server.objects[pod_path(name, NAMESPACE)]
        (container,) = pod["spec"]["containers"]
        before = container["resources"]["requests"]
        status = {"name": "app", "allocatedResources": before, "resources": {"requests": before}}
        condition = {"type": "PodResizePending", "status": "True", "reason": reason}
        containers = [{**container, "resources": {"requests": {**before, "cpu": cpu}}}]
        conditions = [*pod["status"].get("conditions", ()), condition]
        self.server.put(
            pod_path(name, NAMESPACE),
            {
                **pod,
                "spec": {**pod["spec"], "containers": containers},
                "status": {**pod["status"], "conditions": conditions, "containerStatuses": [status]},
            },
        )

    def edit_buffer(self, name: str = "spare", **changed: Any) -> None:
        buffer = self.server.objects[f"{BUFFERS}/{name}"]
        self.server.put(f"{BUFFERS}/{name}", {**buffer, **changed})

    def resize_buffer(self, chunks: int, name: str = "spare") -> None:
        status = self.buffer(name)
        pods = {**status["podBasedBufferSpec"], "replicaNum": chunks}
        self.edit_buffer(name, status={**status, "podBasedBufferSpec": pods})

    async def wait(self, seconds: float) -> None:
        """Let time go by, with the bookmarks that keep a watch alive."""
        until = self.now() + seconds
        while (remaining := until - self.now()) > 0:
            await asyncio.sleep(min(remaining, 30.0))
            self.server.bookmark()

    # What a test reads.

    def nodes(self) -> dict[str, Document]:
        result = self.server.objects.items()
        return {path.removeprefix(f"{NODES}/"): node for path, node in result if path.startswith(f"{NODES}/")}

    def taints(self, name: str) -> list[str]:
        return [taint["key"] for taint in self.nodes()[name]["spec"].get("taints", ())]

    def pending(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self._pods().values() if not pod["spec"].get("nodeName")]

    def placed(self) -> dict[str, str]:
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in self._pods().values()
            if pod["spec"].get("nodeName")
        }

    def buffer(self, name: str = "spare") -> Document:
        status: Document = self.server.objects[f"{BUFFERS}/{name}"].get("status", {})
        return status

    def provisioned(self, name: str = "spare") -> tuple[str, str]:
        """Status and reason of the condition; empty if there is none."""
        for condition in self.buffer(name).get("conditions", ()):
            if condition["type"] == "Provisioned":
                return condition["status"], condition["reason"]
        return "", ""

    def conditions(self, name: str) -> dict[str, tuple[str, str]]:
        """Status and reason of the conditions of a ProvisioningRequest."""
        written = self.server.objects[f"{REQUESTS}/{name}"].get("status", {}).get("conditions", ())
        return {condition["type"]: (condition["status"], condition["reason"]) for condition in written}

    def event_codes(self, kind: str, name: str = "") -> list[str]:
        """Codes of the Events about an object, or about all of a kind."""
        return [code for about, whose, code, _ in self.events if about == kind and name in {"", whose}]

    def metric(self, metric: str, **labels: str) -> float:
        """The value of a series; 0 if there is none."""
        for line in self.metrics.format_text().decode().splitlines():
            result = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if result is None or result[1] != metric:
                continue
            have = dict(re.findall(r'(\w+)="([^"]*)"', result[2] or ""))
            if all(have.get(key) == value for key, value in labels.items()):
                return float(result[3])
        return 0.0

    def writes(self) -> list[tuple[str, str]]:
        """Method and path of everything that was written, Events apart."""
        return [(request.method, request.path) for request in self.server.requests if request.method != "GET"]

    # The cluster.

    def _pods(self) -> dict[str, Document]:
        return {
            path: document for path, document in self.server.objects.items() if path.startswith(pod_path("", NAMESPACE))
        }

    def _before(self, request: Request) -> ScriptedResponse | None:
        if (reply := super()._before(request)) is not None:
            return reply
        where, _, last = request.path.rpartition("/")
        if request.method == "POST" and last == "eviction":
            return self._evict(where)
        if request.method == "PATCH" and last == "status" and where.startswith(BUFFERS):
            return self._apply_status(where, request)
        if request.method == "PATCH" and last == "status" and where.startswith(REQUESTS):
            applied = msgspec.json.decode(request.body or b"")["status"]
            document = applied_status(self.server.objects[where], "trellis-nodes", applied)
            return json_response(self.server.put(where, document))
        return None

    def _evict(self, where: str) -> ScriptedResponse:
        document = self.server.objects.get(where)
        if document is None:
            return error_response(404, "NotFound")
        self.evicted.append(document["metadata"]["name"])
        self.server.delete(where)
        self.add_pod(cpu=_cpu_text(document), owner=document["metadata"]["ownerReferences"][0]["name"])
        return json_response({"kind": "Status", "status": "Success"}, 201)

    def _apply_status(self, where: str, request: Request) -> ScriptedResponse:
        """As server-side apply has it: this writer owns a condition and a time, and all else is another's."""
        buffer = self.server.objects.get(where)
        if buffer is None:
            return error_response(404, "NotFound")
        document = msgspec.json.decode(request.body or b"")
        assert set(document["status"]) <= set(_APPLIED_PARTS)
        # As a server has it: of a subresource it checks the version alone.
        version = buffer["metadata"]["resourceVersion"]
        if document["metadata"].get("resourceVersion", version) != version:
            return error_response(409, "Conflict", "the object has been modified")
        before = buffer.get("status", {})
        others = [condition for condition in before.get("conditions", ()) if condition["type"] != "Provisioned"]
        unchanged = {key: value for key, value in before.items() if key != "lastFullyProvisioned"}
        applied = {**unchanged, **document["status"]}
        status = {**applied, "conditions": [*others, *document["status"].get("conditions", ())]}
        return json_response(self.server.put(where, {**buffer, "status": status}))

    async def _run_cluster(self) -> None:
        """What kwok and the scheduler do."""
        while True:
            await asyncio.sleep(1.0)
            if self.is_cluster_active:
                self._make_ready()
                self._schedule()

    def _make_ready(self) -> None:
        for name, node in self.nodes().items():
            is_kwok_node = node["metadata"].get("labels", {}).get("kwok.x-k8s.io/node") == "fake"
            if is_kwok_node and not node["status"].get("conditions"):
                self.server.put(f"{NODES}/{name}", {**node, "status": {**node["status"], "conditions": [_ready()]}})

    def _schedule(self) -> None:
        free = {
            name: _millis(node["status"]["allocatable"]["cpu"])
            for name, node in self.nodes().items()
            if node["status"].get("conditions") and not _has_hard_taint(node)
        }
        for pod in self._pods().values():
            if (node := pod["spec"].get("nodeName")) in free:
                free[node] -= _millis(_cpu_text(pod))
        for path, pod in self._pods().items():
            if not pod["spec"].get("nodeName"):
                self._place(path, pod, free)

    def _place(self, path: str, pod: Document, free: dict[str, int]) -> None:
        requested = _millis(_cpu_text(pod))
        result = next((name for name, remaining in free.items() if remaining >= requested), None)
        if result is not None:
            free[result] -= requested
            status = {"phase": "Running", "conditions": [_ready()]}
            self.server.put(path, {**pod, "spec": {**pod["spec"], "nodeName": result}, "status": status})
        elif not pod["status"].get("conditions"):
            refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            self.server.put(path, {**pod, "status": {**pod["status"], "conditions": [refused]}})

    # The autoscaler.

    @asynccontextmanager
    async def controlling(self) -> AsyncIterator[NodeController]:
        """The autoscaler while it works."""
        with self.recording.recorder() as recorder:
            context = await self.context(recorder=recorder)
            async with (
                open_node_controller(context, self.settings, open_all=self._open_providers) as controller,
                virtual_time.in_background(self.running(context, controller), self._run_cluster()),
            ):
                yield controller

    @asynccontextmanager
    async def _open_providers(
        self, _names: Sequence[str], context: ProviderContext, _options: Options
    ) -> AsyncIterator[tuple[RunningProvider, ...]]:
        yield tuple(RunningProvider(make(context), context.writer) for make in self.providers)

    def run(self, play: Callable[[NodeController], Awaitable[None]]) -> None:
        """Let a play go on while the autoscaler works."""

        async def main() -> None:
            async with self.controlling() as controller:
                await asyncio.sleep(2.0)
                await play(controller)

        virtual_time.run(main(), start=START)

    def _record(self, about: ObjectReference, reason: Reason, message: str) -> None:
        self.events.append((about.kind, about.name, reason.code, message))


def _has_hard_taint(node: Document) -> bool:
    return any(taint["effect"] != "PreferNoSchedule" for taint in node["spec"].get("taints", ()))


def last_fully_provisioned(status: Document) -> float:
    """The time in the status at which all chunks last fitted."""
    return parse_time(status["lastFullyProvisioned"]).timestamp()


def time_text(at: float) -> str:
    return format_time(datetime.fromtimestamp(at, UTC))


def _ready() -> Document:
    return {"type": "Ready", "status": "True"}


def _cpu_text(pod: Document) -> str:
    text: str = pod["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    return text


def _millis(text: str) -> int:
    return int(Quantity.parse(text).exact() * 1000)
