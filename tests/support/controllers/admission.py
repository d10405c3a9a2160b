"""An admission controller with a small API server in memory around it, on a virtual clock.

Everything between the watches and the bytes of the answer is the real thing; objects, pods and faults are the test's.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from support import virtual_time
from support.api_server.server import Document, ModelServer
from trellis.controllers.admission.metrics import ADMISSION_METRICS
from trellis.controllers.admission.process import ReviewService
from trellis.controllers.admission.settings import AdmissionSettings
from trellis.controllers.admission.webhook.server import HttpReply
from trellis.kube.transport.requests import Request
from trellis.runtime.informers import Informers
from trellis.runtime.optional_kinds import UnreadableKinds
from trellis.runtime.settings.loader import from_flags, load_settings
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics
from trellis.testing.scripted_transport import ScriptedResponse, json_response

NAMESPACE = "shop"
CREATED = "2026-01-01T00:00:00Z"

_CORE = {"resources": [{"name": name, "kind": "Pod", "namespaced": True} for name in ("pods", "pods/resize")]}
_HVPAS = {
    "groups": [
        {
            "versions": [{"groupVersion": "autoscaling.x-k8s.io/v1alpha1", "version": "v1alpha1"}],
            "preferredVersion": {"groupVersion": "autoscaling.x-k8s.io/v1alpha1", "version": "v1alpha1"},
        },
        {
            "versions": [{"groupVersion": "example.com/v1", "version": "v1"}],
            "preferredVersion": {"groupVersion": "example.com/v1", "version": "v1"},
        },
    ]
}
_OWN = {"resources": [{"name": "hvpas", "kind": "Hvpa", "namespaced": True}]}
_FOREIGN = {
    "resources": [
        {"name": "rollouts", "kind": "Rollout", "namespaced": True},
        {"name": "rollouts/scale", "kind": "Scale", "namespaced": True},
        {"name": "statefulsets", "kind": "StatefulSet", "namespaced": True},
        {"name": "statefulsets/scale", "kind": "Scale", "namespaced": True},
    ]
}

Fault = Callable[[Request], ScriptedResponse | None]


class World:
    """The cluster as the webhook sees it, and the webhook."""

    def __init__(self, *flags: str, resizable: bool = True) -> None:
        self.server = ModelServer()
        self.server.before = self._before
        self.fault: Fault = lambda _request: None
        self.metrics = Metrics(ADMISSION_METRICS, about_process=False)
        values = {name.removeprefix("--").replace("-", "_"): value for name, value in (f.split("=", 1) for f in flags)}
        self.settings = load_settings(AdmissionSettings, from_flags(AdmissionSettings, values)).settings
        self._resizable = resizable
        self._admission: ReviewService | None = None
        self.informers: Informers

    @property
    def admission(self) -> ReviewService:
        assert self._admission is not None
        return self._admission

    def add_deployment(self, name: str, namespace: str = NAMESPACE) -> None:
        """A Deployment and its ReplicaSet."""
        self.add_workload("deployments", name, namespace, selector={"matchLabels": {"app": name}})
        self.add_replica_set(f"{name}-x", name, namespace)

    def add_replica_set(self, name: str, deployment: str, namespace: str = NAMESPACE) -> None:
        self.add_workload("replicasets", name, namespace, owners=[owner("Deployment", deployment)])

    def add_workload(
        self, plural: str, name: str, namespace: str = NAMESPACE, owners: list[Document] | None = None, **spec: Any
    ) -> None:
        group = "batch" if plural in ("jobs", "cronjobs") else "apps"
        path = f"/apis/{group}/v1/namespaces/{namespace}/{plural}/{name}"
        self.server.put(path, {"metadata": {"ownerReferences": owners or []}, "spec": spec})

    def add_vpa(
        self,
        name: str,
        *,
        target: Document | None = None,
        advice: dict[str, Document] | None = None,
        namespace: str = NAMESPACE,
        created: str = CREATED,
        **spec: Any,
    ) -> None:
        """A VPA on the Deployment of that name; `advice` by container."""
        reference = target or {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
        document = {
            "metadata": {"creationTimestamp": created},
            "spec": {"targetRef": reference, **spec},
            "status": recommendation(advice if advice is not None else {"app": {"cpu": "400m", "memory": "300Mi"}}),
        }
        self.server.put(f"/apis/autoscaling.k8s.io/v1/namespaces/{namespace}/verticalpodautoscalers/{name}", document)

    def add_hvpa(self, name: str, advice: dict[str, Document], **spec: Any) -> None:
        document = {
            "metadata": {"creationTimestamp": CREATED},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}, **spec},
            "status": recommendation(advice),
        }
        self.server.put(f"/apis/autoscaling.x-k8s.io/v1alpha1/namespaces/{NAMESPACE}/hvpas/{name}", document)

    def add_app(self, name: str = "web", **spec: Any) -> None:
        """A Deployment and its VPA."""
        self.add_deployment(name)
        self.add_vpa(name, **spec)

    async def review(self, body: bytes) -> Document:
        """What the answer says."""
        reply = self.admission.handler.review(body)
        if not isinstance(reply, HttpReply):
            reply = await reply
        assert reply.status == 200
        response: Document = msgspec.json.decode(reply.body)["response"]
        return response

    async def admit(self, pod: Document, namespace: str = NAMESPACE) -> Document:
        """The pod as it is after the review; it must have been let through."""
        response = await self.review(build_pod_review(pod, namespace))
        assert response["allowed"] is True
        return apply(pod, patch_in(response))

    def metric_value(self, series: str) -> float:
        """The value of a series, as it is served."""
        self.metrics.flush()
        lines = self.metrics.format_text().decode().splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(series)), 0.0)

    def count_single_gets(self, part: str) -> int:
        """How many single objects whose path has this part were asked for."""
        return sum(part in request.path and "limit" not in dict(request.query) for request in self.server.requests)

    def _before(self, request: Request) -> ScriptedResponse | None:
        if (fault := self.fault(request)) is not None:
            return fault
        served: dict[str, Document] = {
            "/api": {"versions": ["v1"]},
            "/apis": _HVPAS,
            "/api/v1": _CORE if self._resizable else {"resources": _CORE["resources"][:1]},
            "/apis/autoscaling.x-k8s.io/v1alpha1": _OWN,
            "/apis/example.com/v1": _FOREIGN,
        }
        return json_response(served[request.path]) if request.path in served else None

    @asynccontextmanager
    async def admitting(self, *, wait_until_ready: bool = True) -> AsyncIterator[ReviewService]:
        """The webhook while it works, from when it has seen everything."""
        served = await self.server.client.discover()
        client, unreadable = self.server.client, UnreadableKinds(self.metrics, Logger("trellis.admission"))
        namespaces = self.settings.scope.vpa_object_namespace
        self.informers = Informers(client, unreadable, draw=lambda: 0.5, namespaces=namespaces)
        self._admission = ReviewService(client, self.informers, self.settings, self.metrics, served, draw=lambda: 0.5)
        async with virtual_time.in_background(self.informers.run(), self.admission.run()):
            while wait_until_ready and self.admission.find_readiness_problem():  # noqa: ASYNC110 - nobody else wants to know
                await asyncio.sleep(0.1)
            await asyncio.sleep(0.1)
            yield self.admission

    def run(self, play: Callable[[], Awaitable[None]], *, wait_until_ready: bool = True) -> None:
        """Let a play go on while the webhook works."""

        async def main() -> None:
            async with self.admitting(wait_until_ready=wait_until_ready):
                await play()

        virtual_time.run(main())


def owner(kind: str, name: str, api_version: str = "apps/v1") -> Document:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": "u", "controller": True}


def recommendation(advice: dict[str, Document]) -> Document:
    """A status that recommends this, by container."""
    result = [{"containerName": name, "target": target} for name, target in advice.items()]
    return {"recommendation": {"containerRecommendations": result}} if result else {}


def pod(app: str = "web", owners: list[Document] | None = None, **container: Any) -> Document:
    """A pod of a Deployment, as its ReplicaSet makes it."""
    resources = {"requests": {"cpu": "100m", "memory": "100Mi"}, "limits": {"cpu": "200m", "memory": "200Mi"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{app}-x-",
            "labels": {"app": app},
            "ownerReferences": owners if owners is not None else [owner("ReplicaSet", f"{app}-x")],
        },
        "spec": {"containers": [{"name": "app", "image": "i", "resources": resources, **container}]},
    }


def build_pod_review(document: object, namespace: str = NAMESPACE, **request: Any) -> bytes:
    return build_review(document, {"group": "", "version": "v1", "kind": "Pod"}, namespace, **request)


def build_review(document: object, kind: Document, namespace: str = NAMESPACE, **request: Any) -> bytes:
    """The API server's question."""
    review = {
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": kind,
            "namespace": namespace,
            "operation": "CREATE",
            "object": document,
            "oldObject": None,
            "dryRun": False,
            **request,
        },
    }
    return msgspec.json.encode(review)


def patch_in(response: Document) -> list[Document]:
    """The operations of an answer."""
    if "patch" not in response:
        return []
    assert response["patchType"] == "JSONPatch"
    result: list[Document] = msgspec.json.decode(base64.b64decode(response["patch"]))
    return result


def apply(document: Document, patch: list[Document]) -> Document:
    """RFC 6902 as far as the webhook uses it; an operation that cannot be carried out is an error."""
    result: Document = msgspec.json.decode(msgspec.json.encode(document))
    for operation in patch:
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        at: Any = result
        for part in parents:
            at = at[int(part)] if isinstance(at, list) else at[part]
        if operation["op"] == "add":
            at[last] = operation["value"]
        elif operation["op"] == "remove":
            del at[last]
        else:
            raise AssertionError(f"an operation that no pod needs: {operation}")
    return result


def get_requests(document: Document, index: int = 0) -> Document:
    requests: Document = document["spec"]["containers"][index].get("resources", {}).get("requests", {})
    return requests
