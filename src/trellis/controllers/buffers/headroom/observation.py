"""Observes headroom from a start to an end: informers, a pass whenever something changed, and its result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from trellis.controllers.buffer_provisioning.snapshot_changes import ChangeAccumulator, PassTrigger
from trellis.controllers.buffers.headroom.informers import HeadroomInformers
from trellis.controllers.buffers.headroom.recording import create_observer
from trellis.core.nodes.buffers.headroom import HeadroomObserver, ObservedHeadroom
from trellis.core.nodes.settings import ScaleUpSettings
from trellis.runtime.component import ControllerContext
from trellis.runtime.optional_kinds import UnreadableKinds
from trellis.runtime.passes import PassReport, PassThread, Periodic
from trellis.runtime.settings.component import NamespaceSettings
from trellis.runtime.telemetry.logs import Logger

# Deleted pods free capacity, which is not urgent: they count at the next interval.
_INTERVAL_SECONDS: Final = 10.0

_log: Final = Logger("trellis.buffers")


class HeadroomLoop:
    """Runs until cancelled. `on_observed` is called with the result of each pass, and the Buffers as they were then."""

    def __init__(
        self,
        context: ControllerContext,
        scope: NamespaceSettings,
        settings: ScaleUpSettings,
        *,
        on_observed: Callable[[ObservedHeadroom, HeadroomInformers], None],
    ) -> None:
        self._context = context
        self._settings = settings
        self._on_observed = on_observed
        self._informer_set = context.informers.create_set(UnreadableKinds(context.metrics, _log))
        self._informers = HeadroomInformers(self._informer_set, scope.vpa_object_namespace)
        self._loop = Periodic("headroom", self._pass, _INTERVAL_SECONDS, on_pass=_report, jitter=0.0)
        self._changes = ChangeAccumulator(self._informers, scope.covers)
        self._trigger = PassTrigger(self._loop, context.now)
        self._observer: HeadroomObserver | None = None
        self._thread = PassThread("headroom")

    async def run(self) -> None:
        """Observe until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._informer_set.run(), name="headroom informers")
                group.create_task(self._run_passes(), name="headroom passes")
        finally:
            self._changes.unsubscribe()
            self._thread.close()

    async def _run_passes(self) -> None:
        await self._informer_set.wait_until_synced()
        _log.info("observing the headroom of Buffers", nodes=len(self._informers.nodes.snapshot()))
        self._changes.subscribe(self._trigger.soon)
        await self._loop.run()

    async def _pass(self) -> None:
        skip_reason = self._informer_set.find_staleness_problem() if self._context.may_act() else "not leading"
        if skip_reason is not None:
            _log.detail(2, "headroom pass skipped", why=skip_reason)
            return
        observer, self._observer = self._observer, None
        if observer is None:
            observer, changes = create_observer(self._settings, self._context.recorder), self._changes.take_everything()
        else:
            changes = self._changes.take_changes()
        observed = await self._thread.run(observer.observe, changes, self._context.now())
        self._observer = observer
        self._on_observed(observed, self._informers)


def _report(report: PassReport) -> None:
    if report.error is not None:
        _log.error("observing the headroom of Buffers failed", error=report.error, failures=report.failures)
