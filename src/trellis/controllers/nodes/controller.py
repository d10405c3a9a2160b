"""When are nodes looked at? Every interval, and as soon as a pod finds no node, a Buffer changes or a node comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from trellis.controllers.nodes import metrics as named
from trellis.controllers.nodes.boosting import Boosting
from trellis.controllers.nodes.carrying import Carried, Carrying
from trellis.controllers.nodes.counting import Counting
from trellis.controllers.nodes.echoes import Echoes
from trellis.controllers.nodes.gathering import Gathering, News
from trellis.controllers.nodes.planning import Memory, Planning, Plans, Question
from trellis.controllers.nodes.providing import Providing
from trellis.controllers.nodes.publishing import Publishing, all_verdicts
from trellis.controllers.nodes.reporting import Reporting
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.controllers.nodes.telling import Telling
from trellis.controllers.nodes.waking import Waking
from trellis.controllers.nodes.watching import Watching
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
from trellis.runtime.steps import StepTimer
from trellis.runtime.unseen import Unseen

# After pods have come, whoever translates Buffers is given so long to say how much room is still to be kept.
_TRANSLATION_SECONDS: Final = 1.0
# Most orders are answered at once: so long Buffers wait to be told what came of theirs.
_ANSWER_SECONDS: Final = 1.0
# So long after sight was lost it is asked again whether it is back.
_UNTRUSTED_SECONDS: Final = 2.0

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
    ) -> None:
        client, served, metrics, record, now = given.client, given.served, given.metrics, given.record, given.now
        writer = self._writer = given.writer
        self._settings = settings
        self._metrics = metrics
        self._may_act = given.may_act
        self._now = now
        self._on_settled = on_settled
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
        self._echoes.subscribe()
        self._on_settled()
        await self._loop.run()

    async def _pass(self) -> None:
        """Look at everything, and do what is to be done."""
        why = self.informers.why_not_trusted() if self._may_act() else "not leading"
        if why is not None:
            _log.detail(2, "this pass changes nothing", why=why)
            await self._plan(self._gathering.take(), None)
            if self._may_act():
                self._waking.at([self._now() + _UNTRUSTED_SECONDS])
            return
        clock = asyncio.get_running_loop().time
        await asyncio.sleep(max(0.0, self._gathering.last_arrival + _TRANSLATION_SECONDS - clock()))
        timer = StepTimer(self._metrics, named.LATENCY, clock)
        now = self._now()
        due, outcomes = await self._providing.tend(now)
        await self._echoes.wait_for(outcomes)
        groups = await self._providing.groups(now)
        timer.step(named.PROVIDER)
        if groups is None:
            self._waking.at([due])
            return
        budgets, starts = self.watching.budgets.snapshot(), self._boosting.starts()
        question = Question(groups.states, budgets, self._memory, now, starts)
        plans = await self._plan(self._gathering.take(), question)
        timer.step(named.PLAN)
        if plans is None:
            return
        # The snapshot shows nodes as the plan would have them: if that fails, it is begun anew as well.
        planning, self._planning = self._planning, None
        carried = await self._carry_out(groups, plans, now)
        self._planning, self._memory = planning, carried.memory
        timer.step(named.CARRY_OUT)
        self.informers.export(self._metrics)
        self._waking.at([due, plans.up.next_look, plans.down.next_look])
        timer.total()

    async def _plan(self, news: News, question: Question | None) -> Plans | None:
        """Plan in the thread; without a question only what is new is taken in."""
        planning = self._planning
        if planning is None:
            up = self._settings.up.figures()
            down = self._settings.down.figures(up.max_node_provision_seconds)
            planning = Planning(up, down, self._settings.up.expendable_pods_priority_cutoff)
            news = self._gathering.take_all()
        # If it fails in the middle, the next pass begins with everything there is.
        self._planning = None
        plans = None
        if question is None:
            await self._thread.run(planning.take_in, news)
        else:
            plans = await self._thread.run(planning.plan, news, question)
        self._planning = planning
        return plans

    async def _carry_out(self, groups: Groups, plans: Plans, now: float) -> Carried:
        planned = all_verdicts(plans.up.buffers, plans.problems, self.watching.buffers)
        published: tuple[BufferVerdict, ...] | None = None
        self._busy = True
        try:
            async with asyncio.TaskGroup() as group:
                carrying = group.create_task(self._carrying.carry_out(plans, now))
                if plans.up.orders:
                    # A provider that hangs keeps no Buffer from its status.
                    await asyncio.wait({carrying}, timeout=_ANSWER_SECONDS)
                if not carrying.done():
                    await self._publish(planned, now)
                    published = planned
            carried = carrying.result()
            buffers = after_orders(planned, carried.failed)
            if buffers != published:
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

    def _tell(self, groups: Groups, plans: Plans, buffers: tuple[BufferVerdict, ...], failed: frozenset[str]) -> None:
        self._reporting.group_problems(groups.problems)
        self._reporting.group_notes(plans.up.notes)
        self._telling.pods(plans.up.pods, failed)
        self._telling.buffers(buffers)
        self._telling.nodes(plans.down.nodes)
        self._telling.unreadable(plans.problems)
        self._counting.planned(groups, plans, buffers)
