"""Composes the node autoscaler: its spec as a component, and the controller from its parts.

Passes run every interval, and soon after a change that matters. A pod that is unschedulable, a Buffer that changes and
a node that comes trigger a pass.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import Final

from trellis.base.python_gc import freeze_live_objects
from trellis.controllers.buffer_provisioning.buffer_reports import NODES_FIELD_MANAGER
from trellis.controllers.buffer_provisioning.snapshot_changes import ChangeAccumulator, PassTrigger
from trellis.controllers.nodes.events import ActionReporter, NodeEvents
from trellis.controllers.nodes.executor import NodeExecutor, PendingNodeWrites
from trellis.controllers.nodes.informers import NodeInformers, list_followed_kinds
from trellis.controllers.nodes.metrics import NODE_METRICS, NodeAutoscalerMetrics
from trellis.controllers.nodes.provider_client import ProviderClient
from trellis.controllers.nodes.provisioning_requests import ProvisioningRequestPublisher
from trellis.controllers.nodes.reconcile import NOT_LEADING, BufferStatusWriter, NodeReconciler
from trellis.controllers.nodes.recording import create_planner
from trellis.controllers.nodes.settings import NodeControllerSettings
from trellis.controllers.nodes.sizing import SizingInformers
from trellis.controllers.nodes.state import PlannerThread
from trellis.controllers.nodes.status import BufferStatusPublisher
from trellis.core.nodes.autoscaler_pass import AutoscalerSettings, NodePlanner
from trellis.core.recording import format as recordings
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.providers.plugins import ChangeSignal, OpenProviders, ProviderContext, RunningProvider, open_providers
from trellis.runtime import passes
from trellis.runtime.component import ComponentSpec, Controller, ControllerContext, component_main
from trellis.runtime.leadership import announced_lease
from trellis.runtime.manager.settings import NODES
from trellis.runtime.manager.supervisor import ManagedComponent
from trellis.runtime.passes import Periodic
from trellis.runtime.recorder import Recorder, open_recorder
from trellis.runtime.shared_informers import SharedInformers
from trellis.runtime.shutdown import Main
from trellis.runtime.telemetry import cluster_metrics
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.tracing import trace_passes

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
        provider_client: ProviderClient,
        pending_writes: PendingNodeWrites,
        on_warmed_up: Callable[[], object],
    ) -> None:
        self.informers = context.informers
        self.node_informers = node_informers
        self._metrics = context.metrics
        self._reconciler = reconciler
        self._accumulator = accumulator
        self._planner = planner
        self._provider_client = provider_client
        self._pending_writes = pending_writes
        self._on_warmed_up = on_warmed_up
        self._loop = Periodic(
            "nodes",
            trace_passes(context.component, self._pass),
            settings.loop.scan_interval.total_seconds(),
            on_pass=passes.pass_reporter(
                context.activity, _log, cluster_metrics.PassGauges(context.metrics, context.component)
            ),
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
            await self._provider_client.close()

    async def _run_passes(self) -> None:
        await self.informers.wait_until_synced()
        _log.info("caches synced", nodes=len(self.node_informers.nodes.snapshot()))
        self._accumulator.subscribe(self._trigger.soon)
        self._pending_writes.subscribe()
        self._on_warmed_up()
        await self._loop.run()

    def on_provider_change(self) -> None:
        """Run a pass soon, because node groups or instances have changed."""
        if self.informers.synced:
            self._trigger.soon()

    async def _pass(self) -> None:
        self._trigger.at(await self._reconciler.reconcile())


def build_node_controller(
    context: ControllerContext,
    settings: NodeControllerSettings,
    informers: NodeInformers,
    providers: Sequence[RunningProvider],
    *,
    on_warmed_up: Callable[[], object] = lambda: None,
) -> NodeController:
    """The node autoscaler with all its parts."""
    metrics, writer, covers = context.metrics, context.writer, settings.scope.covers
    sizing = SizingInformers(context.informers, settings, context.served)
    provider_client = ProviderClient(providers, settings.provider.provider_timeout.total_seconds(), metrics)
    reporter = ActionReporter(metrics, context.record_event)
    accumulator = ChangeAccumulator(informers, covers, informers.requests, informers.pod_groups)
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
        sizing,
        accumulator,
        planner,
        provider_client=provider_client,
        executor=NodeExecutor(writer, provider_client, reporter, settings.scale_up_figures),
        pending_writes=pending_writes,
        statuses=statuses,
        requests=ProvisioningRequestPublisher(
            informers.requests, writer, metrics, context.record_event, may_publish=lambda: skip_reason() is None
        ),
        events=NodeEvents(context.record_event, informers),
        reporter=reporter,
        metrics=metrics,
        autoscaler_metrics=autoscaler_metrics,
        skip_reason=skip_reason,
        on_completed=context.complete_pass,
        now=context.now,
    )
    return NodeController(
        context,
        settings,
        informers,
        reconciler,
        accumulator=accumulator,
        planner=planner,
        provider_client=provider_client,
        pending_writes=pending_writes,
        on_warmed_up=on_warmed_up,
    )


@asynccontextmanager
async def open_node_controller(
    context: ControllerContext,
    settings: NodeControllerSettings,
    *,
    open_all: OpenProviders = open_providers,
    on_warmed_up: Callable[[], object] = lambda: None,
) -> AsyncIterator[NodeController]:
    """The node autoscaler with the providers of its settings. They end after it."""
    informers = NodeInformers(context.informers, settings, context.served)
    changes = ChangeSignal()
    provider_context = ProviderContext(
        client=context.client,
        served=context.served,
        informers=context.informers,
        list_nodes=informers.list_nodes,
        writer=context.writer,
        metrics=context.metrics,
        now=context.now,
        defaults=settings.group_defaults,
        sections=settings.provider_sections,
        read_only=settings.access.read_only,
        may_act=context.may_act,
        on_change=changes.send,
    )
    async with open_all(settings.provider.cloud_provider, provider_context, settings.provider.options()) as providers:
        controller = build_node_controller(context, settings, informers, providers, on_warmed_up=on_warmed_up)
        changes.subscribe(controller.on_provider_change)
        yield controller


def _create_planner(settings: NodeControllerSettings, recorder: Recorder) -> NodePlanner:
    up = settings.scale_up_figures
    figures = AutoscalerSettings(up, settings.down.figures(up))
    return create_planner(figures, settings.up.expendable_pods_priority_cutoff, recorder)


def nodes_spec(settings: NodeControllerSettings) -> ComponentSpec[NodeController]:
    """The node autoscaler as a component. By its lease the Buffer controller knows that it runs."""
    return ComponentSpec(
        component="nodes",
        name=COMPONENT,
        field_manager=NODES_FIELD_MANAGER,
        log=_log,
        metrics=NODE_METRICS,
        build=lambda context: open_node_controller(context, settings, on_warmed_up=freeze_live_objects),
        interval=settings.loop.scan_interval.total_seconds(),
        election=announced_lease(settings.leader),
        recording=partial(open_recorder, settings.recording.record, recordings.NODES, settings),
        concurrent_writes=settings.loop.concurrent_writes,
        is_usual=_is_usual,
        started_with={"lease": settings.leader.leader_elect},
    )


def manage_nodes(settings: NodeControllerSettings) -> ManagedComponent:
    """The component as a process of several runs it."""
    return ManagedComponent(
        name=NODES,
        settings=settings,
        metrics=NODE_METRICS,
        followed=list_followed_kinds(settings),
        open=lambda _metrics: nullcontext(nodes_spec(settings)),
    )


def nodes_main(settings: NodeControllerSettings, shared: SharedInformers | None = None) -> Main:
    """The main function of a process with these settings; `shared` are its informers."""
    return component_main(nodes_spec(settings), settings, shared=shared)


def _is_usual(outcome: WriteOutcome) -> bool:
    """Whether an outcome needs no line in the log: an eviction that a disruption budget forbids is tried again."""
    return cluster_metrics.is_expected(outcome) or outcome.result is Result.REFUSED
