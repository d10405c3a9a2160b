"""The HTTPS server of reviews: its connections, and an orderly end.

On a connection one request after the other is read and answered. An immediate answer is written in the call that read
the request; while an answer is waited for, what the client sends waits.
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
_LINES: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
_OK: Final = _LINES[200] + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
_OTHER: Final = b"%bContent-Type: application/json\r\nContent-Length: %d\r\nConnection: %b\r\n\r\n%b"


class HttpReply(msgspec.Struct, frozen=True):
    """A status of HTTP, and JSON."""

    status: int
    body: bytes


class RequestTimes(msgspec.Struct, frozen=True, gc=False):
    """When a request began to come, was read, was answered, and when the answer was on its way, in seconds."""

    began: float
    read: float
    answered: float
    written: float


class ServerCallbacks(msgspec.Struct, frozen=True):
    """Who answers. Neither may raise."""

    answer: Callable[[HttpRequest], HttpReply | Awaitable[HttpReply]]
    refuse: Callable[[BadRequest], HttpReply]
    observe: Callable[[RequestTimes], None]


class ConnectionTimeouts(msgspec.Struct, frozen=True):
    """How many seconds a client may take: for a request or for reading an answer, and between two requests.

    Go's client lets a connection rest for 90 seconds. A server that ended it sooner would now and then do so at the
    very moment at which the next review is sent.
    """

    request: float = 10.0
    rest: float = 120.0
    # Who is refused may still be sending. A socket that is closed meanwhile takes the answer along.
    farewell: float = 1.0


class ReviewConnection(asyncio.Protocol):
    """One client. It keeps itself in `others` for as long as it is open."""

    def __init__(self, service: ServerCallbacks, others: set[ReviewConnection]) -> None:
        self._service = service
        self._others = others
        self._reader = HttpRequestReader()
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._is_full = False
        self._ending = False
        self._closed = False
        self._parting = False
        self._began = self._since = perf_counter()

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is asked that is not answered."""
        return self._waiting is None and not self._is_full and not self._reader.is_within

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The client is there, and has shown that it speaks TLS."""
        # What uvloop hands over is one in all but its class.
        self._transport = cast("asyncio.Transport", transport)
        self._others.add(self)

    def connection_lost(self, _exc: Exception | None) -> None:
        """The client is gone."""
        self._others.discard(self)
        self._transport = None
        if self._waiting is not None:
            self._waiting.cancel()

    def data_received(self, data: bytes) -> None:
        """More bytes have come."""
        if self._closed:
            return
        if not self._reader.is_within:
            self._began = self._since = perf_counter()
        self._reader.feed(data)
        if self._waiting is None and not self._is_full:
            self._go_on()
        elif self._transport is not None:
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """The client does not read what it is told, and so is not asked what else it wants."""
        self._is_full = True
        self._since = perf_counter()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._is_full = False
        self._resume()

    def end(self, *, at_once: bool = False) -> None:
        """Close now, or once the request that has begun is answered."""
        self._ending = True
        if at_once or self._parting or self.is_at_rest:
            self._close()

    def check(self, now: float, patience: ConnectionTimeouts) -> None:
        """End a connection whose client takes too long."""
        if self._transport is None or self._waiting is not None:
            return
        taken = now - self._since
        if self._parting:
            if taken > patience.farewell:
                self._close()
            return
        if self._is_full and taken > patience.request:
            self._transport.abort()
        elif self._reader.is_within and taken > patience.request:
            self._refuse(BadRequest(408, f"the request took longer than {patience.request:g} s"))
        elif taken > patience.rest:
            self.end()

    def _go_on(self) -> None:
        """Answer what there is to answer."""
        while self._waiting is None and not self._is_full and not self._closed and self._transport is not None:
            try:
                request = self._reader.take()
            except BadRequest as error:
                self._refuse(error)
                return
            if request is None:
                if self._reader.wants_continue:
                    self._transport.write(_CONTINUE)
                return
            read = perf_counter()
            reply = self._service.answer(request)
            if isinstance(reply, HttpReply):
                self._write(request, reply, read)
            else:
                self._waiting = asyncio.create_task(self._wait(request, reply, read), name="review")

    async def _wait(self, request: HttpRequest, reply: Awaitable[HttpReply], read: float) -> None:
        answered = await reply
        self._waiting = None
        self._write(request, answered, read)
        self._resume()

    def _write(self, request: HttpRequest, reply: HttpReply, read: float) -> None:
        answered = perf_counter()
        stays = request.head.keep_alive and not self._ending
        if self._transport is not None:
            if stays and reply.status == HTTPStatus.OK:
                self._transport.write(_OK % (len(reply.body), reply.body))
            else:
                self._write_other(reply, stays=stays)
        written = perf_counter()
        self._service.observe(RequestTimes(self._began, read, answered, written))
        self._began = self._since = written

    def _write_other(self, reply: HttpReply, *, stays: bool) -> None:
        if self._transport is not None:
            word = b"keep-alive" if stays else b"close"
            self._transport.write(_OTHER % (_LINES[reply.status], len(reply.body), word, reply.body))
            if self._parting:
                self._closed = True
                self._since = perf_counter()
            elif not stays:
                self._close()

    def _refuse(self, error: BadRequest) -> None:
        self._parting = error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        self._write_other(self._service.refuse(error), stays=False)

    def _close(self) -> None:
        self._closed = True
        if self._transport is not None:
            self._transport.close()

    def _resume(self) -> None:
        self._go_on()
        if self._waiting is None and not self._is_full and not self._closed and self._transport is not None:
            self._transport.resume_reading()


# Who opens a connection and then says nothing must not keep it.
_HANDSHAKE_SECONDS: Final = 10.0
# API servers open one connection for each pod that is made at the same moment, all at once.
_BACKLOG: Final = 1024
_LOOK_SECONDS: Final = 1.0
# As long as a process has to end in order, less what it takes to unwind.
DRAIN_SECONDS: Final = 0.5


class ReviewServer:
    """All connections. Requests that have begun are answered before `close` returns, if that does not take long."""

    def __init__(
        self, service: ServerCallbacks, context: ssl.SSLContext | None, patience: ConnectionTimeouts | None = None
    ) -> None:
        self._service = service
        self._context = context
        self._patience = patience or ConnectionTimeouts()
        self._connections: set[ReviewConnection] = set()
        self._server: asyncio.Server | None = None

    def __len__(self) -> int:
        return len(self._connections)

    async def start(self, address: Address) -> Address:
        """Listen; the value is the address, with the port that was found for port 0."""
        try:
            listening = address.listen()
        except OSError as error:
            raise InvalidInput(str(address), f"cannot listen on --port: {error.strerror}") from error
        self._server = await asyncio.get_running_loop().create_server(
            lambda: ReviewConnection(self._service, self._connections),
            sock=listening,
            ssl=self._context,
            ssl_handshake_timeout=_HANDSHAKE_SECONDS if self._context else None,
            backlog=_BACKLOG,
        )
        return Address(address.host, listening.getsockname()[1])

    async def watch(self) -> None:
        """End connections whose clients take too long, until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            now = perf_counter()
            for connection in tuple(self._connections):
                connection.check(now, self._patience)

    async def close(self, seconds: float = DRAIN_SECONDS) -> None:
        """Take no new connection and no new request, answer the rest, and end what is left after so many seconds."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.end()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._all_gone()
        for connection in tuple(self._connections):
            connection.end(at_once=True)

    async def _all_gone(self) -> None:
        while self._connections:  # noqa: ASYNC110 - for half a second, once in a life
            await asyncio.sleep(0.01)
