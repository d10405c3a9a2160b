"""Reconciles workloads: those that changed, those whose last plan set a time, and all that are not at rest in a pass.

Changes that come together make one reconcile. Plans are made in a thread for many workloads at a time, and no workload
is planned for while its last plan is being executed. The results of a plan are kept for the next one.

A full pass covers the workloads that changed since their last plan, and those that wait for something no watch reports.
It ends when all their plans are executed, and is one observation of the latency metric, as upstream's pass is.

Pods are evicted only while an admission controller renews its Lease: without it, a pod that is evicted is created as it
was. The Lease is read when a pod is to be evicted, at most once in a few seconds. If it cannot be read, the admission
controller counts as absent, as upstream has it.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from trellis.api.kube.pods import Pod
from trellis.base.errors import KubeError, UnreadableObject
from trellis.base.python_gc import pause_garbage_collection
from trellis.controllers.updater import metrics as named
from trellis.controllers.updater.events import UpdaterEvents
from trellis.controllers.updater.executor import UpdateExecutor, UpdatePlanResult
from trellis.controllers.updater.metrics import UpdaterMetrics
from trellis.controllers.updater.recording import UpdaterRecording
from trellis.controllers.updater.settings import AdmissionStatusSettings
from trellis.core.recording.updater import HeadroomCounted
from trellis.core.resize.planner import (
    PlanningBatch,
    PlanResult,
    UpdateMemory,
    UpdatePlanner,
    is_lease_renewed,
    plans_evictions,
)
from trellis.core.resize.state.attempts import REQUEUE_AFTER_CHANGE_SECONDS, SHORTEST_REQUEUE_SECONDS
from trellis.core.resize.state.indexes import WorkloadKey
from trellis.core.resize.state.workload_cache import WorkloadCache
from trellis.kube.client import Client
from trellis.kube.resources import LEASES
from trellis.runtime.passes import PassThread
from trellis.runtime.queues import WorkQueue
from trellis.runtime.tasks import run_task
from trellis.runtime.telemetry.health import Activity
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics, StepTimer
from trellis.runtime.telemetry.tracing import current_trace

# How long an answer is good.
FRESH_SECONDS: Final = 5.0


class AdmissionStatus:
    """Whether the status Lease is renewed. `now` is the wall clock, as in the Lease."""

    def __init__(self, client: Client, settings: AdmissionStatusSettings, now: Callable[[], float]) -> None:
        self._client = client
        self._settings = settings
        self._now = now
        self._read_at = -math.inf
        self._problem: str | None = "not checked yet"
        # The problem as a label of metrics.
        self.absence = ""
        self._reading = asyncio.Lock()

    @property
    def is_live(self) -> bool:
        """Whether the Lease was renewed when it was last read."""
        return self._problem is None

    async def check(self) -> bool:
        """Whether evictions may go on; the answer is a few seconds old at most."""
        if not self._settings.use_admission_controller_status:
            self._problem, self.absence = None, ""
            return True
        async with self._reading:
            clock = asyncio.get_running_loop().time()
            if clock - self._read_at >= FRESH_SECONDS:
                self.absence, problem = await self._read_absence()
                if problem != self._problem:
                    _log.info("the admission controller is running") if problem is None else _log.warning(
                        "evictions skipped: no admission controller is running", why=problem
                    )
                self._problem, self._read_at = problem, clock
        return self.is_live

    async def _read_absence(self) -> tuple[str, str | None]:
        settings = self._settings
        name, namespace = (
            settings.admission_controller_status_lease_name,
            settings.admission_controller_status_lease_namespace,
        )
        try:
            lease = await self._client.get(LEASES, name, namespace or "kube-system")
        except (KubeError, UnreadableObject) as error:
            return named.STATUS_ERROR, str(error)
        if not is_lease_renewed(lease, settings.admission_controller_status_lease_timeout.total_seconds(), self._now()):
            return named.STATUS_INVALID, f"the status Lease {namespace}/{name} is stale"
        return "", None


# Workloads planned in one go: a boost that ends meanwhile waits for no more than these.
BATCH_SIZE: Final = 1024

_log: Final = Logger("trellis.updater")


class ChangedWorkloads:
    """The workloads that changed since they were last planned for, and the queue in which they wait.

    Before the caches are synced a plan would be made of half a workload: changes are noted, and enqueue nothing.
    """

    def __init__(self, queue: WorkQueue[WorkloadKey]) -> None:
        self.queue = queue
        self._changed: set[WorkloadKey] = set()
        self._enqueues = False

    def note(self, workload: WorkloadKey) -> None:
        """Something about a workload has changed."""
        self._changed.add(workload)
        if self._enqueues:
            self.queue.add_after(workload, REQUEUE_AFTER_CHANGE_SECONDS)

    def start_enqueueing(self) -> None:
        """The caches are synced: workloads are enqueued as they change from now on."""
        self._enqueues = True

    def discard(self, workloads: Iterable[WorkloadKey]) -> None:
        """Plans are about to be made for these, of all that is known now."""
        self._changed.difference_update(workloads)

    def drain(self) -> set[WorkloadKey]:
        """Those that changed since this was last called and have not been planned for."""
        changed, self._changed = self._changed, set()
        return changed


class PassProgress:
    """The workloads of one full pass that are still to be planned for, and those whose plans are being executed."""

    def __init__(self, workloads: Iterable[WorkloadKey] = ()) -> None:
        self._unplanned = set(workloads)
        self._unfinished = set(self._unplanned)
        self._changed = asyncio.Event()

    def mark_planned(self, workload: WorkloadKey) -> None:
        """A plan was made for a workload."""
        self._unplanned.discard(workload)
        self._changed.set()

    def mark_finished(self, workload: WorkloadKey) -> None:
        """The plan of a workload was executed, or it had no actions."""
        self._unplanned.discard(workload)
        self._unfinished.discard(workload)
        self._changed.set()

    async def wait_until_planned(self, workloads: Iterable[WorkloadKey]) -> None:
        """Return when plans were made for all of these."""
        awaited = set(workloads)
        while awaited & self._unplanned:
            self._changed.clear()
            await self._changed.wait()

    async def wait_until_finished(self) -> None:
        """Return when no plan is being executed."""
        while self._unfinished:
            self._changed.clear()
            await self._changed.wait()


class WorkloadReconciler:
    """Reconciles workloads in namespaces that are covered. `run` in a task of its own.

    `find_skip_reason` says why nothing may be decided now, if so.
    """

    def __init__(
        self,
        changes: ChangedWorkloads,
        memory: UpdateMemory,
        planner: UpdatePlanner,
        executor: UpdateExecutor,
        thread: PassThread,
        *,
        admission: AdmissionStatus,
        events: UpdaterEvents,
        counters: UpdaterMetrics,
        metrics: Metrics,
        activity: Activity,
        find_skip_reason: Callable[[], str | None],
        covers: Callable[[str], bool],
        now: Callable[[], float],
    ) -> None:
        self._changes = changes
        self._queue = changes.queue
        self._memory = memory
        self._planner = planner
        self._executor = executor
        self._thread = thread
        self._admission = admission
        self._events = events
        self._counters = counters
        self._metrics = metrics
        self._activity = activity
        self._find_skip_reason = find_skip_reason
        self._covers = covers
        self._now = now
        self._progress = PassProgress()

    async def reconcile_all(self, workloads: Sequence[WorkloadKey]) -> PassProgress:
        """Make plans for all of these; the progress says when they are executed."""
        progress = self._progress = PassProgress(workloads)
        for begin in range(0, len(workloads), BATCH_SIZE):
            batch = workloads[begin : begin + BATCH_SIZE]
            for workload in batch:
                self._queue.add(workload)
            await progress.wait_until_planned(batch)
        return progress

    async def is_admission_live(self) -> bool:
        """Whether evictions may go on, because an admission controller sizes new pods."""
        live = await self._admission.check()
        self._metrics.set(named.ADMISSION_LIVE, float(live))
        return live

    async def run(self) -> None:
        """Reconcile the workloads that are due, until cancelled."""
        while True:
            first = await self._queue.get()
            if first is None:
                return
            workloads = [first]
            while self._queue.ready and len(workloads) < BATCH_SIZE:
                following = await self._queue.get()
                if following is not None:
                    workloads.append(following)
            unfinished: dict[WorkloadKey, None] = dict.fromkeys(workloads)
            result = await run_task(self._reconcile(unfinished), name="batch")
            self._activity.touch()
            for workload in tuple(unfinished):
                # Those whose plans are being executed have left already.
                self._finish(workload, self._queue.retry(workload) if result.error is not None else None)
            if result.error is not None:
                self._metrics.add(named.PLAN_FAILURES, 1)
                _log.error("reconciling a batch of workloads failed", workloads=len(workloads), error=result.error)

    async def _reconcile(self, unfinished: dict[WorkloadKey, None]) -> None:
        """Plan for these workloads. One whose plan has actions is taken out of them until the plan is executed."""
        if (skip_reason := self._find_skip_reason()) is not None:
            _log.detail(2, "reconciling skipped", why=skip_reason)
            for workload in unfinished:
                self._memory.mark_changed(workload)
            return
        self._changes.discard(unfinished)
        covered = [workload for workload in unfinished if self._covers(workload[0])]
        batch = self._memory.build_batch(covered, self._now())
        for workload in batch.unplannable:
            self._events.forget(workload)
            self._counters.forget(workload)
        for planned in await self._plan(batch):
            self._apply_plan(planned, unfinished)

    async def _plan(self, batch: PlanningBatch) -> list[PlanResult]:
        """Plans that may be executed as they are."""
        clock = asyncio.get_running_loop().time
        began = clock()
        plans = await self._thread.run(_plan_all, self._planner, batch)
        self._metrics.observe(named.PLANNING, clock() - began)
        self._metrics.add(named.PLANS, len(plans))
        evicting = [planned for planned in plans if plans_evictions(planned.plan)]
        is_admission_live = not evicting or await self.is_admission_live()
        for planned in () if is_admission_live else evicting:
            self._queue.add_after(planned.snapshot.workload, FRESH_SECONDS)
        return self._memory.filter_evictions(plans, is_admission_live=is_admission_live)

    def _apply_plan(self, planned: PlanResult, unfinished: dict[WorkloadKey, None]) -> None:
        workload, plan = planned.snapshot.workload, planned.plan
        if planned.error is not None:
            self._metrics.add(named.PLAN_FAILURES, 1)
            self._queue.retry(workload)
            _log.error("planning failed", workload="/".join(workload), error=planned.error)
            return
        self._queue.forget(workload)
        self._memory.record_plan(planned)
        self._counters.observe_plan(planned.snapshot, plan)
        self._events.record_decisions(workload, planned.snapshot.governor, plan.decisions)
        if plan.requeue_at is not None:
            # What has been added meanwhile goes first, and gives another time.
            self._queue.add_after(workload, max(plan.requeue_at - self._now(), SHORTEST_REQUEUE_SECONDS))
        if plan.actions:
            self._executor.execute(planned, self._on_executed)
            del unfinished[workload]
            self._progress.mark_planned(workload)

    def _on_executed(self, result: UpdatePlanResult) -> None:
        self._memory.record_results(result.workload, result.results, self._now())
        self._activity.touch()
        self._finish(result.workload, result.retry_in)

    def _finish(self, workload: WorkloadKey, retry_in: float | None) -> None:
        self._queue.done(workload)
        if retry_in is not None:
            self._queue.add_after(workload, retry_in)
        self._progress.mark_finished(workload)


def _plan_all(planner: UpdatePlanner, batch: PlanningBatch) -> list[PlanResult]:
    with pause_garbage_collection():
        return planner.plan_all(batch)


class FullPass:
    """A pass over all workloads that are not at rest. `pods` are all that exist, `waiting` counts queued writes."""

    def __init__(
        self,
        cache: WorkloadCache,
        changes: ChangedWorkloads,
        memory: UpdateMemory,
        planner: UpdatePlanner,
        reconciler: WorkloadReconciler,
        *,
        thread: PassThread,
        admission: AdmissionStatus,
        counters: UpdaterMetrics,
        metrics: Metrics,
        recording: UpdaterRecording,
        pods: Callable[[], Iterable[Pod]],
        waiting: Callable[[], int],
        export: Callable[[], None],
        covers: Callable[[str], bool],
        interval: float,
    ) -> None:
        self._cache = cache
        self._changes = changes
        self._memory = memory
        self._planner = planner
        self._reconciler = reconciler
        self._thread = thread
        self._admission = admission
        self._counters = counters
        self._metrics = metrics
        self._recording = recording
        self._pods = pods
        self._waiting = waiting
        self._export = export
        self._covers = covers
        self._interval = interval

    async def run(self) -> None:
        """Reconcile every workload that is not at rest, and export metrics."""
        timer = StepTimer(self._metrics, named.LATENCY, asyncio.get_running_loop().time)
        self._counters.begin_pass()
        for workload in self._changes.drain():
            self._memory.mark_changed(workload)
        known = (*self._cache.governors.list_workloads(), *self._cache.list_ungoverned())
        workloads = self._memory.select_changed(workload for workload in known if self._covers(workload[0]))
        timer.step(named.LIST_VPAS)
        await self._thread.run(self._planner.retain_views, self._pods())
        timer.step(named.LIST_PODS)
        if not await self._reconciler.is_admission_live():
            self._metrics.add(named.ABSENT_ADMISSION, 1, self._admission.absence)
        timer.step(named.ADMISSION_INIT)
        progress = await self._reconciler.reconcile_all(workloads)
        timer.step(named.FILTER_PODS)
        # As the pass found them: by its end most of what it counts has been changed, and been reconciled again.
        counts = dict(self._counters.counts_by_workload)
        await self._wait_until_finished(progress)
        timer.step(named.EVICT_PODS)
        await self._thread.run(self._counters.export_counts, counts)
        self._metrics.set(named.WAITING, float(self._waiting()))
        self._export()
        timer.total()
        current_trace().describe(workloads=len(counts), changed=len(workloads))
        await self._count_headroom()

    async def _wait_until_finished(self, progress: PassProgress) -> None:
        """Wait for all writes, but not longer than for the next pass: a rate limit may take hours."""
        try:
            async with asyncio.timeout(self._interval):
                await progress.wait_until_finished()
        except TimeoutError:
            _log.info("changes of this pass are still queued", waiting=self._waiting())

    async def _count_headroom(self) -> None:
        """Count the headroom of nodes for later plans, a few pods at a time, so that plans can be made in between."""
        has_uncounted_pods = True
        while has_uncounted_pods:
            self._recording.write(HeadroomCounted())
            has_uncounted_pods = await self._thread.run(self._planner.count_headroom)
