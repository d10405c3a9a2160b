"""When does the updater do what? A full pass at the start and every interval; in between, whatever changes or is due.

A full pass looks at the workloads that nobody has looked at since they changed, and at those that wait for something of
which nobody is told. It is over when all their plans have been carried out, and is one observation, as upstream's is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from trellis.controllers.updater import metrics as named
from trellis.controllers.updater.carrying import Carrying
from trellis.controllers.updater.counting import Counting
from trellis.controllers.updater.knowledge import Knowledge
from trellis.controllers.updater.line import Line
from trellis.controllers.updater.looking import AT_ONCE, Looking
from trellis.controllers.updater.presence import AdmissionPresence
from trellis.controllers.updater.recording import RecordedGathering, RecordedMemory, Tape
from trellis.controllers.updater.rounds import Round
from trellis.controllers.updater.scaling import Scaling
from trellis.controllers.updater.settings import UpdaterSettings
from trellis.controllers.updater.telling import Telling
from trellis.controllers.updater.watching import Watching
from trellis.core.resize.gathering import Gathering
from trellis.core.resize.governed import Workload
from trellis.core.resize.memory import Memory
from trellis.core.resize.planning import Planner
from trellis.core.resize.recorded import Began, Counted
from trellis.core.resize.rooms import Rooms
from trellis.core.resize.settings import UpdateSettings
from trellis.kube.scales import ScaleLookups
from trellis.kube.token_bucket import Rate
from trellis.runtime import pass_reports
from trellis.runtime.component import Controller
from trellis.runtime.equipment import Equipment
from trellis.runtime.informers import Informers
from trellis.runtime.logs import Logger
from trellis.runtime.loops import Periodic
from trellis.runtime.passes import PassThread
from trellis.runtime.queue import WorkQueue
from trellis.runtime.recording import NO_RECORDER, Recorder
from trellis.runtime.steps import StepTimer
from trellis.runtime.unseen import Unseen

# Writes that have begun are waited for at the end for so long.
_DRAIN_SECONDS: Final = 0.5

_log: Final = Logger("trellis.updater")


class Updater(Controller):
    """One process's updater."""

    def __init__(
        self,
        given: Equipment,
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
        self._line = Line(settings.loop.concurrent_writes)
        self._counting = Counting(metrics)
        own = settings.scope.vpa_object_namespace
        self.informers = Informers(client, Unseen(metrics, _log), draw=given.draw, namespace=own)
        self.watching = Watching(self.informers, settings, given.served)
        rooms = self.watching.knows_rooms
        self._tape = Tape(recorder)
        self._tape.write(Began(figures, rooms))
        self._gathering = RecordedGathering(self._tape, rooms) if recorder.is_on else Gathering(knows_rooms=rooms)
        self.knowledge = Knowledge(self.watching, settings.scope, self._gathering)
        self._scaling = Scaling(self._gathering, self.watching, ScaleLookups(client, draw=given.draw))
        self._planner = Planner(figures, Rooms(must_know=figures.require_fit) if rooms else None)
        remembered = (self._gathering, figures)
        self._memory = RecordedMemory(self._tape, *remembered) if recorder.is_on else Memory(*remembered)
        self._presence = AdmissionPresence(client, settings.admission, now)
        telling = Telling(given.record)
        self._looking = Looking(
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
        self._looking.carrying = Carrying(
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
            "updater", self._pass, self._interval, on_pass=pass_reports.reporting(given.activity, _log), jitter=0.0
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

    async def _look_at(self, workloads: Sequence[Workload]) -> Round:
        round_ = Round(workloads)
        self._looking.begin(round_)
        for begin in range(0, len(workloads), AT_ONCE):
            some = workloads[begin : begin + AT_ONCE]
            self._looking.look_at(some)
            await round_.until_planned(some)
        return round_

    async def _until_finished(self, round_: Round) -> None:
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
            self._tape.write(Counted())
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
