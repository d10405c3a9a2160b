"""A component: its spec, and one way to run it, with probes, metrics, Events, leases and a controller.

    def hvpa_spec(settings: HvpaControllerSettings) -> ComponentSpec[HvpaController]:
        @asynccontextmanager
        async def build(context: ControllerContext) -> AsyncIterator[HvpaController]:
            yield HvpaController(context, settings)

        return ComponentSpec(
            name="trellis-hvpa",
            field_manager="trellis-hvpa",
            log=_log,
            metrics=HVPA_METRICS,
            build=build,
            interval=settings.loop.hvpa_interval.total_seconds(),
            election=single_lease(settings.leader),
        )

    main = component_main(hvpa_spec(settings), settings)

Probes are answered from the start. The controller is built once the API server has said what it serves, and ends before
its leases are released. It gets everything it works with in a `ControllerContext`: the client, the informers and the
leadership may be shared by several components of a process, and tests make them with a clock of their own.
"""

from __future__ import annotations

import asyncio
import math
import random
import socket
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, closing
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from trellis.base.errors import KubeError
from trellis.kube.client import Client
from trellis.kube.discovery import Served
from trellis.kube.events import EventRecorder, EventReporter
from trellis.kube.flow_control import Draw
from trellis.kube.write.outcomes import WriteOutcome
from trellis.kube.write.writer import Writer, WriterSettings
from trellis.runtime.cluster_connection import connect, retry_until_success
from trellis.runtime.informers import Informers
from trellis.runtime.leadership import ElectionSpec, Leadership, create_leadership
from trellis.runtime.optional_kinds import UnreadableKinds
from trellis.runtime.passes import build_activity
from trellis.runtime.recorder import NO_RECORDER, Recorder
from trellis.runtime.settings.component import AccessSettings
from trellis.runtime.shared_informers import SharedInformers
from trellis.runtime.shutdown import Main, Shutdown, run_until_stopped
from trellis.runtime.tasks import cancel_all, run_all, wait_for_first
from trellis.runtime.telemetry.cluster_metrics import count_write, is_expected, write_reporter
from trellis.runtime.telemetry.event_queue import EventFailureLog, EventQueue, EventSink
from trellis.runtime.telemetry.health import Activity, HealthCheck, ProbeResponse
from trellis.runtime.telemetry.health_server import HealthSettings, Page, PageRequest, serve_health
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics, Spec

# Events are posted beside the work, and must not take the API server's time from it.
_CONCURRENT_EVENTS: Final = 2

NOT_YET_DISCOVERED: Final = "discovery of the API server has not completed"


class ControllerContext(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a controller works with. `now` is the wall clock, `served` what the API server serves."""

    client: Client
    informers: Informers
    leadership: Leadership
    writer: Writer
    served: Served
    metrics: Metrics
    activity: Activity
    record_event: EventSink
    recorder: Recorder = NO_RECORDER
    now: Callable[[], float]
    draw: Draw

    def may_act(self) -> bool:
        """Whether no other process can be at work at this moment."""
        return self.leadership.may_write()


class Controller(ABC):
    """The part of a component that decides and acts."""

    @abstractmethod
    async def run(self) -> None:
        """Work until cancelled. The informers run beside it."""

    @abstractmethod
    def on_started_leading(self) -> None:
        """Forget what another leader may have changed, and reconcile everything now."""

    @property
    def is_busy(self) -> bool:
        """Whether changes wait to be written: Events let them go first."""
        return False


C = TypeVar("C", bound=Controller)


class ComponentSettings(Protocol):
    """The settings that every component has."""

    @property
    def access(self) -> AccessSettings:
        """How the API server is reached."""

    @property
    def health(self) -> HealthSettings:
        """Where probes are answered."""


class ComponentSpec(msgspec.Struct, Generic[C], frozen=True, kw_only=True):
    """What distinguishes a component from the others.

    | field | meaning |
    |---|---|
    | `name` | the reporter of its Events |
    | `field_manager` | the owner of the fields it writes |
    | `build` | builds the controller, and ends what the controller needs beside it |
    | `interval` | seconds between passes; None if it has none, so that probes expect none |
    | `namespace` | the only namespace that it watches; empty if it watches all |
    | `election` | the leases it is a candidate for; None if every replica works |
    | `recording` | opens the file of its recording |
    | `concurrent_writes` | most writes at the same time |
    | `dry_run` | it changes nothing: writes are dry runs, and it takes no lease and posts no Events |
    | `is_usual` | whether the outcome of a write needs no line in the log |
    | `assumed` | what it takes an API server to serve that does not answer discovery; None if it waits |
    | `assumed_warning` | the line of the log that says so |
    | `checks` | readiness checks beside that of the informers, or in its place |
    | `pages` | pages of its HTTP server, by path |
    | `started_with` | what the first line of its log says of its settings |
    """

    name: str
    field_manager: str
    log: Logger
    metrics: Sequence[Spec]
    build: Callable[[ControllerContext], AbstractAsyncContextManager[C]]
    interval: float | None
    namespace: str = ""
    election: ElectionSpec | None = None
    recording: Callable[[], Recorder] = lambda: NO_RECORDER
    concurrent_writes: int = WriterSettings().concurrency
    dry_run: bool = False
    is_usual: Callable[[WriteOutcome], bool] = is_expected
    assumed: Served | None = None
    assumed_warning: str = ""
    checks: Mapping[str, Callable[[C], str | None]] = {}
    pages: Mapping[str, Callable[[C, PageRequest], Awaitable[ProbeResponse]]] = {}
    started_with: Mapping[str, Any] = {}


class Component(Generic[C]):
    """One component of a process.

    What is not given is made for this component alone: several components of a process may share a client, the caches
    of their informers, leadership and metrics. A component that changes nothing takes no lease, so that it never stops
    the one that works.
    """

    def __init__(
        self,
        spec: ComponentSpec[C],
        settings: ComponentSettings,
        client: Client,
        stop: Shutdown,
        *,
        recorder: Recorder = NO_RECORDER,
        metrics: Metrics | None = None,
        leadership: Leadership | None = None,
        shared: SharedInformers | None = None,
    ) -> None:
        access = settings.access
        is_idle = spec.dry_run or access.read_only
        self._spec = spec
        self._access = access
        self._client = client
        self._stop = stop
        self._recorder = recorder
        self.metrics = metrics or Metrics(spec.metrics)
        self.activity = _expect_activity(spec.interval)
        report = write_reporter(self.metrics, spec.log, spec.is_usual)
        self.informers = Informers(
            client,
            UnreadableKinds(self.metrics, spec.log),
            draw=random.random,
            namespace=spec.namespace,
            shared=shared,
        )
        self.leadership = leadership or create_leadership(spec.election, client, report=report, is_idle=is_idle)
        self._writer = Writer(
            client,
            record=report,
            may_write=self.leadership.may_write,
            settings=WriterSettings(
                read_only=access.read_only,
                dry_run=spec.dry_run,
                concurrency=spec.concurrent_writes,
                rate=access.write_rate,
            ),
        )
        self._events = EventQueue(self._event_recorder(is_idle))
        self._controller: asyncio.Future[C] = asyncio.get_running_loop().create_future()

    @property
    def alive(self) -> Mapping[str, HealthCheck]:
        """Liveness checks. A component without passes is alive if it answers."""
        return {"ping": lambda: None} if self._spec.interval is None else {"passes": self.activity.check}

    @property
    def ready(self) -> Mapping[str, HealthCheck]:
        """Readiness checks: the informers, and those of the spec."""
        checks = {"informers": lambda _controller: self.informers.find_readiness_problem()} | dict(self._spec.checks)
        return {name: partial(self._check, check) for name, check in checks.items()}

    @property
    def pages(self) -> Mapping[str, Page]:
        """Pages of the component, by path."""
        return {path: partial(self._page, page) for path, page in self._spec.pages.items()}

    async def run(self) -> None:
        """Wait for the API server, and work until cancelled. Writes are finished before leases are released."""
        async with self._spec.build(self._context(await self._discover())) as controller:
            self._controller.set_result(controller)
            events = asyncio.create_task(self._events.run(lambda: controller.is_busy), name="events")
            leading = asyncio.create_task(self._lead(controller), name="leading")
            working = asyncio.create_task(run_all(self.informers.run(), controller.run()), name=self._spec.name)
            try:
                await wait_for_first([working, leading])
            finally:
                events.cancel()
                await cancel_all([working])
                await cancel_all([leading])

    async def _discover(self) -> Served:
        spec = self._spec
        if spec.assumed is None:
            return await retry_until_success(self._client.discover, spec.log)
        try:
            return await self._client.discover()
        except KubeError as error:
            spec.log.warning(spec.assumed_warning, why=error)
            return spec.assumed

    def _context(self, served: Served) -> ControllerContext:
        return ControllerContext(
            client=self._client,
            informers=self.informers,
            leadership=self.leadership,
            writer=self._writer,
            served=served,
            metrics=self.metrics,
            activity=self.activity,
            record_event=self._events.record,
            recorder=self._recorder,
            now=lambda: _wall_clock().timestamp(),
            draw=random.random,
        )

    async def _lead(self, controller: C) -> None:
        log, leadership = self._spec.log, self.leadership

        def on_won(name: str) -> None:
            log.info("leading", **leadership.log_fields(name), identity=leadership.identity)
            controller.on_started_leading()

        def on_lost(name: str, why: str) -> None:
            if self._stop.reason is None:
                # As upstream: a fresh start is the simplest way to forget what may be out of date.
                log.error("lost the Lease", error=None, **leadership.log_fields(name), why=why)
                self._stop.request(f"lost {leadership.describe(name)}")

        await leadership.run(on_won=on_won, on_lost=on_lost)

    def _event_recorder(self, is_idle: bool) -> EventRecorder:
        failures = EventFailureLog(self._spec.log)

        def report(outcome: WriteOutcome) -> None:
            count_write(self.metrics, outcome)
            failures.note(outcome)

        settings = WriterSettings(read_only=is_idle, concurrency=_CONCURRENT_EVENTS, rate=self._access.write_rate)
        writer = Writer(self._client, record=report, may_write=self.leadership.may_write, settings=settings)
        return EventRecorder(writer, EventReporter(self._spec.name, socket.gethostname()), now=_wall_clock)

    def _check(self, check: Callable[[C], str | None]) -> str | None:
        return check(self._controller.result()) if self._controller.done() else NOT_YET_DISCOVERED

    async def _page(
        self, page: Callable[[C, PageRequest], Awaitable[ProbeResponse]], request: PageRequest
    ) -> ProbeResponse:
        if not self._controller.done():
            return ProbeResponse(503, f"{NOT_YET_DISCOVERED}\n")
        return await page(self._controller.result(), request)


async def run_component(
    spec: ComponentSpec[C],
    settings: ComponentSettings,
    stop: Shutdown,
    client: Client,
    *,
    recorder: Recorder = NO_RECORDER,
    metrics: Metrics | None = None,
    shared: SharedInformers | None = None,
) -> None:
    """Answer probes and work until it is time to stop."""
    component = Component(spec, settings, client, stop, recorder=recorder, metrics=metrics, shared=shared)
    async with serve_health(
        settings.health,
        metrics=component.metrics,
        activity=component.activity,
        alive=component.alive,
        ready=component.ready,
        remarks=component.informers.remarks,
        pages=component.pages,
    ) as address:
        spec.log.info("started", address=address, **spec.started_with)
        await run_until_stopped(stop, component.run(), spec.name)


def component_main(
    spec: ComponentSpec[C],
    settings: ComponentSettings,
    metrics: Metrics | None = None,
    shared: SharedInformers | None = None,
) -> Main:
    """What a process does that runs this component, on the cluster of its settings; `shared` are its informers."""

    async def main(stop: Shutdown) -> None:
        with closing(spec.recording()) as recorder:
            async with connect(settings.access, spec.field_manager, spec.log) as client:
                await run_component(spec, settings, stop, client, recorder=recorder, metrics=metrics, shared=shared)

    return main


def _expect_activity(interval: float | None) -> Activity:
    if interval is None:
        return Activity(math.inf, asyncio.get_running_loop().time)
    return build_activity(interval)


def _wall_clock() -> datetime:
    return datetime.now(UTC)
