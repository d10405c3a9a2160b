"""Composes the Buffer controller: its spec as a component, and the controller from its parts.

A Buffer is reconciled when something about it changes, when its schedule does, and every interval. CapacityBuffers, and
namespaces whose quotas are to be divided again, go through the same work queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import Final

import msgspec

from trellis.controllers.buffers import metrics as named
from trellis.controllers.buffers.admitted_templates import AdmittedTemplates
from trellis.controllers.buffers.capacity_buffers.controller import CapacityBuffers, SharedWithBuffers
from trellis.controllers.buffers.capacity_buffers.informers import is_capacity_key
from trellis.controllers.buffers.change_handlers import BufferChangeHandlers
from trellis.controllers.buffers.headroom.controller import HeadroomController
from trellis.controllers.buffers.informers import BufferInformers, list_followed_kinds
from trellis.controllers.buffers.metrics import BUFFER_METRICS, export_buffers
from trellis.controllers.buffers.node_classes import NodeClasses
from trellis.controllers.buffers.quota_shares import QuotaDivision, QuotaShares
from trellis.controllers.buffers.reconcile import BufferReconciler
from trellis.controllers.buffers.recording import BufferTranslator
from trellis.controllers.buffers.settings import BufferControllerSettings
from trellis.controllers.buffers.state import BufferStates
from trellis.controllers.buffers.status import FIELD_MANAGER
from trellis.controllers.buffers.targets import GroupKind, TargetReader, load_target_kinds
from trellis.controllers.buffers.view import BufferViewBuilder, GovernorLookup
from trellis.core.buffers import TargetKind
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.recording import format as recordings
from trellis.kube.scales import ScaleLookups
from trellis.runtime.component import ComponentSpec, ControllerContext, component_main
from trellis.runtime.leadership import single_lease
from trellis.runtime.manager.settings import BUFFERS
from trellis.runtime.manager.supervisor import ManagedComponent
from trellis.runtime.queue_controller import ObjectQueue, QueueController
from trellis.runtime.recorder import open_recorder
from trellis.runtime.settings.component import effective_boost_settings
from trellis.runtime.shared_informers import SharedInformers
from trellis.runtime.shutdown import Main
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import StepTimer
from trellis.runtime.telemetry.tracing import current_trace

COMPONENT: Final = "trellis-buffers"

# The key of a namespace whose quotas are to be divided; no Buffer has this name.
_NAMESPACE: Final = ""

_log: Final = Logger("trellis.buffers")


class BufferParts(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the Buffer controller."""

    informers: BufferInformers
    states: BufferStates
    shares: QuotaShares
    division: QuotaDivision
    headroom: HeadroomController
    capacity: CapacityBuffers
    reconciler: BufferReconciler
    handlers: BufferChangeHandlers


class BufferController(QueueController):
    """The Buffer controller of a process."""

    def __init__(
        self, context: ControllerContext, settings: BufferControllerSettings, objects: ObjectQueue, parts: BufferParts
    ) -> None:
        super().__init__(
            context,
            objects,
            noun="buffer",
            interval=settings.translation.buffer_interval.total_seconds(),
            workers=settings.translation.concurrent_writes,
            failures=named.FAILURES,
            log=_log,
        )
        self._most_exported = settings.translation.metrics_buffers
        self._informers = parts.informers
        self._states = parts.states
        self._shares = parts.shares
        self._division = parts.division
        self._headroom = parts.headroom
        self._capacity = parts.capacity
        self._reconciler = parts.reconciler
        self._handlers = parts.handlers

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run(), name="buffers")
            group.create_task(self._headroom.run(), name="headroom")

    def on_started_leading(self) -> None:
        """Forget all state, because another process has led meanwhile, and reconcile everything now."""
        self._states.begin_anew()
        self._shares.clear()
        self._capacity.clear()
        super().on_started_leading()

    def subscribe(self) -> None:
        """Enqueue the Buffers that a change concerns, from now on."""
        self._handlers.subscribe()

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Reconcile a Buffer or a CapacityBuffer, or divide the quotas of a namespace."""
        if key[1] == _NAMESPACE:
            return self._division.divide(key[0])
        if is_capacity_key(key):
            return await self._capacity.reconcile(key)
        return await self._reconciler.reconcile(key)

    async def reconcile_all(self) -> None:
        """Reconcile all Buffers that may have changed unobserved, and export metrics."""
        timer = StepTimer(self._metrics, named.LATENCY, asyncio.get_running_loop().time)
        buffers = self._informers.buffers.snapshot()
        pending = (key_of(buffer) for buffer in buffers if not self._reconciler.is_at_rest(buffer))
        for key in (*pending, *self._capacity.keys()):
            self.enqueue(key)
        await self.wait_until_drained()
        timer.step(named.RECONCILE)
        export_buffers(self._metrics, self._informers.buffers, self._states, self._most_exported)
        self._capacity.export()
        timer.total()
        current_trace().describe(buffers=len(buffers))


def build_buffer_controller(
    context: ControllerContext, settings: BufferControllerSettings, *, kinds: Mapping[GroupKind, TargetKind]
) -> BufferController:
    """The Buffer controller with all its parts. `kinds` are the target kinds of plug-ins."""
    objects = ObjectQueue(settings.scope, context.draw)
    translation = settings.translation.figures()
    informers = BufferInformers(context.informers, context.served, settings.scope)
    states, shares = BufferStates(translation), QuotaShares(informers.list_quotas_in)
    classes = NodeClasses(informers.pods, informers.demands)
    templates = AdmittedTemplates(
        context.client,
        context.metrics,
        enabled=settings.translation.admission_dry_run,
        list_limit_ranges=informers.list_limit_ranges_in,
    )
    view = _build_view(context, settings, kinds, informers, states, classes=classes, templates=templates)
    headroom = _build_headroom(context, settings, informers, objects)
    enqueue_namespace = partial(_enqueue_namespace, objects)
    capacity = CapacityBuffers(
        context.client,
        context.writer,
        settings.elsewhere,
        SharedWithBuffers(view, templates, shares, states.selecting, translation, headroom.on_top),
        informers=context.informers,
        served=context.served,
        enqueue_division=enqueue_namespace,
        metrics=context.metrics,
        record=context.record_event,
        now=context.now,
    )
    reconciler = BufferReconciler(
        informers,
        view,
        shares,
        states,
        context.writer,
        mirror=capacity.mirror,
        headroom=headroom,
        translator=BufferTranslator(translation, context.recorder),
        enqueue_division=enqueue_namespace,
        metrics=context.metrics,
        record=context.record_event,
        now=context.now,
    )
    parts = BufferParts(
        informers=informers,
        states=states,
        shares=shares,
        division=QuotaDivision(shares, partial(_is_awaited, reconciler, capacity), objects.enqueue),
        headroom=headroom,
        capacity=capacity,
        reconciler=reconciler,
        handlers=BufferChangeHandlers(
            informers, states, classes, capacity, enqueue=objects.enqueue, enqueue_division=enqueue_namespace
        ),
    )
    return BufferController(context, settings, objects, parts)


def _build_view(
    context: ControllerContext,
    settings: BufferControllerSettings,
    kinds: Mapping[GroupKind, TargetKind],
    informers: BufferInformers,
    states: BufferStates,
    *,
    classes: NodeClasses,
    templates: AdmittedTemplates,
) -> BufferViewBuilder:
    client, translation = context.client, settings.translation
    return BufferViewBuilder(
        client,
        informers,
        states,
        target_reader=TargetReader(client, informers.workloads, kinds),
        templates=templates,
        classes=classes,
        governor_lookup=GovernorLookup(
            informers.governors, informers.finders(), ScaleLookups(client, draw=context.draw)
        ),
        figures=translation.figures(),
        boosts=effective_boost_settings(
            settings.scope.feature_gates, translation.max_allowed_cpu_boost, context.served
        ),
    )


def _build_headroom(
    context: ControllerContext, settings: BufferControllerSettings, informers: BufferInformers, objects: ObjectQueue
) -> HeadroomController:
    return HeadroomController(
        context,
        settings.scope,
        settings.headroom,
        always=settings.elsewhere.translate,
        most_exported=settings.translation.metrics_buffers,
        keys=lambda: [key_of(buffer) for buffer in informers.buffers.snapshot()],
        enqueue=objects.enqueue,
    )


def _is_awaited(reconciler: BufferReconciler, capacity: CapacityBuffers, namespace: str) -> bool:
    """Whether a Buffer of the namespace is not translated yet; it may be older than those that are."""
    return reconciler.is_awaited(namespace) or capacity.is_awaited(namespace)


def _enqueue_namespace(objects: ObjectQueue, namespace: str, delay: float = 0.0) -> None:
    objects.enqueue((namespace, _NAMESPACE), delay)


def buffers_spec(settings: BufferControllerSettings) -> ComponentSpec[BufferController]:
    """The Buffer controller as a component."""

    @asynccontextmanager
    async def build(context: ControllerContext) -> AsyncIterator[BufferController]:
        yield build_buffer_controller(context, settings, kinds=load_target_kinds())

    return ComponentSpec(
        component="buffers",
        name=COMPONENT,
        field_manager=FIELD_MANAGER,
        log=_log,
        metrics=BUFFER_METRICS,
        build=build,
        interval=settings.translation.buffer_interval.total_seconds(),
        namespaces=settings.scope.vpa_object_namespace,
        election=single_lease(settings.leader),
        recording=partial(open_recorder, settings.recording.record, recordings.BUFFERS, settings),
        concurrent_writes=settings.translation.concurrent_writes,
        started_with={"lease": settings.leader.leader_elect},
    )


def manage_buffers(settings: BufferControllerSettings) -> ManagedComponent:
    """The component as a process of several runs it."""
    return ManagedComponent(
        name=BUFFERS,
        settings=settings,
        metrics=BUFFER_METRICS,
        followed=list_followed_kinds(settings.scope),
        open=lambda _metrics: nullcontext(buffers_spec(settings)),
    )


def buffers_main(settings: BufferControllerSettings, shared: SharedInformers | None = None) -> Main:
    """The main function of a process with these settings; `shared` are its informers."""
    return component_main(buffers_spec(settings), settings, shared=shared)
