"""A component: its spec, and one way to run it, with probes, metrics, Events, leases and a controller.

    def hvpa_spec(settings: HvpaControllerSettings) -> ComponentSpec[HvpaController]:
        @asynccontextmanager
        async def build(context: ControllerContext) -> AsyncIterator[HvpaController]:
            yield HvpaController(context, settings)

        return ComponentSpec(
            component="hvpa",
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

from trellis import __version__
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
from trellis.runtime.replicas.leader_announcements import LeaderAnnouncer
from trellis.runtime.replicas.leader_spread import HANDED_OVER, LeaderSpread
from trellis.runtime.settings.component import AccessSettings
from trellis.runtime.shared_informers import SharedInformers
from trellis.runtime.shutdown import Main, Shutdown, run_until_stopped
from trellis.runtime.tasks import cancel_all, run_all, wait_for_first
from trellis.runtime.telemetry.cluster_metrics import (
    BUILD,
    LAST_PASS,
    LEADER,
    PASS_INTERVAL,
    SHARD,
    SHARD_CHANGES,
    SHARD_MEMBERS,
    count_write,
    is_expected,
    write_reporter,
)
from trellis.runtime.telemetry.component_metrics import READINESS_METRICS, ProcessMetrics, export_readiness
from trellis.runtime.telemetry.event_queue import EventFailureLog, EventQueue, EventSink
from trellis.runtime.telemetry.health import Activity, HealthCheck, ProbeResponse
from trellis.runtime.telemetry.health_server import HealthSettings, Page, PageRequest, serve_health
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics, Spec
from trellis.runtime.telemetry.tracing import count_traced_write, current_trace, exporting_traces

# Events are posted beside the work, and must not take the API server's time from it.
_CONCURRENT_EVENTS: Final = 2

NOT_YET_DISCOVERED: Final = "discovery of the API server has not completed"


class ControllerContext(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a controller works with. `now` is the wall clock, `served` what the API server serves.

    `component` is the name of the component in labels of metrics.
    """

    component: str
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

    def complete_pass(self) -> None:
        """Export that a pass over all objects ends now, with its decisions executed."""
        current_trace().complete()
        self.metrics.set(LAST_PASS, self.now(), self.component)


class Controller(ABC):
    """The part of a component that decides and acts."""

    @abstractmethod
    async def run(self) -> None:
        """Work until cancelled. The informers run beside it."""

    @abstractmethod
    def on_started_leading(self) -> None:
        """Forget what another leader may have changed, and reconcile everything now."""

    async def let_go(self, covers: Callable[[str], bool]) -> None:  # noqa: B027 - most keep nothing for a successor
        """Write down what the next holders of namespaces that are not covered need. It may take some seconds."""

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
    | `component` | its name in labels of metrics |
    | `name` | the reporter of its Events |
    | `field_manager` | the owner of the fields it writes |
    | `build` | builds the controller, and ends what the controller needs beside it |
    | `interval` | seconds between passes; None if it has none, so that probes expect none |
    | `namespaces` | the only namespaces that it watches; none if it watches all |
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

    component: str
    name: str
    field_manager: str
    log: Logger
    metrics: Sequence[Spec]
    build: Callable[[ControllerContext], AbstractAsyncContextManager[C]]
    interval: float | None
    namespaces: tuple[str, ...] = ()
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
        spread: LeaderSpread | None = None,
        shared: SharedInformers | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        access = settings.access
        is_idle = spec.dry_run or access.read_only
        self._spec = spec
        self._access = access
        self._client = client
        self._stop = stop
        self._recorder = recorder
        self._now = now
        self.metrics = metrics or Metrics(spec.metrics)
        self.activity = _expect_activity(spec.interval)
        report = self._report_writes()
        self.informers = Informers(
            client,
            UnreadableKinds(self.metrics, spec.log),
            draw=random.random,
            namespaces=spec.namespaces,
            shared=shared,
        )
        self.leadership = leadership or create_leadership(
            spec.election,
            client,
            report=report,
            is_idle=is_idle,
            # Without the right to write them there are no Events about leaders; the log has them as well.
            announcer=LeaderAnnouncer(client, spec.name, partial(count_write, self.metrics)),
            spread=spread,
            component=spec.name,
        )
        self._writer = Writer(
            client,
            record=report,
            may_write=self.leadership.may_write,
            may_write_in=self.leadership.may_write_in,
            settings=WriterSettings(
                read_only=access.read_only,
                dry_run=spec.dry_run,
                concurrency=spec.concurrent_writes,
                rate=access.write_rate,
            ),
        )
        self._events = EventQueue(self._event_recorder(is_idle))
        self._listener: _Listener | None = None
        self._controller: asyncio.Future[C] = asyncio.get_running_loop().create_future()
        self.metrics.set(BUILD, 1, __version__)
        if spec.interval is not None:
            self.metrics.set(PASS_INTERVAL, spec.interval, spec.component)
        self.metrics.register_flush(self._export_state)

    @property
    def alive(self) -> Mapping[str, HealthCheck]:
        """Liveness checks. A component without passes is alive if it answers."""
        return {"ping": lambda: None} if self._spec.interval is None else {"passes": self.activity.check}

    @property
    def ready(self) -> Mapping[str, HealthCheck]:
        """Readiness checks: the informers, and those of the spec."""
        checks: dict[str, Callable[[C], str | None]] = {
            "informers": lambda _controller: self.informers.find_readiness_problem()
        }
        if self.leadership.shard is not None:
            checks["shard"] = lambda _controller: self.leadership.find_readiness_problem()
        checks |= self._spec.checks
        return {name: partial(self._check, check) for name, check in checks.items()}

    def build_process_metrics(self) -> ProcessMetrics:
        """The metrics of a process that runs this component alone."""
        own = Metrics(READINESS_METRICS, about_process=False)

        def flush() -> None:
            failed = next((name for name, find_problem in self.ready.items() if find_problem()), None)
            export_readiness(own, {self._spec.component: failed})

        own.register_flush(flush)
        return ProcessMetrics(own, lambda: {self._spec.component: self.metrics})

    @property
    def pages(self) -> Mapping[str, Page]:
        """Pages of the component, by path."""
        return {path: partial(self._page, page) for path, page in self._spec.pages.items()}

    @property
    def was_handed_over(self) -> bool:
        """Whether the component ended because another replica is to lead it."""
        return self._listener is not None and self._listener.was_handed_over

    async def run(self) -> None:
        """Wait for the API server, and work until cancelled. Writes are finished before leases are released."""
        try:
            async with self._spec.build(self._context(await self._discover())) as controller:
                self._controller.set_result(controller)
                await self._work(controller)
        finally:
            await self.informers.leave()

    def _report_writes(self) -> Callable[[WriteOutcome], None]:
        report = write_reporter(self.metrics, self._spec.log, self._spec.is_usual)

        def report_and_trace(outcome: WriteOutcome) -> None:
            report(outcome)
            count_traced_write(self._spec.component, outcome.result)

        return report_and_trace

    async def _work(self, controller: C) -> None:
        events = asyncio.create_task(self._events.run(lambda: controller.is_busy), name="events")
        listener = self._listener = _Listener(
            self._spec, self.leadership, controller, writer=self._writer, stop=self._stop, metrics=self.metrics
        )
        leading = asyncio.create_task(self.leadership.run(listener), name="leading")
        work = (self.informers.run(), controller.run(), self._mark_ready())
        working = asyncio.create_task(run_all(*work), name=self._spec.name)
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
            component=self._spec.component,
            client=self._client,
            informers=self.informers,
            leadership=self.leadership,
            writer=self._writer,
            served=served,
            metrics=self.metrics,
            activity=self.activity,
            record_event=self._events.record,
            recorder=self._recorder,
            now=lambda: self._now().timestamp(),
            draw=random.random,
        )

    async def _mark_ready(self) -> None:
        """Tell other replicas that this one could lead; it never ends by itself."""
        await self.informers.wait_until_synced()
        self.leadership.mark_ready()
        await asyncio.get_running_loop().create_future()

    def _export_state(self) -> None:
        """Set the gauges that follow from the state of this moment, before each scrape."""
        self.informers.export(self.metrics)
        served = self.leadership.served
        for name in self.leadership.names:
            self.metrics.set(LEADER, float(name in served), self._spec.component, name)
        if (shard := self.leadership.shard) is not None:
            component, member = self._spec.component, self.leadership.member
            self.metrics.set_all(SHARD, {(component, member): 1.0} if member else {})
            self.metrics.set(SHARD_MEMBERS, len(shard.own[0].members) if shard.own else 0, component)

    def _event_recorder(self, is_idle: bool) -> EventRecorder:
        failures = EventFailureLog(self._spec.log)

        def report(outcome: WriteOutcome) -> None:
            count_write(self.metrics, outcome)
            failures.note(outcome)

        settings = WriterSettings(read_only=is_idle, concurrency=_CONCURRENT_EVENTS, rate=self._access.write_rate)
        writer = Writer(self._client, record=report, may_write=self.leadership.may_write, settings=settings)
        return EventRecorder(writer, EventReporter(self._spec.name, socket.gethostname()), now=self._now)

    def _check(self, check: Callable[[C], str | None]) -> str | None:
        return check(self._controller.result()) if self._controller.done() else NOT_YET_DISCOVERED

    async def _page(
        self, page: Callable[[C, PageRequest], Awaitable[ProbeResponse]], request: PageRequest
    ) -> ProbeResponse:
        if not self._controller.done():
            return ProbeResponse(503, f"{NOT_YET_DISCOVERED}\n")
        return await page(self._controller.result(), request)


class _Listener:
    """Tells a controller what its leadership says, and ends a component that is to lead no longer."""

    def __init__(
        self,
        spec: ComponentSpec[Any],
        leadership: Leadership,
        controller: Controller,
        *,
        writer: Writer,
        stop: Shutdown,
        metrics: Metrics,
    ) -> None:
        self._component = spec.component
        self._log = spec.log
        self._leadership = leadership
        self._controller = controller
        self._writer = writer
        self._stop = stop
        self._metrics = metrics
        self.was_handed_over = False

    def on_won(self, name: str) -> None:
        leadership = self._leadership
        self._log.info("leading", **leadership.log_fields(name), identity=leadership.identity)
        self._controller.on_started_leading()

    def on_lost(self, name: str, why: str) -> None:
        if self._stop.reason is None:
            # As upstream: a fresh start is the simplest way to forget what may be out of date.
            self._log.error("lost the Lease", error=None, **self._leadership.log_fields(name), why=why)
            self._stop.request(f"lost {self._leadership.describe(name)}")

    def on_handover(self, name: str, to: str) -> None:
        if self._stop.reason is None:
            self.was_handed_over = True
            fields = self._leadership.log_fields(name)
            self._log.info("handing over the Lease", **fields, to=to, reason=HANDED_OVER.code)
            self._stop.request(f"handed {self._leadership.describe(name)} over to {to}")

    def on_shard_changed(self) -> None:
        self._metrics.add(SHARD_CHANGES, 1, self._component)
        self._controller.on_started_leading()

    async def let_go(self, covers: Callable[[str], bool]) -> None:
        await self._controller.let_go(covers)

    async def wait_for_writes(self, covers: Callable[[str], bool]) -> None:
        await self._writer.wait_for_writes(covers)


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
        metrics=component.build_process_metrics(),
        activity=component.activity.check,
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
        with closing(spec.recording()) as recorder, exporting_traces(settings.health.tracing_endpoint):
            async with connect(settings.access, spec.field_manager, spec.log) as client:
                await run_component(spec, settings, stop, client, recorder=recorder, metrics=metrics, shared=shared)

    return main


def _expect_activity(interval: float | None) -> Activity:
    if interval is None:
        return Activity(math.inf, asyncio.get_running_loop().time)
    return build_activity(interval)
