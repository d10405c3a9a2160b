"""Reconciles workloads: those that changed, and those whose last plan set a time.

Changes that come together make one reconcile. Plans are made in a thread for many workloads at a time, and no workload
is planned for while its last plan is being executed. The results of a plan are kept for the next one. `FullPass` tracks
a pass over all workloads until each plan is executed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from trellis.base.garbage_collection import pause_garbage_collection
from trellis.controllers.updater import metrics as named
from trellis.controllers.updater.admission_status import FRESH_SECONDS, AdmissionStatus
from trellis.controllers.updater.events import UpdaterEvents
from trellis.controllers.updater.executor import UpdateExecutor, UpdatePlanResult
from trellis.controllers.updater.metrics import UpdaterMetrics
from trellis.core.resize.planner import PlanningBatch, PlanResult, UpdatePlanner, plans_evictions
from trellis.core.resize.settings import REQUEUE_AFTER_CHANGE_SECONDS, SHORTEST_REQUEUE_SECONDS
from trellis.core.resize.state.memory import UpdateMemory
from trellis.core.resize.state.ownership import WorkloadKey
from trellis.runtime.passes import PassThread
from trellis.runtime.queues import WorkQueue
from trellis.runtime.tasks import run_task
from trellis.runtime.telemetry.health import Activity
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics


class FullPass:
    """The workloads of one full pass that are still to be planned for, and those whose plans are under way."""

    def __init__(self, workloads: Iterable[WorkloadKey] = ()) -> None:
        self._unplanned = set(workloads)
        self._unfinished = set(self._unplanned)
        self._changed = asyncio.Event()

    def planned(self, workload: WorkloadKey) -> None:
        """It has its plan."""
        self._unplanned.discard(workload)
        self._changed.set()

    def finished(self, workload: WorkloadKey) -> None:
        """Its plan has been carried out, or there was nothing to do."""
        self._unplanned.discard(workload)
        self._unfinished.discard(workload)
        self._changed.set()

    async def until_planned(self, workloads: Iterable[WorkloadKey]) -> None:
        """Return when all of these have their plans."""
        wanted = set(workloads)
        while wanted & self._unplanned:
            self._changed.clear()
            await self._changed.wait()

    async def until_finished(self) -> None:
        """Return when nothing is under way."""
        while self._unfinished:
            self._changed.clear()
            await self._changed.wait()


# So many workloads are planned for at once: a boost that ends meanwhile waits for no more than these.
BATCH_SIZE: Final = 1024

_log: Final = Logger("trellis.updater")


class WorkloadReconciler:
    """Looks at workloads. `run` in a task of its own; `carrying` is given once both are made."""

    carrying: UpdateExecutor

    def __init__(
        self,
        memory: UpdateMemory,
        planner: UpdatePlanner,
        thread: PassThread,
        *,
        queue: WorkQueue[WorkloadKey],
        presence: AdmissionStatus,
        telling: UpdaterEvents,
        counting: UpdaterMetrics,
        metrics: Metrics,
        activity: Activity,
        why_not: Callable[[], str | None],
        now: Callable[[], float],
    ) -> None:
        self._memory = memory
        self._planner = planner
        self._thread = thread
        self._queue = queue
        self._presence = presence
        self._telling = telling
        self._counting = counting
        self._metrics = metrics
        self._activity = activity
        # Why nothing may be decided at the moment, if so.
        self._why_not = why_not
        self._now = now
        self._round = FullPass()
        self._is_awake = False

    def changed(self, workload: WorkloadKey) -> None:
        """Something about a workload has changed."""
        self._memory.changed(workload)
        # Before everything has been seen a plan would be made of half a workload; the first pass looks at all of them.
        if self._is_awake:
            self._queue.add_after(workload, REQUEUE_AFTER_CHANGE_SECONDS)

    def wake(self, *, anew: bool = False) -> None:
        """Everything has been seen; `anew` forgets what was found before."""
        self._is_awake = True
        if anew:
            self._memory.all_changed()

    def begin(self, round_: FullPass) -> None:
        """A full pass begins: it is told of every look."""
        self._round = round_

    def look_at(self, workloads: Iterable[WorkloadKey]) -> None:
        """Look at these as soon as may be."""
        for workload in workloads:
            self._queue.add(workload)

    async def ask_for_admission(self) -> bool:
        """Whether evictions may go on."""
        live = await self._presence.ask()
        self._metrics.set(named.ADMISSION_LIVE, float(live))
        return live

    async def run(self) -> None:
        """Look at what is ready, until cancelled."""
        while True:
            first = await self._queue.get()
            if first is None:
                return
            workloads = [first]
            while self._queue.ready and len(workloads) < BATCH_SIZE:
                following = await self._queue.get()
                if following is not None:
                    workloads.append(following)
            open_: dict[WorkloadKey, None] = dict.fromkeys(workloads)
            settled = await run_task(self._work(open_), name="batch")
            self._activity.touch()
            for workload in tuple(open_):
                # Those whose plans are under way have left already.
                self._finish(workload, self._queue.retry(workload) if settled.error is not None else None)
            if settled.error is not None:
                self._metrics.add(named.PLAN_FAILURES, 1)
                _log.error("a batch failed", workloads=len(workloads), error=settled.error)

    async def _work(self, open_: dict[WorkloadKey, None]) -> None:
        """Plan for these workloads. One whose plan is to be carried out is taken out of them until that is done."""
        if (why := self._why_not()) is not None:
            _log.detail(2, "nothing is looked at", why=why)
            for workload in open_:
                self._memory.changed(workload)
            return
        batch = self._memory.batch(open_, self._now())
        for workload in batch.unknown:
            self._telling.forget(workload)
            self._counting.forget(workload)
        for planned in await self._plans(batch):
            self._decided(planned, open_)

    async def _plans(self, batch: PlanningBatch) -> list[PlanResult]:
        """Plans that may be carried out as they are."""
        clock = asyncio.get_running_loop().time
        began = clock()
        plans = await self._thread.run(_plan_all, self._planner, batch)
        self._metrics.observe(named.PLANNING, clock() - began)
        self._metrics.add(named.PLANS, len(plans))
        evicting = [each for each in plans if plans_evictions(each.plan)]
        sized = not evicting or await self.ask_for_admission()
        for planned in () if sized else evicting:
            self._queue.add_after(planned.gathered.workload, FRESH_SECONDS)
        return self._memory.settled(plans, sized=sized)

    def _decided(self, planned: PlanResult, open_: dict[WorkloadKey, None]) -> None:
        workload, made = planned.gathered.workload, planned.plan
        if planned.error is not None:
            self._metrics.add(named.PLAN_FAILURES, 1)
            self._queue.retry(workload)
            _log.error("no plan could be made", workload="/".join(workload), error=planned.error)
            return
        self._queue.forget(workload)
        self._memory.decided(planned)
        self._counting.planned(planned.gathered, made)
        self._telling.decided(workload, planned.gathered.governor, made.verdicts)
        if made.next_look is not None:
            # What has been added meanwhile goes first, and gives another time.
            self._queue.add_after(workload, max(made.next_look - self._now(), SHORTEST_REQUEUE_SECONDS))
        if made.actions:
            self.carrying.carry(planned)
            del open_[workload]
            self._round.planned(workload)

    def carried(self, carried: UpdatePlanResult) -> None:
        """A plan has been carried out."""
        self._memory.carried(carried.workload, carried.outcomes, self._now())
        self._activity.touch()
        self._finish(carried.workload, carried.again)

    def _finish(self, workload: WorkloadKey, again: float | None) -> None:
        self._queue.done(workload)
        if again is not None:
            self._queue.add_after(workload, again)
        self._round.finished(workload)


def _plan_all(planner: UpdatePlanner, batch: PlanningBatch) -> list[PlanResult]:
    with pause_garbage_collection():
        return planner.plan_all(batch)
