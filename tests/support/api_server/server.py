"""A small API server in memory, behind the fake transport: lists in pages, watches with history, patches, conflicts.

It keeps to the rules that clients rely on: one version counter for everything, a watch that begins after a version and
misses nothing, 410 for a version that has been compacted away, 409 for a precondition that does not hold.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from trellis.base.errors import Unreachable
from trellis.kube.client import Client
from trellis.kube.transport.requests import Request
from trellis.kube.transport.responses import Response
from trellis.testing.scripted_transport import (
    ScriptedResponse,
    ScriptedTransport,
    StreamScript,
    bookmark_line,
    error_response,
    json_response,
    list_response,
    watch_line,
)

Document = dict[str, Any]

_ONE_NAME = "metadata.name="


class _Watched(NamedTuple):
    """A collection that is watched; of field selectors only that of one name counts."""

    collection: str
    field_selector: str = ""

    def has(self, path: str) -> bool:
        selector = self.field_selector
        is_named = not selector.startswith(_ONE_NAME) or path.endswith("/" + selector.removeprefix(_ONE_NAME))
        return is_named and _is_in(path, self.collection)


class ModelServer:
    """`faults` are given instead of the next answers; `requests` has everything that was asked.

    `before` sees each request first, and may answer it. So many `responses_to_drop` are lost on the way back: the write
    was carried out, and nobody learns of it.
    """

    def __init__(self) -> None:
        self.version = 100
        self.compacted = 0
        self.objects: dict[str, Document] = {}
        self.faults: deque[ScriptedResponse] = deque()
        self.responses_to_drop = 0
        self.before: Callable[[Request], ScriptedResponse | None] = lambda _request: None
        self.transport = ScriptedTransport(handler=self._handle)
        self.client = Client(self.transport)
        self._history: list[tuple[int, str, str, Document]] = []
        self._watches: list[tuple[StreamScript, _Watched]] = []
        self._lists: dict[tuple[str, str], list[Document]] = {}
        self._uids = 0

    @property
    def requests(self) -> list[Request]:
        return self.transport.requests

    def put(self, path: str, document: Document) -> Document:
        """Create or replace the object at `/api/v1/namespaces/<namespace>/<plural>/<name>`."""
        old = self.objects.get(path)
        self.version += 1
        if old is None:
            self._uids += 1
        uid = old["metadata"]["uid"] if old else f"uid-{self._uids}"
        new = copy.deepcopy(document)
        new["metadata"] = {**_names(path), **new.get("metadata", {}), "uid": uid, "resourceVersion": str(self.version)}
        self.objects[path] = new
        self._record_change("MODIFIED" if old else "ADDED", path, new)
        return new

    def delete(self, path: str) -> None:
        deleted = copy.deepcopy(self.objects.pop(path))
        self.version += 1
        deleted["metadata"]["resourceVersion"] = str(self.version)
        self._record_change("DELETED", path, deleted)

    def bookmark(self) -> None:
        """Tell every watch how far things are, as the server does once a minute."""
        for stream, _ in self._watches:
            stream.push(bookmark_line(str(self.version)))

    def break_watches(self) -> None:
        """Reset every connection in the middle of a line."""
        for stream, _ in self._drop():
            stream.break_off()

    def end_watches(self) -> None:
        """End every watch in order, as a timeout does."""
        for stream, _ in self._drop():
            stream.end()

    def compact(self) -> None:
        """Forget the past: who resumes from before now gets 410."""
        self.compacted = self.version
        self._history.clear()

    def _drop(self) -> list[tuple[StreamScript, _Watched]]:
        watches, self._watches = self._watches, []
        return watches

    def _record_change(self, kind: str, path: str, document: Document) -> None:
        self._history.append((self.version, kind, path, copy.deepcopy(document)))
        for stream, watched in self._watches:
            if watched.has(path):
                stream.push(watch_line(kind, document))

    def _handle(self, request: Request) -> ScriptedResponse:
        if self.faults:
            return self.faults.popleft()
        if (intercepted := self.before(request)) is not None:
            return intercepted
        response = self._dispatch(request)
        if self.responses_to_drop and request.method != "GET":
            self.responses_to_drop -= 1
            return Unreachable("the connection was reset before the answer came")
        return response

    def _dispatch(self, request: Request) -> ScriptedResponse:
        query = dict(request.query)
        match request.method:
            case "GET" if "watch" in query:
                watched = _Watched(request.path, query.get("fieldSelector", ""))
                return self._watch(watched, query.get("resourceVersion", ""))
            case "GET" if request.path in self.objects:
                return json_response(self.objects[request.path])
            case "GET" if _is_collection(request.path):
                return self._list(request.path, query)
            case "POST":
                return self._create(request)
            case "PUT" if request.path in self.objects:
                return self._replace(request)
            case "PATCH" if _without_subresource(request.path) in self.objects:
                return self._patch(request)
            case "DELETE" if request.path in self.objects:
                self.delete(request.path)
                return json_response({"kind": "Status", "status": "Success"})
        return error_response(404, "NotFound", f"{request.path} not found")

    def _watch(self, watched: _Watched, resume: str) -> ScriptedResponse:
        """A watch from a version, or without one from now, which begins with all that exists."""
        if not resume:
            missed = [watch_line("ADDED", document) for path, document in self.objects.items() if watched.has(path)]
        elif (version := int(resume)) < self.compacted:
            return error_response(410, "Expired", f"too old resource version: {version} ({self.compacted})")
        else:
            changes = (change for change in self._history if change[0] > version and watched.has(change[2]))
            missed = [watch_line(kind, document) for _, kind, _, document in changes]
        stream = StreamScript(missed)
        self._watches.append((stream, watched))
        return stream

    def _list(self, collection: str, query: dict[str, str]) -> Response:
        limit = int(query.get("limit", 1_000_000))
        version, start = query.get("continue", f"{self.version}:0").split(":")
        if not int(start):
            self._lists[version, collection] = [doc for path, doc in self.objects.items() if _is_in(path, collection)]
        documents = self._lists[version, collection]
        end = int(start) + limit
        token = f"{version}:{end}" if end < len(documents) else ""
        return list_response(documents[int(start) : end], resource_version=version, continue_from=token)

    def _create(self, request: Request) -> Response:
        document = msgspec.json.decode(request.body or b"")
        path = f"{request.path}/{document['metadata']['name']}"
        if path in self.objects:
            return error_response(409, "AlreadyExists", f"{path} already exists")
        return json_response(self.put(path, document), 201)

    def _replace(self, request: Request) -> Response:
        document = msgspec.json.decode(request.body or b"")
        if document["metadata"].get("resourceVersion") != self.objects[request.path]["metadata"]["resourceVersion"]:
            return error_response(409, "Conflict", "the object has been modified")
        return json_response(self.put(request.path, document))

    def _patch(self, request: Request) -> Response:
        path = _without_subresource(request.path)
        old = self.objects[path]
        patch = msgspec.json.decode(request.body or b"")
        if isinstance(patch, list):
            # Of RFC 6902 as much as is needed: each operation sets a member of the object.
            patch = {operation["path"].removeprefix("/"): operation["value"] for operation in patch}
            return json_response(self.put(path, {**old, **patch}))
        preconditions = patch.get("metadata", {})
        for field in ("uid", "resourceVersion"):
            if preconditions.get(field, old["metadata"][field]) != old["metadata"][field]:
                return error_response(409, "Conflict", f"the object has been modified: {field} in precondition")
        return json_response(self.put(path, _merged(old, patch)))


def _merged(old: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    new = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        new[key] = _merged(new.get(key), value)
    return {key: value for key, value in new.items() if value is not None}


def _names(path: str) -> dict[str, str]:
    parts = path.split("/")
    names = {"name": parts[-1]}
    return {"namespace": parts[-3], **names} if parts[-4] == "namespaces" else names


def _without_subresource(path: str) -> str:
    return path.removesuffix("/status").removesuffix("/scale")


def _is_collection(path: str) -> bool:
    """`/api/v1/pods`, `/apis/apps/v1/namespaces/shop/deployments`: nothing after the plural."""
    parts = path.split("/")[3 if path.startswith("/api/") else 4 :]
    return bool(parts) and len(parts[2:] if parts[0] == "namespaces" and len(parts) > 2 else parts) == 1


def _is_in(path: str, collection: str) -> bool:
    """Whether an object is in `/api/v1/pods` or `/api/v1/namespaces/shop/pods`."""
    group, _, plural = collection.rpartition("/")
    parent, _, _ = path.rpartition("/")
    return parent == collection or (
        "namespaces" not in collection and parent.startswith(f"{group}/") and parent.endswith(f"/{plural}")
    )


def pod_path(name: str, namespace: str = "shop") -> str:
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def pod(node: str = "node-1", **metadata: object) -> Document:
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": {"phase": "Running"}}
