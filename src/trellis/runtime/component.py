"""A component: a process with probes, metrics, Events, an optional lease, and a controller.

    async def run_hvpa(client: Client, settings: HvpaControllerSettings, stop: Shutdown) -> None:
        metrics, interval = Metrics(HVPA_METRICS), settings.loop.hvpa_interval.total_seconds()
        component = Component(client, settings, stop, name="trellis-hvpa", log=_log, metrics=metrics, interval=interval)

        async def make() -> HvpaController:
            return HvpaController(await component.equipment(component.writer()), settings)

        await component.run(make)

The controller is made once the probes are answered, and ends before the lease is released. It gets a
`ControllerContext`; tests make one with a clock and a random source of their own.
"""

from __future__ import annotations

import asyncio
import random
import socket
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Final, Protocol

import msgspec

from trellis.kube.client import Client
from trellis.kube.discovery import Served
from trellis.kube.events import EventRecorder, EventReporter
from trellis.kube.flow_control import Draw
from trellis.kube.leader_election import Election
from trellis.kube.write.outcomes import WriteOutcome
from trellis.kube.write.writer import Writer, WriterSettings
from trellis.runtime.cluster_connection import retry_until_answered
from trellis.runtime.informers import Informers
from trellis.runtime.leadership import make_candidate, make_identity
from trellis.runtime.passes import expect_passes
from trellis.runtime.settings.component import AccessSettings, LeaderSettings
from trellis.runtime.shared_informers import SharedInformers
from trellis.runtime.shutdown import Shutdown, run_until_stopped
from trellis.runtime.telemetry.cluster_metrics import count_write, is_usual, write_reporter
from trellis.runtime.telemetry.event_queue import EventFailureLog, EventQueue, EventSink
from trellis.runtime.telemetry.health import Activity
from trellis.runtime.telemetry.health_server import HealthSettings, serve_health
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics


class ControllerContext(msgspec.Struct, frozen=True, kw_only=True):
    """What every controller works with. `now` is the wall clock, `served` what the API server has.

    `shared` are the informers of the process: controllers that are given the same ones share their caches.
    """

    client: Client
    writer: Writer
    served: Served
    metrics: Metrics
    activity: Activity
    record: EventSink
    may_act: Callable[[], bool]
    now: Callable[[], float]
    draw: Draw
    shared: SharedInformers = msgspec.field(default_factory=SharedInformers)


# Events are posted beside the work, and must not take the API server's time from it.
_EVENTS_AT_ONCE: Final = 2

NOT_YET_ASKED: Final = "the API server has not said what it serves"


class Controller(ABC):
    """What of a component is its own."""

    informers: Informers

    @abstractmethod
    async def run(self) -> None:
        """Work until cancelled."""

    @abstractmethod
    def begin_anew(self) -> None:
        """Look at everything now: this process has become the leader."""

    @property
    def is_busy(self) -> bool:
        """Whether changes wait to be written: Events let them go first."""
        return False


class ComponentSettings(Protocol):
    """What every component can be told."""

    @property
    def access(self) -> AccessSettings:
        """How the API server is reached."""

    @property
    def leader(self) -> LeaderSettings:
        """Which of several replicas works."""

    @property
    def health(self) -> HealthSettings:
        """Where probes are answered."""


class Component:
    """One process. `name` is what Events say it is, `interval` that of its passes in seconds.

    Who is `idle` changes nothing, as who is read-only: it takes no lease, so that it never stops the one who does the
    work, and posts no Events. Who `announces` itself takes its lease even if it works without one: other components
    yield to it by that, and its start does not wait for it.
    """

    def __init__(
        self,
        client: Client,
        settings: ComponentSettings,
        stop: Shutdown,
        *,
        name: str,
        log: Logger,
        metrics: Metrics,
        interval: float,
        idle: bool = False,
        announces: bool = False,
        is_usual: Callable[[WriteOutcome], bool] = is_usual,
        shared: SharedInformers | None = None,
    ) -> None:
        idle = idle or settings.access.read_only
        self.metrics = metrics
        self.activity = expect_passes(interval)
        self._client = client
        self._settings = settings
        self._stop = stop
        self._name = name
        self._log = log
        self._shared = shared if shared is not None else SharedInformers()
        self._report = write_reporter(metrics, log, is_usual)
        self._trouble = EventFailureLog(log)
        self._controller: Controller | None = None
        self._ends = False
        self._posting = EventQueue(
            self._events(idle), lambda: self._controller is not None and self._controller.is_busy
        )
        self._election: Election | None = None
        self._announcing: Election | None = None
        if settings.leader.leader_elect and not idle:
            self._election = make_candidate(
                client, settings.leader, report=self._report, on_change=self._leads, identity=make_identity()
            )
        elif announces and not idle:
            self._announcing = make_candidate(
                client, settings.leader, report=self._report, on_change=lambda _leads: None, identity=make_identity()
            )

    @property
    def record(self) -> EventSink:
        """How to say in an Event that something happened."""
        return self._posting.record

    @staticmethod
    def now() -> float:
        """The wall clock."""
        return _wall_clock().timestamp()

    def may_act(self) -> bool:
        """Whether nobody else can be at work at this moment."""
        return self._election is None or self._election.may_write()

    def writer(self, *, concurrency: int = WriterSettings().concurrency, dry_run: bool = False) -> Writer:
        """One that writes while this process may, as hard as the flags say."""
        access = self._settings.access
        settings = WriterSettings(
            read_only=access.read_only, dry_run=dry_run, concurrency=concurrency, rate=access.write_rate
        )
        return Writer(self._client, record=self._report, may_write=self.may_act, settings=settings)

    async def equipment(self, writer: Writer) -> ControllerContext:
        """What a controller is given, as soon as the API server says what it serves."""
        return ControllerContext(
            client=self._client,
            writer=writer,
            served=await retry_until_answered(self._client.discover, self._log),
            metrics=self.metrics,
            activity=self.activity,
            record=self.record,
            may_act=self.may_act,
            now=self.now,
            draw=random.random,
            shared=self._shared,
        )

    async def run(self, make: Callable[[], Awaitable[Controller]]) -> None:
        """Answer probes and work until it is time to stop."""
        async with serve_health(
            self._settings.health,
            metrics=self.metrics,
            activity=self.activity,
            alive={"passes": self.activity.check},
            ready={"informers": self._why_not_ready},
            remarks=self._remarks,
        ) as address:
            self._log.info("started", address=address, lease=self._settings.leader.leader_elect)
            await run_until_stopped(self._stop, self._work(make), self._name)

    async def _work(self, make: Callable[[], Awaitable[Controller]]) -> None:
        """Work until cancelled. What is written is finished before the lease is given back."""
        controller = self._controller = await make()
        election = self._election or self._announcing
        leading = asyncio.create_task(election.run(), name="leading") if election else None
        events = asyncio.create_task(self._posting.run(), name="events")
        try:
            await controller.run()
        finally:
            self._ends = True
            events.cancel()
            if leading is not None:
                leading.cancel()
                await asyncio.wait({leading})

    def _why_not_ready(self) -> str | None:
        return self._controller.informers.why_not_ready() if self._controller else NOT_YET_ASKED

    def _remarks(self) -> Sequence[str]:
        return self._controller.informers.remarks() if self._controller else ()

    def _events(self, idle: bool) -> EventRecorder:
        def report(outcome: WriteOutcome) -> None:
            count_write(self.metrics, outcome)
            self._trouble.note(outcome)

        settings = WriterSettings(read_only=idle, concurrency=_EVENTS_AT_ONCE, rate=self._settings.access.write_rate)
        writer = Writer(self._client, record=report, may_write=self.may_act, settings=settings)
        return EventRecorder(writer, EventReporter(self._name, socket.gethostname()), now=_wall_clock)

    def _leads(self, leading: bool) -> None:
        if leading:
            self._log.info("leading")
            if self._controller is not None:
                self._controller.begin_anew()
        elif self._stop.reason is None and not self._ends:
            # As upstream: a fresh start is the simplest way to forget what may be out of date.
            self._log.error("lost the lease", why=self._election.trouble if self._election else "")
            self._stop.request("lost the lease")


def _wall_clock() -> datetime:
    return datetime.now(UTC)
