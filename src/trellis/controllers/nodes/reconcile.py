"""A pass of the node autoscaler: read the provider, plan, execute, publish.

While the provider does not answer, which may take minutes, the status of Buffers is published without it:
`InterimBufferStatus` orders nothing and remembers nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from trellis.base.reasons import DetailedReason
from trellis.controllers.buffer_provisioning.buffer_reports import with_unreadable_buffers
from trellis.controllers.buffer_provisioning.snapshot_changes import ChangeAccumulator
from trellis.controllers.nodes import metrics as named
from trellis.controllers.nodes.events import ActionReporter, NodeEvents
from trellis.controllers.nodes.executor import NodeExecutor, NodePlanResult, PendingNodeWrites
from trellis.controllers.nodes.informers import NodeInformers
from trellis.controllers.nodes.metrics import NodeAutoscalerMetrics
from trellis.controllers.nodes.provider_client import PROVIDER_TIMED_OUT, ProviderClient
from trellis.controllers.nodes.provisioning_requests import ProvisioningRequestPublisher
from trellis.controllers.nodes.sizing import SizingInformers
from trellis.controllers.nodes.state import PlannerThread
from trellis.controllers.nodes.status import BufferStatusPublisher
from trellis.core.nodes.autoscaler_pass import (
    AutoscalerMemory,
    ObservedBuffers,
    PassInput,
    PassPlans,
)
from trellis.core.nodes.provisioning.decisions import correct_for_withdrawn_bookings
from trellis.core.nodes.scale_up.decisions import BufferDecision, correct_for_failed_orders, correct_for_silent_provider
from trellis.core.nodes.scale_up.remembered_state import ScaleUpMemory
from trellis.kube.write.actions import Action
from trellis.kube.write.writer import Writer
from trellis.providers.protocol import Groups
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics, StepTimer
from trellis.runtime.telemetry.tracing import current_trace

# How long to wait for the provider before the status of Buffers is published without it.
ANSWER_SECONDS: Final = 1.0
_SILENT: Final = DetailedReason(PROVIDER_TIMED_OUT, "no node is ordered until the provider answers")
# How long the Buffer controller gets to translate Buffers again after pods have come.
_TRANSLATION_SECONDS: Final = 1.0
# How long to wait before checking again whether the caches can be trusted.
_UNTRUSTED_SECONDS: Final = 2.0

# Why a pass of a process that does not lead changes nothing.
NOT_LEADING: Final = "not leading"

_log: Final = Logger("trellis.nodes")

T = TypeVar("T")


class BufferStatusWriter:
    """Writes the statuses of Buffers that differ. `may_publish` says whether what is known can be trusted now."""

    def __init__(
        self,
        publisher: BufferStatusPublisher,
        informers: NodeInformers,
        writer: Writer,
        metrics: NodeAutoscalerMetrics,
        may_publish: Callable[[], bool],
    ) -> None:
        self._publisher = publisher
        self._informers = informers
        self._writer = writer
        self._metrics = metrics
        self._may_publish = may_publish

    async def publish(self, buffers: Iterable[BufferDecision], now: float) -> None:
        actions: list[Action] = list(self._publisher.actions(buffers, now))
        if actions:
            await self._writer.write_all(actions)

    async def publish_observed(self, observed: ObservedBuffers, now: float) -> None:
        if self._may_publish():
            buffers = with_unreadable_buffers(observed.buffers, observed.problems, self._informers.buffers)
            self._metrics.export_buffers(buffers)
            await self.publish(buffers, now)


class InterimBufferStatus:
    """Publishes the status of Buffers while the provider does not answer. `now` is the clock of decisions."""

    def __init__(
        self,
        accumulator: ChangeAccumulator,
        planner: PlannerThread,
        statuses: BufferStatusWriter,
        now: Callable[[], float],
    ) -> None:
        self._accumulator = accumulator
        self._planner = planner
        self._statuses = statuses
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
            observed = await self._planner.run(lambda planner, changes: planner.observe_buffers(changes, memory, now))
            buffers = correct_for_silent_provider(observed.buffers, _SILENT)
            await self._statuses.publish_observed(replace(observed, buffers=buffers), now)
        except Exception as error:  # noqa: BLE001 - no error may cancel orders that are in flight
            _log.warning("reconciling Buffers failed", error=error)


class NodeReconciler:
    """Runs passes of the node autoscaler. `skip_reason` says why nothing may be changed now, if so.

    `on_completed` is called after each pass that read the provider and executed its plans.
    """

    def __init__(
        self,
        node_informers: NodeInformers,
        sizing: SizingInformers,
        accumulator: ChangeAccumulator,
        planner: PlannerThread,
        *,
        provider_client: ProviderClient,
        executor: NodeExecutor,
        pending_writes: PendingNodeWrites,
        statuses: BufferStatusWriter,
        requests: ProvisioningRequestPublisher,
        events: NodeEvents,
        reporter: ActionReporter,
        metrics: Metrics,
        autoscaler_metrics: NodeAutoscalerMetrics,
        skip_reason: Callable[[], str | None],
        on_completed: Callable[[], None],
        now: Callable[[], float],
    ) -> None:
        self._informers = node_informers
        self._sizing = sizing
        self._accumulator = accumulator
        self._planner = planner
        self._provider_client = provider_client
        self._executor = executor
        self._pending_writes = pending_writes
        self._statuses = statuses
        self._requests = requests
        self._interim_status = InterimBufferStatus(accumulator, planner, statuses, now)
        self._events = events
        self._reporter = reporter
        self._metrics = metrics
        self._autoscaler_metrics = autoscaler_metrics
        self._skip_reason = skip_reason
        self._on_completed = on_completed
        self._now = now
        self._memory = AutoscalerMemory()
        self.is_busy = False

    def begin_anew(self) -> None:
        """Forget what was remembered under another leader."""
        self._memory = AutoscalerMemory()
        self._events.reset()
        self._requests.reset()

    async def reconcile(self) -> Sequence[float | None]:
        """Read the provider, plan and execute the plans; returns when the next pass is due, if before its time."""
        if (skip_reason := self._skip_reason()) is not None:
            return await self._skip(skip_reason)
        clock = asyncio.get_running_loop().time
        await asyncio.sleep(max(0.0, self._accumulator.last_arrival + _TRANSLATION_SECONDS - clock()))
        timer = StepTimer(self._metrics, named.LATENCY, clock)
        now = self._now()
        next_write_at, groups = await self._read_provider(now)
        timer.step(named.PROVIDER)
        # The provider may have taken a minute, and accepts orders of a process that does not lead any more.
        if (skip_reason := self._skip_reason()) is not None:
            return await self._skip(skip_reason)
        if groups is None:
            await self._interim_status.publish_once(self._memory.up)
            return [next_write_at]
        budgets, sizing = self._informers.budgets.snapshot(), self._sizing.build_sources()
        pass_input = PassInput(groups.states, budgets, self._memory, now, sizing)
        plans = await self._planner.run(lambda planner, changes: planner.plan(changes, pass_input))
        timer.step(named.PLAN)
        try:
            self._memory = (await self._execute(groups, plans, now)).memory
            self._autoscaler_metrics.export_backoffs(groups, self._memory.up.backoffs, now)
        except BaseException:
            self._planner.discard()
            raise
        timer.step(named.EXECUTE)
        timer.total()
        current_trace().describe(groups=len(groups.states), nodes=len(plans.down.nodes), orders=len(plans.up.orders))
        self._on_completed()
        return [next_write_at, plans.up.requeue_at, plans.down.requeue_at]

    async def _skip(self, reason: str) -> Sequence[float | None]:
        """Update the snapshot, and change nothing."""
        _log.detail(2, "pass skipped", why=reason)
        await self._planner.run(lambda planner, changes: planner.update(changes))
        return [] if reason is NOT_LEADING else [self._now() + _UNTRUSTED_SECONDS]

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

    async def _execute(self, groups: Groups, plans: PassPlans, now: float) -> NodePlanResult:
        planned = with_unreadable_buffers(plans.up.buffers, plans.problems, self._informers.buffers)
        published: tuple[BufferDecision, ...] | None = None
        has_observed = False
        self.is_busy = True
        try:
            async with asyncio.TaskGroup() as group:
                executing = group.create_task(self._executor.execute(plans, now))
                if plans.up.orders:
                    # A provider that hangs does not delay the status of Buffers.
                    await asyncio.wait({executing}, timeout=ANSWER_SECONDS)
                if not executing.done():
                    await self._statuses.publish(planned, now)
                    published = planned
                    has_observed = await self._interim_status.publish_until_done(executing, plans.up.memory)
            result = executing.result()
            buffers = correct_for_failed_orders(planned, result.failed)
            if has_observed:
                # Buffers that the plan does not include got a newer status meanwhile.
                await self._interim_status.publish_once(result.memory.up)
            elif buffers != published:
                await self._statuses.publish(buffers, now)
            # Not before the orders are executed: a queue starts pods as soon as it reads the conditions.
            await self._requests.publish(correct_for_withdrawn_bookings(plans.up.requests, result.memory.up.requests))
            for name in result.unchanged:
                self._accumulator.reread_node(name)
            await self._pending_writes.wait_for(result.outcomes)
        finally:
            self.is_busy = False
        self._report(groups, plans, buffers, result.failed)
        return result

    def _report(
        self, groups: Groups, plans: PassPlans, buffers: tuple[BufferDecision, ...], failed: frozenset[str]
    ) -> None:
        self._reporter.report_group_problems(groups.problems)
        self._reporter.report_group_notes(plans.up.notes)
        self._reporter.report_lost_orders(plans.up.lost)
        self._events.record_pods((*plans.up.pods, *plans.up.resizes), failed)
        self._events.record_buffers(buffers)
        self._events.record_nodes(plans.down.nodes)
        self._events.record_unreadable(plans.problems)
        self._autoscaler_metrics.export_plans(groups, plans, correct_for_failed_orders(plans.up.pods, failed), buffers)
