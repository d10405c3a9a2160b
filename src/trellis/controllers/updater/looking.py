"""What is looked at now? Workloads about which something has changed, and those whose last plan said that it is time.

Many changes make one look. Plans are made for some workloads at a time, in a thread, and nothing about a workload is
decided while its last plan is being carried out. What became of it is remembered for the next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from trellis.controllers.updater import metrics as named
from trellis.controllers.updater.carrying import Carried, Carrying
from trellis.controllers.updater.counting import Counting
from trellis.controllers.updater.governed import Workload
from trellis.controllers.updater.hourly import HourlyUse
from trellis.controllers.updater.knowledge import Gathered, Knowledge
from trellis.controllers.updater.planning import Batch, Planned, Planner
from trellis.controllers.updater.presence import ADMISSION_ABSENT, FRESH_SECONDS, AdmissionPresence
from trellis.controllers.updater.rounds import Round
from trellis.controllers.updater.telling import Telling
from trellis.core.recommend.capping.limit_ranges import Counts
from trellis.core.resize.actions import Action, EvictPod
from trellis.core.resize.attempts import Attempts, fold
from trellis.core.resize.inplace import Way
from trellis.core.resize.settings import UpdateSettings
from trellis.core.resize.verdicts import Verdict
from trellis.runtime.health import Activity
from trellis.runtime.logs import Logger
from trellis.runtime.metrics import Metrics
from trellis.runtime.passes import PassThread
from trellis.runtime.queue import WorkQueue
from trellis.runtime.settling import settle

# So many workloads are planned for at once: a boost that ends meanwhile waits for no more than these.
AT_ONCE: Final = 1024
# A controller that replaces a pod makes several changes in a moment, which are one look.
_SETTLING_SECONDS: Final = 0.05
# A time that has come already must not make a loop without a pause.
_SOONEST_SECONDS: Final = 0.1

_NOTHING: Final = Attempts()
_log: Final = Logger("trellis.updater")


class Looking:
    """Looks at workloads. `run` in a task of its own; `carrying` is given once both are made."""

    carrying: Carrying

    def __init__(
        self,
        knowledge: Knowledge,
        planner: Planner,
        thread: PassThread,
        figures: UpdateSettings,
        *,
        queue: WorkQueue[Workload],
        presence: AdmissionPresence,
        hourly: HourlyUse,
        telling: Telling,
        counting: Counting,
        metrics: Metrics,
        activity: Activity,
        why_not: Callable[[], str | None],
        now: Callable[[], float],
    ) -> None:
        self._knowledge = knowledge
        self._planner = planner
        self._thread = thread
        self._figures = figures
        self._queue = queue
        self._presence = presence
        self._hourly = hourly
        self._telling = telling
        self._counting = counting
        self._metrics = metrics
        self._activity = activity
        # Why nothing may be decided at the moment, if so.
        self._why_not = why_not
        self._now = now
        self._attempts: dict[Workload, Attempts] = {}
        # Whose last plan had nothing to do, and what nodes offered then if that may have been why.
        self._at_rest: dict[Workload, Mapping[str, Counts] | None] = {}
        self._round = Round()
        self._is_awake = False

    def changed(self, workload: Workload) -> None:
        """Something about a workload has changed."""
        self._at_rest.pop(workload, None)
        # Before everything has been seen a plan would be made of half a workload; the first pass looks at all of them.
        if self._is_awake:
            self._queue.add_after(workload, _SETTLING_SECONDS)

    def wake(self, *, anew: bool = False) -> None:
        """Everything has been seen; `anew` forgets what was found before."""
        self._is_awake = True
        if anew:
            self._at_rest.clear()

    def restless(self, workloads: Iterable[Workload]) -> list[Workload]:
        """Those of them for which another plan might not be the last one again."""
        return [each for each in workloads if not self._rests(each)]

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
                self._at_rest.pop(workload, None)
            return
        now, clock = self._now(), asyncio.get_running_loop().time
        gathered = [each for workload in open_ if (each := self._gathered(workload, now)) is not None]
        changed_nodes, changed_pods = self._knowledge.take_changes()
        batch = Batch(
            [(each, self._remembered(each)) for each in gathered],
            self._knowledge.nodes,
            changed_nodes,
            changed_pods,
            self._hourly.ledger(now),
            now,
        )
        began = clock()
        plans = await self._thread.run(self._planner.plan_all, batch)
        self._metrics.observe(named.PLANNING, clock() - began)
        self._metrics.add(named.PLANS, len(plans))
        evicting = {each.gathered.workload for each in plans if any(map(_evicts, each.plan.actions))}
        live = await self.ask_for_admission() if evicting else True
        for planned in plans:
            if live or planned.gathered.workload not in evicting:
                self._decided(planned, open_)
            else:
                self._decided(_without_evictions(planned), open_)
                self._queue.add_after(planned.gathered.workload, FRESH_SECONDS)

    def _gathered(self, workload: Workload, now: float) -> Gathered | None:
        found = self._knowledge.gather(workload, now)
        if found is None:
            self._attempts.pop(workload, None)
            self._telling.forget(workload)
            self._counting.forget(workload)
            if workload in self._knowledge.governed:
                self._at_rest[workload] = None
            return None
        return None if self._knowledge.is_awaited(found) else found

    def _remembered(self, gathered: Gathered) -> Attempts:
        attempts = self._attempts.get(gathered.workload)
        if attempts is None:
            return _NOTHING
        kept = attempts.kept({pod.metadata.uid for pod in gathered.pods}, gathered.groups)
        self._attempts[gathered.workload] = kept
        return kept

    def _decided(self, planned: Planned, open_: dict[Workload, None]) -> None:
        workload, made = planned.gathered.workload, planned.plan
        if planned.error is not None:
            self._metrics.add(named.PLAN_FAILURES, 1)
            self._queue.retry(workload)
            _log.error("no plan could be made", workload="/".join(workload), error=planned.error)
            return
        self._queue.forget(workload)
        self._counting.planned(planned.gathered, made)
        self._telling.decided(workload, planned.gathered.governor, made.verdicts)
        if made.next_look is not None:
            # What has been added meanwhile goes first, and gives another time.
            self._queue.add_after(workload, max(made.next_look - self._now(), _SOONEST_SECONDS))
        if made.actions:
            self.carrying.carry(planned)
            del open_[workload]
            self._round.planned(workload)
        elif not planned.without_room:
            needy = any(verdict.need is not None for verdict in made.verdicts)
            self._at_rest[workload] = self._knowledge.nodes if needy else None

    def carried(self, carried: Carried) -> None:
        """A plan has been carried out."""
        now = self._now()
        attempts = self._attempts.get(carried.workload, _NOTHING)
        for outcome in carried.outcomes:
            attempts = fold(attempts, outcome, now, self._figures)
        if attempts != _NOTHING:
            self._attempts[carried.workload] = attempts
        self._activity.touch()
        self._finish(carried.workload, carried.again)

    def _finish(self, workload: Workload, again: float | None) -> None:
        self._queue.done(workload)
        if again is not None:
            self._queue.add_after(workload, again)
        self._round.finished(workload)

    def _rests(self, workload: Workload) -> bool:
        """Whether another plan would be the last one again."""
        if workload not in self._at_rest:
            return False
        nodes = self._at_rest[workload]
        return nodes is None or nodes is self._knowledge.nodes


def _without_evictions(planned: Planned) -> Planned:
    """The same plan where nobody would size the pods that come after evictions."""
    plan = planned.plan
    evicted = {action.pod.uid for action in plan.actions if _evicts(action)}
    actions = tuple(action for action in plan.actions if action.pod.uid not in evicted)
    verdicts = tuple(_absent(each) if each.pod.uid in evicted else each for each in plan.verdicts)
    return msgspec.structs.replace(planned, plan=msgspec.structs.replace(plan, actions=actions, verdicts=verdicts))


def _evicts(action: Action) -> bool:
    return isinstance(action, EvictPod)


def _absent(verdict: Verdict) -> Verdict:
    return msgspec.structs.replace(verdict, way=Way.WAIT, reason=ADMISSION_ABSENT)
