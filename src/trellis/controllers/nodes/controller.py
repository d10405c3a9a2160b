"""When are nodes looked at? Every interval, and as soon as a pod finds no node, a Buffer changes or a node comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

from trellis.controllers.nodes import metrics as named
from trellis.controllers.nodes.boosting import Boosting
from trellis.controllers.nodes.carrying import Carried, Carrying
from trellis.controllers.nodes.counting import Counting
from trellis.controllers.nodes.echoes import Echoes
from trellis.controllers.nodes.gathering import Gathering
from trellis.controllers.nodes.meanwhile import ANSWER_SECONDS, Meanwhile
from trellis.controllers.nodes.providing import Providing
from trellis.controllers.nodes.publishing import Publishing, all_verdicts
from trellis.controllers.nodes.recording import planning_by
from trellis.controllers.nodes.reporting import Reporting
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.controllers.nodes.telling import Telling
from trellis.controllers.nodes.waking import Waking
from trellis.controllers.nodes.watching import Watching
from trellis.core.nodes.news import News
from trellis.core.nodes.planning import Looked, Memory, Planning, Plans, Question
from trellis.core.nodes.settled import after_orders
from trellis.core.nodes.verdicts import BufferVerdict
from trellis.kube.actions import Action
from trellis.providers.kwok import KwokProvider
from trellis.providers.protocol import Groups, Provider
from trellis.runtime import pass_reports
from trellis.runtime.component import Controller
from trellis.runtime.equipment import Equipment
from trellis.runtime.informers import Informers
from trellis.runtime.logs import Logger
from trellis.runtime.loops import Periodic
from trellis.runtime.passes import PassThread
from trellis.runtime.recording import NO_RECORDER, Recorder
from trellis.runtime.steps import StepTimer
from trellis.runtime.unseen import Unseen

# After pods have come, whoever translates Buffers is given so long to say how much room is still to be kept.
_TRANSLATION_SECONDS: Final = 1.0
# So long after sight was lost it is asked again whether it is back.
_UNTRUSTED_SECONDS: Final = 2.0

T = TypeVar("T")

_log: Final = Logger("trellis.nodes")


class NodeController(Controller):
    """One process's node autoscaler."""

    def __init__(
        self,
        given: Equipment,
        settings: NodeControllerSettings,
        *,
        provider: Callable[[Watching], Provider] | None = None,
        on_settled: Callable[[], object] = lambda: None,
        recorder: Recorder = NO_RECORDER,
    ) -> None:
        client, served, metrics, record, now = given.client, given.served, given.metrics, given.record, given.now
        writer = self._writer = given.writer
        self._settings = settings
        self._metrics = metrics
        self._may_act = given.may_act
        self._now = now
        self._on_settled = on_settled
        self._recorder = recorder
        self.informers = Informers(client, Unseen(metrics, _log), draw=given.draw)
        self.watching = Watching(self.informers, settings, served)
        self._boosting = Boosting(self.informers, settings, served)
        where = settings.provider.kwok_node_groups
        made = provider(self.watching) if provider else KwokProvider(self.watching.kwok_objects, where)
        patience = settings.provider.provider_timeout.total_seconds()
        self._providing = Providing(made, writer, patience, metrics)
        self._reporting = Reporting(metrics, record)
        self._carrying = Carrying(writer, self._providing, self._reporting, settings.up.figures())
        self._waking = Waking(now)
        self._gathering = Gathering(self.watching, settings.scope.covers, self._waking.soon)
        self._echoes = Echoes(self.watching.nodes)
        self._telling = Telling(record, self.watching)
        self._publishing = Publishing(self.watching.buffers, settings.scope.covers)
        self._counting = Counting(metrics, settings.loop.metrics_buffers)
        self._meanwhile = Meanwhile(self._gathering, self._think, self._publish_look, now)
        self._planning: Planning | None = None
        self._thread = PassThread("nodes")
        self._memory = Memory()
        self._busy = False
        self._loop = Periodic(
            "nodes",
            self._pass,
            settings.loop.scan_interval.total_seconds(),
            on_pass=pass_reports.reporting(given.activity, _log),
            jitter=0.0,
        )
        self._waking.loop = self._loop

    @property
    def is_busy(self) -> bool:
        """Whether a plan is being carried out."""
        return self._busy

    def begin_anew(self) -> None:
        """Look at everything now: this process has become the leader."""
        self._memory = Memory()
        self._telling.begin_anew()
        if self.informers.synced:
            self._loop.wake()

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.informers.run(), name="watching")
                group.create_task(self._begin(), name="passes")
        finally:
            self._thread.close()

    async def _begin(self) -> None:
        await self.informers.wait_until_synced()
        _log.info("everything has been seen", nodes=len(self.watching.nodes.snapshot()))
        self._gathering.subscribe()
        self.watching.config.subscribe(lambda _change: self._waking.soon())
        self._echoes.subscribe()
        self._on_settled()
        await self._loop.run()

    async def _pass(self) -> None:
        """Look at everything, and do what is to be done."""
        if await self._is_idle():
            return
        clock = asyncio.get_running_loop().time
        await asyncio.sleep(max(0.0, self._gathering.last_arrival + _TRANSLATION_SECONDS - clock()))
        timer = StepTimer(self._metrics, named.LATENCY, clock)
        now = self._now()
        due, groups = await self._ask(now)
        timer.step(named.PROVIDER)
        # It may have taken a minute, and a provider that is no API server would take orders of anybody.
        if await self._is_idle():
            return
        if groups is None:
            await self._meanwhile.look(self._memory.up)
            self._waking.at([due])
            return
        budgets, starts = self.watching.budgets.snapshot(), self._boosting.starts()
        question = Question(groups.states, budgets, self._memory, now, starts)
        plans = await self._think(lambda planning, news: planning.plan(news, question))
        timer.step(named.PLAN)
        try:
            self._memory = (await self._carry_out(groups, plans, now)).memory
        except BaseException:
            # The snapshot shows nodes as the plan would have them.
            self._planning = None
            raise
        timer.step(named.CARRY_OUT)
        self.informers.export(self._metrics)
        self._waking.at([due, plans.up.next_look, plans.down.next_look])
        timer.total()

    async def _is_idle(self) -> bool:
        """Whether nothing may be decided now; what is new is then taken in."""
        why = self.informers.why_not_trusted() if self._may_act() else "not leading"
        if why is None:
            return False
        _log.detail(2, "this pass changes nothing", why=why)
        await self._think(lambda planning, news: planning.take_in(news))
        if self._may_act():
            self._waking.at([self._now() + _UNTRUSTED_SECONDS])
        return True

    async def _ask(self, now: float) -> tuple[float | None, Groups | None]:
        """When something is due, and all groups; Buffers are told what is true while the provider is silent."""

        async def ask() -> tuple[float | None, Groups | None]:
            due, outcomes = await self._providing.tend(now)
            await self._echoes.wait_for(outcomes)
            return due, await self._providing.groups(now)

        async with asyncio.TaskGroup() as group:
            asking = group.create_task(ask())
            await self._meanwhile.until_done(asking, self._memory.up)
        return asking.result()

    async def _think(self, ask: Callable[[Planning, News], T]) -> T:
        """Ask in the thread, with all that is new. If it fails, the next question begins with everything there is."""
        planning, self._planning = self._planning, None
        if planning is None:
            up = self._settings.up.figures()
            down = self._settings.down.figures(up.max_node_provision_seconds)
            planning = planning_by(up, down, self._settings.up.expendable_pods_priority_cutoff, self._recorder)
            news = self._gathering.take_all()
        else:
            news = self._gathering.take()
        found = await self._thread.run(ask, planning, news)
        self._planning = planning
        return found

    async def _carry_out(self, groups: Groups, plans: Plans, now: float) -> Carried:
        planned = all_verdicts(plans.up.buffers, plans.problems, self.watching.buffers)
        published: tuple[BufferVerdict, ...] | None = None
        has_looked = False
        self._busy = True
        try:
            async with asyncio.TaskGroup() as group:
                carrying = group.create_task(self._carrying.carry_out(plans, now))
                if plans.up.orders:
                    # A provider that hangs keeps no Buffer from its status.
                    await asyncio.wait({carrying}, timeout=ANSWER_SECONDS)
                if not carrying.done():
                    await self._publish(planned, now)
                    published = planned
                    has_looked = await self._meanwhile.until_done(carrying, plans.up.memory)
            carried = carrying.result()
            buffers = after_orders(planned, carried.failed)
            if has_looked:
                # Others have been told something since, of whom the plan knows nothing.
                await self._meanwhile.look(carried.memory.up)
            elif buffers != published:
                await self._publish(buffers, now)
            for name in carried.unchanged:
                self._gathering.look_again(name)
            await self._echoes.wait_for(carried.outcomes)
        finally:
            self._busy = False
        self._tell(groups, plans, buffers, carried.failed)
        return carried

    async def _publish(self, buffers: Iterable[BufferVerdict], now: float) -> None:
        actions: list[Action] = list(self._publishing.actions(buffers, now))
        if actions:
            await self._writer.write_all(actions)

    async def _publish_look(self, looked: Looked, now: float) -> None:
        if self._may_act() and self.informers.why_not_trusted() is None:
            buffers = all_verdicts(looked.buffers, looked.problems, self.watching.buffers)
            self._counting.observed(buffers)
            await self._publish(buffers, now)

    def _tell(self, groups: Groups, plans: Plans, buffers: tuple[BufferVerdict, ...], failed: frozenset[str]) -> None:
        self._reporting.group_problems(groups.problems)
        self._reporting.group_notes(plans.up.notes)
        self._reporting.orders_lost(plans.up.lost)
        self._telling.pods(plans.up.pods, failed)
        self._telling.buffers(buffers)
        self._telling.nodes(plans.down.nodes)
        self._telling.unreadable(plans.problems)
        self._counting.planned(groups, plans, after_orders(plans.up.pods, failed), buffers)
