"""The Buffer controller with upstream's CapacityBuffers, on an API server in memory.

The server keeps to what matters here: generations go up with specs and templates, a status is merged at the version
that was read, and conditions that were applied belong to whoever applied them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from support.api_server.server import Document
from support.controllers.buffers import NAMESPACE, World
from support.worlds.buffers import app
from trellis.api.kube.meta import ObjectReference
from trellis.base.reasons import Reason
from trellis.controllers.buffers.settings import BufferControllerSettings, CapacityBufferSettings
from trellis.kube.transport.requests import Request
from trellis.testing.scripted_transport import ScriptedResponse, error_response, json_response

_GROUP = "/apis/autoscaling.x-k8s.io"
_BUFFERS = f"{_GROUP}/v1alpha1/namespaces/{NAMESPACE}/buffers"
_TEMPLATES = f"/api/v1/namespaces/{NAMESPACE}/podtemplates"

OF_WEB: Document = {"scalableRef": {"apiGroup": "apps", "kind": "Deployment", "name": "web"}}
MANAGED = "capacitybuffer-web-pod-template"
OF_BUFFER = "capacitybuffer-of-web-pod-template"


class CapacityWorld(World):
    """`version` is the one in which CapacityBuffers are served, if any."""

    def __init__(
        self, *, version: str = "v1beta1", serve: bool = False, translate: bool = False, **translation: Any
    ) -> None:
        super().__init__(**translation)
        self.version = version
        capacity_buffers = CapacityBufferSettings(serve_capacity_buffers=serve, translate=translate)
        self.settings = BufferControllerSettings(translation=self.settings.translation, elsewhere=capacity_buffers)
        self.event_kinds: list[tuple[str, str]] = []
        self.changes: list[tuple[str, str]] = []

    # What a test puts there.

    def put(self, where: str, document: Document) -> Document:
        old = self.server.objects.get(where)
        if old is not None and old.get("template") != document.get("template"):
            metadata = {**document["metadata"], "generation": old["metadata"]["generation"] + 1}
            return self.server.put(where, {**document, "metadata": metadata})
        return super().put(where, document)

    def add_capacity(self, name: str = "web", *, owner: Document | None = None, **spec: Any) -> None:
        metadata = {"ownerReferences": [owner]} if owner is not None else {}
        self.put(self.capacity_path(name), {"metadata": metadata, "spec": spec or {**OF_WEB, "replicas": 2}})

    def add_template(self, name: str = "chunk", cpu: str = "2", **metadata: Any) -> None:
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [app(cpu=cpu, memory="4Gi")]}}
        self.put(f"{_TEMPLATES}/{name}", {"metadata": metadata, "template": template})

    def edit_capacity(self, name: str = "web", **spec: Any) -> None:
        where = self.capacity_path(name)
        self.put(where, {**self.server.objects[where], "spec": spec})

    def remove_kind(self) -> None:
        """The definition is deleted, and with it all there is of the kind."""
        mark = "/capacitybuffers"
        for where in [document for document in self.server.objects if mark in document]:
            self.server.delete(where)
        self.version = ""
        absent = error_response(404, "NotFound", "the server could not find the requested resource")
        self.fault = lambda request: absent if mark in request.path else None
        self.server.break_watches()

    def install_kind(self, version: str) -> None:
        self.version = version
        self.fault = lambda _request: None

    # What a test reads.

    def capacity_path(self, name: str = "web") -> str:
        return f"{_GROUP}/{self.version}/namespaces/{NAMESPACE}/capacitybuffers/{name}"

    def template_path(self, name: str = MANAGED) -> str:
        return f"{_TEMPLATES}/{name}"

    def capacity(self, name: str = "web") -> Document | None:
        return self.server.objects.get(self.capacity_path(name))

    def capacity_status(self, name: str = "web") -> Document:
        """The status of a CapacityBuffer."""
        capacity = self.capacity(name)
        assert capacity is not None
        status: Document = capacity.get("status", {})
        return status

    def replicas(self, name: str = "web") -> int | None:
        return self.capacity_status(name).get("replicas")

    def ready(self, name: str = "web") -> tuple[str, str, str]:
        result = next(
            condition
            for condition in self.capacity_status(name)["conditions"]
            if condition["type"] == "ReadyForProvisioning"
        )
        return result["status"], result["reason"], result["message"]

    def template(self, name: str = MANAGED) -> Document | None:
        return self.server.objects.get(self.template_path(name))

    def template_requests(self, name: str = MANAGED) -> Document:
        template = self.template(name)
        assert template is not None
        requests: Document = template["template"]["spec"]["containers"][0]["resources"]["requests"]
        return requests

    def capacity_buffer_condition(self, name: str = "web") -> tuple[str, str] | None:
        """What a Buffer says of its CapacityBuffer."""
        conditions = self.status(name).get("conditions", [])
        return next(
            (
                (condition["status"], condition["reason"])
                for condition in conditions
                if condition["type"] == "KeptAsCapacityBuffer"
            ),
            None,
        )

    # The cluster.

    def _before(self, request: Request) -> ScriptedResponse | None:
        if (fault := self.fault(request)) is not None:
            return fault
        if request.method in ("POST", "PATCH", "DELETE") and "dryRun" not in dict(request.query):
            self.changes.append((request.method, request.path))
        if (reply := self._discovered(request)) is not None:
            return reply
        where, _, last = request.path.rpartition("/")
        if request.method == "POST" and last in ("capacitybuffers", "podtemplates"):
            return self._create(request)
        if request.method == "PATCH" and last != "status":
            return self._change(request)
        if request.method == "PATCH" and "/capacitybuffers/" in where:
            return None
        return super()._before(request)

    def _discovered(self, request: Request) -> ScriptedResponse | None:
        if request.path == f"{_GROUP}/{self.version}" and self.version == "v1beta1":
            return json_response({"resources": [_served("capacitybuffers", "CapacityBuffer")]})
        result = super()._before(request) if request.path in ("/apis", "/api/v1", f"{_GROUP}/v1alpha1") else None
        if result is None:
            return None
        assert not isinstance(result, Exception)
        document = msgspec.json.decode(result.body)  # type: ignore[union-attr]
        if request.path == "/api/v1":
            document["resources"].append(_served("podtemplates", "PodTemplate"))
        elif request.path == "/apis" and self.version == "v1beta1":
            version = {"groupVersion": "autoscaling.x-k8s.io/v1beta1", "version": "v1beta1"}
            document["groups"].append({"versions": [version], "preferredVersion": version})
        elif self.version == "v1alpha1" and request.path != "/apis":
            document["resources"].append(_served("capacitybuffers", "CapacityBuffer"))
        return json_response(document)

    def _create(self, request: Request) -> ScriptedResponse:
        document = msgspec.json.decode(request.body or b"")
        where = f"{request.path}/{document['metadata']['name']}"
        if where in self.server.objects:
            return error_response(409, "AlreadyExists")
        return json_response(self.put(where, document), 201)

    def _change(self, request: Request) -> ScriptedResponse:
        document = self.server.objects.get(request.path)
        if document is None:
            return error_response(404, "NotFound")
        new = dict(document)
        for operation in msgspec.json.decode(request.body or b""):
            field = operation["path"].removeprefix("/")
            if field in ("metadata/uid", "metadata/resourceVersion"):
                if document["metadata"][field.partition("/")[2]] != operation["value"]:
                    return error_response(409, "Conflict", "the object has been modified")
            else:
                new[field] = operation["value"]
        return json_response(document if new == document else self.put(request.path, new))

    def _record(self, about: ObjectReference, reason: Reason, message: str) -> None:
        self.events.append((reason.code, message))
        self.event_kinds.append((about.kind, reason.code))


def _served(name: str, kind: str) -> Document:
    return {"name": name, "kind": kind, "namespaced": True}
