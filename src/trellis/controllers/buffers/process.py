"""Composes the Buffer controller: its spec as a component, and the controller from its parts.

A Buffer is reconciled when something about it changes, when its schedule does, and every interval. CapacityBuffers, and
namespaces whose quotas are to be divided again, go through the same work queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from trellis.controllers.buffers import metrics as named
from trellis.controllers.buffers.capacity_buffers.controller import CapacityBuffers, SharedWithBuffers
from trellis.controllers.buffers.capacity_buffers.informers import is_capacity_key
from trellis.controllers.buffers.change_handlers import BufferChangeHandlers
from trellis.controllers.buffers.headroom.controller import HeadroomController
from trellis.controllers.buffers.informers import BufferInformers
from trellis.controllers.buffers.metrics import BUFFER_METRICS, export_buffers
from trellis.controllers.buffers.node_classes import NodeClasses
from trellis.controllers.buffers.quota_shares import QuotaSettlement, QuotaShares
from trellis.controllers.buffers.reconcile import BufferReconciler
from trellis.controllers.buffers.recording import BufferTranslator
from trellis.controllers.buffers.settings import BufferControllerSettings
from trellis.controllers.buffers.state import BufferStates
from trellis.controllers.buffers.status import FIELD_MANAGER
from trellis.controllers.buffers.targets import GroupKind, TargetReader, load_target_kinds
from trellis.controllers.buffers.template_dry_runs import TemplateDryRuns
from trellis.controllers.buffers.view import BufferViewBuilder, GovernorLookup
from trellis.core.buffers import TargetKind
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.recording.format import BUFFERS
from trellis.kube.scales import ScaleLookups
from trellis.runtime.component import ComponentSpec, ControllerContext, component_main
from trellis.runtime.leadership import one_lease
from trellis.runtime.queue_controller import QueueController
from trellis.runtime.recorder import open_recorder
from trellis.runtime.settings.component import effective_boost_settings
from trellis.runtime.shared_informers import SharedInformers
from trellis.runtime.shutdown import Main
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import StepTimer

COMPONENT: Final = "trellis-buffers"

# The key of a namespace whose quotas are to be divided; no Buffer has this name.
_NAMESPACE: Final = ""

_log: Final = Logger("trellis.buffers")


class BufferController(QueueController):
    """The Buffer controller of a process. `kinds` are the targets that plug-ins know."""

    def __init__(
        self,
        context: ControllerContext,
        settings: BufferControllerSettings,
        *,
        kinds: Mapping[GroupKind, TargetKind],
    ) -> None:
        super().__init__(
            context,
            settings.scope,
            noun="buffer",
            interval=settings.translation.buffer_interval.total_seconds(),
            workers=settings.translation.concurrent_writes,
            failures=named.FAILURES,
            log=_log,
        )
        client, writer, served, metrics = context.client, context.writer, context.served, context.metrics
        self._most_exported = settings.translation.metrics_buffers
        translation = settings.translation.figures()
        self._informers = BufferInformers(context.informers, served, settings.scope)
        self._states = BufferStates(translation)
        self._shares = QuotaShares(self._informers.quotas_in)
        self._settlement = QuotaSettlement(self._shares, self._is_awaited, self.enqueue)
        classes = NodeClasses(self._informers.pods, self._informers.demands)
        templates = TemplateDryRuns(client, metrics)
        view = BufferViewBuilder(
            client,
            self._informers,
            self._states,
            counting=TargetReader(client, self._informers.workloads, kinds),
            templates=templates,
            classes=classes,
            governing=GovernorLookup(
                self._informers.governors, self._informers.finders(), ScaleLookups(client, draw=context.draw)
            ),
            figures=translation,
            boosts=effective_boost_settings(
                settings.scope.feature_gates, settings.translation.max_allowed_cpu_boost, served
            ),
        )
        self._headroom = HeadroomController(
            context,
            settings.scope,
            settings.headroom,
            always=settings.elsewhere.translate,
            most_exported=self._most_exported,
            keys=lambda: [key_of(buffer) for buffer in self._informers.buffers.snapshot()],
            enqueue=self.enqueue,
        )
        self._capacity = CapacityBuffers(
            client,
            writer,
            settings.elsewhere,
            SharedWithBuffers(
                view, templates, self._shares, self._states.selecting, translation, self._headroom.on_top
            ),
            informers=context.informers,
            served=served,
            settle=self._enqueue_namespace,
            metrics=metrics,
            record=context.record_event,
            now=context.now,
        )
        self._reconciler = BufferReconciler(
            self._informers,
            view,
            self._shares,
            self._states,
            writer,
            elsewhere=self._capacity.elsewhere,
            headroom=self._headroom,
            translator=BufferTranslator(translation, context.recorder),
            settle=self._enqueue_namespace,
            metrics=metrics,
            record=context.record_event,
            now=context.now,
        )
        self._handlers = BufferChangeHandlers(
            self._informers,
            self._states,
            classes,
            self._capacity,
            enqueue=self.enqueue,
            settle=self._enqueue_namespace,
        )

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run(), name="buffers")
            group.create_task(self._headroom.run(), name="headroom")

    def on_started_leading(self) -> None:
        """Forget what was remembered under another leader, and reconcile everything now."""
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
            return self._settlement.settle(key[0])
        if is_capacity_key(key):
            return await self._capacity.reconcile(key)
        return await self._reconciler.reconcile(key)

    async def reconcile_all(self) -> None:
        """Reconcile all Buffers but those of which nothing can be new, and export metrics."""
        timer = StepTimer(self._metrics, named.LATENCY, asyncio.get_running_loop().time)
        buffers = self._informers.buffers.snapshot()
        restless = (key_of(buffer) for buffer in buffers if not self._reconciler.is_at_rest(buffer))
        for key in (*restless, *self._capacity.keys()):
            self.enqueue(key)
        await self.drained()
        timer.step("looks")
        export_buffers(self._metrics, self._informers.buffers, self._states, self._most_exported)
        self._capacity.export()
        self._informer_set.export(self._metrics)
        timer.total()

    def _is_awaited(self, namespace: str) -> bool:
        """Whether some Buffer is not translated yet, and may be older than those that are."""
        return self._reconciler.is_awaited(namespace) or self._capacity.is_awaited(namespace)

    def _enqueue_namespace(self, namespace: str, delay: float = 0.0) -> None:
        self.enqueue((namespace, _NAMESPACE), delay)


def buffers_spec(settings: BufferControllerSettings) -> ComponentSpec[BufferController]:
    """The Buffer controller as a component."""

    @asynccontextmanager
    async def build(context: ControllerContext) -> AsyncIterator[BufferController]:
        yield BufferController(context, settings, kinds=load_target_kinds())

    return ComponentSpec(
        name=COMPONENT,
        field_manager=FIELD_MANAGER,
        log=_log,
        metrics=BUFFER_METRICS,
        build=build,
        interval=settings.translation.buffer_interval.total_seconds(),
        namespace=settings.scope.vpa_object_namespace,
        election=one_lease(settings.leader),
        recording=partial(open_recorder, settings.recording.record, BUFFERS, settings),
        concurrent_writes=settings.translation.concurrent_writes,
        started_with={"lease": settings.leader.leader_elect},
    )


def buffers_main(settings: BufferControllerSettings, shared: SharedInformers | None = None) -> Main:
    """What a process with these settings does until it is told to stop; `shared` are its informers."""
    return component_main(buffers_spec(settings), settings, shared=shared)
