"""The HTTPS server of admission reviews: connections, timeouts and graceful shutdown.

A connection answers its requests in order. An immediate reply is written in the call that received the request. While a
reply is awaited, nothing more is read from that connection.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from http import HTTPStatus
from time import perf_counter
from typing import Final, cast

import msgspec

from trellis.base.errors import InvalidInput
from trellis.controllers.admission.webhook.http_requests import BadRequest, HttpRequest, HttpRequestReader
from trellis.runtime.addresses import Address

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_STATUS_LINES: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_OK: Final = _STATUS_LINES[200] + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
_OTHER: Final = b"%bContent-Type: application/json\r\nContent-Length: %d\r\nConnection: %b\r\n\r\n%b"


class HttpReply(msgspec.Struct, frozen=True):
    """A status code and a body in JSON."""

    status: int
    body: bytes


class RequestTimes(msgspec.Struct, frozen=True, gc=False):
    """When a request began to arrive, was complete, was answered, and when its reply was written, in seconds."""

    began: float
    read: float
    replied: float
    written: float


class ServerCallbacks(msgspec.Struct, frozen=True):
    """The functions that answer requests and refuse bad ones, and that observe times. None of them may raise."""

    handle: Callable[[HttpRequest], HttpReply | Awaitable[HttpReply]]
    refuse: Callable[[BadRequest], HttpReply]
    observe: Callable[[RequestTimes], None]


class ConnectionTimeouts(msgspec.Struct, frozen=True):
    """How many seconds a client may take to send a request or read a reply, and may be idle between two requests.

    Go's client closes a connection that is idle for 90 seconds. A server that closed it sooner would now and then do so
    at the very moment at which the next review is sent.
    """

    request: float = 10.0
    idle: float = 120.0
    # A client whose body is too large may still be sending. Closing the socket at once would discard the reply.
    linger: float = 1.0


class ReviewConnection(asyncio.Protocol):
    """One connection. It is a member of `connections` while it is open."""

    def __init__(
        self,
        callbacks: ServerCallbacks,
        connections: set[ReviewConnection],
        on_opened: Callable[[], object] = lambda: None,
    ) -> None:
        self._callbacks = callbacks
        self._connections = connections
        self._on_opened = on_opened
        self._reader = HttpRequestReader()
        self._transport: asyncio.Transport | None = None
        self._pending_reply: asyncio.Task[None] | None = None
        self._write_paused = False
        self._shutting_down = False
        self._closed = False
        self._lingering = False
        # When the request began, and since when the client is idle or slow.
        self._began = self._since = perf_counter()

    @property
    def is_idle(self) -> bool:
        """Whether every request is answered, and the client reads its replies."""
        return self._can_reply and not self._reader.has_pending_request

    @property
    def _can_reply(self) -> bool:
        return self._pending_reply is None and not self._write_paused

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport has the methods of asyncio.Transport, but not its class.
        self._transport = cast("asyncio.Transport", transport)
        self._connections.add(self)
        self._on_opened()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._connections.discard(self)
        self._transport = None
        if self._pending_reply is not None:
            self._pending_reply.cancel()

    def data_received(self, data: bytes) -> None:
        if self._closed:
            return
        if not self._reader.has_pending_request:
            self._began = self._since = perf_counter()
        self._reader.feed(data)
        if self._can_reply:
            self._handle_requests()
        elif self._transport is not None:
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        # A client that does not read its replies is not read from either.
        self._write_paused = True
        self._since = perf_counter()

    def resume_writing(self) -> None:
        self._write_paused = False
        self._resume()

    def shut_down(self, *, immediately: bool = False) -> None:
        """Close the connection, at once or with the next reply.

        An idle connection waits for a request too. Its client may be sending one at this moment, and would take the end
        of the connection for a failed review, which it does not send again.
        """
        self._shutting_down = True
        if immediately or self._lingering:
            self._close()

    def enforce_timeouts(self, now: float, timeouts: ConnectionTimeouts) -> None:
        if self._transport is None or self._pending_reply is not None:
            return
        elapsed = now - self._since
        if self._lingering:
            if elapsed > timeouts.linger:
                self._close()
            return
        if self._write_paused and elapsed > timeouts.request:
            self._transport.abort()
        elif self._reader.has_pending_request and elapsed > timeouts.request:
            self._refuse(BadRequest(408, f"the request took longer than {timeouts.request:g} s"))
        elif elapsed > timeouts.idle:
            self._close()

    def _handle_requests(self) -> None:
        while self._can_reply and not self._closed and self._transport is not None:
            try:
                request = self._reader.next_request()
            except BadRequest as error:
                self._refuse(error)
                return
            if request is None:
                if self._reader.awaits_continue:
                    self._transport.write(_CONTINUE)
                return
            read = perf_counter()
            reply = self._callbacks.handle(request)
            if isinstance(reply, HttpReply):
                self._write_reply(request, reply, read)
            else:
                self._pending_reply = asyncio.create_task(self._await_reply(request, reply, read), name="review")

    async def _await_reply(self, request: HttpRequest, pending: Awaitable[HttpReply], read: float) -> None:
        reply = await pending
        self._pending_reply = None
        self._write_reply(request, reply, read)
        self._resume()

    def _write_reply(self, request: HttpRequest, reply: HttpReply, read: float) -> None:
        replied = perf_counter()
        keep_alive = request.keep_alive and not self._shutting_down
        if self._transport is not None:
            if keep_alive and reply.status == HTTPStatus.OK:
                self._transport.write(_OK % (len(reply.body), reply.body))
            else:
                self._write_with_connection_header(reply, keep_alive=keep_alive)
        written = perf_counter()
        self._callbacks.observe(RequestTimes(self._began, read, replied, written))
        self._began = self._since = written

    def _write_with_connection_header(self, reply: HttpReply, *, keep_alive: bool) -> None:
        if self._transport is not None:
            connection = b"keep-alive" if keep_alive else b"close"
            self._transport.write(_OTHER % (_STATUS_LINES[reply.status], len(reply.body), connection, reply.body))
            if self._lingering:
                self._closed = True
                self._since = perf_counter()
            elif not keep_alive:
                self._close()

    def _refuse(self, error: BadRequest) -> None:
        self._lingering = error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        self._write_with_connection_header(self._callbacks.refuse(error), keep_alive=False)

    def _close(self) -> None:
        self._closed = True
        if self._transport is not None:
            self._transport.close()

    def _resume(self) -> None:
        self._handle_requests()
        if self._can_reply and not self._closed and self._transport is not None:
            self._transport.resume_reading()


# For clients that open a connection and send nothing.
_HANDSHAKE_SECONDS: Final = 10.0
# An API server opens one connection for each pod that is created at the same moment.
_BACKLOG: Final = 1024
_TIMEOUT_CHECK_SECONDS: Final = 1.0
# What a process has for its graceful shutdown, less the time to unwind.
DRAIN_SECONDS: Final = 0.5


class ReviewServer:
    """Listens, and holds all connections. `close` answers the requests that have come, if that does not take long."""

    def __init__(
        self, callbacks: ServerCallbacks, context: ssl.SSLContext | None, timeouts: ConnectionTimeouts | None = None
    ) -> None:
        self._callbacks = callbacks
        self._context = context
        self._timeouts = timeouts or ConnectionTimeouts()
        self._connections: set[ReviewConnection] = set()
        self._has_connections = asyncio.Event()
        self._server: asyncio.Server | None = None

    def __len__(self) -> int:
        return len(self._connections)

    async def start(self, address: Address) -> Address:
        """Listen, and return the address, with the port that the system chose for port 0."""
        try:
            listener = address.listen()
        except OSError as error:
            raise InvalidInput(str(address), f"cannot listen on --port: {error.strerror}") from error
        self._server = await asyncio.get_running_loop().create_server(
            lambda: ReviewConnection(self._callbacks, self._connections, self._has_connections.set),
            sock=listener,
            ssl=self._context,
            ssl_handshake_timeout=_HANDSHAKE_SECONDS if self._context else None,
            backlog=_BACKLOG,
        )
        return Address(address.host, listener.getsockname()[1])

    async def watch(self) -> None:
        """Close connections whose clients take too long, until cancelled."""
        while True:
            if not self._connections:
                self._has_connections.clear()
                await self._has_connections.wait()
            await asyncio.sleep(_TIMEOUT_CHECK_SECONDS)
            now = perf_counter()
            for connection in tuple(self._connections):
                connection.enforce_timeouts(now, self._timeouts)

    async def close(self, seconds: float = DRAIN_SECONDS) -> None:
        """Accept no new connection, and close each one with its next reply, or after this time."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.shut_down()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wait_until_closed()
        for connection in tuple(self._connections):
            connection.shut_down(immediately=True)

    async def _wait_until_closed(self) -> None:
        while self._connections:  # noqa: ASYNC110 - once, for half a second
            await asyncio.sleep(0.01)
