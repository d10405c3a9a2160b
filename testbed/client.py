"""The testbed's own client of the API server.

Small and synchronous, on the standard library: what is under test must not be what sets up the test. It sends a request
again only while the server has not opened the store of a kind that was changed.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
import ssl
import threading
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from testbed.errors import HarnessError, Refused

Json = dict[str, Any]

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

FIELD_MANAGER = "testbed"

# A changed definition closes the store of its kind for a moment; nothing has been done with what is refused then.
_STORE_REOPENING = "storage is (re)initializing"
_REOPENING_SECONDS = 60.0
_PAUSE_SECONDS = 0.1


class Api:
    """One identity at one API server. Threads may share it."""

    def __init__(self, url: str, ca: Path, certificate: tuple[Path, Path] | None = None, token: str = "") -> None:
        self.url = url
        self._address = urlsplit(url)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._tls = ssl.create_default_context(cafile=str(ca))
        if certificate:
            self._tls.load_cert_chain(*certificate)
        self._kinds: dict[str, dict[str, tuple[str, bool]]] = {}
        self._lock = threading.Lock()
        # Idle connections. A handshake takes ten times as long as a small answer, on both sides.
        self._idle: list[http.client.HTTPSConnection] = []
        weakref.finalize(self, _close, self._idle)

    def send(
        self,
        method: str,
        path: str,
        body: object = None,
        content: str = JSON,
        seconds: float = 60.0,
        *,
        accept: str = JSON,
    ) -> Json:
        """Send one request; an answer of 400 and above raises `Refused`, no answer raises OSError."""
        return self.send_with_warnings(method, path, body, content, seconds, accept=accept)[0]

    def send_with_warnings(
        self,
        method: str,
        path: str,
        body: object = None,
        content: str = JSON,
        seconds: float = 60.0,
        *,
        accept: str = JSON,
    ) -> tuple[Json, list[str]]:
        """Send one request; also returns the API server's warnings, as kubectl prints them."""
        deadline = time.monotonic() + _REOPENING_SECONDS
        while True:
            try:
                return self._send_once(method, path, body, content, seconds, accept=accept)
            except Refused as refusal:
                if _STORE_REOPENING not in str(refusal) or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE_SECONDS)

    def _send_once(
        self, method: str, path: str, body: object, content: str, seconds: float, *, accept: str
    ) -> tuple[Json, list[str]]:
        data = None if body is None else json.dumps(body).encode()
        headers = self._headers | {"Accept": accept} | ({"Content-Type": content} if data else {})
        answer, text = self._exchange_pooled(method, path, data, headers, seconds)
        value = _parse(text)
        if answer.status >= http.client.BAD_REQUEST:
            raise Refused(f"{method} {path}", answer.status, value)
        return value, [_unescape_warning(warning) for warning in answer.headers.get_all("Warning", [])]

    def _exchange_pooled(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str], seconds: float
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """Send a request over an idle connection if one is still open: the server closes them after a while."""
        reused = self._take_idle(seconds)
        if reused:
            with suppress(ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
                return self._exchange(reused, method, path, data, headers)
        address = self._address
        new = http.client.HTTPSConnection(address.hostname or "", address.port, context=self._tls, timeout=seconds)
        return self._exchange(new, method, path, data, headers)

    def _exchange(
        self,
        connection: http.client.HTTPSConnection,
        method: str,
        path: str,
        data: bytes | None,
        headers: dict[str, str],
    ) -> tuple[http.client.HTTPResponse, bytes]:
        try:
            connection.request(method, path, data, headers)
            answer = connection.getresponse()
            text = answer.read()
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return answer, text

    def _take_idle(self, seconds: float) -> http.client.HTTPSConnection | None:
        try:
            result = self._idle.pop()
        except IndexError:
            return None
        result.timeout = seconds
        if result.sock:
            result.sock.settimeout(seconds)
        return result

    def get(self, path: str, **query: str) -> Json:
        """Read one object, or a list."""
        return self.send("GET", f"{path}?{urlencode(query)}" if query else path)

    def list_items(self, path: str, **query: str) -> list[Json]:
        """The objects of a list."""
        items: list[Json] = self.get(path, **query)["items"]
        return items

    def find(self, path: str) -> Json | None:
        """The object, or None if there is none."""
        try:
            return self.get(path)
        except Refused as refusal:
            if refusal.status == http.client.NOT_FOUND:
                return None
            raise

    @contextmanager
    def watch(self, path: str, **query: str) -> Iterator[list[Json]]:
        """Collect every version of the objects of a list while the block runs, the present ones first."""
        address, versions = self._address, list[Json]()
        connection = http.client.HTTPSConnection(address.hostname or "", address.port, context=self._tls)
        connection.request("GET", f"{path}?{urlencode({**query, 'watch': '1'})}", headers=self._headers)
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise Refused(f"WATCH {path}", answer.status, _parse(answer.read()))

        def read() -> None:
            with suppress(OSError, ValueError, http.client.HTTPException):
                versions.extend(json.loads(line)["object"] for line in answer)

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        try:
            yield versions
        finally:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)
            reader.join()
            connection.close()

    def create(self, manifest: Mapping[str, Any], namespace: str = "") -> Json:
        """Create the object; `namespace` is used where the manifest names none."""
        path = self.get_path(manifest, namespace, named=False)
        return self.send("POST", f"{path}?fieldManager={FIELD_MANAGER}", dict(manifest))

    def apply(self, manifest: Mapping[str, Any], namespace: str = "", *, dry_run: bool = False) -> Json:
        """Server-side apply. Unknown fields are refused, as kubectl does."""
        query = {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        path = f"{self.get_path(manifest, namespace)}?{urlencode(query)}"
        return self.send("PATCH", path, dict(manifest), APPLY_PATCH)

    def patch(self, path: str, body: object, content: str = MERGE_PATCH) -> Json:
        """Change an object; a merge patch by default."""
        return self.send("PATCH", path, body, content)

    def annotate(self, path: str, annotations: Mapping[str, str | None]) -> Json:
        """Set annotations; None removes one."""
        return self.patch(path, {"metadata": {"annotations": dict(annotations)}})

    def delete(self, path: str) -> Json:
        """Delete an object, or all of a list."""
        return self.send("DELETE", path)

    def get_path(self, manifest: Mapping[str, Any], namespace: str = "", *, named: bool = True) -> str:
        """The path that the API server serves this object under."""
        version, kind, metadata = manifest["apiVersion"], manifest["kind"], manifest.get("metadata", {})
        plural, namespaced = self._find_resource(version, kind)
        base = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        inside = f"/namespaces/{metadata.get('namespace') or namespace or 'default'}" if namespaced else ""
        return f"{base}{inside}/{plural}" + (f"/{metadata['name']}" if named else "")

    def _find_resource(self, version: str, kind: str) -> tuple[str, bool]:
        """Plural and whether namespaced, from discovery; asked again if the kind is not known yet."""
        with self._lock:
            known = self._kinds.get(version, {})
            if kind not in known:
                served = self.get(f"/api/{version}" if "/" not in version else f"/apis/{version}")["resources"]
                known = {
                    resource["kind"]: (resource["name"], resource["namespaced"])
                    for resource in served
                    if "/" not in resource["name"]
                }
                self._kinds[version] = known
        if kind not in known:
            raise HarnessError(f"the API server serves no {kind} in {version}")
        return known[kind]


def _close(connections: list[http.client.HTTPSConnection]) -> None:
    for connection in connections:
        connection.close()


def _parse(text: bytes) -> Json:
    """Health checks and the odd proxy error are not JSON."""
    try:
        value = json.loads(text)
    except ValueError:
        return {"message": text.decode(errors="replace")}
    return value if isinstance(value, dict) else {"value": value}


def _unescape_warning(header: str) -> str:
    """The text of a header such as `299 - "do not"`, in which quotes and backslashes are escaped."""
    return re.sub(r"\\(.)", r"\1", header.split(" ", 2)[2][1:-1])
