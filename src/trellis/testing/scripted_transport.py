"""A scripted API server: the fake transport for tests.

Responses come from a script, in order, or from a function of the request. Nothing else has to be patched to test code
that uses the client:

    stream = StreamScript([watch_line("ADDED", pod)])
    transport = ScriptedTransport(list_response([], resource_version="7"), stream)
    client = Client(transport)
    ...
    assert [request.path for request in transport.requests] == [...]
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Final

import msgspec

from trellis.base.errors import InternalError, KubeError, Unreachable
from trellis.kube.transport.protocol import Stream
from trellis.kube.transport.requests import Request
from trellis.kube.transport.responses import Response

_JSON: Final[Mapping[str, str]] = MappingProxyType({"content-type": "application/json"})


class StreamScript:
    """A response that arrives line by line.

    Lines are passed at construction or pushed while the stream is read. The stream ends cleanly (`end`), in the middle
    of a line (`break_off`), or never.
    """

    def __init__(
        self, lines: Iterable[bytes] = (), *, ended: bool = False, status: int = 200, headers: Mapping[str, str] = _JSON
    ) -> None:
        self.status = status
        self.headers = headers
        self._lines: asyncio.Queue[bytes | KubeError | None] = asyncio.Queue()
        for line in lines:
            self.push(line)
        if ended:
            self.end()

    def push(self, *lines: bytes) -> None:
        """Append lines to the stream."""
        for line in lines:
            self._lines.put_nowait(line)

    def end(self) -> None:
        """Close the stream cleanly, as the server does when a watch times out."""
        self._lines.put_nowait(None)

    def break_off(self, error: KubeError | None = None) -> None:
        """Reset the connection in the middle of the next line."""
        self._lines.put_nowait(error or Unreachable("the connection was reset in the middle of a line"))

    async def lines(self) -> AsyncIterator[bytes]:
        """The pushed lines, until the stream ends."""
        while (line := await self._lines.get()) is not None:
            if isinstance(line, KubeError):
                raise line
            yield line


ScriptedResponse = Response | StreamScript | KubeError
Handler = Callable[[Request], ScriptedResponse]


class ScriptedTransport:
    """Responds to every request from a script or a function, and records all requests in order.

    A script that has run out is a mistake in the test, and raises `InternalError`. A scripted error is raised, as a
    connection failure would be.
    """

    def __init__(self, *responses: ScriptedResponse, handler: Handler | None = None) -> None:
        self.requests: list[Request] = []
        self.closed = False
        self._responses = deque(responses)
        self._handler = handler

    def enqueue(self, *responses: ScriptedResponse) -> None:
        """Append responses to the script; the function is called only when the script is empty."""
        self._responses.extend(responses)

    async def send(self, request: Request) -> Response:
        """The next response."""
        response = self._next(request)
        if isinstance(response, StreamScript):
            # Reading a watch to its end waits for that end; so does the fake.
            body = b"\n".join([line async for line in response.lines()])
            return Response(response.status, response.headers, body)
        return response

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """The next response, line by line."""
        response = self._next(request)
        if isinstance(response, Response):
            response = StreamScript(
                response.body.splitlines(), ended=True, status=response.status, headers=response.headers
            )
        yield response

    async def close(self) -> None:
        """Record that the transport was closed."""
        self.closed = True

    def _next(self, request: Request) -> Response | StreamScript:
        self.requests.append(request)
        if self._responses:
            response = self._responses.popleft()
        elif self._handler:
            response = self._handler(request)
        else:
            raise InternalError(f"the script has no answer left for {request.method} {request.path}")
        if isinstance(response, KubeError):
            raise response
        return response


def json_response(document: object, status: int = 200, headers: Mapping[str, str] = _JSON) -> Response:
    """A response with a document as JSON."""
    return Response(status, {name.lower(): value for name, value in headers.items()}, msgspec.json.encode(document))


def error_response(
    code: int, reason: str, message: str = "", *, details: object = None, retry_after: int = 0
) -> Response:
    """An error as the API server writes it."""
    headers = {**_JSON, "retry-after": str(retry_after)} if retry_after else _JSON
    return json_response(status_object(code, reason, message, details), code, headers)


def status_object(code: int, reason: str, message: str = "", details: object = None) -> dict[str, object]:
    """metav1.Status, as a response or as the object of an ERROR line."""
    status: dict[str, object] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return status | {"message": message or reason, "reason": reason, "details": details, "code": code}


def list_response(
    items: Sequence[object], *, resource_version: str = "1", continue_from: str = "", remaining: int | None = None
) -> Response:
    """A list, or a page of one."""
    metadata = {"resourceVersion": resource_version, "continue": continue_from, "remainingItemCount": remaining}
    return json_response({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": list(items)})


def watch_line(kind: str, document: object) -> bytes:
    """One line of a watch."""
    return msgspec.json.encode({"type": kind, "object": document})


def bookmark_line(resource_version: str, kind: str = "Pod") -> bytes:
    """A bookmark line; a pod's has null containers, as the API server's has."""
    document = {"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": resource_version}}
    return watch_line("BOOKMARK", document | {"spec": {"containers": None}, "status": {}})


def expired_line(message: str = "too old resource version") -> bytes:
    """The error line of a watch whose resource version has expired."""
    return watch_line("ERROR", status_object(410, "Expired", message))
