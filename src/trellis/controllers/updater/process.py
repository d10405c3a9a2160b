"""What does the process of an updater consist of? The client, the probes, the lease, the Events and the updater."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

from trellis.base.collector import set_aside
from trellis.base.errors import KubeError, UnreadableObject
from trellis.controllers.updater.figures import update_settings
from trellis.controllers.updater.metrics import UPDATER_METRICS
from trellis.controllers.updater.posting import EventTrouble, Posting
from trellis.controllers.updater.settings import UpdaterSettings
from trellis.controllers.updater.updater import Updater
from trellis.core.model.recording import UPDATER
from trellis.kube.client import Client
from trellis.kube.connected import connected
from trellis.kube.events import EventRecorder, Reporter
from trellis.kube.leases import Election, LeaseTimes
from trellis.kube.outcomes import Outcome, Result
from trellis.kube.served import Served, ServerVersion
from trellis.kube.writer import Writer, WriterSettings
from trellis.runtime.cluster_metrics import count_write
from trellis.runtime.component_settings import LeaderSettings
from trellis.runtime.health import Activity
from trellis.runtime.health_server import serving
from trellis.runtime.logs import Logger
from trellis.runtime.metrics import Metrics
from trellis.runtime.recording import NO_RECORDER, Recorder, recorder
from trellis.runtime.shutdown import Main, Shutdown

FIELD_MANAGER: Final = "trellis-updater"
COMPONENT: Final = "vpa-updater"
# A pass that has not ended for so many intervals is taken for dead, as upstream's is.
_PATIENCE: Final = 5
# Passes that follow one another faster than this are given as much time as if they did not.
_SHORTEST: Final = 1.0
_DISCOVERY_SECONDS: Final = 2.0
# Events are posted beside the work, and must not take the API server's time from it.
_EVENTS_AT_ONCE: Final = 2

_log: Final = Logger("trellis.updater")


def updating(settings: UpdaterSettings) -> Main:
    """What a process with these settings does until it is told to stop."""

    async def main(stop: Shutdown) -> None:
        recording = recorder(settings.recording.record, UPDATER, settings)
        try:
            async with connected(settings.access.kubeconfig, FIELD_MANAGER, _log.warning) as client:
                await run_updater(client, settings, stop, recording)
        finally:
            recording.close()

    return main


async def run_updater(
    client: Client, settings: UpdaterSettings, stop: Shutdown, recording: Recorder = NO_RECORDER
) -> None:
    """Answer probes and work until it is time to stop."""
    metrics = Metrics(UPDATER_METRICS)
    clock = asyncio.get_running_loop().time
    activity = Activity(_PATIENCE * max(settings.loop.updater_interval.total_seconds(), _SHORTEST), clock)
    process = _Process(client, settings, metrics, activity, stop, recording=recording)
    async with serving(
        settings.health,
        metrics=metrics,
        activity=activity,
        alive={"passes": activity.check},
        ready={"informers": process.why_not_ready},
        remarks=process.remarks,
    ) as address:
        _log.info("started", address=address, lease=settings.leader.leader_elect)
        working = asyncio.create_task(process.run(), name="updater")
        stopping = asyncio.create_task(stop.wait(), name="stopping")
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            working.cancel()
            await asyncio.wait({working})
        if not working.cancelled():
            working.result()


class _Process:
    """Everything but the probes."""

    def __init__(
        self,
        client: Client,
        settings: UpdaterSettings,
        metrics: Metrics,
        activity: Activity,
        stop: Shutdown,
        *,
        recording: Recorder,
    ) -> None:
        self._client = client
        self._settings = settings
        self._metrics = metrics
        self._activity = activity
        self._stop = stop
        self._recording = recording
        self._trouble = EventTrouble()
        self._updater: Updater | None = None
        # Who changes nothing takes no lease either, and so never stops the one who does the work.
        idle = settings.access.read_only or settings.loop.dry_run
        self._election = self._elect() if settings.leader.leader_elect and not idle else None

    def why_not_ready(self) -> str | None:
        """What is not known yet of the cluster."""
        return self._updater.why_not_ready() if self._updater else "the API server has not said what it serves"

    def remarks(self) -> list[str]:
        """What it goes on without."""
        return self._updater.unseen.remarks() if self._updater else []

    async def run(self) -> None:
        """Work until cancelled. What is written is finished before the lease is given back."""
        served, version = await _discover(self._client)
        settings = self._settings
        access, loop = settings.access, settings.loop
        idle = access.read_only or loop.dry_run
        rate = access.write_rate
        writer = self._writer(
            WriterSettings(
                read_only=access.read_only, dry_run=loop.dry_run, concurrency=loop.concurrent_writes, rate=rate
            )
        )
        told = self._writer(WriterSettings(read_only=idle, concurrency=_EVENTS_AT_ONCE, rate=rate), self._record_event)
        events_of = EventRecorder(told, Reporter(COMPONENT, socket.gethostname()), now=lambda: datetime.now(UTC))
        posting = Posting(events_of, lambda: self._updater is not None and self._updater.is_busy)
        updater = self._updater = Updater(
            self._client,
            writer,
            settings,
            update_settings(settings, served, version),
            served,
            metrics=self._metrics,
            activity=self._activity,
            record=posting.record,
            may_act=self._may_act,
            now=lambda: datetime.now(UTC).timestamp(),
            draw=random.random,
            on_settled=set_aside,
            recorder=self._recording,
        )
        leading = asyncio.create_task(self._election.run(), name="leading") if self._election else None
        events = asyncio.create_task(posting.run(), name="events")
        try:
            await updater.run()
        finally:
            events.cancel()
            if leading is not None:
                leading.cancel()
                await asyncio.wait({leading})

    def _may_act(self) -> bool:
        return self._election is None or self._election.may_write()

    def _writer(self, settings: WriterSettings, record: Callable[[Outcome], None] | None = None) -> Writer:
        return Writer(self._client, record=record or self._record, may_write=self._may_act, settings=settings)

    def _record_event(self, outcome: Outcome) -> None:
        count_write(self._metrics, outcome)
        self._trouble.note(outcome)

    def _record(self, outcome: Outcome) -> None:
        count_write(self._metrics, outcome)
        unusual = outcome.result not in (
            *(Result.APPLIED, Result.CONFLICT, Result.GONE, Result.SKIPPED),
            *(Result.REFUSED, Result.INFEASIBLE, Result.INVALID),
        )
        if unusual:
            _log.warning("not written", what=outcome.action.target, result=outcome.result, why=outcome.message)

    def _elect(self) -> Election:
        """The candidate. Its writer has no fence: whoever is not leading must be able to take the lease."""
        leader = self._settings.leader
        return Election(
            self._client,
            Writer(self._client, record=self._record),
            name=leader.leader_elect_resource_name,
            namespace=leader.leader_elect_resource_namespace,
            identity=f"{socket.gethostname()}_{uuid4()}",
            now=lambda: datetime.now(UTC),
            draw=random.random,
            times=_times(leader),
            on_change=self._leads,
        )

    def _leads(self, leading: bool) -> None:
        if leading:
            _log.info("leading")
            if self._updater is not None:
                self._updater.begin_anew()
        elif self._stop.reason is None:
            # As upstream: a fresh start is the simplest way to forget what may be out of date.
            _log.error("lost the lease", why=self._election.trouble if self._election else "")
            self._stop.request("lost the lease")


async def _discover(client: Client) -> tuple[Served, ServerVersion]:
    """What the API server is and has; asked for until it says so, because nothing can be watched before that either."""
    while True:
        try:
            return await client.discover(), await client.version()
        except (KubeError, UnreadableObject) as error:
            _log.warning("cannot ask what the API server has", why=error, again_in=_DISCOVERY_SECONDS)
            await asyncio.sleep(_DISCOVERY_SECONDS)


def _times(leader: LeaderSettings) -> LeaseTimes:
    return LeaseTimes(
        leader.leader_elect_lease_duration.total_seconds(),
        leader.leader_elect_renew_deadline.total_seconds(),
        leader.leader_elect_retry_period.total_seconds(),
    )
