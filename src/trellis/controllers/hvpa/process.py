"""Composes the Hvpa controller: the process with its component, and the controller with its parts.

An Hvpa is reconciled when something about it changes, when its last plan set a time, and every interval. The
controller's change handlers find the Hvpas that a change concerns.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import closing
from functools import partial
from typing import Final

from trellis.api.kinds.vpa import VerticalPodAutoscaler
from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.controllers.hvpa import metrics as named
from trellis.controllers.hvpa.informers import HvpaInformers
from trellis.controllers.hvpa.metrics import HVPA_METRICS
from trellis.controllers.hvpa.reconcile import HvpaReconciler
from trellis.controllers.hvpa.recording import HvpaPlanner
from trellis.controllers.hvpa.settings import HvpaControllerSettings
from trellis.controllers.hvpa.state import HvpaStates
from trellis.controllers.hvpa.status import FIELD_MANAGER
from trellis.controllers.hvpa.target_scales import TargetScales
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.hvpa.view_builder import HvpaPod, PodEdit, WatchedHvpa
from trellis.core.recording.format import HVPA
from trellis.kube.client import Client
from trellis.kube.resources import HVPAS
from trellis.kube.watch.cache import ObjectChange
from trellis.kube.write.actions import PatchObject
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.runtime.cluster_connection import run_on_cluster
from trellis.runtime.component import Component, ControllerContext
from trellis.runtime.reconciler import Reconciler
from trellis.runtime.recorder import NO_RECORDER, Recorder, open_recorder
from trellis.runtime.shutdown import Main, Shutdown
from trellis.runtime.telemetry import cluster_metrics
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import GaugeSpec, Metrics, StepTimer

# Pods change in numbers: so long the rest of them is waited for.
_GATHER_SECONDS: Final = 0.25

_log: Final = Logger("trellis.hvpa")


class HvpaController(Reconciler):
    """One process's controller."""

    def __init__(
        self, given: ControllerContext, settings: HvpaControllerSettings, *, recorder: Recorder = NO_RECORDER
    ) -> None:
        super().__init__(
            given,
            settings.scope,
            what="hvpa",
            interval=settings.loop.hvpa_interval.total_seconds(),
            workers=settings.loop.concurrent_writes,
            failures=named.FAILURES,
            log=_log,
        )
        self._shown: set[tuple[GaugeSpec, tuple[str, ...]]] = set()
        self.watching = HvpaInformers(self.informers, given.served)
        self.keeping = HvpaStates()
        self._looking = HvpaReconciler(
            self.watching,
            TargetScales(given.client),
            given.writer,
            self.keeping,
            HvpaPlanner(settings.loop.figures(), recorder),
            metrics=given.metrics,
            record=given.record,
            now=given.now,
        )

    def begin_anew(self) -> None:
        """Look at everything now: this process has become the leader."""
        self.keeping.begin_anew()
        super().begin_anew()

    async def look(self, key: ObjectKey) -> float | None:
        """Look at an Hvpa."""
        return await self._looking.look(key)

    async def look_at_all(self) -> None:
        """Look at all of them."""
        timer = StepTimer(self._metrics, named.LATENCY, asyncio.get_running_loop().time)
        for each in self.watching.hvpas.snapshot():
            self.add(key_of(each))
        await self.drained()
        self._export()
        timer.total()

    # What changes, and whose business it is.

    def subscribe(self) -> None:
        """Have those that a change concerns looked at."""
        self.watching.hvpas.subscribe(self._hvpa_changed)
        self.watching.hpas.subscribe(self._hpa_changed)
        self.watching.pods.subscribe(self._pod_changed)
        self.watching.vpas.subscribe(self._vpa_changed)

    def _hvpa_changed(self, change: ObjectChange[WatchedHvpa]) -> None:
        self.add(change.key)
        targets = {each.spec.target_ref for each in (change.old, change.new) if each is not None}
        if change.old is None or change.new is None or len(targets) > 1:
            # Another one with the same target may come first now, or no longer.
            for target in targets:
                self._call(change.key[0], target.kind, target.name)

    def _vpa_changed(self, change: ObjectChange[VerticalPodAutoscaler]) -> None:
        self._add_if_known(change.key)
        for each in (change.old, change.new):
            if each is not None:
                self._call(change.key[0], each.spec.target_ref.kind, each.spec.target_ref.name)

    def _hpa_changed(self, change: ObjectChange[HorizontalPodAutoscaler]) -> None:
        self._add_if_known(change.key)
        for each in (change.old, change.new):
            if each is not None:
                about = each.spec.scale_target_ref
                if about.kind == HVPAS.kind:
                    self._add_if_known((change.key[0], about.name))
                else:
                    self._call(change.key[0], about.kind, about.name)

    def _pod_changed(self, change: ObjectChange[HvpaPod]) -> None:
        edit = None
        if change.old is not None and change.new is not None and change.old.spec != change.new.spec:
            edit = PodEdit(change.old, change.new)
        # A pod whose labels have changed may have left one and joined another.
        for each in (change.old, change.new):
            if each is not None:
                for key in self.keeping.selecting.concerned(change.key[0], each.metadata.labels):
                    self.add(key, _GATHER_SECONDS)
                    if edit is not None and each is change.new:
                        self.keeping.note(key, edit)

    def _call(self, namespace: str, kind: str, name: str) -> None:
        """Look at those with this target."""
        for hvpa in self.watching.hvpas_of(namespace, kind, name):
            self.add(key_of(hvpa))

    def _add_if_known(self, key: ObjectKey) -> None:
        if self.watching.hvpas.get(*key) is not None:
            self.add(key)

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


COMPONENT: Final = "trellis-hvpa"


def hvpa_main(settings: HvpaControllerSettings) -> Main:
    """What a process with these settings does until it is told to stop."""

    async def main(stop: Shutdown) -> None:
        with closing(open_recorder(settings.recording.record, HVPA, settings)) as recording:
            await run_on_cluster(partial(run_hvpa, recording=recording), settings, FIELD_MANAGER, _log)(stop)

    return main


async def run_hvpa(
    client: Client, settings: HvpaControllerSettings, stop: Shutdown, recording: Recorder = NO_RECORDER
) -> None:
    """Answer probes and work until it is time to stop."""
    component = Component(
        client,
        settings,
        stop,
        name=COMPONENT,
        log=_log,
        metrics=Metrics(HVPA_METRICS),
        interval=settings.loop.hvpa_interval.total_seconds(),
        is_usual=_is_usual,
    )

    async def make() -> HvpaController:
        given = await component.equipment(component.writer(concurrency=settings.loop.concurrent_writes))
        return HvpaController(given, settings, recorder=recording)

    await component.run(make)


def _is_usual(outcome: WriteOutcome) -> bool:
    return cluster_metrics.is_usual(outcome) or _is_conflicting_write_back(outcome)


def _is_conflicting_write_back(outcome: WriteOutcome) -> bool:
    """Whether `spec.replicas` was no longer what it was: an HPA has written in the meantime."""
    action = outcome.action
    written_back = isinstance(action, PatchObject) and action.target.resource is HVPAS and not action.subresource
    return written_back and outcome.result is Result.INVALID
