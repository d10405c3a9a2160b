"""Queries to Prometheus: credentials, retries, and errors."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from support.blocking_calls import BlockingWatch
from support.local_server import Handler, proxying, read_head, server_tls, serving, talking
from support.prometheus.server import error
from testbed.access.certificates import Authority
from trellis.base.durations import parse_duration
from trellis.base.errors import (
    InvalidInput,
    PrometheusError,
    PrometheusLimitExceeded,
    PrometheusRefused,
    PrometheusUnreachable,
)
from trellis.base.quantities import Quantity
from trellis.kube.flow_control import RetryBackoff
from trellis.sources.prometheus.client import NO_ANSWER, PrometheusClient
from trellis.sources.prometheus.responses import QueryResult, retry_after
from trellis.sources.prometheus.settings import PrometheusSettings

ONE = b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[5,"1"]}]}}'
AT_ONCE = RetryBackoff(initial=0.0, maximum=0.0)
TOO_MANY = "query processing would load too many samples into memory in query execution"


@asynccontextmanager
async def talking_to(url: str, **settings: Any) -> AsyncIterator[PrometheusClient]:
    observe = settings.pop("observe", None)
    how = {"environment": settings.pop("environment", {}), "fail_fast": settings.pop("fail_fast", False)}
    made = PrometheusSettings(prometheus_address=url, **settings)
    async with PrometheusClient(made, observe=observe, backoff=AT_ONCE, **how) as client:
        yield client


class Scripted:
    """Answers in turn, the last one again and again, and keeps the requests."""

    def __init__(self, *responses: Callable[[], web.StreamResponse]) -> None:
        self._answers = list(responses)
        self.requests: list[web.BaseRequest] = []
        self.bodies: list[str] = []

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append((await request.read()).decode())
        return (self._answers.pop(0) if len(self._answers) > 1 else self._answers[0])()

    def headers(self, name: str) -> list[str | None]:
        return [request.headers.get(name) for request in self.requests]


def fine() -> web.StreamResponse:
    return web.Response(body=ONE, content_type="application/json")


def failing(status: int, text: str = "", **headers: str) -> Callable[[], web.StreamResponse]:
    return lambda: web.Response(status=status, text=text, headers=headers)


def refusing(status: int, kind: str, message: str) -> Callable[[], web.StreamResponse]:
    return lambda: error(status, kind, message)


def run_query(handler: Handler, **settings: Any) -> QueryResult:
    async def main() -> QueryResult:
        async with serving(handler) as url, talking_to(url, **settings) as client:
            return await client.query("up", 5.0)

    return asyncio.run(main())


def refused(handler: Handler, **settings: Any) -> PrometheusError:
    with pytest.raises(PrometheusError) as caught:
        run_query(handler, **settings)
    return caught.value


def test_a_query_is_posted_as_a_form_with_the_time_it_may_take() -> None:
    server = Scripted(fine)
    assert run_query(server, prometheus_query_timeout=parse_duration("90s")).labels == [{"a": "b"}]
    [request] = server.requests
    assert (request.method, request.path) == ("POST", "/api/v1/query")
    assert server.bodies == ["query=up&time=5.000&timeout=90000ms"]
    assert request.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert request.headers["User-Agent"].startswith("trellis/")


def test_a_range_is_queried_below_the_path_of_the_address() -> None:
    server = Scripted(fine)

    async def main() -> None:
        async with serving(server) as url, talking_to(f"{url}/prom/") as client:
            await client.query_range("up", 0.5, 60.5, 30)

    asyncio.run(main())
    assert server.requests[0].path == "/prom/api/v1/query_range"
    assert server.bodies == ["query=up&start=0.500&end=60.500&step=30.000&timeout=300000ms"]


@pytest.mark.parametrize("status", [405, 501])
def test_a_server_that_refuses_post_is_queried_with_get(status: int) -> None:
    server = Scripted(failing(status), fine)

    async def main() -> None:
        async with serving(server) as url, talking_to(url) as client:
            await client.query("up", 5.0)
            await client.query("down", 5.0)

    asyncio.run(main())
    assert [request.method for request in server.requests] == ["POST", "GET", "GET"]
    assert server.requests[2].query["query"] == "down"


def basic(user: str, password: str) -> str:
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


@pytest.mark.parametrize(
    ("settings", "header"),
    [
        ({}, None),
        ({"prometheus_bearer_token": "t0\n"}, "Bearer t0"),
        ({"username": "jane", "password": "pa:ss"}, basic("jane", "pa:ss")),
        ({"prometheus_bearer_token": "t0", "username": "jane", "password": "x"}, "Bearer t0"),
    ],
)
def test_credentials_are_sent_in_upstreams_order(settings: dict[str, str], header: str | None) -> None:
    server = Scripted(fine)
    run_query(server, **settings)
    assert server.headers("Authorization") == [header]


def test_a_token_file_is_read_again_when_the_token_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")

    def replaced() -> web.StreamResponse:
        file.write_text("new\n")
        return web.Response(status=401)

    server = Scripted(fine, replaced, fine)

    async def main() -> None:
        settings = {"prometheus_bearer_token_file": str(file), "prometheus_bearer_token": "ignored"}
        async with serving(server) as url, talking_to(url, **settings) as client:
            await client.query("up", 5.0)
            await client.query("up", 5.0)

    asyncio.run(main())
    assert server.headers("Authorization") == ["Bearer old", "Bearer old", "Bearer new"]


def test_a_password_file_is_read_again_when_the_password_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("söcret\n")

    def replaced() -> web.StreamResponse:
        file.write_text("newer\n")
        return web.Response(status=401)

    server = Scripted(fine, replaced, fine)

    async def main() -> None:
        settings = {"username": "jane", "password_file": str(file), "password": "ignored"}
        async with serving(server) as url, talking_to(url, **settings) as client:
            await client.query("up", 5.0)
            await client.query("up", 5.0)

    asyncio.run(main())
    old, new = basic("jane", "söcret"), basic("jane", "newer")
    assert server.headers("Authorization") == [old, old, new]


def test_a_password_file_without_a_password_is_reported(tmp_path: Path) -> None:
    error = refused(Scripted(fine), username="jane", password_file=str(tmp_path / "none"))
    assert str(error) == f"--password-file: {tmp_path / 'none'} contains no token"


def test_a_token_file_without_a_token_is_reported(tmp_path: Path) -> None:
    error = refused(Scripted(fine), prometheus_bearer_token_file=str(tmp_path / "none"))
    assert isinstance(error, PrometheusRefused)
    assert str(error) == f"--prometheus-bearer-token-file: {tmp_path / 'none'} contains no token"


def test_credentials_in_the_address_are_used_and_never_printed() -> None:
    server = Scripted(refusing(400, "bad_data", "no"))

    async def main() -> str:
        async with serving(server) as url:
            with_user = url.replace("http://", "http://jane:s3cret@")
            async with talking_to(with_user) as client:
                with pytest.raises(PrometheusRefused) as caught:
                    await client.query("up", 5.0)
        return str(caught.value)

    assert "s3cret" not in asyncio.run(main())
    assert server.headers("Authorization") == [basic("jane", "s3cret")]


def test_further_headers_are_sent_along() -> None:
    server = Scripted(fine)
    run_query(server, prometheus_headers=("X-Scope-OrgID=team-a", "X-Other=b"))
    assert (server.headers("X-Scope-OrgID"), server.headers("X-Other")) == (["team-a"], ["b"])


def test_tls_trusts_the_authority_that_is_set_and_no_other(tmp_path: Path) -> None:
    authority = Authority.new("monitoring")
    file = tmp_path / "ca.crt"
    file.write_bytes(authority.pair.certificate)

    async def main() -> None:
        async with serving(Scripted(fine), server_tls(authority, tmp_path, "127.0.0.1")) as url:
            async with talking_to(url, prometheus_ca_file=str(file)) as client:
                await client.query("up", 5.0)
            async with talking_to(url, prometheus_insecure=True) as client:
                await client.query("up", 5.0)
            async with talking_to(url, prometheus_retries=0) as client:
                with pytest.raises(PrometheusUnreachable, match="has a certificate that is not trusted"):
                    await client.query("up", 5.0)

    asyncio.run(main())


def test_a_client_that_fails_fast_gives_up_at_once_if_the_first_connection_fails() -> None:
    async def main() -> tuple[int, int]:
        async with serving(Scripted(fine, failing(503), fine)) as url, talking_to(url, fail_fast=True) as client:
            await client.query("up", 5.0)
            await client.query("up", 5.0)  # whoever was there is waited for
            known = client.attempts
        async with talking_to(url, fail_fast=True) as client:
            with pytest.raises(PrometheusUnreachable, match="cannot be reached: Connection refused"):
                await client.query("up", 5.0)
            return known, client.attempts

    assert asyncio.run(main()) == (3, 1)


def test_an_authority_that_cannot_be_used_is_refused_at_start(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    settings = PrometheusSettings(prometheus_address="https://prometheus", prometheus_ca_file=str(file))
    with pytest.raises(InvalidInput, match="--prometheus-ca-file cannot be read"):
        PrometheusClient(settings)
    file.write_text("nothing")
    with pytest.raises(InvalidInput, match="--prometheus-ca-file: the certificate authority is not PEM"):
        PrometheusClient(settings)


def test_a_proxy_of_the_environment_is_used() -> None:
    async def main() -> list[str]:
        observed: list[str] = []
        async with talking(proxying(observed)) as proxy:
            settings = {"prometheus_retries": 0, "environment": {"HTTPS_PROXY": proxy}}
            async with talking_to("https://prometheus.invalid:9090", **settings) as client:
                with pytest.raises(PrometheusUnreachable):
                    await client.query("up", 5.0)
        return observed

    [head] = asyncio.run(main())
    assert head.startswith("CONNECT prometheus.invalid:9090")


@pytest.mark.parametrize(
    "trouble",
    [
        failing(500, "oops"),
        failing(502, "<html>bad gateway</html>"),
        refusing(503, "unavailable", "TSDB not ready"),
        failing(429, "slow down", **{"Retry-After": "0"}),
    ],
)
def test_temporary_errors_are_retried(trouble: Callable[[], web.StreamResponse]) -> None:
    server = Scripted(trouble, trouble, fine)
    assert run_query(server).values.tolist() == [1.0]
    assert len(server.requests) == 3


def test_a_broken_connection_is_retried() -> None:
    attempts = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal attempts
        attempts += 1
        await read_head(reader)
        if attempts < 3:  # Once without an answer, once with half of one.
            writer.write(b"" if attempts == 1 else b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{")
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(ONE), ONE))
        await writer.drain()

    async def main() -> QueryResult:
        async with talking(talk) as url, talking_to(url) as client:
            return await client.query("up", 5.0)

    assert asyncio.run(main()).values.tolist() == [1.0]


def test_an_unreachable_server_is_an_error_after_the_retries() -> None:
    async def main() -> str:
        async with serving(Scripted(fine)) as url:
            pass
        async with talking_to(url, prometheus_retries=2) as client:
            with pytest.raises(PrometheusUnreachable) as caught:
                await client.query("up", 5.0)
        return str(caught.value)

    message = asyncio.run(main())
    assert message.startswith("Prometheus at http://127.0.0.1:")
    assert message.endswith(" cannot be reached: Connection refused")


def test_a_persistent_failure_is_reported_in_the_servers_words() -> None:
    server = Scripted(refusing(503, "unavailable", "TSDB not ready"))
    error = refused(server, prometheus_retries=2)
    assert len(server.requests) == 3
    assert isinstance(error, PrometheusRefused)
    assert (error.status, error.kind) == (503, "unavailable")
    assert str(error).endswith("answers 503: TSDB not ready")


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        (refusing(400, "bad_data", 'invalid parameter "query": parse error'), 'invalid parameter "query": parse error'),
        (refusing(422, "execution", "found duplicate series"), "found duplicate series"),
        (failing(401), "401: it does not accept the credentials; set prometheus-bearer-token-file, or username"),
        (failing(403, "RBAC: access denied"), 'allow queries; set .* --prometheus-config \\("RBAC: access denied"\\)'),
        (failing(404, "404 page not found"), "the API of Prometheus; see --prometheus-address .* --prometheus-url"),
        (failing(302, Location="https://sso/login"), "it redirects to https://sso/login; see --prometheus-address"),
        (failing(418), "418: no reason"),
        (lambda: web.Response(text="<html>Grafana</html>"), "not one of Prometheus.*Grafana"),
    ],
)
def test_permanent_errors_are_reported_at_once(trouble: Callable[[], web.StreamResponse], message: str) -> None:
    server = Scripted(trouble)
    result = refused(server)
    assert isinstance(result, PrometheusRefused)
    assert not isinstance(result, PrometheusLimitExceeded)
    assert len(server.requests) == 1
    with pytest.raises(PrometheusRefused, match=message):
        raise result


@pytest.mark.parametrize(
    "trouble",
    [
        refusing(422, "execution", TOO_MANY),
        refusing(422, "execution", "the query exceeded the maximum number of chunks (err-mimir-max-chunks-per-query)"),
        refusing(400, "bad_data", "exceeded maximum resolution of 11,000 points per timeseries"),
        refusing(503, "timeout", "query timed out in expression evaluation"),
        failing(413, "request entity too large"),
        refusing(422, "422", "cannot select more than -search.maxSamplesPerQuery=1000000000 samples"),
    ],
)
def test_a_query_for_too_much_is_distinguished_and_not_retried(trouble: Callable[[], web.StreamResponse]) -> None:
    server = Scripted(trouble)
    assert isinstance(refused(server), PrometheusLimitExceeded)
    assert len(server.requests) == 1


@pytest.mark.parametrize("announced", [True, False])
def test_a_too_long_response_is_not_read_to_its_end(announced: bool) -> None:
    sent = 0

    async def endless(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal sent
        response = web.StreamResponse(headers={"Content-Length": str(1 << 30)} if announced else {})
        await response.prepare(request)
        while True:
            await response.write(b" " * 65536)
            sent += 65536

    result = refused(endless, prometheus_answer_limit=Quantity.from_units(1 << 20))
    assert isinstance(result, PrometheusLimitExceeded)
    assert "is longer than 1048576 bytes" in str(result)
    assert sent < 1 << 24


def test_a_query_without_a_response_times_out_and_is_not_retried() -> None:
    asked = 0

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await read_head(reader)
        await asyncio.Event().wait()

    async def main() -> str:
        async with talking(silent) as url:
            settings = PrometheusSettings(prometheus_address=url, prometheus_query_timeout=parse_duration("50ms"))
            async with PrometheusClient(settings, environment={}, grace_seconds=0.05) as client:
                with pytest.raises(PrometheusUnreachable) as caught:
                    await client.query("up", 5.0)
        return str(caught.value)

    assert asyncio.run(main()).endswith("did not answer within 0.1 s")
    assert asked == 1


def test_every_request_is_counted_with_code_method_and_time() -> None:
    observed: list[tuple[str, str, float]] = []

    def observe(code: str, method: str, seconds: float) -> None:
        observed.append((code, method, seconds))

    run_query(Scripted(failing(405), failing(500), fine), observe=observe)
    assert [(code, method) for code, method, _ in observed] == [("405", "post"), ("500", "get"), ("200", "get")]
    assert all(0 <= seconds < 10 for _, _, seconds in observed)

    async def main() -> None:
        async with talking_to("http://127.0.0.1:1", observe=observe, prometheus_retries=0) as client:
            with pytest.raises(PrometheusUnreachable):
                await client.query("up", 5.0)

    asyncio.run(main())
    assert observed[-1][:2] == (NO_ANSWER, "post")


def test_a_long_answer_is_read_beside_the_event_loop() -> None:
    values = ",".join(f'[{1785585600 + 60 * k},"0.{k + 1}"]' for k in range(1000))
    series = ",".join(f'{{"metric":{{"pod":"web-{n}"}},"values":[{values}]}}' for n in range(700))
    body = f'{{"status":"success","data":{{"resultType":"matrix","result":[{series}]}}}}'.encode()
    server = Scripted(lambda: web.Response(body=body))

    async def main() -> BlockingWatch:
        async with serving(server) as url, talking_to(url) as client:
            await client.query("up", 5.0)
            with BlockingWatch() as watch:
                assert len((await client.query("up", 5.0)).values) == 700_000
        return watch

    # A busy machine may let a thread wait for 50 ms without anybody's fault, but not five times in a row.
    assert any(asyncio.run(main()).blocks == [] for _ in range(5))


@pytest.mark.parametrize(
    ("header", "seconds"), [("7", 7.0), ("3600", 60.0), ("", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None)]
)
def test_retry_after_is_respected_up_to_a_minute(header: str, seconds: float | None) -> None:
    assert retry_after({"Retry-After": header}, 60.0) == seconds
