"""What does the process of an Hvpa controller consist of? Client, probes, lease, Events and controller."""

from __future__ import annotations

import asyncio
import random
import socket
from datetime import UTC, datetime
from typing import Final
from uuid import uuid4

from trellis.base.errors import KubeError, UnreadableObject
from trellis.controllers.hvpa.controller import HvpaController
from trellis.controllers.hvpa.metrics import HVPA_METRICS
from trellis.controllers.hvpa.publishing import FIELD_MANAGER
from trellis.controllers.hvpa.settings import HvpaControllerSettings
from trellis.kube.actions import PatchObject
from trellis.kube.client import Client
from trellis.kube.connected import connected
from trellis.kube.events import EventRecorder, Reporter
from trellis.kube.leases import Election, LeaseTimes
from trellis.kube.outcomes import Outcome, Result
from trellis.kube.resources import HVPAS
from trellis.kube.served import Served
from trellis.kube.writer import Writer, WriterSettings
from trellis.runtime.cluster_metrics import count_write
from trellis.runtime.component_settings import LeaderSettings
from trellis.runtime.health import Activity
from trellis.runtime.health_server import serving
from trellis.runtime.logs import Logger
from trellis.runtime.metrics import Metrics
from trellis.runtime.shutdown import Main, Shutdown

COMPONENT: Final = "trellis-hvpa"
# A pass that has not ended for so many intervals is taken for dead.
_PATIENCE: Final = 5
# Passes that follow one another faster than this are given as much time as if they did not.
_SHORTEST: Final = 1.0
_DISCOVERY_SECONDS: Final = 2.0
# Events are posted beside the work, and must not take the API server's time from it.
_EVENTS_AT_ONCE: Final = 2
# Somebody else was faster: the next look sees it.
_USUAL: Final = (Result.APPLIED, Result.CONFLICT, Result.GONE, Result.SKIPPED)

_log: Final = Logger("trellis.hvpa")


def scaling(settings: HvpaControllerSettings) -> Main:
    """What a process with these settings does until it is told to stop."""

    async def main(stop: Shutdown) -> None:
        async with connected(settings.access.kubeconfig, FIELD_MANAGER, _log.warning) as client:
            await run_hvpa(client, settings, stop)

    return main


async def run_hvpa(client: Client, settings: HvpaControllerSettings, stop: Shutdown) -> None:
    """Answer probes and work until it is time to stop."""
    metrics = Metrics(HVPA_METRICS)
    clock = asyncio.get_running_loop().time
    activity = Activity(_PATIENCE * max(settings.loop.hvpa_interval.total_seconds(), _SHORTEST), clock)
    process = _Process(client, settings, metrics, activity, stop)
    async with serving(
        settings.health,
        metrics=metrics,
        activity=activity,
        alive={"passes": activity.check},
        ready={"informers": process.why_not_ready},
        remarks=process.remarks,
    ) as address:
        _log.info("started", address=address, lease=settings.leader.leader_elect)
        working = asyncio.create_task(process.run(), name="hvpa")
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
        settings: HvpaControllerSettings,
        metrics: Metrics,
        activity: Activity,
        stop: Shutdown,
    ) -> None:
        self._client = client
        self._settings = settings
        self._metrics = metrics
        self._activity = activity
        self._stop = stop
        self._controller: HvpaController | None = None
        # Who changes nothing takes no lease either, and so never stops the one who does the work.
        elects = settings.leader.leader_elect and not settings.access.read_only
        self._election = self._elect() if elects else None

    def why_not_ready(self) -> str | None:
        """What is not known yet of the cluster."""
        return self._controller.why_not_ready() if self._controller else "the API server has not said what it serves"

    def remarks(self) -> list[str]:
        """What it goes on without."""
        return self._controller.unseen.remarks() if self._controller else []

    async def run(self) -> None:
        """Work until cancelled. What is written is finished before the lease is given back."""
        served = await _discover(self._client)
        settings, access = self._settings, self._settings.access
        writing = WriterSettings(
            read_only=access.read_only, concurrency=settings.loop.concurrent_writes, rate=access.write_rate
        )
        told = WriterSettings(read_only=access.read_only, concurrency=_EVENTS_AT_ONCE, rate=access.write_rate)
        reporter = Reporter(COMPONENT, socket.gethostname())
        events = EventRecorder(self._writer(told), reporter, now=lambda: datetime.now(UTC))
        controller = self._controller = HvpaController(
            self._client,
            self._writer(writing),
            settings,
            served,
            metrics=self._metrics,
            activity=self._activity,
            record=events.record,
            may_act=self._may_act,
            now=lambda: datetime.now(UTC).timestamp(),
            draw=random.random,
        )
        leading = asyncio.create_task(self._election.run(), name="leading") if self._election else None
        posting = asyncio.create_task(events.run(), name="events")
        try:
            await controller.run()
        finally:
            posting.cancel()
            if leading is not None:
                leading.cancel()
                await asyncio.wait({leading})

    def _may_act(self) -> bool:
        return self._election is None or self._election.may_write()

    def _writer(self, settings: WriterSettings) -> Writer:
        return Writer(self._client, record=self._record, may_write=self._may_act, settings=settings)

    def _record(self, outcome: Outcome) -> None:
        count_write(self._metrics, outcome)
        if outcome.result not in _USUAL and not _is_outrun(outcome):
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
            if self._controller is not None:
                self._controller.begin_anew()
        elif self._stop.reason is None:
            # A fresh start is the simplest way to forget what may be out of date.
            _log.error("lost the lease", why=self._election.trouble if self._election else "")
            self._stop.request("lost the lease")


def _is_outrun(outcome: Outcome) -> bool:
    """Whether `spec.replicas` was no longer what it was: an HPA has written in the meantime."""
    action = outcome.action
    written_back = isinstance(action, PatchObject) and action.target.resource is HVPAS and not action.subresource
    return written_back and outcome.result is Result.INVALID


async def _discover(client: Client) -> Served:
    """What the API server has; asked for until it says so, because nothing can be watched before that either."""
    while True:
        try:
            return await client.discover()
        except (KubeError, UnreadableObject) as error:
            _log.warning("cannot ask what the API server has", why=error, again_in=_DISCOVERY_SECONDS)
            await asyncio.sleep(_DISCOVERY_SECONDS)


def _times(leader: LeaderSettings) -> LeaseTimes:
    return LeaseTimes(
        leader.leader_elect_lease_duration.total_seconds(),
        leader.leader_elect_renew_deadline.total_seconds(),
        leader.leader_elect_retry_period.total_seconds(),
    )
