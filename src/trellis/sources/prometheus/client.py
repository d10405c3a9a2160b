"""The client of one Prometheus: one query in, its series out, with credentials, retries and limits.

A query that fails for a transient reason (no connection, 5xx, 429) is retried a few times. A query for too much is not,
because it would fail again: the caller gets an error and queries less. Credentials are a bearer
token or a user name and a password; token and password may come from a file that may change.
"""

from __future__ import annotations

import asyncio
import os
import random
import ssl
from base64 import b64encode
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeAlias, TypeVar

import aiohttp
from yarl import URL

from trellis import __version__
from trellis.base.errors import (
    BadKubeconfig,
    InvalidInput,
    PrometheusLimitExceeded,
    PrometheusRefused,
    PrometheusUnreachable,
    Unauthorized,
)
from trellis.kube.auth.connection import Connection
from trellis.kube.auth.credentials import Credentials, FixedCredentials, Identity, TokenFile
from trellis.kube.flow_control import Draw, RetryBackoff
from trellis.kube.transport.proxies import find_proxy
from trellis.kube.transport.sessions import NETWORK_FAILURES, close_session, describe_failure
from trellis.kube.transport.tls import make_tls_context
from trellis.sources.prometheus.responses import (
    QueryResult,
    build_refusal,
    is_temporary,
    read_label_sets,
    read_query_result,
    retry_after,
)
from trellis.sources.prometheus.settings import PrometheusSettings


class PrometheusCredentials:
    """Credentials in upstream's order: token file, token, name and password; last those in the address."""

    def __init__(self, settings: PrometheusSettings, user: str = "", password: str = "") -> None:
        token = settings.prometheus_bearer_token.strip()
        self._secret: Credentials | None = None
        self._user = ""
        self._flag = "--prometheus-bearer-token-file"
        if settings.prometheus_bearer_token_file:
            self._secret = TokenFile(Path(settings.prometheus_bearer_token_file))
        elif token:
            self._secret = FixedCredentials(Identity(token))
        elif settings.username and settings.password_file:
            self._user, self._flag = settings.username, "--password-file"
            self._secret = TokenFile(Path(settings.password_file), encoding="utf-8")
        elif settings.username or user:
            self._user = settings.username or user
            self._secret = FixedCredentials(Identity(settings.password if settings.username else password))
        self._identity = Identity()

    async def header(self) -> Mapping[str, str]:
        """The Authorization header; empty without credentials."""
        if self._secret is None:
            return {}
        try:
            self._identity = await self._secret.identity()
        except Unauthorized as error:
            raise PrometheusRefused(f"{self._flag}: {error}", 401) from error
        if self._user:
            return {"Authorization": f"Basic {b64encode(f'{self._user}:{self._identity.token}'.encode()).decode()}"}
        return {"Authorization": f"Bearer {self._identity.token}"}

    async def renew(self) -> bool:
        """Reload credentials that were refused; returns whether they have changed."""
        return self._secret is not None and await self._secret.renew(self._identity)


# Called for every request with the status of HTTP as text, the method in lower case, and how long it took.
ObserveRequest: TypeAlias = Callable[[str, str, float], None]

T = TypeVar("T")

CONNECT_SECONDS: Final = 10.0
# Prometheus gets the timeout of a query and reports it first: its message is more precise than ours.
GRACE_SECONDS: Final = 10.0
# Answers shorter than this are read on the event loop itself, in a millisecond or two.
_SHORT_BYTES: Final = 1 << 17
# What client-go's metrics call the code of a request without a response.
NO_ANSWER: Final = "<error>"
# Waits of 1, 2, 4, 8... seconds, each up to twice as long by chance.
_BACKOFF: Final = RetryBackoff(initial=1.0, maximum=30.0)
_LONGEST_WAIT_SECONDS: Final = 60.0


class PrometheusClient:
    """A client of one Prometheus, for use within one event loop; a context that closes its connections.

    `queries` counts queries, `attempts` the requests that they took. With `fail_fast` the first request is not retried
    if it cannot connect: a command is interactive, and its address may be wrong.
    """

    def __init__(
        self,
        settings: PrometheusSettings,
        *,
        observe: ObserveRequest | None = None,
        environment: Mapping[str, str] = os.environ,
        backoff: RetryBackoff = _BACKOFF,
        draw: Draw = random.random,
        grace_seconds: float = GRACE_SECONDS,
        fail_fast: bool = False,
    ) -> None:
        address = URL(settings.prometheus_address.rstrip("/"))
        self._address = str(address.with_user(None))
        self._credentials = PrometheusCredentials(settings, address.user or "", address.password or "")
        self._headers = settings.headers()
        self._tls = _build_tls_context(settings, self._address)
        self._proxy = find_proxy(environment, self._address)
        self._query_seconds = settings.prometheus_query_timeout.total_seconds()
        self._seconds = self._query_seconds + grace_seconds
        self._limit = settings.prometheus_answer_limit.units
        self._retries = settings.prometheus_retries
        self._observe = observe or (lambda _code, _method, _seconds: None)
        self._backoff = backoff
        self._draw = draw
        self._method = "POST"
        self._fail_fast = fail_fast
        self.queries = 0
        self.attempts = 0
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections, without waiting for TLS to shut down."""
        session, self._session = self._session, None
        if session is not None:
            await close_session(session)

    async def query(self, query: str, time: float) -> QueryResult:
        """The result of a query at one time; raises `PrometheusError`."""
        return await self._query("/api/v1/query", {"query": query, "time": _format_time(time)}, read_query_result)

    async def query_range(self, query: str, start: float, end: float, step: float) -> QueryResult:
        """The result of a query from start to end, both included; raises `PrometheusError`."""
        parameters = {"query": query, "start": _format_time(start), "end": _format_time(end), "step": f"{step:.3f}"}
        return await self._query("/api/v1/query_range", parameters, read_query_result)

    async def series(self, selector: str, start: float, end: float) -> list[dict[str, str]]:
        """The labels of series that had samples between two times, which costs no samples; raises `PrometheusError`."""
        parameters = {"match[]": selector, "start": _format_time(start), "end": _format_time(end)}
        return await self._query("/api/v1/series", parameters, read_label_sets)

    async def _query(self, path: str, parameters: Mapping[str, str], read: Callable[[bytes], T]) -> T:
        parameters = {**parameters, "timeout": f"{round(self._query_seconds * 1000)}ms"}
        self.queries += 1
        body = await self._send_with_retries(path, parameters)
        try:
            return read(body) if len(body) < _SHORT_BYTES else await asyncio.to_thread(read, body)
        except PrometheusRefused as error:
            raise PrometheusRefused(f"{self._address}: {error}", error.status) from error

    async def _send_with_retries(self, path: str, parameters: Mapping[str, str]) -> bytes:
        """The body of the response, after retries if necessary."""
        failures = 0
        while True:
            failures += 1
            self.attempts += 1
            wait: float | None = None
            try:
                status, headers, body = await self._send_authorized(path, parameters)
            except NETWORK_FAILURES as error:
                # A query without a response within minutes will get none in the next ones.
                if failures > self._retries or _has_timed_out(error) or (self._fail_fast and _is_unconnected(error)):
                    failure = describe_failure(error, self._seconds)
                    raise PrometheusUnreachable(f"Prometheus at {self._address} {failure}") from error
            else:
                self._fail_fast = False
                if status == 200:
                    return body
                refusal = build_refusal(self._address, status, headers, body)
                if failures > self._retries or not is_temporary(refusal):
                    raise refusal
                wait = retry_after(headers, _LONGEST_WAIT_SECONDS)
            await asyncio.sleep(self._backoff.wait(failures, self._draw, wait))

    async def _send_authorized(self, path: str, parameters: Mapping[str, str]) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body. Some servers take no POST, and a token may just have been replaced."""
        authorization = await self._credentials.header()
        response = await self._request(path, parameters, authorization)
        if response[0] in (405, 501) and self._method == "POST":
            self._method = "GET"
            response = await self._request(path, parameters, authorization)
        if response[0] == 401 and await self._credentials.renew():
            response = await self._request(path, parameters, await self._credentials.header())
        return response

    async def _request(
        self, path: str, parameters: Mapping[str, str], authorization: Mapping[str, str]
    ) -> tuple[int, Mapping[str, str], bytes]:
        method, posted = self._method, self._method == "POST"
        clock = asyncio.get_running_loop().time
        began, code = clock(), NO_ANSWER
        try:
            async with self._get_session().request(
                method,
                f"{self._address}{path}",
                data=parameters if posted else None,
                params=None if posted else parameters,
                headers={**self._headers, **authorization},
                ssl=self._tls,
                proxy=self._proxy or None,
                timeout=aiohttp.ClientTimeout(total=self._seconds, sock_connect=CONNECT_SECONDS),
                # Credentials must not follow a redirect.
                allow_redirects=False,
            ) as response:
                code = str(response.status)
                return response.status, response.headers, await self._read(response)
        finally:
            self._observe(code, method.lower(), clock() - began)

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        parts: list[bytes] = []
        length = 0
        if (response.content_length or 0) > self._limit:
            raise self._build_length_error(response)
        while part := await response.content.readany():
            parts.append(part)
            length += len(part)
            if length > self._limit:
                raise self._build_length_error(response)
        return b"".join(parts)

    def _build_length_error(self, response: aiohttp.ClientResponse) -> PrometheusLimitExceeded:
        message = f"the response of Prometheus at {self._address} is longer than {self._limit} bytes"
        return PrometheusLimitExceeded(message, response.status)

    def _get_session(self) -> aiohttp.ClientSession:
        """The session. It is made with the first request, because it belongs to the event loop that runs then."""
        if self._session is None:
            self._session = aiohttp.ClientSession(
                headers={"User-Agent": f"trellis/{__version__}", "Accept-Encoding": "identity"},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


def _build_tls_context(settings: PrometheusSettings, address: str) -> ssl.SSLContext | bool:
    if not address.startswith("https:"):
        return True
    file = settings.prometheus_ca_file
    try:
        authority = Path(file).read_bytes() if file else None
    except OSError as error:
        raise InvalidInput(file, f"--prometheus-ca-file cannot be read: {error.strerror}") from error
    trust = Connection(address, "--prometheus-ca-file", authority=authority, insecure=settings.prometheus_insecure)
    try:
        return make_tls_context(trust, None)
    except BadKubeconfig as error:
        raise InvalidInput(file, f"--prometheus-ca-file: {error.rule}") from error


def _has_timed_out(error: Exception) -> bool:
    return isinstance(error, TimeoutError) and not isinstance(error, aiohttp.ConnectionTimeoutError)


def _is_unconnected(error: Exception) -> bool:
    """Whether there was no connection at all."""
    return isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)


def _format_time(time: float) -> str:
    """Milliseconds are what Prometheus keeps."""
    return f"{time:.3f}"
