"""A connection answers one request after the other, waits for nobody for ever, and ends in order."""

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

from support import virtual_time
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


def asked(body: bytes, *headers: bytes) -> bytes:
    return HEAD + b"".join(h + b"\r\n" for h in headers) + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def echo(request: HttpRequest) -> HttpReply | Awaitable[HttpReply]:
    return HttpReply(200, request.body)


class Line(asyncio.Transport):
    """A transport that remembers."""

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

    def bodies(self) -> list[bytes]:
        return [each.partition(b"\r\n\r\n")[2] for each in self.written]


class Talk:
    """One connection and everything that was observed of it."""

    def __init__(self, answer: Callable[[HttpRequest], HttpReply | Awaitable[HttpReply]] = echo) -> None:
        self.times: list[RequestTimes] = []
        self.others: set[ReviewConnection] = set()
        service = ServerCallbacks(answer, lambda error: HttpReply(error.status, error.why.encode()), self.times.append)
        self.connection = ReviewConnection(service, self.others)
        self.line = Line()
        self.connection.connection_made(self.line)

    @property
    def stands_still(self) -> bool:
        """Whether nothing more is read, because something is to be answered first."""
        assert self.line.reading == self.connection.is_at_rest
        return not self.line.reading


def test_requests_that_come_together_are_answered_in_order() -> None:
    talk = Talk()
    talk.connection.data_received(asked(b"1") + asked(b"2") + asked(b"3")[:-1])
    assert talk.line.bodies() == [b"1", b"2"]
    talk.connection.data_received(b"3")
    assert talk.line.bodies() == [b"1", b"2", b"3"]
    assert [each.began <= each.read <= each.answered <= each.written for each in talk.times] == [True] * 3


def test_connection_ends_after_the_answer_if_the_client_wants_that() -> None:
    talk = Talk()
    talk.connection.data_received(asked(b"1", b"Connection: close") + asked(b"2"))
    assert talk.line.bodies() == [b"1"]
    assert b"Connection: close" in talk.line.written[0]
    assert talk.line.closed


def test_client_that_expects_it_is_told_to_go_on() -> None:
    talk = Talk()
    talk.connection.data_received(asked(b"body", b"Expect: 100-continue")[:-4])
    assert talk.line.written == [b"HTTP/1.1 100 Continue\r\n\r\n"]
    talk.connection.data_received(b"body")
    assert talk.line.bodies()[1:] == [b"body"]


def test_what_is_no_request_is_refused_and_nothing_after_it_is_read() -> None:
    talk = Talk()
    talk.connection.data_received(b"nonsense\r\n\r\n" + asked(b"1"))
    talk.connection.data_received(asked(b"2"))
    assert [each.partition(b"\r\n")[0] for each in talk.line.written] == [b"HTTP/1.1 400 Bad Request"]
    assert talk.line.closed


def test_answer_that_has_to_be_waited_for_holds_up_what_follows_on_its_connection_alone() -> None:
    async def main() -> None:
        gate = asyncio.Event()

        async def slow(request: HttpRequest) -> HttpReply:
            await gate.wait()
            return HttpReply(200, request.body)

        talk = Talk(lambda request: slow(request) if request.body == b"slow" else HttpReply(200, request.body))
        talk.connection.data_received(asked(b"slow") + asked(b"next"))
        talk.connection.data_received(asked(b"last"))
        await asyncio.sleep(1)
        assert talk.line.written == []
        assert talk.stands_still
        gate.set()
        await asyncio.sleep(1)
        assert talk.line.bodies() == [b"slow", b"next", b"last"]
        assert not talk.stands_still

    virtual_time.run(main())


def test_client_that_goes_away_is_not_answered() -> None:
    async def main() -> None:
        ended = asyncio.Event()

        async def slow(_request: HttpRequest) -> HttpReply:
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()
            return HttpReply(200, b"")

        talk = Talk(slow)
        talk.connection.data_received(asked(b"slow"))
        await asyncio.sleep(1)
        talk.connection.connection_lost(None)
        await asyncio.sleep(1)
        assert ended.is_set()
        assert talk.line.written == []
        assert not talk.others

    virtual_time.run(main())


def test_client_that_does_not_read_is_not_asked_for_more() -> None:
    talk = Talk()
    talk.connection.pause_writing()
    talk.connection.data_received(asked(b"1"))
    assert talk.line.written == []
    assert not talk.line.reading
    talk.connection.resume_writing()
    assert talk.line.bodies() == [b"1"]
    assert talk.line.reading


def test_slow_clients_are_given_up() -> None:
    patience = ConnectionTimeouts(request=10, rest=120)
    now = perf_counter()
    half = Talk()
    half.connection.data_received(asked(b"body")[:-1])
    half.connection.check(now + 9, patience)
    assert half.line.written == []
    half.connection.check(now + 11, patience)
    assert half.line.written[0].startswith(b"HTTP/1.1 408 ")
    assert half.line.closed

    deaf = Talk()
    deaf.connection.pause_writing()
    deaf.connection.check(now + 11, patience)
    assert deaf.line.aborted

    idle = Talk()
    idle.connection.check(now + 100, patience)
    assert not idle.line.closed
    idle.connection.check(now + 130, patience)
    assert idle.line.closed


def test_client_that_sends_too_much_can_still_read_that_it_does() -> None:
    talk = Talk()
    talk.connection.data_received(HEAD + b"Content-Length: 9999999\r\n\r\n" + b"x" * 1000)
    talk.connection.data_received(b"x" * 1000)
    assert [each.partition(b"\r\n")[0] for each in talk.line.written] == [b"HTTP/1.1 413 Request Entity Too Large"]
    assert not talk.line.closed
    talk.connection.check(perf_counter() + 2, ConnectionTimeouts())
    assert talk.line.closed


def test_end_lets_what_is_asked_be_answered() -> None:
    async def main() -> None:
        async def slow(request: HttpRequest) -> HttpReply:
            await asyncio.sleep(5)
            return HttpReply(200, request.body)

        busy, idle = Talk(slow), Talk()
        busy.connection.data_received(asked(b"1"))
        await asyncio.sleep(1)
        busy.connection.end()
        idle.connection.end()
        assert idle.line.closed
        assert not busy.line.closed
        await asyncio.sleep(5)
        assert busy.line.bodies() == [b"1"]
        assert b"Connection: close" in busy.line.written[0]
        assert busy.line.closed

    virtual_time.run(main())


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

        service = ServerCallbacks(answer, refuse, lambda _times: None)
        server = ReviewServer(service, server_tls(authority, tmp_path, "localhost"))
        where = await server.start(Address("127.0.0.1", 0))
        try:
            await _talk(f"https://localhost:{where.port}/", trusted)
        finally:
            await server.close()
        assert len(server) == 0

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


async def _posted(session: aiohttp.ClientSession, url: str, body: bytes) -> bytes:
    async with session.post(url, data=body) as response:
        return await response.read()


async def _talk(url: str, trusted: ssl.SSLContext) -> None:
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
        many = await asyncio.gather(*(_posted(session, url, b"%d" % number) for number in range(50)))
        assert many == [b"%d" % number for number in range(50)]


async def _parts() -> AsyncIterator[bytes]:
    for part in (b"in ", b"pieces"):
        yield part
