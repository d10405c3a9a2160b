"""When is an Hvpa looked at? When something about it changes, when it is due, and every interval."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

from trellis.api.kube.scaling import HorizontalPodAutoscaler
from trellis.api.vpa import VerticalPodAutoscaler
from trellis.controllers.hvpa import metrics as named
from trellis.controllers.hvpa.keeping import Keeping
from trellis.controllers.hvpa.looking import Looking
from trellis.controllers.hvpa.planning import Planner
from trellis.controllers.hvpa.settings import HvpaControllerSettings
from trellis.controllers.hvpa.targets import Targets
from trellis.controllers.hvpa.watching import Watching
from trellis.core.hvpa.viewing import Edit, HvpaPod, WatchedHvpa
from trellis.core.model.keys import Key, key_of
from trellis.kube.changes import Change
from trellis.kube.resources import HVPAS
from trellis.runtime.equipment import Equipment
from trellis.runtime.logs import Logger
from trellis.runtime.looks import LookingController
from trellis.runtime.metrics import GaugeSpec
from trellis.runtime.recording import NO_RECORDER, Recorder
from trellis.runtime.steps import StepTimer

# Pods change in numbers: so long the rest of them is waited for.
_GATHER_SECONDS: Final = 0.25

_log: Final = Logger("trellis.hvpa")


class HvpaController(LookingController):
    """One process's controller."""

    def __init__(self, given: Equipment, settings: HvpaControllerSettings, *, recorder: Recorder = NO_RECORDER) -> None:
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
        self.watching = Watching(self.informers, given.served)
        self.keeping = Keeping()
        self._looking = Looking(
            self.watching,
            Targets(given.client),
            given.writer,
            self.keeping,
            Planner(settings.loop.figures(), recorder),
            metrics=given.metrics,
            record=given.record,
            now=given.now,
        )

    def begin_anew(self) -> None:
        """Look at everything now: this process has become the leader."""
        self.keeping.begin_anew()
        super().begin_anew()

    async def look(self, key: Key) -> float | None:
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

    def _hvpa_changed(self, change: Change[WatchedHvpa]) -> None:
        self.add(change.key)
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
        edit = None
        if change.old is not None and change.new is not None and change.old.spec != change.new.spec:
            edit = Edit(change.old, change.new)
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

    def _add_if_known(self, key: Key) -> None:
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
