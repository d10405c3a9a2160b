"""Composes the Hvpa controller: its spec as a component, and the controller from its parts.

An Hvpa is reconciled when something about it changes, when its last plan set a time, and every interval.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from typing import Final

from trellis.controllers.hvpa import metrics as named
from trellis.controllers.hvpa.change_handlers import HvpaChangeHandlers
from trellis.controllers.hvpa.events import HvpaEvents
from trellis.controllers.hvpa.executor import HvpaExecutor, OwnedAutoscalers
from trellis.controllers.hvpa.informers import HvpaInformers, list_followed_kinds
from trellis.controllers.hvpa.metrics import HVPA_METRICS, HvpaGauges
from trellis.controllers.hvpa.reconcile import HvpaReconciler
from trellis.controllers.hvpa.recording import HvpaPlanner
from trellis.controllers.hvpa.settings import HvpaControllerSettings
from trellis.controllers.hvpa.state import HvpaStates
from trellis.controllers.hvpa.status import FIELD_MANAGER
from trellis.controllers.hvpa.target_scales import TargetScales
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.recording import format as recordings
from trellis.kube.resources import HVPAS
from trellis.kube.write.actions import PatchObject
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.runtime.component import ComponentSpec, ControllerContext, component_main
from trellis.runtime.leadership import single_lease
from trellis.runtime.manager.settings import HVPA
from trellis.runtime.manager.supervisor import ManagedComponent
from trellis.runtime.queue_controller import ObjectQueue, QueueController
from trellis.runtime.recorder import open_recorder
from trellis.runtime.shutdown import Main
from trellis.runtime.telemetry import cluster_metrics
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import StepTimer
from trellis.runtime.telemetry.tracing import TracedWork, current_trace

COMPONENT: Final = "trellis-hvpa"

_log: Final = Logger("trellis.hvpa")


class HvpaController(QueueController):
    """The Hvpa controller of a process."""

    def __init__(self, context: ControllerContext, settings: HvpaControllerSettings) -> None:
        super().__init__(
            context,
            ObjectQueue(settings.scope, context.draw),
            noun="hvpa",
            interval=settings.loop.hvpa_interval.total_seconds(),
            workers=settings.loop.concurrent_writes,
            failures=named.FAILURES,
            log=_log,
        )
        self.states = HvpaStates()
        self._informers = HvpaInformers(context.informers, context.served)
        self._reconciler = HvpaReconciler(
            self._informers,
            TargetScales(context.client),
            self.states,
            HvpaPlanner(settings.loop.figures(), context.recorder),
            executor=HvpaExecutor(context.writer, context.metrics),
            owned=OwnedAutoscalers(context.writer, context.now),
            writer=context.writer,
            events=HvpaEvents(context.record_event),
            metrics=context.metrics,
            now=context.now,
        )
        self._handlers = HvpaChangeHandlers(self._informers, self.states, self.enqueue)
        self._gauges = HvpaGauges(context.metrics)

    def on_started_leading(self) -> None:
        """Forget what was remembered under another leader, and reconcile everything now."""
        self.states.clear()
        super().on_started_leading()

    def subscribe(self) -> None:
        """Enqueue the Hvpas that a change concerns, from now on."""
        self._handlers.subscribe()

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Reconcile one Hvpa."""
        return await self._reconciler.reconcile(key)

    async def reconcile_all(self) -> None:
        """Reconcile all Hvpas, and export metrics."""
        timer = StepTimer(self._metrics, named.LATENCY, asyncio.get_running_loop().time)
        for hvpa in self._informers.hvpas.snapshot():
            self.enqueue(key_of(hvpa))
        await self.wait_until_drained()
        current_trace().step(TracedWork.RECONCILE)
        self._gauges.export(self.states.all())
        timer.total()
        current_trace().describe(hvpas=len(self._informers.hvpas.snapshot()))


def hvpa_spec(settings: HvpaControllerSettings) -> ComponentSpec[HvpaController]:
    """The Hvpa controller as a component."""

    @asynccontextmanager
    async def build(context: ControllerContext) -> AsyncIterator[HvpaController]:
        yield HvpaController(context, settings)

    return ComponentSpec(
        component="hvpa",
        name=COMPONENT,
        field_manager=FIELD_MANAGER,
        log=_log,
        metrics=HVPA_METRICS,
        build=build,
        interval=settings.loop.hvpa_interval.total_seconds(),
        namespaces=settings.scope.vpa_object_namespace,
        election=single_lease(settings.leader),
        recording=partial(open_recorder, settings.recording.record, recordings.HVPA, settings),
        concurrent_writes=settings.loop.concurrent_writes,
        is_usual=_is_usual,
        started_with={"lease": settings.leader.leader_elect},
    )


def manage_hvpa(settings: HvpaControllerSettings) -> ManagedComponent:
    """The component as a process of several runs it."""
    return ManagedComponent(
        name=HVPA,
        settings=settings,
        metrics=HVPA_METRICS,
        followed=list_followed_kinds(settings),
        open=lambda _metrics: nullcontext(hvpa_spec(settings)),
    )


def hvpa_main(settings: HvpaControllerSettings) -> Main:
    """The controller of a process with these settings."""
    return component_main(hvpa_spec(settings), settings)


def _is_usual(outcome: WriteOutcome) -> bool:
    return cluster_metrics.is_expected(outcome) or _is_conflicting_write_back(outcome)


def _is_conflicting_write_back(outcome: WriteOutcome) -> bool:
    """Whether `spec.replicas` was no longer what it was: an HPA has written in the meantime."""
    action = outcome.action
    written_back = isinstance(action, PatchObject) and action.target.resource is HVPAS and not action.subresource
    return written_back and outcome.result is Result.INVALID
