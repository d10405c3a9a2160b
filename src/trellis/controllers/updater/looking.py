"""What is looked at now? Workloads about which something has changed, and those whose last plan said that it is time.

Many changes make one look. Plans are made for some workloads at a time, in a thread, and nothing about a workload is
decided while its last plan is being carried out. What became of it is remembered for the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from trellis.base.collector import paused
from trellis.controllers.updater import metrics as named
from trellis.controllers.updater.carrying import Carried, Carrying
from trellis.controllers.updater.counting import Counting
from trellis.controllers.updater.presence import FRESH_SECONDS, AdmissionPresence
from trellis.controllers.updater.rounds import Round
from trellis.controllers.updater.telling import Telling
from trellis.core.resize.governed import Workload
from trellis.core.resize.looks import SETTLING_SECONDS, SOONEST_SECONDS
from trellis.core.resize.memory import Memory
from trellis.core.resize.planning import Batch, Planned, Planner
from trellis.core.resize.withheld import evicts
from trellis.runtime.health import Activity
from trellis.runtime.logs import Logger
from trellis.runtime.metrics import Metrics
from trellis.runtime.passes import PassThread
from trellis.runtime.queue import WorkQueue
from trellis.runtime.settling import settle

# So many workloads are planned for at once: a boost that ends meanwhile waits for no more than these.
AT_ONCE: Final = 1024

_log: Final = Logger("trellis.updater")


class Looking:
    """Looks at workloads. `run` in a task of its own; `carrying` is given once both are made."""

    carrying: Carrying

    def __init__(
        self,
        memory: Memory,
        planner: Planner,
        thread: PassThread,
        *,
        queue: WorkQueue[Workload],
        presence: AdmissionPresence,
        telling: Telling,
        counting: Counting,
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
        self._round = Round()
        self._is_awake = False

    def changed(self, workload: Workload) -> None:
        """Something about a workload has changed."""
        self._memory.changed(workload)
        # Before everything has been seen a plan would be made of half a workload; the first pass looks at all of them.
        if self._is_awake:
            self._queue.add_after(workload, SETTLING_SECONDS)

    def wake(self, *, anew: bool = False) -> None:
        """Everything has been seen; `anew` forgets what was found before."""
        self._is_awake = True
        if anew:
            self._memory.all_changed()

    def begin(self, round_: Round) -> None:
        """A full pass begins: it is told of every look."""
        self._round = round_

    def look_at(self, workloads: Iterable[Workload]) -> None:
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
            while self._queue.ready and len(workloads) < AT_ONCE:
                following = await self._queue.get()
                if following is not None:
                    workloads.append(following)
            open_: dict[Workload, None] = dict.fromkeys(workloads)
            settled = await settle(self._work(open_), name="batch")
            self._activity.touch()
            for workload in tuple(open_):
                # Those whose plans are under way have left already.
                self._finish(workload, self._queue.retry(workload) if settled.error is not None else None)
            if settled.error is not None:
                self._metrics.add(named.PLAN_FAILURES, 1)
                _log.error("a batch failed", workloads=len(workloads), error=settled.error)

    async def _work(self, open_: dict[Workload, None]) -> None:
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

    async def _plans(self, batch: Batch) -> list[Planned]:
        """Plans that may be carried out as they are."""
        clock = asyncio.get_running_loop().time
        began = clock()
        plans = await self._thread.run(_made, self._planner, batch)
        self._metrics.observe(named.PLANNING, clock() - began)
        self._metrics.add(named.PLANS, len(plans))
        evicting = [each for each in plans if evicts(each.plan)]
        sized = not evicting or await self.ask_for_admission()
        for planned in () if sized else evicting:
            self._queue.add_after(planned.gathered.workload, FRESH_SECONDS)
        return self._memory.settled(plans, sized=sized)

    def _decided(self, planned: Planned, open_: dict[Workload, None]) -> None:
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
            self._queue.add_after(workload, max(made.next_look - self._now(), SOONEST_SECONDS))
        if made.actions:
            self.carrying.carry(planned)
            del open_[workload]
            self._round.planned(workload)

    def carried(self, carried: Carried) -> None:
        """A plan has been carried out."""
        self._memory.carried(carried.workload, carried.outcomes, self._now())
        self._activity.touch()
        self._finish(carried.workload, carried.again)

    def _finish(self, workload: Workload, again: float | None) -> None:
        self._queue.done(workload)
        if again is not None:
            self._queue.add_after(workload, again)
        self._round.finished(workload)


def _made(planner: Planner, batch: Batch) -> list[Planned]:
    with paused():
        return planner.plan_all(batch)
