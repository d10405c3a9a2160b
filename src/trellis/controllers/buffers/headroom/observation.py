"""One observation from its start to its end: informers, a pass whenever something changed, and what it found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from trellis.controllers.buffers.headroom.informers import HeadroomInformers
from trellis.controllers.buffers.headroom.recording import create_observer
from trellis.controllers.nodes.state import ChangeAccumulator, PassTrigger
from trellis.core.nodes.buffers.headroom import HeadroomObserver, ObservedHeadroom
from trellis.core.nodes.settings import ScaleUpSettings
from trellis.runtime.component import ControllerContext
from trellis.runtime.informers import Informers
from trellis.runtime.optional_kinds import UnreadableKinds
from trellis.runtime.passes import PassReport, PassThread, Periodic
from trellis.runtime.recorder import Recorder
from trellis.runtime.settings.component import NamespaceSettings
from trellis.runtime.telemetry.logs import Logger

# Pods that go away free capacity, which is not urgent: they are taken in at the next interval.
_INTERVAL_SECONDS: Final = 10.0

_log: Final = Logger("trellis.buffers")


class HeadroomLoop:
    """Runs until cancelled. `on_observed` is told of each pass, with the Buffers as they were then."""

    def __init__(
        self,
        given: ControllerContext,
        scope: NamespaceSettings,
        settings: ScaleUpSettings,
        *,
        recorder: Recorder,
        on_observed: Callable[[ObservedHeadroom, HeadroomInformers], None],
    ) -> None:
        self._given = given
        self._settings = settings
        self._recorder = recorder
        self._on_observed = on_observed
        self._informers = Informers(
            given.client, UnreadableKinds(given.metrics, _log), draw=given.draw, shared=given.shared
        )
        self._watched = HeadroomInformers(self._informers, scope.vpa_object_namespace)
        self._waking = PassTrigger(given.now)
        self._gathering = ChangeAccumulator(self._watched, scope.covers, self._waking.soon)
        self._observer: HeadroomObserver | None = None
        self._thread = PassThread("headroom")
        self._loop = Periodic("headroom", self._pass, _INTERVAL_SECONDS, on_pass=_report, jitter=0.0)
        self._waking.loop = self._loop

    async def run(self) -> None:
        """Observe until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._informers.run(), name="headroom informers")
                group.create_task(self._begin(), name="headroom passes")
        finally:
            self._gathering.unsubscribe()
            self._thread.close()

    async def _begin(self) -> None:
        await self._informers.wait_until_synced()
        _log.info("observing the headroom of Buffers", nodes=len(self._watched.nodes.snapshot()))
        self._gathering.subscribe()
        await self._loop.run()

    async def _pass(self) -> None:
        why = self._informers.why_not_trusted() if self._given.may_act() else "not leading"
        if why is not None:
            _log.detail(2, "the headroom of Buffers is not observed", why=why)
            return
        observer, self._observer = self._observer, None
        if observer is None:
            observer, news = create_observer(self._settings, self._recorder), self._gathering.take_all()
        else:
            news = self._gathering.take()
        observed = await self._thread.run(observer.observe, news, self._given.now())
        self._observer = observer
        self._on_observed(observed, self._watched)


def _report(report: PassReport) -> None:
    if report.error is not None:
        _log.error("an observation of headroom failed", error=report.error, failures=report.failures)
