"""Composes the updater: its spec as a component, and the controller from its parts.

A full pass runs at the start and every interval; in between a workload is reconciled when it changes or when its last
plan set a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import Final

import msgspec

from trellis.base.python_gc import freeze_live_objects
from trellis.controllers.updater.events import UpdaterEvents
from trellis.controllers.updater.executor import UpdateExecutor, WriteQueue
from trellis.controllers.updater.informers import UpdaterInformers, list_followed_kinds
from trellis.controllers.updater.metrics import UPDATER_METRICS, UpdaterMetrics
from trellis.controllers.updater.reconcile import AdmissionStatus, ChangedWorkloads, FullPass, WorkloadReconciler
from trellis.controllers.updater.recording import UpdaterRecording, create_memory, create_workload_cache
from trellis.controllers.updater.settings import UpdaterSettings, update_settings
from trellis.controllers.updater.shards import UpdaterShard
from trellis.controllers.updater.state import ScaleRefresher, StateFeed
from trellis.core.recording import format as recordings
from trellis.core.recording.updater import UpdaterStarted
from trellis.core.resize.planner import UpdateMemory, UpdatePlanner
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.state.node_headroom import NodeHeadroom
from trellis.core.resize.state.workload_cache import WorkloadCache
from trellis.kube.flow_control import Rate
from trellis.kube.scales import ScaleLookups
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.runtime import passes
from trellis.runtime.cluster_connection import retry_until_success
from trellis.runtime.component import ComponentSpec, Controller, ControllerContext, component_main
from trellis.runtime.leadership import sharded, single_lease
from trellis.runtime.manager.settings import UPDATER
from trellis.runtime.manager.supervisor import ManagedComponent
from trellis.runtime.passes import PassThread, Periodic
from trellis.runtime.queues import WorkQueue
from trellis.runtime.recorder import open_recorder
from trellis.runtime.shutdown import Main
from trellis.runtime.telemetry import cluster_metrics
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.tracing import trace_passes

FIELD_MANAGER: Final = "trellis-updater"
COMPONENT: Final = "vpa-updater"

# Seconds that writes which have begun are waited for at the end.
_DRAIN_SECONDS: Final = 0.5
# How an API server refuses a change of a pod: such a refusal is an Event of the pod, and no warning.
_REFUSALS: Final = (Result.REFUSED, Result.INFEASIBLE, Result.INVALID)

_log: Final = Logger("trellis.updater")


class UpdaterState(msgspec.Struct, frozen=True, kw_only=True):
    """What the updater knows of workloads, and what keeps it current."""

    cache: WorkloadCache
    changes: ChangedWorkloads
    feed: StateFeed
    scales: ScaleRefresher
    memory: UpdateMemory


class UpdaterParts(msgspec.Struct, frozen=True, kw_only=True):
    """What reconciles and full passes share. `find_skip_reason` says why nothing may be decided now, if so.

    `covers` is whether decisions about a namespace are made here.
    """

    planner: UpdatePlanner
    thread: PassThread
    writes: WriteQueue
    admission: AdmissionStatus
    counters: UpdaterMetrics
    find_skip_reason: Callable[[], str | None]
    covers: Callable[[str], bool]


class UpdaterController(Controller):
    """The updater of a process. `on_warmed_up` is called when the caches are synced, and after the first pass."""

    def __init__(
        self,
        context: ControllerContext,
        state: UpdaterState,
        parts: UpdaterParts,
        reconciler: WorkloadReconciler,
        full_pass: FullPass,
        *,
        shard: UpdaterShard,
        interval: float,
        on_warmed_up: Callable[[], object],
    ) -> None:
        self._informer_set = context.informers
        self._complete_pass = context.complete_pass
        self._cache = state.cache
        self._changes = state.changes
        self._scales = state.scales
        self._memory = state.memory
        self._thread = parts.thread
        self._writes = parts.writes
        self._find_skip_reason = parts.find_skip_reason
        self._reconciler = reconciler
        self._full_pass = full_pass
        self._shard = shard
        self._on_warmed_up = on_warmed_up
        self._has_passed = False
        self._loop = Periodic(
            "updater",
            trace_passes(context.component, self._pass),
            interval,
            on_pass=passes.pass_reporter(
                context.activity, _log, cluster_metrics.PassGauges(context.metrics, context.component)
            ),
            jitter=0.0,
        )

    @property
    def is_busy(self) -> bool:
        """Whether changes wait to be written."""
        return len(self._writes) > 0

    def on_started_leading(self) -> None:
        """Plan for every workload of this replica now."""
        self._shard.take()
        if self._informer_set.synced:
            self._changes.start_enqueueing()
            self._memory.mark_all_changed()
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
        await self._scales.refresh()
        _log.info("caches synced", workloads=len(self._cache.governors))
        self._on_warmed_up()
        self._changes.start_enqueueing()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._scales.run(), name="scales")
            group.create_task(self._loop.run(), name="full passes")

    async def _pass(self) -> None:
        if (skip_reason := self._find_skip_reason()) is not None:
            _log.info("pass skipped", why=skip_reason)
            return
        await self._full_pass.run()
        self._complete_pass()
        if not self._has_passed:
            self._has_passed = True
            self._on_warmed_up()


def build_updater(
    context: ControllerContext,
    settings: UpdaterSettings,
    update: UpdateSettings,
    *,
    on_warmed_up: Callable[[], object] = lambda: None,
) -> UpdaterController:
    """The updater with all its parts."""
    informers = UpdaterInformers(context.informers, settings, context.served)
    recording = UpdaterRecording(context.recorder)
    recording.write(UpdaterStarted(update, informers.sees_all_pods))
    state = _build_state(context, settings, update, informers, recording)
    headroom = NodeHeadroom(counts_all=update.require_fit) if informers.sees_all_pods else None
    parts = UpdaterParts(
        planner=UpdatePlanner(update, headroom),
        thread=PassThread("updater"),
        writes=WriteQueue(settings.loop.concurrent_writes),
        admission=AdmissionStatus(context.client, settings.admission, context.now),
        counters=UpdaterMetrics(context.metrics),
        find_skip_reason=partial(_find_skip_reason, context),
        covers=context.leadership.covers,
    )
    events = UpdaterEvents(context.record_event)
    executor = _build_executor(context, settings, state, parts, events)
    reconciler = _build_reconciler(context, state, parts, executor, events)
    shard = UpdaterShard(
        context.leadership,
        state.memory,
        executor,
        events=events,
        counters=parts.counters,
        hourly=update.hourly,
        rate=_rate(settings),
    )
    interval = settings.loop.updater_interval.total_seconds()
    full_pass = FullPass(
        state.cache,
        state.changes,
        state.memory,
        parts.planner,
        reconciler,
        thread=parts.thread,
        admission=parts.admission,
        counters=parts.counters,
        metrics=context.metrics,
        recording=recording,
        pods=informers.pods.snapshot,
        waiting=parts.writes.__len__,
        export=partial(context.informers.export, context.metrics),
        covers=parts.covers,
        interval=interval,
    )
    return UpdaterController(
        context, state, parts, reconciler, full_pass, shard=shard, interval=interval, on_warmed_up=on_warmed_up
    )


def _build_state(
    context: ControllerContext,
    settings: UpdaterSettings,
    update: UpdateSettings,
    informers: UpdaterInformers,
    recording: UpdaterRecording,
) -> UpdaterState:
    changes, new_target = ChangedWorkloads(WorkQueue(draw=context.draw)), asyncio.Event()

    def withdraws_in(namespace: str) -> bool:
        """Whether boosts that no object gives are taken back there: only where all objects can be read."""
        return settings.scope.covers(namespace) and not context.informers.is_lacking(informers.hvpas)

    cache = create_workload_cache(
        recording,
        tracks_headroom=informers.sees_all_pods,
        on_change=changes.note,
        on_new_target=new_target.set,
        withdraws_in=withdraws_in,
    )
    return UpdaterState(
        cache=cache,
        changes=changes,
        feed=StateFeed(informers, settings.scope, cache),
        scales=ScaleRefresher(cache, informers, ScaleLookups(context.client, draw=context.draw), new_target),
        memory=create_memory(recording, cache, update),
    )


def _build_executor(
    context: ControllerContext,
    settings: UpdaterSettings,
    state: UpdaterState,
    parts: UpdaterParts,
    events: UpdaterEvents,
) -> UpdateExecutor:
    return UpdateExecutor(
        context.writer,
        state.feed,
        parts.writes,
        memory=state.memory,
        events=events,
        counters=parts.counters,
        rate=_rate(settings),
        now=context.now,
        requeue=state.changes.note,
    )


def _build_reconciler(
    context: ControllerContext,
    state: UpdaterState,
    parts: UpdaterParts,
    executor: UpdateExecutor,
    events: UpdaterEvents,
) -> WorkloadReconciler:
    return WorkloadReconciler(
        state.changes,
        state.memory,
        parts.planner,
        executor,
        parts.thread,
        admission=parts.admission,
        events=events,
        counters=parts.counters,
        metrics=context.metrics,
        activity=context.activity,
        find_skip_reason=parts.find_skip_reason,
        covers=parts.covers,
        now=context.now,
    )


def _find_skip_reason(context: ControllerContext) -> str | None:
    """Why nothing may be decided at the moment, if so."""
    if not context.may_act():
        return "not leading"
    if not context.leadership.has_namespaces:
        return "waits for the replicas that it shares namespaces with"
    return context.informers.find_staleness_problem()


def updater_spec(settings: UpdaterSettings) -> ComponentSpec[UpdaterController]:
    """The updater as a component."""
    election = single_lease(settings.leader)

    @asynccontextmanager
    async def build(context: ControllerContext) -> AsyncIterator[UpdaterController]:
        version = await retry_until_success(context.client.version, _log)
        update = update_settings(settings, context.served, version)
        yield build_updater(context, settings, update, on_warmed_up=freeze_live_objects)

    return ComponentSpec(
        component="updater",
        name=COMPONENT,
        field_manager=FIELD_MANAGER,
        log=_log,
        metrics=UPDATER_METRICS,
        build=build,
        interval=settings.loop.updater_interval.total_seconds(),
        namespaces=settings.scope.vpa_object_namespace,
        election=sharded(election) if settings.leader.shard_namespaces else election,
        recording=partial(open_recorder, settings.recording.record, recordings.UPDATER, settings),
        concurrent_writes=settings.loop.concurrent_writes,
        dry_run=settings.loop.dry_run,
        is_usual=_is_usual,
        started_with={"lease": settings.leader.leader_elect},
    )


def manage_updater(settings: UpdaterSettings) -> ManagedComponent:
    """The component as a process of several runs it."""
    return ManagedComponent(
        name=UPDATER,
        settings=settings,
        metrics=UPDATER_METRICS,
        followed=list_followed_kinds(settings),
        open=lambda _metrics: nullcontext(updater_spec(settings)),
    )


def updater_main(settings: UpdaterSettings) -> Main:
    """The controller of a process with these settings."""
    return component_main(updater_spec(settings), settings)


def _rate(settings: UpdaterSettings) -> Rate | None:
    loop = settings.loop
    return Rate(loop.eviction_rate_limit, loop.eviction_rate_burst) if loop.eviction_rate_limit > 0 else None


async def _await_shielded(task: asyncio.Task[None]) -> None:
    await asyncio.shield(task)


def _is_usual(outcome: WriteOutcome) -> bool:
    return cluster_metrics.is_expected(outcome) or outcome.result in _REFUSALS
