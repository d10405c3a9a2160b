"""The HTTP server on `--address`: probes, metrics for Prometheus, and further pages of the component."""

from __future__ import annotations

import asyncio
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, ClassVar, NamedTuple, TypeAlias

from aiohttp import web

from trellis.base.errors import InvalidInput
from trellis.runtime.addresses import Address, check_address, parse_address
from trellis.runtime.settings.declarations import Reload, Setting, Settings
from trellis.runtime.telemetry.exposition import CONTENT_TYPE
from trellis.runtime.telemetry.health import HealthCheck, ProbeResponse, Remarks, health_check, run_checks
from trellis.runtime.telemetry.metrics import MetricsText
from trellis.runtime.threads import DaemonThreads

_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class PageRequest(NamedTuple):
    """The path parameters and the query of a request for a page, its headers, and the address that it comes from."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str] = MappingProxyType({})
    remote: str = ""


Page: TypeAlias = Callable[[PageRequest], Awaitable[ProbeResponse]]


def _check_endpoint(endpoint: str) -> str | None:
    if not endpoint or endpoint.startswith(("http://", "https://")):
        return None
    return "must be a URL that begins with http:// or https://"


class ConfigPage(StrEnum):
    """Who may read the settings in effect at `/config`."""

    LOOPBACK = "loopback"
    AUTHENTICATED = "authenticated"


class HealthSettings(Settings, frozen=True):
    """Server for probes and metrics, and the collector of traces."""

    title: ClassVar[str] = "Probes, metrics and traces"
    of_process: ClassVar[bool] = True
    # The server has no gap in which a probe would fail.
    reload: ClassVar[Reload | None] = Reload.RESTART_OF_PROCESS

    address: Annotated[
        str,
        Setting(
            "Address of the server for probes (/livez, /readyz, /health-check) and Prometheus metrics (/metrics).",
            why="Each component has its own port, upstream's where upstream has it; `trellis run` has :8940.",
            check=check_address,
        ),
    ] = ":8940"
    profiling: Annotated[
        bool,
        Setting(
            "Serve stack traces of all threads and tasks at /debug/threads.",
            why="Off, as upstream.",
        ),
    ] = False
    config_page: Annotated[
        ConfigPage,
        Setting(
            "Who may read the settings in effect at /config: `loopback` for requests from the same host or "
            "`kubectl port-forward`, `authenticated` also for a bearer token with the right to get /config.",
            why="Reviews of tokens need rights that a component has for nothing else. Secrets are never shown.",
        ),
    ] = ConfigPage.LOOPBACK
    tracing_endpoint: Annotated[
        str,
        Setting(
            "URL of a collector to which traces are sent by OTLP over HTTP, such as `http://collector:4318`. Requires "
            "the extra `tracing` of the Python package.",
            why="Empty: nothing is traced.",
            variable="OTEL_EXPORTER_OTLP_ENDPOINT",
            check=_check_endpoint,
        ),
    ] = ""


@asynccontextmanager
async def serve_health(
    settings: HealthSettings,
    *,
    metrics: MetricsText,
    activity: HealthCheck,
    alive: Mapping[str, HealthCheck],
    ready: Mapping[str, HealthCheck],
    remarks: Remarks = tuple,
    pages: Mapping[str, Page] = {},
) -> AsyncIterator[Address]:
    """Serve while the context is open; the value is the address, with the actual port for port 0.

    `activity` is what `/health-check` reports, upstream's check of passes.

    `remarks` are part of the verbose readiness response and do not affect it. `pages` are the component's own, by their
    paths, such as `/pods/{namespace}/{name}`.
    """
    address = parse_address(settings.address)
    try:
        listening = address.listen()
    except OSError as error:
        raise InvalidInput(settings.address, f"cannot listen on --address: {error.strerror}") from error
    scraping = DaemonThreads("metrics")
    application = web.Application()
    application.add_routes(
        [
            web.get("/health-check", _handle_check(lambda _: health_check(activity))),
            web.get("/healthz", _handle_check(lambda verbose: run_checks("healthz", alive, verbose=verbose))),
            web.get("/livez", _handle_check(lambda verbose: run_checks("livez", alive, verbose=verbose))),
            web.get(
                "/readyz",
                _handle_check(lambda verbose: run_checks("readyz", ready, verbose=verbose, remarks=remarks())),
            ),
            web.get("/metrics", _handle_scrape(metrics, scraping)),
        ]
    )
    application.add_routes([web.get(path, _handle_page(page)) for path, page in pages.items()])
    if settings.profiling:
        application.add_routes([web.get("/debug/threads", _handle_threads)])
    # Probes in progress are dropped: the process ends within a second.
    runner = web.AppRunner(application, handle_signals=False, access_log=None, shutdown_timeout=0.1)
    try:
        await runner.setup()
        await web.SockSite(runner, listening).start()
        yield Address(address.host, listening.getsockname()[1])
    finally:
        await runner.cleanup()
        listening.close()
        scraping.shutdown(wait=False)


def _handle_check(answer: Callable[[bool], ProbeResponse]) -> _Handler:
    async def handle(request: web.Request) -> web.Response:
        result = answer("verbose" in request.query)
        return web.Response(status=result.status, text=result.text)

    return handle


def _handle_page(page: Page) -> _Handler:
    async def handle(request: web.Request) -> web.Response:
        page_request = PageRequest(request.match_info, request.query, request.headers, request.remote or "")
        document = await page(page_request)
        return web.Response(status=document.status, text=document.text, content_type=document.kind)

    return handle


def _handle_scrape(metrics: MetricsText, threads: DaemonThreads) -> _Handler:
    async def handle(_request: web.Request) -> web.Response:
        metrics.flush()
        # Ten thousand series are 50 ms of work: probes and leases do not wait for them.
        body = await asyncio.get_running_loop().run_in_executor(threads, metrics.format_text)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    return handle


async def _handle_threads(_request: web.Request) -> web.Response:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    parts = [
        f"thread {names.get(ident, ident)}\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    ]
    for task in sorted(asyncio.all_tasks(), key=asyncio.Task.get_name):
        where = "".join(f"  {frame.f_code.co_filename}:{frame.f_lineno}\n" for frame in task.get_stack())
        parts.append(f"task {task.get_name()}\n{where}")
    return web.Response(text="\n".join(parts))
