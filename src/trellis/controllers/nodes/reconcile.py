"""A pass of the node autoscaler: read the provider, plan, execute, publish.

Passes run every interval, and soon after a change that matters. A pod that is unschedulable, a Buffer that changes and
a node that comes trigger a pass. While the provider does not answer, which may take minutes, the status of Buffers is
published without it: `InterimBufferStatus` orders nothing and remembers nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeAlias, TypeVar

from msgspec.structs import replace

from trellis.base.reasons import DetailedReason
from trellis.controllers.nodes import metrics as named
from trellis.controllers.nodes.boosts import BoostInformers
from trellis.controllers.nodes.events import ActionReporter, NodeEvents
from trellis.controllers.nodes.executor import NodeExecutor, NodePlanResult, PendingNodeWrites
from trellis.controllers.nodes.informers import NodeInformers
from trellis.controllers.nodes.metrics import NodeAutoscalerMetrics
from trellis.controllers.nodes.provider_client import PROVIDER_SILENT, ProviderClient
from trellis.controllers.nodes.recording import create_planner
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.controllers.nodes.state import ChangeAccumulator, PassTrigger
from trellis.controllers.nodes.status import BufferStatusPublisher, with_unreadable_buffers
from trellis.core.nodes.autoscaler_pass import (
    AutoscalerMemory,
    AutoscalerSettings,
    NodePlanner,
    ObservedBuffers,
    PassInput,
    PassPlans,
)
from trellis.core.nodes.scale_up.decisions import BufferDecision, correct_for_failed_orders, correct_for_silent_provider
from trellis.core.nodes.scale_up.memory import ScaleUpMemory
from trellis.core.nodes.state.snapshot import ClusterSnapshotChanges
from trellis.kube.write.actions import Action
from trellis.providers.kwok import KwokProvider
from trellis.providers.protocol import Groups, Provider
from trellis.runtime import passes
from trellis.runtime.component import Controller, ControllerContext
from trellis.runtime.informers import Informers
from trellis.runtime.optional_kinds import UnreadableKinds
from trellis.runtime.passes import PassThread, Periodic
from trellis.runtime.recorder import NO_RECORDER, Recorder
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import StepTimer

# Asks in the thread of the plans, with all that is new by then.
AskPlanner: TypeAlias = Callable[
    [Callable[[NodePlanner, ClusterSnapshotChanges], ObservedBuffers]], Awaitable[ObservedBuffers]
]
# Writes what is said of Buffers.
PublishBuffers: TypeAlias = Callable[[ObservedBuffers, float], Awaitable[None]]

# So long an answer is waited for before Buffers are looked at without it.
ANSWER_SECONDS: Final = 1.0
_SILENT: Final = DetailedReason(PROVIDER_SILENT, "nothing is ordered until the provider answers")

_log: Final = Logger("trellis.nodes")


class InterimBufferStatus:
    """Looks at Buffers while something else is waited for. `now` is the clock of verdicts."""

    def __init__(
        self, gathering: ChangeAccumulator, think: AskPlanner, publish: PublishBuffers, now: Callable[[], float]
    ) -> None:
        self._gathering = gathering
        self._think = think
        self._publish = publish
        self._now = now

    async def until_done(self, work: asyncio.Task[Any], memory: ScaleUpMemory) -> bool:
        """Wait for work, and have Buffers looked at whenever it matters to them; whether that was so."""
        clock = asyncio.get_running_loop().time
        has_looked, rest = False, ANSWER_SECONDS
        while not work.done():
            await asyncio.wait({work}, timeout=rest)
            if not work.done() and self._gathering.matters_to_buffers:
                started = clock()
                await self.look(memory)
                # Whoever looks for long is given as long a rest.
                has_looked, rest = True, max(ANSWER_SECONDS, clock() - started)
        return has_looked

    async def look(self, memory: ScaleUpMemory) -> None:
        """Tell Buffers. If that fails, the next pass fails likewise and says so: what is waited for goes on."""
        now = self._now()
        try:
            looked = await self._think(lambda planning, news: planning.observe_buffers(news, memory, now))
            await self._publish(replace(looked, buffers=correct_for_silent_provider(looked.buffers, _SILENT)), now)
        except Exception as error:  # noqa: BLE001 - whatever it is must not end orders that are under way
            _log.warning("Buffers could not be looked at", error=error)


# After pods have come, whoever translates Buffers is given so long to say how much room is still to be kept.
_TRANSLATION_SECONDS: Final = 1.0
# So long after sight was lost it is asked again whether it is back.
_UNTRUSTED_SECONDS: Final = 2.0

T = TypeVar("T")


class NodeController(Controller):
    """One process's node autoscaler."""

    def __init__(
        self,
        given: ControllerContext,
        settings: NodeControllerSettings,
        *,
        provider: Callable[[NodeInformers], Provider] | None = None,
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
        self.informers = Informers(client, UnreadableKinds(metrics, _log), draw=given.draw, shared=given.shared)
        self.watching = NodeInformers(self.informers, settings, served)
        self._boosting = BoostInformers(self.informers, settings, served)
        where = settings.provider.kwok_node_groups
        made = provider(self.watching) if provider else KwokProvider(self.watching.kwok_objects, where)
        patience = settings.provider.provider_timeout.total_seconds()
        self._providing = ProviderClient(made, writer, patience, metrics)
        self._reporting = ActionReporter(metrics, record)
        self._carrying = NodeExecutor(writer, self._providing, self._reporting, settings.up.figures())
        self._waking = PassTrigger(now)
        self._gathering = ChangeAccumulator(self.watching, settings.scope.covers, self._waking.soon)
        self._echoes = PendingNodeWrites(self.watching.nodes)
        self._telling = NodeEvents(record, self.watching)
        self._publishing = BufferStatusPublisher(self.watching.buffers, settings.scope.covers)
        self._counting = NodeAutoscalerMetrics(metrics, settings.loop.metrics_buffers)
        self._meanwhile = InterimBufferStatus(self._gathering, self._think, self._publish_look, now)
        self._planning: NodePlanner | None = None
        self._thread = PassThread("nodes")
        self._memory = AutoscalerMemory()
        self._busy = False
        self._loop = Periodic(
            "nodes",
            self._pass,
            settings.loop.scan_interval.total_seconds(),
            on_pass=passes.pass_reporter(given.activity, _log),
            jitter=0.0,
        )
        self._waking.loop = self._loop

    @property
    def is_busy(self) -> bool:
        """Whether a plan is being carried out."""
        return self._busy

    def begin_anew(self) -> None:
        """Look at everything now: this process has become the leader."""
        self._memory = AutoscalerMemory()
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
        question = PassInput(groups.states, budgets, self._memory, now, starts)
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
        await self._think(lambda planning, news: planning.update(news))
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

    async def _think(self, ask: Callable[[NodePlanner, ClusterSnapshotChanges], T]) -> T:
        """Ask in the thread, with all that is new. If it fails, the next question begins with everything there is."""
        planning, self._planning = self._planning, None
        if planning is None:
            up = self._settings.up.figures()
            down = self._settings.down.figures(up.max_node_provision_seconds)
            planning = create_planner(
                AutoscalerSettings(up, down), self._settings.up.expendable_pods_priority_cutoff, self._recorder
            )
            news = self._gathering.take_all()
        else:
            news = self._gathering.take()
        found = await self._thread.run(ask, planning, news)
        self._planning = planning
        return found

    async def _carry_out(self, groups: Groups, plans: PassPlans, now: float) -> NodePlanResult:
        planned = with_unreadable_buffers(plans.up.buffers, plans.problems, self.watching.buffers)
        published: tuple[BufferDecision, ...] | None = None
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
            buffers = correct_for_failed_orders(planned, carried.failed)
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

    async def _publish(self, buffers: Iterable[BufferDecision], now: float) -> None:
        actions: list[Action] = list(self._publishing.actions(buffers, now))
        if actions:
            await self._writer.write_all(actions)

    async def _publish_look(self, looked: ObservedBuffers, now: float) -> None:
        if self._may_act() and self.informers.why_not_trusted() is None:
            buffers = with_unreadable_buffers(looked.buffers, looked.problems, self.watching.buffers)
            self._counting.observed(buffers)
            await self._publish(buffers, now)

    def _tell(
        self, groups: Groups, plans: PassPlans, buffers: tuple[BufferDecision, ...], failed: frozenset[str]
    ) -> None:
        self._reporting.group_problems(groups.problems)
        self._reporting.group_notes(plans.up.notes)
        self._reporting.orders_lost(plans.up.lost)
        self._telling.pods(plans.up.pods, failed)
        self._telling.buffers(buffers)
        self._telling.nodes(plans.down.nodes)
        self._telling.unreadable(plans.problems)
        self._counting.planned(groups, plans, correct_for_failed_orders(plans.up.pods, failed), buffers)
