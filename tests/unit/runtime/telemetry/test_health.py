"""Probes and Prometheus are answered over HTTP, on the address that was asked for."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping

import aiohttp
import pytest

from trellis.base.errors import InvalidInput
from trellis.runtime.addresses import Address, check_address, parse_address
from trellis.runtime.telemetry.health import Activity, HealthCheck, ProbeResponse, health_check, run_checks
from trellis.runtime.telemetry.health_server import HealthSettings, Page, PageRequest, serve_health
from trellis.runtime.telemetry.metrics import CounterSpec, Metrics

COUNT = CounterSpec("trellis_test_total", "A count.")
Get = Callable[[str], Awaitable[tuple[int, str, str]]]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def served(
    ask: Callable[[Get], Awaitable[None]],
    *,
    address: str = "127.0.0.1:0",
    profiling: bool = False,
    activity: Activity | None = None,
    ready: Mapping[str, HealthCheck] | None = None,
    pages: Mapping[str, Page] | None = None,
) -> None:
    """Ask a real server, over a real socket."""

    async def main() -> None:
        metrics = Metrics([COUNT])
        metrics.add(COUNT, 2)
        held = [1]
        metrics.register_flush(lambda: metrics.add(COUNT, held.pop() if held else 0))
        context = serve_health(
            HealthSettings(address=address, profiling=profiling),
            metrics=metrics,
            activity=(activity or Activity(300.0, Clock())).check,
            alive={"loop": lambda: None},
            ready=ready or {},
            pages=pages or {},
        )
        async with context as listener, aiohttp.ClientSession() as session:

            async def get(path: str) -> tuple[int, str, str]:
                url = f"http://{listener.host or '127.0.0.1'}:{listener.port}{path}"
                async with session.get(url) as response:
                    return response.status, await response.text(), response.headers["Content-Type"]

            await ask(get)

    asyncio.run(main())


def test_health_check_is_ok_until_the_last_activity_is_too_old() -> None:
    clock = Clock()
    activity = Activity(300.0, clock)
    clock.now += 10_000
    assert (health_check(activity.check).status, health_check(activity.check).text) == (200, "OK")
    activity.touch()
    clock.now += 300.0
    assert health_check(activity.check).text == "OK"
    clock.now += 72.5
    answer = health_check(activity.check)
    assert (answer.status, answer.text) == (500, "Error: last activity more than 5m0s ago: 6m12.5s")
    activity.touch()
    assert health_check(activity.check).text == "OK"
    clock.now += 1000
    activity.stop()
    assert health_check(activity.check).text == "OK"


def test_checks_are_listed_on_request_or_on_failure() -> None:
    good: dict[str, HealthCheck] = {"lease": lambda: None}
    assert run_checks("readyz", good, verbose=False).text == "ok"
    assert run_checks("readyz", good, verbose=True).text == "[+]lease ok\nreadyz check passed\n"
    answer = run_checks("readyz", {**good, "informers": lambda: "pods are not synced"}, verbose=False)
    assert answer.status == 500
    assert answer.text == "[+]lease ok\n[-]informers failed: pods are not synced\nreadyz check failed\n"


def test_remarks_are_in_the_verbose_response_and_do_not_affect_readiness() -> None:
    good: dict[str, HealthCheck] = {"lease": lambda: None}
    remarks = ["hvpas not watched: pods are not sized by Hvpas"]
    assert run_checks("readyz", good, verbose=False, remarks=remarks).text == "ok"
    answer = run_checks("readyz", good, verbose=True, remarks=remarks)
    assert answer.status == 200
    assert answer.text == "[+]lease ok\n[!]hvpas not watched: pods are not sized by Hvpas\nreadyz check passed\n"


def test_every_path_is_served() -> None:
    clock = Clock()
    activity = Activity(60.0, clock)
    activity.touch()
    waiting = ["not yet"]

    async def ask(get: Get) -> None:
        assert (await get("/health-check"))[:2] == (200, "OK")
        assert (await get("/healthz"))[:2] == (200, "ok")
        assert (await get("/livez?verbose"))[:2] == (200, "[+]loop ok\nlivez check passed\n")
        assert (await get("/readyz"))[0] == 500
        waiting.clear()
        assert (await get("/readyz"))[:2] == (200, "ok")
        status, text, kind = await get("/metrics")
        assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert "\ntrellis_test_total 3\n" in text
        clock.now += 61
        assert (await get("/health-check"))[0] == 500
        assert (await get("/healthz"))[0] == 200

    served(ask, activity=activity, ready={"informers": lambda: waiting[0] if waiting else None})


def test_stacks_are_served_only_if_profiling_is_on() -> None:
    async def refused(get: Get) -> None:
        assert (await get("/debug/threads"))[0] == 404

    async def shown(get: Get) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.set_name("the prober")
        status, text, _ = await get("/debug/threads")
        assert status == 200
        assert "thread MainThread" in text
        assert "task the prober\n" in text

    served(refused)
    served(shown, profiling=True)


def test_no_host_means_every_interface() -> None:
    async def ask(get: Get) -> None:
        assert (await get("/healthz"))[0] == 200

    served(ask, address=":0")


def test_an_address_that_is_taken_is_refused_in_one_line() -> None:
    async def ask(get: Get) -> None:
        raise AssertionError("nobody serves here")

    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(InvalidInput, match=f'"{address}": cannot listen on --address: Address already in use'):
            served(ask, address=address)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8942", Address("", 8942)),
        ("127.0.0.1:0", Address("127.0.0.1", 0)),
        ("[::1]:80", Address("::1", 80)),
        ("localhost:8080", Address("localhost", 8080)),
    ],
)
def test_addresses_are_read_and_written_as_go_does(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize("text", ["", "8942", ":", ":http", ":70000", "::1:80", "a:b:80"])
def test_an_invalid_address_is_refused(text: str) -> None:
    assert "must be an address" in (check_address(text) or "")


def test_a_component_can_serve_its_own_pages() -> None:
    async def page(asked: PageRequest) -> ProbeResponse:
        return ProbeResponse(
            404, f"{asked.path['namespace']} {asked.path['name']} {asked.query.get('limit')}", "application/json"
        )

    async def ask(get: Get) -> None:
        status, text, kind = await get("/things/shop/web-1.2?limit=%2Fx")
        assert (status, text, kind) == (404, "shop web-1.2 /x", "application/json; charset=utf-8")
        assert (await get("/things/shop"))[0] == 404
        assert (await get("/healthz"))[0] == 200

    served(ask, pages={"/things/{namespace}/{name}": page})
