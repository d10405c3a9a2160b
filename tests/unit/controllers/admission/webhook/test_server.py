"""A connection answers its requests in order, enforces its timeouts, and shuts down gracefully."""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import aiohttp
import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from support import virtual_time
from support.controllers.http_streams import http_streams, split
from support.local_server import server_tls
from testbed.access.certificates import Authority
from trellis.controllers.admission.webhook.http_requests import BadRequest, HttpRequest
from trellis.controllers.admission.webhook.server import (
    ConnectionTimeouts,
    HttpReply,
    RequestTimes,
    ReviewConnection,
    ReviewServer,
    ServerCallbacks,
)
from trellis.runtime.addresses import Address

HEAD = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"


def encode_request(body: bytes, *headers: bytes) -> bytes:
    return HEAD + b"".join(h + b"\r\n" for h in headers) + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def echo(request: HttpRequest) -> HttpReply | Awaitable[HttpReply]:
    return HttpReply(200, request.body)


class RecordingTransport(asyncio.Transport):
    """A transport that records what is written and called."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.closed = self.aborted = False
        self.reading = True

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def status_lines(self) -> list[bytes]:
        return [written.partition(b"\r\n")[0] for written in self.written]

    def bodies(self) -> list[bytes]:
        return [written.partition(b"\r\n\r\n")[2] for written in self.written]


class ObservedConnection:
    """A connection with its transport, and the times that it reports."""

    def __init__(self, answer: Callable[[HttpRequest], HttpReply | Awaitable[HttpReply]] = echo) -> None:
        self.times: list[RequestTimes] = []
        self.connections: set[ReviewConnection] = set()
        callbacks = ServerCallbacks(
            answer, lambda error: HttpReply(error.status, error.message.encode()), self.times.append
        )
        self.protocol = ReviewConnection(callbacks, self.connections)
        self.transport = RecordingTransport()
        self.protocol.connection_made(self.transport)

    @property
    def reading_is_paused(self) -> bool:
        """Whether nothing more is read until a request is answered."""
        assert self.transport.reading == self.protocol.is_idle
        return not self.transport.reading


def test_pipelined_requests_are_answered_in_order() -> None:
    connection = ObservedConnection()
    connection.protocol.data_received(encode_request(b"1") + encode_request(b"2") + encode_request(b"3")[:-1])
    assert connection.transport.bodies() == [b"1", b"2"]
    connection.protocol.data_received(b"3")
    assert connection.transport.bodies() == [b"1", b"2", b"3"]
    assert [times.began <= times.read <= times.replied <= times.written for times in connection.times] == [True] * 3


def test_connection_is_closed_after_the_reply_if_the_client_asks_for_it() -> None:
    connection = ObservedConnection()
    connection.protocol.data_received(encode_request(b"1", b"Connection: close") + encode_request(b"2"))
    assert connection.transport.bodies() == [b"1"]
    assert b"Connection: close" in connection.transport.written[0]
    assert connection.transport.closed


def test_client_that_expects_continue_receives_it() -> None:
    connection = ObservedConnection()
    connection.protocol.data_received(encode_request(b"body", b"Expect: 100-continue")[:-4])
    assert connection.transport.written == [b"HTTP/1.1 100 Continue\r\n\r\n"]
    connection.protocol.data_received(b"body")
    assert connection.transport.bodies()[1:] == [b"body"]


def test_bad_request_is_refused_and_nothing_after_it_is_read() -> None:
    connection = ObservedConnection()
    connection.protocol.data_received(b"nonsense\r\n\r\n" + encode_request(b"1"))
    connection.protocol.data_received(encode_request(b"2"))
    assert connection.transport.status_lines() == [b"HTTP/1.1 400 Bad Request"]
    assert connection.transport.closed


@given(http_streams, st.lists(st.integers(0, 2000), max_size=6))
def test_any_stream_gets_one_reply_a_request_and_ends_with_a_refusal_at_most(stream: bytes, cuts: list[int]) -> None:
    connection = ObservedConnection()
    for piece in split(stream, cuts):
        connection.protocol.data_received(piece)
    replies = [line.split(b" ")[1] for line in connection.transport.status_lines()]
    final = [status for status in replies if status != b"100"]
    assert final[: len(connection.times)] == [b"200"] * len(connection.times)
    assert len(final) - len(connection.times) in (0, 1)
    refused = len(final) > len(connection.times)
    if refused:
        assert final[-1] in (b"400", b"413", b"417", b"501")
        assert b"Connection: close" in connection.transport.written[-1]
    connection.protocol.enforce_timeouts(perf_counter() + 200, ConnectionTimeouts())
    assert connection.transport.closed


def test_awaited_reply_delays_later_requests_of_its_connection_alone() -> None:
    async def main() -> None:
        gate = asyncio.Event()

        async def slow(request: HttpRequest) -> HttpReply:
            await gate.wait()
            return HttpReply(200, request.body)

        connection = ObservedConnection(
            lambda request: slow(request) if request.body == b"slow" else HttpReply(200, request.body)
        )
        connection.protocol.data_received(encode_request(b"slow") + encode_request(b"next"))
        connection.protocol.data_received(encode_request(b"last"))
        await asyncio.sleep(1)
        assert connection.transport.written == []
        assert connection.reading_is_paused
        gate.set()
        await asyncio.sleep(1)
        assert connection.transport.bodies() == [b"slow", b"next", b"last"]
        assert not connection.reading_is_paused

    virtual_time.run(main())


def test_reply_is_cancelled_when_the_client_disconnects() -> None:
    async def main() -> None:
        cancelled = asyncio.Event()

        async def slow(_request: HttpRequest) -> HttpReply:
            try:
                await asyncio.sleep(60)
            finally:
                cancelled.set()
            return HttpReply(200, b"")

        connection = ObservedConnection(slow)
        connection.protocol.data_received(encode_request(b"slow"))
        await asyncio.sleep(1)
        connection.protocol.connection_lost(None)
        await asyncio.sleep(1)
        assert cancelled.is_set()
        assert connection.transport.written == []
        assert not connection.connections

    virtual_time.run(main())


def test_nothing_is_read_from_a_client_that_does_not_read() -> None:
    connection = ObservedConnection()
    connection.protocol.pause_writing()
    connection.protocol.data_received(encode_request(b"1"))
    assert connection.transport.written == []
    assert not connection.transport.reading
    connection.protocol.resume_writing()
    assert connection.transport.bodies() == [b"1"]
    assert connection.transport.reading


def test_slow_clients_are_disconnected() -> None:
    timeouts = ConnectionTimeouts(request=10, idle=120)
    now = perf_counter()
    half = ObservedConnection()
    half.protocol.data_received(encode_request(b"body")[:-1])
    half.protocol.enforce_timeouts(now + 9, timeouts)
    assert half.transport.written == []
    half.protocol.enforce_timeouts(now + 11, timeouts)
    assert half.transport.written[0].startswith(b"HTTP/1.1 408 ")
    assert half.transport.closed

    deaf = ObservedConnection()
    deaf.protocol.pause_writing()
    deaf.protocol.enforce_timeouts(now + 11, timeouts)
    assert deaf.transport.aborted

    idle = ObservedConnection()
    idle.protocol.enforce_timeouts(now + 100, timeouts)
    assert not idle.transport.closed
    idle.protocol.enforce_timeouts(now + 130, timeouts)
    assert idle.transport.closed


def test_client_that_sends_too_large_a_body_can_read_the_refusal() -> None:
    connection = ObservedConnection()
    connection.protocol.data_received(HEAD + b"Content-Length: 9999999\r\n\r\n" + b"x" * 1000)
    connection.protocol.data_received(b"x" * 1000)
    assert connection.transport.status_lines() == [b"HTTP/1.1 413 Request Entity Too Large"]
    assert not connection.transport.closed
    connection.protocol.enforce_timeouts(perf_counter() + 2, ConnectionTimeouts())
    assert connection.transport.closed


def test_shutdown_answers_the_requests_that_have_begun() -> None:
    async def main() -> None:
        async def slow(request: HttpRequest) -> HttpReply:
            await asyncio.sleep(5)
            return HttpReply(200, request.body)

        busy, idle = ObservedConnection(slow), ObservedConnection()
        busy.protocol.data_received(encode_request(b"1"))
        await asyncio.sleep(1)
        busy.protocol.shut_down()
        idle.protocol.shut_down(immediately=True)
        assert idle.transport.closed
        assert not busy.transport.closed
        await asyncio.sleep(5)
        assert busy.transport.bodies() == [b"1"]
        assert b"Connection: close" in busy.transport.written[0]
        assert busy.transport.closed

    virtual_time.run(main())


def test_shutdown_answers_a_request_that_was_on_its_way_to_an_idle_connection() -> None:
    connection = ObservedConnection()
    connection.protocol.data_received(encode_request(b"1"))
    connection.protocol.shut_down()
    assert not connection.transport.closed
    connection.protocol.data_received(encode_request(b"2"))
    assert connection.transport.bodies() == [b"1", b"2"]
    assert b"Connection: close" in connection.transport.written[1]
    assert connection.transport.closed


def test_server_that_is_closed_does_not_wait_long_for_idle_connections() -> None:
    async def main() -> None:
        callbacks = ServerCallbacks(echo, lambda error: HttpReply(error.status, b""), lambda _times: None)
        server = ReviewServer(callbacks, None)
        address = await server.start(Address("127.0.0.1", 0))
        reader, writer = await asyncio.open_connection("127.0.0.1", address.port)
        writer.write(encode_request(b"1"))
        assert (await reader.readuntil(b"\r\n\r\n1")).startswith(b"HTTP/1.1 200 OK")
        await server.close(seconds=0.05)
        assert await reader.read() == b""
        writer.close()

    asyncio.run(main())


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_ordinary_client_over_tls(tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    authority = Authority.new("tests")
    trusted = ssl.create_default_context(cadata=authority.pair.certificate.decode())

    async def main() -> None:
        async def later(request: HttpRequest) -> HttpReply:
            await asyncio.sleep(0)
            return HttpReply(200, request.body)

        def answer(request: HttpRequest) -> HttpReply | Awaitable[HttpReply]:
            return later(request) if request.body == b"later" else HttpReply(200, request.body)

        def refuse(error: BadRequest) -> HttpReply:
            return HttpReply(error.status, b"{}")

        callbacks = ServerCallbacks(answer, refuse, lambda _times: None)
        server = ReviewServer(callbacks, server_tls(authority, tmp_path, "localhost"))
        address = await server.start(Address("127.0.0.1", 0))
        try:
            await _exercise(f"https://localhost:{address.port}/", trusted)
        finally:
            await server.close()
        assert len(server) == 0

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


async def _post(session: aiohttp.ClientSession, url: str, body: bytes) -> bytes:
    async with session.post(url, data=body) as response:
        return await response.read()


async def _exercise(url: str, trusted: ssl.SSLContext) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusted)) as session:
        for body in (b"at once", b"later", b"x" * 1_000_000):
            async with session.post(url, data=body) as response:
                assert await response.read() == body
                assert response.headers["Content-Type"] == "application/json"
        async with session.post(url, data=_parts()) as response:
            assert await response.read() == b"in pieces"
        async with session.post(url, data=b"polite", expect100=True) as response:
            assert await response.read() == b"polite"
        async with session.post(url, data=io.BytesIO(b"x" * (6 * 1024 * 1024))) as response:
            assert response.status == 413
        many = await asyncio.gather(*(_post(session, url, b"%d" % number) for number in range(50)))
        assert many == [b"%d" % number for number in range(50)]


async def _parts() -> AsyncIterator[bytes]:
    for part in (b"in ", b"pieces"):
        yield part
