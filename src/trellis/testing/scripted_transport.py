"""A scripted API server: the fake transport for tests.

Answers come from a script, in order, or from a function of the request. Nothing else has to be patched to test code
that uses the client:

    transport = ScriptedTransport(page([], resource_version="7"), StreamScript([line("ADDED", pod)]))
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

    Lines can be given at once or pushed while the stream is read. It ends when told: in order (`end`), in the middle of
    a line (`break_off`), or never.
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
        """The server closes the stream in order, as it does when a watch times out."""
        self._lines.put_nowait(None)

    def break_off(self, error: KubeError | None = None) -> None:
        """The connection is reset in the middle of the next line."""
        self._lines.put_nowait(error or Unreachable("the connection was reset in the middle of a line"))

    async def lines(self) -> AsyncIterator[bytes]:
        """What was pushed, waiting for more until the end."""
        while (line := await self._lines.get()) is not None:
            if isinstance(line, KubeError):
                raise line
            yield line


Answer = Response | StreamScript | KubeError
Handler = Callable[[Request], Answer]


class ScriptedTransport:
    """Answers every request from a script or a function, and keeps all requests in the order they came.

    A script that has run out is a mistake in the test, and raises `InternalError`. An answer that is an error is
    raised, as a connection that cannot be made would.
    """

    def __init__(self, *answers: Answer, handler: Handler | None = None) -> None:
        self.requests: list[Request] = []
        self.closed = False
        self._answers = deque(answers)
        self._handler = handler

    def then(self, *answers: Answer) -> None:
        """More answers, behind those that are there; they come before the function is asked."""
        self._answers.extend(answers)

    async def send(self, request: Request) -> Response:
        """The next answer."""
        answer = self._next(request)
        if isinstance(answer, StreamScript):
            # Reading a watch to its end waits for that end; so does the fake.
            body = b"\n".join([line async for line in answer.lines()])
            return Response(answer.status, answer.headers, body)
        return answer

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """The next answer, line by line."""
        answer = self._next(request)
        if isinstance(answer, Response):
            answer = StreamScript(answer.body.splitlines(), ended=True, status=answer.status, headers=answer.headers)
        yield answer

    async def close(self) -> None:
        """Record that the transport was closed."""
        self.closed = True

    def _next(self, request: Request) -> Response | StreamScript:
        self.requests.append(request)
        if self._answers:
            answer = self._answers.popleft()
        elif self._handler:
            answer = self._handler(request)
        else:
            raise InternalError(f"the script has no answer left for {request.method} {request.path}")
        if isinstance(answer, KubeError):
            raise answer
        return answer


def answer(document: object, status: int = 200, headers: Mapping[str, str] = _JSON) -> Response:
    """A response with a document as JSON; names of headers in any case."""
    return Response(status, {name.lower(): value for name, value in headers.items()}, msgspec.json.encode(document))


def refusal(code: int, reason: str, message: str = "", *, details: object = None, retry_after: int = 0) -> Response:
    """An error as the API server writes it."""
    headers = {**_JSON, "retry-after": str(retry_after)} if retry_after else _JSON
    return answer(status_object(code, reason, message, details), code, headers)


def status_object(code: int, reason: str, message: str = "", details: object = None) -> dict[str, object]:
    """metav1.Status, as a response or as the object of an ERROR line."""
    status: dict[str, object] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return status | {"message": message or reason, "reason": reason, "details": details, "code": code}


def page(
    items: Sequence[object], *, resource_version: str = "1", continue_from: str = "", remaining: int | None = None
) -> Response:
    """A list, or a page of one."""
    metadata = {"resourceVersion": resource_version, "continue": continue_from, "remainingItemCount": remaining}
    return answer({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": list(items)})


def line(kind: str, document: object) -> bytes:
    """One line of a watch."""
    return msgspec.json.encode({"type": kind, "object": document})


def bookmark(resource_version: str, kind: str = "Pod") -> bytes:
    """The line that says how far a watch has come; a pod's has null containers, as the real one does."""
    document = {"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": resource_version}}
    return line("BOOKMARK", document | {"spec": {"containers": None}, "status": {}})


def gone(message: str = "too old resource version") -> bytes:
    """The line that ends a watch whose version the server no longer knows."""
    return line("ERROR", status_object(410, "Expired", message))
