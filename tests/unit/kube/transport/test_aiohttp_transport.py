"""The real transport, against servers on this machine that do what servers do."""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from support.local_server import Handler, Talk, proxying, read_head, server_tls, serving, talking
from testbed.access.certificates import Authority
from trellis import __version__
from trellis.base.errors import BadKubeconfig, Expired, KubeError, ServerFault, Throttled, Unauthorized, Unreachable
from trellis.kube.auth.connection import ClientCertificate, Connection, Impersonation, Login
from trellis.kube.auth.credentials import FixedCredentials, Identity
from trellis.kube.client import Client
from trellis.kube.resources import PODS
from trellis.kube.transport.aiohttp_transport import AiohttpTransport
from trellis.kube.transport.requests import Request, build_list
from trellis.testing.scripted_transport import error_response, status_object, watch_line

AUTHORITY = Authority.new("test-ca")
GET = Request("GET", "/version")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def _connection(server: str, **fields: Any) -> Connection:
    return Connection(server=server, source="a test", **fields)


def _trusting(server: str, **fields: Any) -> Connection:
    return _connection(server, authority=AUTHORITY.pair.certificate, **fields)


@asynccontextmanager
async def _transport(connection: Connection, **options: Any) -> AsyncIterator[AiohttpTransport]:
    transport = AiohttpTransport(connection, environment={}, **options)
    try:
        yield transport
    finally:
        await transport.close()


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


async def _hang() -> None:
    await asyncio.Event().wait()


async def _echo(request: web.BaseRequest) -> web.StreamResponse:
    return web.json_response(
        {
            "path": request.raw_path,
            "headers": [[name, value] for name, value in request.headers.items()],
            "body": (await request.read()).decode(),
        }
    )


def _echoed(request: Request, **fields: Any) -> dict[str, Any]:
    async def main() -> dict[str, Any]:
        async with serving(_echo) as url, _transport(_connection(url, **fields)) as transport:
            echo: dict[str, Any] = msgspec.json.decode((await transport.send(request)).body)
            return echo

    return asyncio.run(main())


def test_a_request_arrives_as_it_was_built() -> None:
    query = (("labelSelector", "app in (web,api),tier!=db"), ("continue", "a+b/c=="))
    echo = _echoed(Request("PATCH", "/api/v1/nodes/n%2F1", query, {"Content-Type": "x/y"}, b"{}"))
    assert echo["path"] == (
        "/api/v1/nodes/n%2F1?labelSelector=app%20in%20%28web%2Capi%29%2Ctier%21%3Ddb&continue=a%2Bb%2Fc%3D%3D"
    )
    assert echo["body"] == "{}"
    headers = {name.lower(): value for name, value in echo["headers"]}
    assert headers["content-type"] == "x/y"
    assert headers["user-agent"] == f"trellis/{__version__}"
    assert "authorization" not in headers


def test_token_and_impersonation_are_sent_with_every_value() -> None:
    echo = _echoed(GET, login=Login(token="t0"), impersonation=Impersonation("jane", groups=("dev", "ops")))  # noqa: S106
    headers = [tuple(header) for header in echo["headers"]]
    assert ("Authorization", "Bearer t0") in headers
    assert [value for name, value in headers if name == "Impersonate-Group"] == ["dev", "ops"]


def test_names_of_headers_come_back_in_lower_case_and_errors_as_responses() -> None:
    async def refuse(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=429, headers={"Retry-After": "7"}, body=error_response(429, "TooManyRequests").body)

    async def main() -> KubeError:
        async with serving(refuse) as url, _transport(_connection(url)) as transport:
            response = await transport.send(GET)
            assert (response.status, response.headers["retry-after"]) == (429, "7")
            with pytest.raises(Throttled) as caught:
                await Client(transport).get(PODS, "a", "shop")
            return caught.value

    assert asyncio.run(main()).retry_after == 7.0


def test_a_list_is_asked_for_compressed_and_read_decompressed() -> None:
    body = msgspec.json.encode({"items": [{"metadata": {"name": "a"}}] * 20_000})
    asked: list[str] = []

    async def compressed(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.headers["Accept-Encoding"])
        return web.Response(body=gzip.compress(body), headers={"Content-Encoding": "gzip"})

    async def main() -> bytes:
        async with serving(compressed) as url, _transport(_connection(url)) as transport:
            return (await transport.send(build_list(PODS))).body

    assert asyncio.run(main()) == body
    assert asked == ["gzip"]


def test_a_body_whose_compression_is_broken_is_a_fault_of_the_server() -> None:
    async def broken(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=b"not gzip at all", headers={"Content-Encoding": "gzip"})

    async def main() -> None:
        async with serving(broken) as url, _transport(_connection(url)) as transport:
            with pytest.raises(ServerFault, match="not validly compressed"):
                await transport.send(build_list(PODS))

    asyncio.run(main())


def test_a_redirect_is_not_followed_with_the_token() -> None:
    visited: list[str] = []

    async def elsewhere(request: web.BaseRequest) -> web.StreamResponse:
        visited.append(request.path)
        return web.Response(status=302, headers={"Location": "/stolen"})

    async def main() -> int:
        async with serving(elsewhere) as url, _transport(_connection(url)) as transport:
            return (await transport.send(GET)).status

    assert (asyncio.run(main()), visited) == (302, ["/version"])


def test_requests_share_a_connection() -> None:
    ports: set[Any] = set()

    async def note(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername"))
        return web.Response(body=b"{}")

    async def main() -> None:
        async with serving(note) as url, _transport(_connection(url)) as transport:
            for _ in range(3):
                await transport.send(GET)

    asyncio.run(main())
    assert len(ports) == 1


# --- TLS ---


def _over_tls(tls: Any, connect: Callable[[str], Connection], handler: Handler = _echo) -> int:
    async def main() -> int:
        async with serving(handler, tls) as url, _transport(connect(url)) as transport:
            return (await transport.send(GET)).status

    return asyncio.run(main())


def test_a_server_is_trusted_by_the_authority_given_and_by_no_other(tmp_path: Path) -> None:
    tls = server_tls(AUTHORITY, tmp_path, "127.0.0.1")
    assert _over_tls(tls, _trusting) == 200
    other = Authority.new("other-ca").pair.certificate
    with pytest.raises(Unreachable, match="certificate that is not trusted"):
        _over_tls(tls, lambda url: _connection(url, authority=other))
    with pytest.raises(Unreachable, match="certificate that is not trusted"):
        _over_tls(tls, _connection)


def test_a_certificate_for_another_name_is_refused_unless_that_name_is_expected(tmp_path: Path) -> None:
    tls = server_tls(AUTHORITY, tmp_path, "api.internal")
    with pytest.raises(Unreachable, match="IP address mismatch"):
        _over_tls(tls, _trusting)
    assert _over_tls(tls, lambda url: _trusting(url, tls_server_name="api.internal")) == 200


def test_verification_can_be_turned_off_and_only_by_saying_so(tmp_path: Path) -> None:
    tls = server_tls(AUTHORITY, tmp_path, "api.internal")
    assert _over_tls(tls, lambda url: _connection(url, insecure=True)) == 200


def test_a_client_certificate_is_shown_and_no_key_is_left_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    names: list[Any] = []

    async def who(request: web.BaseRequest) -> web.StreamResponse:
        assert request.transport is not None
        names.append(request.transport.get_extra_info("peercert")["subject"][-1][0][1])
        return web.Response(body=b"{}")

    pair = AUTHORITY.issue_client("jane")
    login = Login(certificate=ClientCertificate(pair.certificate, pair.key))
    tls = server_tls(AUTHORITY, tmp_path, "127.0.0.1", clients=AUTHORITY)
    assert _over_tls(tls, lambda url: _trusting(url, login=login), who) == 200
    assert names == ["jane"]
    assert list(scratch.iterdir()) == []
    with pytest.raises(Unreachable):
        _over_tls(tls, _trusting, who)


@pytest.mark.parametrize(
    "fields",
    [{"authority": b"no PEM"}, {"login": Login(certificate=ClientCertificate(b"no PEM", b"no PEM"))}],
    ids=["authority", "certificate"],
)
def test_invalid_certificates_are_refused_at_construction(fields: dict[str, Any]) -> None:
    with pytest.raises(BadKubeconfig, match=r"a test.*certificate"):
        AiohttpTransport(_connection("https://127.0.0.1:1", **fields), environment={})


# --- streams ---


def _lines_of(talk: Talk, *, seconds: float | None = None) -> tuple[list[bytes], str]:
    """What a stream gives out, and how it ends."""

    async def main() -> tuple[list[bytes], str]:
        got: list[bytes] = []
        async with talking(talk) as url, _transport(_connection(url)) as transport:
            try:
                async with transport.stream(Request("GET", "/watch", timeout=seconds)) as stream:
                    async for line in stream.lines():
                        got.append(line)  # noqa: PERF401 - what came before an error is kept
            except Unreachable as error:
                return got, str(error)
        return got, ""

    return asyncio.run(main())


def _saying(*parts: bytes, then: Callable[[asyncio.StreamWriter], Awaitable[None]] | None = None) -> Talk:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        for part in (HEAD, *parts):
            writer.write(part)
            await writer.drain()
        if then:
            await then(writer)

    return talk


def test_lines_are_complete_for_any_chunks_and_length() -> None:
    long = b"x" * 3_000_000
    talk = _saying(_chunk(b"one\ntw"), _chunk(b"o\n" + long[:9]), _chunk(long[9:]), _chunk(b"\n"), _chunk(b""))
    assert _lines_of(talk) == ([b"one", b"two", long], "")


async def _reset(writer: asyncio.StreamWriter) -> None:
    # With no time to linger, closing a socket resets the connection instead of ending it.
    raw = writer.get_extra_info("socket")
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def test_a_reset_in_the_middle_of_a_line_is_raised_after_the_lines_before_it() -> None:
    async def reset_when_read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _saying(_chunk(b"one\ntwo-is-half"))(reader, writer)
        await _reset(writer)

    lines, end = _lines_of(reset_when_read)
    # The reset may overtake what was sent before it; what is given out is whole in any case.
    assert lines in ([], [b"one"])
    assert "closed the connection in the middle of a stream" in end


def test_a_connection_that_closes_before_the_stream_has_ended_is_no_end() -> None:
    lines, end = _lines_of(_saying(_chunk(b"one\n")))
    assert lines == [b"one"]
    assert "closed the connection" in end


def test_a_stream_that_ends_in_order_but_in_the_middle_of_a_line_is_broken_too() -> None:
    lines, end = _lines_of(_saying(_chunk(b"one\ntwo-is-half"), _chunk(b"")))
    assert lines == [b"one"]
    assert "middle of a line" in end


def test_a_stream_that_falls_silent_ends_when_its_time_is_up() -> None:
    async def silence(writer: asyncio.StreamWriter) -> None:
        await _hang()

    lines, end = _lines_of(_saying(_chunk(b"one\n"), then=silence), seconds=0.1)
    assert lines == [b"one"]
    assert "stopped answering in the middle of a response" in end


@pytest.mark.parametrize("verb", ["send", "stream"])
def test_a_server_without_a_response_times_out(verb: str) -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        await _hang()

    async def main() -> None:
        async with talking(mute) as url, _transport(_connection(url), response_seconds=0.05) as transport:
            if verb == "send":
                await transport.send(GET)
            else:
                async with transport.stream(GET):
                    pass

    with pytest.raises(Unreachable, match=r"did not answer within 0\.05 s"):
        asyncio.run(main())


def test_a_refused_connection_is_reported_with_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

    async def main() -> None:
        async with _transport(_connection(f"http://127.0.0.1:{port}")) as transport:
            await transport.send(GET)

    with pytest.raises(Unreachable, match=rf"http://127.0.0.1:{port} cannot be reached: .*refused") as caught:
        asyncio.run(main())
    assert caught.value.__cause__ is not None


def test_leaving_a_watch_closes_its_connection() -> None:
    async def main() -> None:
        closed = asyncio.Event()

        async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _saying(_chunk(watch_line("ADDED", {"metadata": {"name": "a"}}) + b"\n"))(reader, writer)
            await reader.read()
            closed.set()

        async with talking(endless) as url, _transport(_connection(url)) as transport:
            async with Client(transport).watch(PODS) as events:
                async for event in events:
                    assert event.object is not None
                    break
            await asyncio.wait_for(closed.wait(), 60)

    asyncio.run(main())


def test_a_refused_watch_raises_the_servers_error_even_without_a_line_end() -> None:
    async def refuse(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(status_object(410, "Expired", "too old resource version"), status=410)

    async def main() -> None:
        async with (
            serving(refuse) as url,
            _transport(_connection(url)) as transport,
            Client(transport).watch(PODS, resource_version="1"),
        ):
            pass

    with pytest.raises(Expired, match="too old resource version"):
        asyncio.run(main())


# --- credentials and proxies ---


class _Rotating:
    """Credentials whose first token is stale."""

    def __init__(self, *tokens: str) -> None:
        self._tokens = list(tokens)

    async def identity(self) -> Identity:
        return Identity(self._tokens[0])

    async def renew(self, refused: Identity) -> bool:
        assert refused.token == self._tokens.pop(0)
        return bool(self._tokens)


def _asked_with(*tokens: str) -> tuple[int, list[str]]:
    headers: list[str] = []

    async def guarded(request: web.BaseRequest) -> web.StreamResponse:
        headers.append(request.headers["Authorization"])
        return web.Response(status=200 if headers[-1] == "Bearer good" else 401, body=b"{}")

    async def main() -> int:
        async with (
            serving(guarded) as url,
            _transport(_connection(url), credentials=_Rotating(*tokens)) as transport,
            transport.stream(GET) as stream,
        ):
            return stream.status

    return asyncio.run(main()), headers


def test_refused_credentials_are_renewed_and_retried_once() -> None:
    assert _asked_with("stale", "good") == (200, ["Bearer stale", "Bearer good"])


def test_credentials_refused_twice_raise_unauthorized() -> None:
    assert _asked_with("stale", "bad", "good") == (401, ["Bearer stale", "Bearer bad"])


def test_a_credential_plugin_with_an_unusable_certificate_is_unauthorized() -> None:
    broken = FixedCredentials(Identity(certificate=ClientCertificate(b"no PEM", b"no PEM")))

    async def main() -> None:
        async with _transport(_connection("https://127.0.0.1:1"), credentials=broken) as transport:
            await transport.send(GET)

    with pytest.raises(Unauthorized, match="client certificate"):
        asyncio.run(main())


def test_a_proxy_gets_only_a_connect_request(tmp_path: Path) -> None:
    lines: list[str] = []
    tls = server_tls(AUTHORITY, tmp_path, "127.0.0.1")

    async def main() -> tuple[int, str]:
        async with serving(_echo, tls) as url, talking(proxying(lines)) as proxy:
            connection = _trusting(url, proxy=proxy, login=Login(token="t0"))  # noqa: S106
            async with _transport(connection) as transport:
                return (await transport.send(GET)).status, url.removeprefix("https://")

    status, address = asyncio.run(main())
    assert status == 200
    assert len(lines) == 1
    assert lines[0].startswith(f"CONNECT {address} ")
    assert "t0" not in lines[0]


def test_a_transport_can_be_closed_twice_and_before_its_first_request() -> None:
    async def main() -> None:
        transport = AiohttpTransport(_connection("http://127.0.0.1:1"), environment={})
        await transport.close()
        await transport.close()

    asyncio.run(main())


def test_a_proxy_that_is_down_or_refuses_is_named_as_the_culprit(tmp_path: Path) -> None:
    async def no(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_head(reader)
        writer.write(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()

    async def main() -> list[str]:
        messages = []
        async with talking(no) as refusing:
            for proxy in (refusing, "http://127.0.0.1:1"):
                async with _transport(_trusting("https://api.internal", proxy=proxy)) as transport:
                    with pytest.raises(Unreachable) as caught:
                        await transport.send(GET)
                    messages.append(str(caught.value))
        return messages

    refused, down = asyncio.run(main())
    assert "behind a proxy that refuses: 407" in refused
    assert "behind a proxy that cannot be reached: Connection refused" in down
