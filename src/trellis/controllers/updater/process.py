"""Composes the updater: the process with its component, and the controller with its parts.

A full pass runs at the start and every interval; in between a workload is reconciled when it changes or when its last
plan set a time. A full pass covers the workloads that changed since their last plan, and those that wait for something
no watch reports. It ends when all their plans are executed, and is one observation of the latency metric, as upstream's
pass is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Final

from trellis.base.garbage_collection import freeze_live_objects
from trellis.controllers.updater import metrics as named
from trellis.controllers.updater.admission_status import AdmissionStatus
from trellis.controllers.updater.events import UpdaterEvents
from trellis.controllers.updater.executor import UpdateExecutor
from trellis.controllers.updater.informers import UpdaterInformers
from trellis.controllers.updater.metrics import UPDATER_METRICS, UpdaterMetrics
from trellis.controllers.updater.reconcile import BATCH_SIZE, FullPass, WorkloadReconciler
from trellis.controllers.updater.recording import RecordedUpdateMemory, RecordedWorkloadCache, UpdaterRecording
from trellis.controllers.updater.settings import UpdaterSettings, update_settings
from trellis.controllers.updater.state import ScaleRefresher, StateFeed
from trellis.controllers.updater.write_queue import WriteQueue
from trellis.core.recording.format import UPDATER
from trellis.core.recording.updater import HeadroomCounted, UpdaterStarted
from trellis.core.resize.planner import UpdatePlanner
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.state.headroom import NodeHeadroom
from trellis.core.resize.state.memory import UpdateMemory
from trellis.core.resize.state.ownership import WorkloadKey
from trellis.core.resize.state.workload_cache import WorkloadCache
from trellis.kube.client import Client
from trellis.kube.client_factory import open_client
from trellis.kube.flow_control import Rate
from trellis.kube.scales import ScaleLookups
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.runtime import passes
from trellis.runtime.cluster_connection import retry_until_answered
from trellis.runtime.component import Component, Controller, ControllerContext
from trellis.runtime.informers import Informers
from trellis.runtime.optional_kinds import UnreadableKinds
from trellis.runtime.passes import PassThread, Periodic
from trellis.runtime.queues import WorkQueue
from trellis.runtime.recorder import NO_RECORDER, Recorder, open_recorder
from trellis.runtime.shutdown import Main, Shutdown
from trellis.runtime.telemetry import cluster_metrics
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics, StepTimer

# Writes that have begun are waited for at the end for so long.
_DRAIN_SECONDS: Final = 0.5

_log: Final = Logger("trellis.updater")


class UpdaterController(Controller):
    """One process's updater."""

    def __init__(
        self,
        given: ControllerContext,
        settings: UpdaterSettings,
        figures: UpdateSettings,
        *,
        on_settled: Callable[[], object] = lambda: None,
        recorder: Recorder = NO_RECORDER,
    ) -> None:
        client, metrics, now = given.client, given.metrics, given.now
        self._settings = settings
        self._metrics = metrics
        self._may_act = given.may_act
        # Called when all objects have been seen, and looked at: much has been built up that will stay.
        self._on_settled = on_settled
        self._has_worked = False
        self._thread = PassThread("updater")
        self._line = WriteQueue(settings.loop.concurrent_writes)
        self._counting = UpdaterMetrics(metrics)
        own = settings.scope.vpa_object_namespace
        self.informers = Informers(
            client, UnreadableKinds(metrics, _log), draw=given.draw, namespace=own, shared=given.shared
        )
        self.watching = UpdaterInformers(self.informers, settings, given.served)
        rooms = self.watching.knows_rooms
        self._tape = UpdaterRecording(recorder)
        self._tape.write(UpdaterStarted(figures, rooms))
        self._gathering = (
            RecordedWorkloadCache(self._tape, rooms) if recorder.is_on else WorkloadCache(knows_rooms=rooms)
        )
        self.knowledge = StateFeed(self.watching, settings.scope, self._gathering)
        self._scaling = ScaleRefresher(self._gathering, self.watching, ScaleLookups(client, draw=given.draw))
        self._planner = UpdatePlanner(figures, NodeHeadroom(must_know=figures.require_fit) if rooms else None)
        remembered = (self._gathering, figures)
        self._memory = RecordedUpdateMemory(self._tape, *remembered) if recorder.is_on else UpdateMemory(*remembered)
        self._presence = AdmissionStatus(client, settings.admission, now)
        telling = UpdaterEvents(given.record)
        self._looking = WorkloadReconciler(
            self._memory,
            self._planner,
            self._thread,
            queue=WorkQueue(draw=given.draw),
            presence=self._presence,
            telling=telling,
            counting=self._counting,
            metrics=metrics,
            activity=given.activity,
            why_not=self._why_not,
            now=now,
        )
        self._gathering.on_change = self._looking.changed
        self._gathering.withdraws_in = self._withdraws_in
        self._looking.carrying = UpdateExecutor(
            given.writer,
            self.knowledge,
            self._line,
            memory=self._memory,
            telling=telling,
            counting=self._counting,
            rate=_rate(settings),
            now=now,
            on_carried=self._looking.carried,
            call=self._looking.changed,
        )
        self._interval = settings.loop.updater_interval.total_seconds()
        self._loop = Periodic(
            "updater", self._pass, self._interval, on_pass=passes.pass_reporter(given.activity, _log), jitter=0.0
        )

    @property
    def is_busy(self) -> bool:
        """Whether changes wait to be written."""
        return len(self._line) > 0

    def begin_anew(self) -> None:
        """Look at everything now: this process has become the leader."""
        if self.informers.synced:
            self._looking.wake(anew=True)
            self._loop.wake()

    async def run(self) -> None:
        """Work until cancelled, and then finish the writes that have begun."""
        writing = asyncio.create_task(self._line.run(), name="writing")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.informers.run(), name="watching")
                group.create_task(self._begin(), name="passes")
                group.create_task(self._looking.run(), name="looking")
                group.create_task(_failing_with(writing), name="line")
        finally:
            self._line.close()
            await asyncio.wait({writing}, timeout=_DRAIN_SECONDS)
            writing.cancel()
            self._thread.close()

    async def _begin(self) -> None:
        await self.informers.wait_until_synced()
        await self._scaling.ask()
        _log.info("everything has been seen", workloads=len(self._gathering.governed))
        self._on_settled()
        self._looking.wake()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._scaling.run(), name="scales")
            group.create_task(self._loop.run(), name="full passes")

    def _why_not(self) -> str | None:
        """Why nothing may be decided at the moment, if so."""
        return self.informers.why_not_trusted() if self._may_act() else "not leading"

    def _withdraws_in(self, namespace: str) -> bool:
        """Whether boosts that no object gives are taken back there: only where all objects can be read."""
        return self._settings.scope.covers(namespace) and not self.informers.is_lacking(self.watching.hvpas)

    async def _pass(self) -> None:
        """Look at everything that is not at rest."""
        if (why := self._why_not()) is not None:
            _log.info("this pass changes nothing", why=why)
            return
        timer = StepTimer(self._metrics, named.LATENCY, asyncio.get_running_loop().time)
        self._counting.begin_pass()
        known = (*self._gathering.governed.workloads(), *self._gathering.ungoverned())
        workloads = self._memory.restless(known)
        timer.step(named.LIST_VPAS)
        await self._thread.run(self._planner.forget, self.watching.pods.snapshot())
        timer.step(named.LIST_PODS)
        if not await self._looking.ask_for_admission():
            self._metrics.add(named.ABSENT_ADMISSION, 1, self._presence.absence)
        timer.step(named.ADMISSION_INIT)
        round_ = await self._look_at(workloads)
        timer.step(named.FILTER_PODS)
        # As the pass found them: by its end most of what it counts has been changed, and been looked at again.
        looks = dict(self._counting.looks)
        await self._until_finished(round_)
        timer.step(named.EVICT_PODS)
        await self._thread.run(self._counting.full_pass, looks)
        self._export()
        timer.total()
        await self._count_rooms()
        if not self._has_worked:
            self._has_worked = True
            self._on_settled()

    async def _look_at(self, workloads: Sequence[WorkloadKey]) -> FullPass:
        round_ = FullPass(workloads)
        self._looking.begin(round_)
        for begin in range(0, len(workloads), BATCH_SIZE):
            some = workloads[begin : begin + BATCH_SIZE]
            self._looking.look_at(some)
            await round_.until_planned(some)
        return round_

    async def _until_finished(self, round_: FullPass) -> None:
        """Wait for all writes, but not longer than for the next pass: a rate that is set may want hours."""
        try:
            async with asyncio.timeout(self._interval):
                await round_.until_finished()
        except TimeoutError:
            _log.info("changes are still waiting", waiting=len(self._line))

    async def _count_rooms(self) -> None:
        """For those who ask later; a few pods at a time, so that others have their turn."""
        left = True
        while left:
            self._tape.write(HeadroomCounted())
            left = await self._thread.run(self._planner.count_rooms)

    def _export(self) -> None:
        self._metrics.set(named.WAITING, float(len(self._line)))
        self.informers.export(self._metrics)


def _rate(settings: UpdaterSettings) -> Rate | None:
    loop = settings.loop
    return Rate(loop.eviction_rate_limit, loop.eviction_rate_burst) if loop.eviction_rate_limit > 0 else None


async def _failing_with(task: asyncio.Task[None]) -> None:
    """An error of the line ends everything: who cannot write must not go on deciding."""
    await asyncio.shield(task)


FIELD_MANAGER: Final = "trellis-updater"
COMPONENT: Final = "vpa-updater"
# What an API server says of a pod that cannot be changed like this: told in the pod's Events.
_ANSWERS: Final = (Result.REFUSED, Result.INFEASIBLE, Result.INVALID)


def updater_main(settings: UpdaterSettings) -> Main:
    """What a process with these settings does until it is told to stop."""

    async def main(stop: Shutdown) -> None:
        with closing(open_recorder(settings.recording.record, UPDATER, settings)) as recording:
            async with open_client(settings.access.kubeconfig, FIELD_MANAGER, _log.warning) as client:
                await run_updater(client, settings, stop, recording)

    return main


async def run_updater(
    client: Client, settings: UpdaterSettings, stop: Shutdown, recording: Recorder = NO_RECORDER
) -> None:
    """Answer probes and work until it is time to stop."""
    loop = settings.loop
    component = Component(
        client,
        settings,
        stop,
        name=COMPONENT,
        log=_log,
        metrics=Metrics(UPDATER_METRICS),
        interval=loop.updater_interval.total_seconds(),
        idle=loop.dry_run,
        is_usual=_is_usual,
    )

    async def make() -> UpdaterController:
        given = await component.equipment(component.writer(concurrency=loop.concurrent_writes, dry_run=loop.dry_run))
        figures = update_settings(settings, given.served, await retry_until_answered(client.version, _log))
        return UpdaterController(given, settings, figures, on_settled=freeze_live_objects, recorder=recording)

    await component.run(make)


def _is_usual(outcome: WriteOutcome) -> bool:
    return cluster_metrics.is_usual(outcome) or outcome.result in _ANSWERS
