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
from trellis.runtime.passes import PassThread, Periodic
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import StepTimer

# Calls the planner in its thread, with all changes.
RunPlanner: TypeAlias = Callable[
    [Callable[[NodePlanner, ClusterSnapshotChanges], ObservedBuffers]], Awaitable[ObservedBuffers]
]
# Publishes the status of Buffers.
PublishBuffers: TypeAlias = Callable[[ObservedBuffers, float], Awaitable[None]]

# How long to wait for the provider before the status of Buffers is published without it.
ANSWER_SECONDS: Final = 1.0
_SILENT: Final = DetailedReason(PROVIDER_SILENT, "nothing is ordered until the provider answers")

_log: Final = Logger("trellis.nodes")


class InterimBufferStatus:
    """Publishes the status of Buffers while the provider does not answer. `now` is the clock of decisions."""

    def __init__(
        self, accumulator: ChangeAccumulator, run_planner: RunPlanner, publish: PublishBuffers, now: Callable[[], float]
    ) -> None:
        self._accumulator = accumulator
        self._run_planner = run_planner
        self._publish = publish
        self._now = now

    async def publish_until_done(self, work: asyncio.Task[Any], memory: ScaleUpMemory) -> bool:
        """Wait for a task; meanwhile publish the status of Buffers when it may have changed. Returns whether it did."""
        clock = asyncio.get_running_loop().time
        has_observed, rest = False, ANSWER_SECONDS
        while not work.done():
            await asyncio.wait({work}, timeout=rest)
            if not work.done() and self._accumulator.affects_buffers:
                started = clock()
                await self.publish_once(memory)
                # Rest as long as the observation took.
                has_observed, rest = True, max(ANSWER_SECONDS, clock() - started)
        return has_observed

    async def publish_once(self, memory: ScaleUpMemory) -> None:
        """Publish the status of Buffers now. A failure is logged only, because the next pass reports it too."""
        now = self._now()
        try:
            observed = await self._run_planner(lambda planner, changes: planner.observe_buffers(changes, memory, now))
            await self._publish(replace(observed, buffers=correct_for_silent_provider(observed.buffers, _SILENT)), now)
        except Exception as error:  # noqa: BLE001 - no error may cancel orders that are in flight
            _log.warning("Buffers could not be looked at", error=error)


# How long the Buffer controller gets to translate Buffers again after pods have come.
_TRANSLATION_SECONDS: Final = 1.0
# How long to wait before checking again whether the caches can be trusted.
_UNTRUSTED_SECONDS: Final = 2.0

T = TypeVar("T")


class NodeController(Controller):
    """Runs passes of the node autoscaler: build the view, plan, execute, publish."""

    def __init__(
        self,
        context: ControllerContext,
        settings: NodeControllerSettings,
        *,
        provider: Callable[[NodeInformers], Provider] | None = None,
        on_warmed_up: Callable[[], object] = lambda: None,
    ) -> None:
        served, metrics, record, now = context.served, context.metrics, context.record_event, context.now
        writer = self._writer = context.writer
        self._settings = settings
        self._metrics = metrics
        self._may_act = context.may_act
        self._now = now
        self._on_warmed_up = on_warmed_up
        self._recorder = context.recorder
        self.informers = context.informers
        self.node_informers = NodeInformers(self.informers, settings, served)
        self._boosts = BoostInformers(self.informers, settings, served)
        config_map = settings.provider.kwok_node_groups
        chosen_provider = (
            provider(self.node_informers) if provider else KwokProvider(self.node_informers.kwok_objects, config_map)
        )
        patience = settings.provider.provider_timeout.total_seconds()
        self._provider_client = ProviderClient(chosen_provider, writer, patience, metrics)
        self._reporter = ActionReporter(metrics, record)
        self._executor = NodeExecutor(writer, self._provider_client, self._reporter, settings.up.figures())
        self._loop = Periodic(
            "nodes",
            self._pass,
            settings.loop.scan_interval.total_seconds(),
            on_pass=passes.pass_reporter(context.activity, _log),
            jitter=0.0,
        )
        self._trigger = PassTrigger(self._loop, now)
        self._accumulator = ChangeAccumulator(self.node_informers, settings.scope.covers, self._trigger.soon)
        self._pending_writes = PendingNodeWrites(self.node_informers.nodes)
        self._events = NodeEvents(record, self.node_informers)
        self._status = BufferStatusPublisher(self.node_informers.buffers, settings.scope.covers)
        self._autoscaler_metrics = NodeAutoscalerMetrics(metrics, settings.loop.metrics_buffers)
        self._interim_status = InterimBufferStatus(self._accumulator, self._run_planner, self._publish_observed, now)
        self._planner: NodePlanner | None = None
        self._thread = PassThread("nodes")
        self._memory = AutoscalerMemory()
        self._busy = False

    @property
    def is_busy(self) -> bool:
        """Whether a plan is being executed."""
        return self._busy

    def on_started_leading(self) -> None:
        """Forget what was remembered under another leader, and run a pass now."""
        self._memory = AutoscalerMemory()
        self._events.reset()
        if self.informers.synced:
            self._loop.wake()

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            await self._begin()
        finally:
            self._thread.close()

    async def _begin(self) -> None:
        await self.informers.wait_until_synced()
        _log.info("everything has been seen", nodes=len(self.node_informers.nodes.snapshot()))
        self._accumulator.subscribe()
        self.node_informers.config.subscribe(lambda _change: self._trigger.soon())
        self._pending_writes.subscribe()
        self._on_warmed_up()
        await self._loop.run()

    async def _pass(self) -> None:
        """Read the provider, plan and execute the plans."""
        if await self._is_idle():
            return
        clock = asyncio.get_running_loop().time
        await asyncio.sleep(max(0.0, self._accumulator.last_arrival + _TRANSLATION_SECONDS - clock()))
        timer = StepTimer(self._metrics, named.LATENCY, clock)
        now = self._now()
        next_write_at, groups = await self._read_provider(now)
        timer.step(named.PROVIDER)
        # The provider may have taken a minute, and accepts orders of a process that does not lead any more.
        if await self._is_idle():
            return
        if groups is None:
            await self._interim_status.publish_once(self._memory.up)
            self._trigger.at([next_write_at])
            return
        budgets, starts = self.node_informers.budgets.snapshot(), self._boosts.build_startup_boosts()
        pass_input = PassInput(groups.states, budgets, self._memory, now, starts)
        plans = await self._run_planner(lambda planner, changes: planner.plan(changes, pass_input))
        timer.step(named.PLAN)
        try:
            self._memory = (await self._execute(groups, plans, now)).memory
        except BaseException:
            # The snapshot shows nodes as the plan would have them.
            self._planner = None
            raise
        timer.step(named.EXECUTE)
        self.informers.export(self._metrics)
        self._trigger.at([next_write_at, plans.up.requeue_at, plans.down.requeue_at])
        timer.total()

    async def _is_idle(self) -> bool:
        """Whether no plan may be made now; the snapshot is then updated only."""
        skip_reason = self.informers.why_not_trusted() if self._may_act() else "not leading"
        if skip_reason is None:
            return False
        _log.detail(2, "this pass changes nothing", why=skip_reason)
        await self._run_planner(lambda planner, changes: planner.update(changes))
        if self._may_act():
            self._trigger.at([self._now() + _UNTRUSTED_SECONDS])
        return True

    async def _read_provider(self, now: float) -> tuple[float | None, Groups | None]:
        """The time of the provider's next write, and all groups; None while the provider does not respond."""

        async def read() -> tuple[float | None, Groups | None]:
            next_write_at, outcomes = await self._provider_client.tend(now)
            await self._pending_writes.wait_for(outcomes)
            return next_write_at, await self._provider_client.groups(now)

        async with asyncio.TaskGroup() as group:
            reading = group.create_task(read())
            await self._interim_status.publish_until_done(reading, self._memory.up)
        return reading.result()

    async def _run_planner(self, call: Callable[[NodePlanner, ClusterSnapshotChanges], T]) -> T:
        """Call the planner in its thread with all changes. After a failure the next call starts with all objects."""
        planner, self._planner = self._planner, None
        if planner is None:
            up = self._settings.up.figures()
            down = self._settings.down.figures(up.max_node_provision_seconds)
            planner = create_planner(
                AutoscalerSettings(up, down), self._settings.up.expendable_pods_priority_cutoff, self._recorder
            )
            changes = self._accumulator.take_everything()
        else:
            changes = self._accumulator.take_changes()
        result = await self._thread.run(call, planner, changes)
        self._planner = planner
        return result

    async def _execute(self, groups: Groups, plans: PassPlans, now: float) -> NodePlanResult:
        planned = with_unreadable_buffers(plans.up.buffers, plans.problems, self.node_informers.buffers)
        published: tuple[BufferDecision, ...] | None = None
        has_observed = False
        self._busy = True
        try:
            async with asyncio.TaskGroup() as group:
                executing = group.create_task(self._executor.execute(plans, now))
                if plans.up.orders:
                    # A provider that hangs does not delay the status of Buffers.
                    await asyncio.wait({executing}, timeout=ANSWER_SECONDS)
                if not executing.done():
                    await self._publish(planned, now)
                    published = planned
                    has_observed = await self._interim_status.publish_until_done(executing, plans.up.memory)
            result = executing.result()
            buffers = correct_for_failed_orders(planned, result.failed)
            if has_observed:
                # Buffers that the plan does not include got a newer status meanwhile.
                await self._interim_status.publish_once(result.memory.up)
            elif buffers != published:
                await self._publish(buffers, now)
            for name in result.unchanged:
                self._accumulator.reread_node(name)
            await self._pending_writes.wait_for(result.outcomes)
        finally:
            self._busy = False
        self._report(groups, plans, buffers, result.failed)
        return result

    async def _publish(self, buffers: Iterable[BufferDecision], now: float) -> None:
        actions: list[Action] = list(self._status.actions(buffers, now))
        if actions:
            await self._writer.write_all(actions)

    async def _publish_observed(self, observed: ObservedBuffers, now: float) -> None:
        if self._may_act() and self.informers.why_not_trusted() is None:
            buffers = with_unreadable_buffers(observed.buffers, observed.problems, self.node_informers.buffers)
            self._autoscaler_metrics.export_buffers(buffers)
            await self._publish(buffers, now)

    def _report(
        self, groups: Groups, plans: PassPlans, buffers: tuple[BufferDecision, ...], failed: frozenset[str]
    ) -> None:
        self._reporter.report_group_problems(groups.problems)
        self._reporter.report_group_notes(plans.up.notes)
        self._reporter.report_lost_orders(plans.up.lost)
        self._events.record_pods(plans.up.pods, failed)
        self._events.record_buffers(buffers)
        self._events.record_nodes(plans.down.nodes)
        self._events.record_unreadable(plans.problems)
        self._autoscaler_metrics.export_plans(groups, plans, correct_for_failed_orders(plans.up.pods, failed), buffers)
