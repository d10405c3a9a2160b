"""Composes the node autoscaler: its spec as a component, and the controller from its parts.

Passes run every interval, and soon after a change that matters. A pod that is unschedulable, a Buffer that changes and
a node that comes trigger a pass.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from trellis.base.python_gc import freeze_live_objects
from trellis.controllers.buffer_provisioning.buffer_reports import NODES_FIELD_MANAGER
from trellis.controllers.buffer_provisioning.snapshot_changes import ChangeAccumulator, PassTrigger
from trellis.controllers.nodes.boosts import BoostInformers
from trellis.controllers.nodes.events import ActionReporter, NodeEvents
from trellis.controllers.nodes.executor import NodeExecutor, PendingNodeWrites
from trellis.controllers.nodes.informers import NodeInformers
from trellis.controllers.nodes.metrics import NODE_METRICS, NodeAutoscalerMetrics
from trellis.controllers.nodes.provider_client import ProviderClient
from trellis.controllers.nodes.reconcile import NOT_LEADING, BufferStatusWriter, NodeReconciler
from trellis.controllers.nodes.recording import create_planner
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.controllers.nodes.state import PlannerThread
from trellis.controllers.nodes.status import BufferStatusPublisher
from trellis.core.nodes.autoscaler_pass import AutoscalerSettings, NodePlanner
from trellis.core.recording.format import NODES
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.providers.kwok import KwokProvider
from trellis.providers.protocol import Provider
from trellis.runtime import passes
from trellis.runtime.component import ComponentSpec, Controller, ControllerContext, component_main
from trellis.runtime.leadership import announced_lease
from trellis.runtime.passes import Periodic
from trellis.runtime.recorder import Recorder, open_recorder
from trellis.runtime.shared_informers import SharedInformers
from trellis.runtime.shutdown import Main
from trellis.runtime.telemetry import cluster_metrics
from trellis.runtime.telemetry.logs import Logger

COMPONENT: Final = "trellis-nodes"

_log: Final = Logger("trellis.nodes")


class NodeController(Controller):
    """The node autoscaler of a process. `on_warmed_up` is called when the caches are synced."""

    def __init__(
        self,
        context: ControllerContext,
        settings: NodeControllerSettings,
        node_informers: NodeInformers,
        reconciler: NodeReconciler,
        *,
        accumulator: ChangeAccumulator,
        planner: PlannerThread,
        pending_writes: PendingNodeWrites,
        on_warmed_up: Callable[[], object],
    ) -> None:
        self.informers = context.informers
        self.node_informers = node_informers
        self._metrics = context.metrics
        self._reconciler = reconciler
        self._accumulator = accumulator
        self._planner = planner
        self._pending_writes = pending_writes
        self._on_warmed_up = on_warmed_up
        self._loop = Periodic(
            "nodes",
            self._pass,
            settings.loop.scan_interval.total_seconds(),
            on_pass=passes.pass_reporter(context.activity, _log),
            jitter=0.0,
        )
        self._trigger = PassTrigger(self._loop, context.now)

    @property
    def is_busy(self) -> bool:
        """Whether a plan is being executed."""
        return self._reconciler.is_busy

    def on_started_leading(self) -> None:
        """Forget what was remembered under another leader, and run a pass now."""
        self._reconciler.begin_anew()
        if self.informers.synced:
            self._loop.wake()

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            await self._run_passes()
        finally:
            self._planner.close()

    async def _run_passes(self) -> None:
        await self.informers.wait_until_synced()
        _log.info("caches synced", nodes=len(self.node_informers.nodes.snapshot()))
        self._accumulator.subscribe(self._trigger.soon)
        self.node_informers.config.subscribe(lambda _change: self._trigger.soon())
        self._pending_writes.subscribe()
        self._on_warmed_up()
        await self._loop.run()

    async def _pass(self) -> None:
        self._trigger.at(await self._reconciler.reconcile())
        self.informers.export(self._metrics)


def build_node_controller(
    context: ControllerContext,
    settings: NodeControllerSettings,
    *,
    provider: Callable[[NodeInformers], Provider] | None = None,
    on_warmed_up: Callable[[], object] = lambda: None,
) -> NodeController:
    """The node autoscaler with all its parts."""
    metrics, writer, covers = context.metrics, context.writer, settings.scope.covers
    informers = NodeInformers(context.informers, settings, context.served)
    boosts = BoostInformers(context.informers, settings, context.served)
    create_provider = provider or partial(_create_kwok_provider, settings)
    patience = settings.provider.provider_timeout.total_seconds()
    provider_client = ProviderClient(create_provider(informers), writer, patience, metrics)
    reporter = ActionReporter(metrics, context.record_event)
    accumulator = ChangeAccumulator(informers, covers)
    planner = PlannerThread(accumulator, lambda: _create_planner(settings, context.recorder))
    pending_writes = PendingNodeWrites(informers.nodes)
    autoscaler_metrics = NodeAutoscalerMetrics(metrics, settings.loop.metrics_buffers)

    def skip_reason() -> str | None:
        return context.informers.find_staleness_problem() if context.may_act() else NOT_LEADING

    statuses = BufferStatusWriter(
        BufferStatusPublisher(informers.buffers, covers),
        informers,
        writer,
        autoscaler_metrics,
        may_publish=lambda: skip_reason() is None,
    )
    reconciler = NodeReconciler(
        informers,
        boosts,
        accumulator,
        planner,
        provider_client=provider_client,
        executor=NodeExecutor(writer, provider_client, reporter, settings.up.figures()),
        pending_writes=pending_writes,
        statuses=statuses,
        events=NodeEvents(context.record_event, informers),
        reporter=reporter,
        metrics=metrics,
        autoscaler_metrics=autoscaler_metrics,
        skip_reason=skip_reason,
        now=context.now,
    )
    return NodeController(
        context,
        settings,
        informers,
        reconciler,
        accumulator=accumulator,
        planner=planner,
        pending_writes=pending_writes,
        on_warmed_up=on_warmed_up,
    )


def _create_kwok_provider(settings: NodeControllerSettings, informers: NodeInformers) -> Provider:
    return KwokProvider(informers.kwok_objects, settings.provider.kwok_node_groups)


def _create_planner(settings: NodeControllerSettings, recorder: Recorder) -> NodePlanner:
    up = settings.up.figures()
    figures = AutoscalerSettings(up, settings.down.figures(up.max_node_provision_seconds))
    return create_planner(figures, settings.up.expendable_pods_priority_cutoff, recorder)


def nodes_spec(settings: NodeControllerSettings) -> ComponentSpec[NodeController]:
    """The node autoscaler as a component. By its lease the Buffer controller knows that it runs."""

    @asynccontextmanager
    async def build(context: ControllerContext) -> AsyncIterator[NodeController]:
        yield build_node_controller(context, settings, on_warmed_up=freeze_live_objects)

    return ComponentSpec(
        name=COMPONENT,
        field_manager=NODES_FIELD_MANAGER,
        log=_log,
        metrics=NODE_METRICS,
        build=build,
        interval=settings.loop.scan_interval.total_seconds(),
        election=announced_lease(settings.leader),
        recording=partial(open_recorder, settings.recording.record, NODES, settings),
        concurrent_writes=settings.loop.concurrent_writes,
        is_usual=_is_usual,
        started_with={"lease": settings.leader.leader_elect},
    )


def nodes_main(settings: NodeControllerSettings, shared: SharedInformers | None = None) -> Main:
    """The main function of a process with these settings; `shared` are its informers."""
    return component_main(nodes_spec(settings), settings, shared=shared)


def _is_usual(outcome: WriteOutcome) -> bool:
    """Whether an outcome needs no line in the log: an eviction that a disruption budget forbids is tried again."""
    return cluster_metrics.is_expected(outcome) or outcome.result is Result.REFUSED
