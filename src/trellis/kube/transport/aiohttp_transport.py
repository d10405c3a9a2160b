"""The transport to a real API server, on aiohttp.

One session for everything. The pool of connections has no limit of its own: watches hold theirs for minutes, and the
writer bounds how much is written at once. Nothing is retried here but a request whose credentials were refused.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from trellis import __version__
from trellis.base.errors import BadKubeconfig, ServerFault, Unauthorized, Unreachable
from trellis.kube.auth.connection import ClientCertificate, Connection, Login
from trellis.kube.auth.credentials import Credentials, FixedCredentials, Identity, TokenFile
from trellis.kube.auth.exec_plugin import ExecPlugin
from trellis.kube.transport.protocol import Stream
from trellis.kube.transport.proxies import find_proxy
from trellis.kube.transport.requests import Request
from trellis.kube.transport.responses import Response
from trellis.kube.transport.sessions import NETWORK_FAILURES, close_session, describe_failure
from trellis.kube.transport.tls import make_tls_context
from trellis.kube.watch.watch_events import LineSplitter

CONNECT_SECONDS: Final = 10.0
# For a whole response, and for the head of a stream: half of what the API server gives a request.
RESPONSE_SECONDS: Final = 30.0
# Go's idle time. aiohttp's own 15 s would make a new TLS connection for each lap of a slow loop.
KEEP_ALIVE_SECONDS: Final = 90.0

# zlib's `wbits` for the header and checksum of gzip.
_GZIP: Final = 31


def wall_clock() -> datetime:
    """The time of day, for credentials that expire at one."""
    return datetime.now(UTC)


def build_credentials(login: Login, now: Callable[[], datetime] = wall_clock) -> Credentials:
    """The source of identities that a login describes."""
    if login.token_file:
        return TokenFile(Path(login.token_file), login.certificate)
    if login.plugin:
        return ExecPlugin(login.plugin, now)
    return FixedCredentials(Identity(login.token, login.certificate))


class AiohttpTransport:
    """HTTP/1.1 over TLS to the server of one connection. Construct and use it within one event loop."""

    def __init__(
        self,
        connection: Connection,
        credentials: Credentials | None = None,
        *,
        environment: Mapping[str, str] = os.environ,
        connect_seconds: float = CONNECT_SECONDS,
        response_seconds: float = RESPONSE_SECONDS,
    ) -> None:
        self._connection = connection
        self._credentials = credentials or build_credentials(connection.login)
        self._proxy = connection.proxy or find_proxy(environment, connection.server)
        self._connect_seconds = connect_seconds
        self._response_seconds = response_seconds
        self._session: aiohttp.ClientSession | None = None
        # Built at once, so that an unusable certificate is found when the program starts.
        self._tls = (connection.login.certificate, make_tls_context(connection, connection.login.certificate))

    async def send(self, request: Request) -> Response:
        """The whole response, decompressed."""
        seconds = request.timeout or self._response_seconds
        try:
            async with await self._open(request, seconds, seconds) as response:
                headers = _lower_names(response.headers)
                return Response(response.status, headers, _decompress(await response.read(), headers))
        except NETWORK_FAILURES as error:
            raise self._build_unreachable(error, seconds) from error

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Stream]:
        """The response as it arrives. `request.timeout` bounds the whole stream; the head has its own timeout."""
        try:
            response = await self._open(request, self._response_seconds, request.timeout)
        except NETWORK_FAILURES as error:
            raise self._build_unreachable(error, self._response_seconds) from error
        connection = _get_connection(response)
        if connection:
            _enable_keepalive(connection)
        try:
            yield _AiohttpStream(response, self._connection.server)
        finally:
            _abort(response)

    async def close(self) -> None:
        """Close every connection, streams included, without waiting for responses."""
        session, self._session = self._session, None
        if session is not None:
            await close_session(session)

    async def _open(self, request: Request, head: float, total: float | None) -> aiohttp.ClientResponse:
        """The response's head, within `head` seconds. Refused credentials are renewed and tried once more."""
        identity = await self._credentials.identity()
        response = await self._send_once(request, identity, head, total)
        if response.status == 401 and await self._credentials.renew(identity):
            response.release()
            response = await self._send_once(request, await self._credentials.identity(), head, total)
        return response

    async def _send_once(
        self, request: Request, identity: Identity, head: float, total: float | None
    ) -> aiohttp.ClientResponse:
        query = f"?{urlencode(request.query, quote_via=quote)}" if request.query else ""
        headers = [*request.headers.items(), *self._connection.impersonation.headers()]
        if identity.token:
            headers.append(("Authorization", f"Bearer {identity.token}"))
        async with asyncio.timeout(head):
            return await self._get_session().request(
                request.method,
                URL(f"{self._connection.server}{request.path}{query}", encoded=True),
                headers=headers,
                data=request.body,
                ssl=self._get_tls_context(identity.certificate),
                server_hostname=self._connection.tls_server_name or None,
                proxy=self._proxy or None,
                timeout=aiohttp.ClientTimeout(total=total, sock_connect=self._connect_seconds),
                # The API server does not redirect, and a token must not be sent to another server.
                allow_redirects=False,
            )

    def _get_session(self) -> aiohttp.ClientSession:
        """The session, opened with the first request, because it belongs to the running event loop."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS),
                headers={"User-Agent": f"trellis/{__version__}", "Accept-Encoding": "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
                # Decompressing in one piece takes two thirds of the time: see `_decompress`.
                auto_decompress=False,
            )
        return self._session

    def _get_tls_context(self, certificate: ClientCertificate | None) -> ssl.SSLContext:
        """One context per certificate. Connections are pooled by it, so a new certificate means new connections."""
        if self._tls[0] != certificate:
            try:
                self._tls = (certificate, make_tls_context(self._connection, certificate))
            except BadKubeconfig as error:
                # Only a plug-in changes the certificate. Its next one may be valid.
                raise Unauthorized(0, "NoCredentials", str(error)) from error
        return self._tls[1]

    def _build_unreachable(self, error: Exception, seconds: float) -> Unreachable:
        return Unreachable(f"{self._connection.server} {describe_failure(error, seconds)}")


class _AiohttpStream:
    """The lines of one response."""

    def __init__(self, response: aiohttp.ClientResponse, server: str) -> None:
        self.status = response.status
        self.headers = _lower_names(response.headers)
        self._content = response.content
        self._server = server

    async def lines(self) -> AsyncIterator[bytes]:
        """Whole lines of any length."""
        splitter = LineSplitter()
        try:
            while chunk := await self._content.readany():
                for line in splitter.feed(chunk):
                    yield line
        except NETWORK_FAILURES as error:
            raise Unreachable(f"{self._server} {describe_failure(error, None)} in the middle of a stream") from error
        rest = splitter.rest()
        if rest and self.status == 200:
            raise Unreachable(f"{self._server} ended the stream in the middle of a line")
        if rest:
            yield rest


def _get_connection(response: aiohttp.ClientResponse) -> asyncio.Transport | None:
    """The connection under a response; none if the response has been read to its end."""
    return response.connection.transport if response.connection else None


def _abort(response: aiohttp.ClientResponse) -> None:
    """End the connection, unless the response is at its end and the connection back in the pool.

    There is no TLS shutdown: the API server is in the middle of a watch and would not answer it, and TLS would wait for
    that beyond the end of the program.
    """
    connection = _get_connection(response)
    response.close()
    if connection:
        connection.abort()


def _enable_keepalive(connection: asyncio.Transport) -> None:
    """Enable TCP keepalive: a peer that is gone without closing the connection is noticed within 30 s.

    Otherwise a watch whose server lost power looks for minutes like a cluster without changes.
    """
    raw_socket: socket.socket | None = connection.get_extra_info("socket")
    if raw_socket is None or raw_socket.family not in (socket.AF_INET, socket.AF_INET6):
        return
    raw_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    # Idle for 15 s, then three probes 5 s apart. macOS has no name for the first.
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            raw_socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _decompress(body: bytes, headers: Mapping[str, str]) -> bytes:
    """The decompressed body. A page of pods grows to twelve times its size, so the buffer starts at that."""
    if headers.get("content-encoding") != "gzip" or not body:
        return body
    try:
        return zlib.decompress(body, wbits=_GZIP, bufsize=len(body) * 12)
    except zlib.error as error:
        raise ServerFault(0, "BrokenBody", f"the response is not validly compressed: {error}") from error


def _lower_names(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}
