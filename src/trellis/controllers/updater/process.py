"""Composes the updater: its spec as a component, and the controller from its parts.

A full pass runs at the start and every interval; in between a workload is reconciled when it changes or when its last
plan set a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from trellis.base.garbage_collection import freeze_live_objects
from trellis.controllers.updater.admission_status import AdmissionStatus
from trellis.controllers.updater.events import UpdaterEvents
from trellis.controllers.updater.executor import UpdateExecutor
from trellis.controllers.updater.informers import UpdaterInformers
from trellis.controllers.updater.metrics import UPDATER_METRICS, UpdaterMetrics
from trellis.controllers.updater.reconcile import ChangedWorkloads, FullPass, WorkloadReconciler
from trellis.controllers.updater.recording import UpdaterRecording, create_memory, create_workload_cache
from trellis.controllers.updater.settings import UpdaterSettings, update_settings
from trellis.controllers.updater.state import ScaleRefresher, StateFeed
from trellis.controllers.updater.write_queue import WriteQueue
from trellis.core.recording.format import UPDATER
from trellis.core.recording.updater import UpdaterStarted
from trellis.core.resize.planner import UpdatePlanner
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.state.headroom import NodeHeadroom
from trellis.kube.flow_control import Rate
from trellis.kube.scales import ScaleLookups
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.runtime import passes
from trellis.runtime.cluster_connection import retry_until_answered
from trellis.runtime.component import ComponentSpec, Controller, ControllerContext, component_main
from trellis.runtime.leadership import one_lease
from trellis.runtime.passes import PassThread, Periodic
from trellis.runtime.queues import WorkQueue
from trellis.runtime.recorder import open_recorder
from trellis.runtime.shutdown import Main
from trellis.runtime.telemetry import cluster_metrics
from trellis.runtime.telemetry.logs import Logger

FIELD_MANAGER: Final = "trellis-updater"
COMPONENT: Final = "vpa-updater"

# Writes that have begun are waited for at the end for so long.
_DRAIN_SECONDS: Final = 0.5
# How an API server refuses a change of a pod: such a refusal is an Event of the pod, and no warning.
_REFUSALS: Final = (Result.REFUSED, Result.INFEASIBLE, Result.INVALID)

_log: Final = Logger("trellis.updater")


class UpdaterController(Controller):
    """The updater of a process. `on_settled` is called when much has been built up that will stay."""

    def __init__(
        self,
        context: ControllerContext,
        settings: UpdaterSettings,
        update: UpdateSettings,
        *,
        on_settled: Callable[[], object] = lambda: None,
    ) -> None:
        metrics, now = context.metrics, context.now
        self._informer_set = context.informers
        self._may_act = context.may_act
        self._on_settled = on_settled
        self._has_passed = False
        self._thread = PassThread("updater")
        self._writes = WriteQueue(settings.loop.concurrent_writes)
        informers = UpdaterInformers(context.informers, settings, context.served)
        knows_headroom = informers.knows_rooms
        recording = UpdaterRecording(context.recorder)
        recording.write(UpdaterStarted(update, knows_headroom))
        self._changes = ChangedWorkloads(WorkQueue(draw=context.draw))
        new_target = asyncio.Event()

        def withdraws_in(namespace: str) -> bool:
            """Whether boosts that no object gives are taken back there: only where all objects can be read."""
            return settings.scope.covers(namespace) and not context.informers.is_lacking(informers.hvpas)

        self._cache = create_workload_cache(
            recording,
            knows_rooms=knows_headroom,
            on_change=self._changes.note,
            on_new_target=new_target.set,
            withdraws_in=withdraws_in,
        )
        state = StateFeed(informers, settings.scope, self._cache)
        self._scales = ScaleRefresher(
            self._cache, informers, ScaleLookups(context.client, draw=context.draw), new_target
        )
        planner = UpdatePlanner(update, NodeHeadroom(must_know=update.require_fit) if knows_headroom else None)
        self._memory = create_memory(recording, self._cache, update)
        admission = AdmissionStatus(context.client, settings.admission, now)
        events, counters = UpdaterEvents(context.record_event), UpdaterMetrics(metrics)
        executor = UpdateExecutor(
            context.writer,
            state,
            self._writes,
            memory=self._memory,
            events=events,
            counters=counters,
            rate=_rate(settings),
            now=now,
            requeue=self._changes.note,
        )
        self._reconciler = WorkloadReconciler(
            self._changes,
            self._memory,
            planner,
            executor,
            self._thread,
            admission=admission,
            events=events,
            counters=counters,
            metrics=metrics,
            activity=context.activity,
            why_not=self._why_not,
            now=now,
        )
        interval = settings.loop.updater_interval.total_seconds()
        self._full_pass = FullPass(
            self._cache,
            self._changes,
            self._memory,
            planner,
            self._reconciler,
            thread=self._thread,
            admission=admission,
            counters=counters,
            metrics=metrics,
            recording=recording,
            pods=informers.pods.snapshot,
            waiting=self._writes.__len__,
            export=partial(context.informers.export, metrics),
            interval=interval,
        )
        self._loop = Periodic(
            "updater", self._pass, interval, on_pass=passes.pass_reporter(context.activity, _log), jitter=0.0
        )

    @property
    def is_busy(self) -> bool:
        """Whether changes wait to be written."""
        return len(self._writes) > 0

    def on_started_leading(self) -> None:
        """Plan for every workload now."""
        if self._informer_set.synced:
            self._changes.start_enqueueing()
            self._memory.all_changed()
            self._loop.wake()

    async def run(self) -> None:
        """Work until cancelled, and then finish the writes that have begun."""
        writing = asyncio.create_task(self._writes.run(), name="writing")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._run_passes(), name="passes")
                group.create_task(self._reconciler.run(), name="reconciles")
                # An error of the write queue ends everything: an updater that cannot write must not decide.
                group.create_task(_await_shielded(writing), name="writes")
        finally:
            self._writes.close()
            await asyncio.wait({writing}, timeout=_DRAIN_SECONDS)
            writing.cancel()
            self._thread.close()

    async def _run_passes(self) -> None:
        await self._informer_set.wait_until_synced()
        await self._scales.ask()
        _log.info("everything has been seen", workloads=len(self._cache.governed))
        self._on_settled()
        self._changes.start_enqueueing()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._scales.run(), name="scales")
            group.create_task(self._loop.run(), name="full passes")

    async def _pass(self) -> None:
        if (skip_reason := self._why_not()) is not None:
            _log.info("this pass changes nothing", why=skip_reason)
            return
        await self._full_pass.run()
        if not self._has_passed:
            self._has_passed = True
            self._on_settled()

    def _why_not(self) -> str | None:
        """Why nothing may be decided at the moment, if so."""
        return self._informer_set.why_not_trusted() if self._may_act() else "not leading"


def updater_spec(settings: UpdaterSettings) -> ComponentSpec[UpdaterController]:
    """The updater as a component."""

    @asynccontextmanager
    async def build(context: ControllerContext) -> AsyncIterator[UpdaterController]:
        version = await retry_until_answered(context.client.version, _log)
        update = update_settings(settings, context.served, version)
        yield UpdaterController(context, settings, update, on_settled=freeze_live_objects)

    return ComponentSpec(
        name=COMPONENT,
        field_manager=FIELD_MANAGER,
        log=_log,
        metrics=UPDATER_METRICS,
        build=build,
        interval=settings.loop.updater_interval.total_seconds(),
        namespace=settings.scope.vpa_object_namespace,
        election=one_lease(settings.leader),
        recording=partial(open_recorder, settings.recording.record, UPDATER, settings),
        concurrent_writes=settings.loop.concurrent_writes,
        dry_run=settings.loop.dry_run,
        is_usual=_is_usual,
        started_with={"lease": settings.leader.leader_elect},
    )


def updater_main(settings: UpdaterSettings) -> Main:
    """What a process with these settings does until it is told to stop."""
    return component_main(updater_spec(settings), settings)


def _rate(settings: UpdaterSettings) -> Rate | None:
    loop = settings.loop
    return Rate(loop.eviction_rate_limit, loop.eviction_rate_burst) if loop.eviction_rate_limit > 0 else None


async def _await_shielded(task: asyncio.Task[None]) -> None:
    await asyncio.shield(task)


def _is_usual(outcome: WriteOutcome) -> bool:
    return cluster_metrics.is_usual(outcome) or outcome.result in _REFUSALS
