"""When is an Hvpa looked at? When something about it changes, when it is due, and every interval."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

from trellis.api.hvpa import Hvpa
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.controllers.hvpa import metrics as named
from trellis.controllers.hvpa.keeping import Keeping
from trellis.controllers.hvpa.looking import Looking
from trellis.controllers.hvpa.settings import HvpaControllerSettings
from trellis.controllers.hvpa.targets import Targets
from trellis.controllers.hvpa.watching import Watching
from trellis.core.hvpa.viewing import HvpaPod
from trellis.core.model.keys import Key, key_of
from trellis.kube.backoff import Draw
from trellis.kube.changes import Change
from trellis.kube.client import Client
from trellis.kube.resources import HVPAS
from trellis.kube.served import Served
from trellis.kube.writer import Writer
from trellis.runtime import pass_reports
from trellis.runtime.component import Controller
from trellis.runtime.health import Activity
from trellis.runtime.informers import Informers
from trellis.runtime.logs import Logger
from trellis.runtime.loops import Periodic
from trellis.runtime.metrics import GaugeSpec, Metrics
from trellis.runtime.posting import Record
from trellis.runtime.queue import WorkQueue
from trellis.runtime.steps import StepTimer
from trellis.runtime.unseen import Unseen
from trellis.runtime.workers import Failure, work

# Pods change in numbers: so long the rest of them is waited for.
_GATHER_SECONDS: Final = 0.25
_UNTRUSTED_SECONDS: Final = 2.0

_log: Final = Logger("trellis.hvpa")


class HvpaController(Controller):
    """One process's controller."""

    def __init__(
        self,
        client: Client,
        writer: Writer,
        settings: HvpaControllerSettings,
        served: Served,
        *,
        metrics: Metrics,
        activity: Activity,
        record: Record,
        may_act: Callable[[], bool],
        now: Callable[[], float],
        draw: Draw,
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._may_act = may_act
        self._queue: WorkQueue[Key] = WorkQueue(draw=draw)
        self._shown: set[tuple[GaugeSpec, tuple[str, ...]]] = set()
        own = settings.scope.vpa_object_namespace
        self.informers = Informers(client, Unseen(metrics, _log), draw=draw, namespace=own)
        self.watching = Watching(self.informers, served)
        self.keeping = Keeping()
        self._looking = Looking(
            self.watching,
            Targets(client),
            writer,
            self.keeping,
            settings.loop.figures(),
            metrics=metrics,
            record=record,
            now=now,
        )
        interval = settings.loop.hvpa_interval.total_seconds()
        self._loop = Periodic("hvpa", self._pass, interval, on_pass=pass_reports.reporting(activity, _log), jitter=0.0)

    def begin_anew(self) -> None:
        """Look at everything now: this process has become the leader."""
        self.keeping.begin_anew()
        if self.informers.synced:
            self._loop.wake()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informers.run(), name="watching")
            group.create_task(self._begin(), name="looking")

    async def _begin(self) -> None:
        await self.informers.wait_until_synced()
        _log.info("everything has been seen", hvpas=len(self.watching.hvpas.snapshot()))
        self._subscribe()
        workers = self._settings.loop.concurrent_writes
        async with asyncio.TaskGroup() as group:
            group.create_task(work(self._queue, self._look, workers=workers, on_failure=self._failed), name="looks")
            group.create_task(self._loop.run(), name="full passes")

    async def _look(self, key: Key) -> float | None:
        why = self.informers.why_not_trusted() if self._may_act() else "not leading"
        if why is not None:
            _log.detail(2, "nothing is decided", hvpa=key, why=why)
            return _UNTRUSTED_SECONDS if self._may_act() else None
        return await self._looking.look(key)

    async def _pass(self) -> None:
        """Look at all of them."""
        timer = StepTimer(self._metrics, named.LATENCY, asyncio.get_running_loop().time)
        for each in self.watching.hvpas.snapshot():
            self._add(key_of(each))
        await self._queue.drained()
        self._export()
        timer.total()

    def _add(self, key: Key, delay: float = 0.0) -> None:
        if self._settings.scope.covers(key[0]):
            self._queue.add_after(key, delay)

    # What changes, and whose business it is.

    def _subscribe(self) -> None:
        self.watching.hvpas.subscribe(self._hvpa_changed)
        self.watching.hpas.subscribe(self._hpa_changed)
        self.watching.pods.subscribe(self._pod_changed)
        self.watching.vpas.subscribe(self._vpa_changed)

    def _hvpa_changed(self, change: Change[Hvpa]) -> None:
        self._add(change.key)
        targets = {each.spec.target_ref for each in (change.old, change.new) if each is not None}
        if change.old is None or change.new is None or len(targets) > 1:
            # Another one with the same target may come first now, or no longer.
            for target in targets:
                self._call(change.key[0], target.kind, target.name)

    def _vpa_changed(self, change: Change[VerticalPodAutoscaler]) -> None:
        self._add_if_known(change.key)
        for each in (change.old, change.new):
            if each is not None:
                self._call(change.key[0], each.spec.target_ref.kind, each.spec.target_ref.name)

    def _hpa_changed(self, change: Change[HorizontalPodAutoscaler]) -> None:
        self._add_if_known(change.key)
        for each in (change.old, change.new):
            if each is not None:
                about = each.spec.scale_target_ref
                if about.kind == HVPAS.kind:
                    self._add_if_known((change.key[0], about.name))
                else:
                    self._call(change.key[0], about.kind, about.name)

    def _pod_changed(self, change: Change[HvpaPod]) -> None:
        # A pod whose labels have changed may have left one and joined another.
        for each in (change.old, change.new):
            if each is not None:
                for key in self.keeping.selecting.concerned(change.key[0], each.metadata.labels):
                    self._add(key, _GATHER_SECONDS)

    def _call(self, namespace: str, kind: str, name: str) -> None:
        """Look at those with this target."""
        for hvpa in self.watching.hvpas_of(namespace, kind, name):
            self._add(key_of(hvpa))

    def _add_if_known(self, key: Key) -> None:
        if self.watching.hvpas.get(*key) is not None:
            self._add(key)

    # What is told of it.

    def _export(self) -> None:
        found: Counter[tuple[GaugeSpec, tuple[str, ...]]] = Counter()
        for known in self.keeping.all():
            if known.verdict[0]:
                found[named.VERDICTS, (known.verdict[0],)] += 1
            found.update((named.NOTES, (each,)) for each in known.notes)
            found.update((named.BLOCKED, each) for each in known.blocked)
        for spec, labels in self._shown | set(found):
            self._metrics.set(spec, float(found[spec, labels]), *labels)
        self._shown = set(found)
        self.informers.export(self._metrics)

    def _failed(self, failure: Failure) -> None:
        self._metrics.add(named.FAILURES, 1)
        _log.error("a look failed", hvpa=failure.key, error=failure.error, again_in=failure.retry_in)
