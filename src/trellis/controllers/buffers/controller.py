"""When is a Buffer looked at? When something about it changes, when its schedule does, and every interval."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from trellis.controllers.buffers import metrics as named
from trellis.controllers.buffers.calling import GATHER_SECONDS, Calling
from trellis.controllers.buffers.capacity import Capacity, CapacityShared
from trellis.controllers.buffers.capacity_watching import is_capacity_key
from trellis.controllers.buffers.classes import Classes
from trellis.controllers.buffers.counting import Counting
from trellis.controllers.buffers.figures import export
from trellis.controllers.buffers.gathering import Gathering
from trellis.controllers.buffers.governing import Governing
from trellis.controllers.buffers.headroom.headroom import Headroom
from trellis.controllers.buffers.keeping import Keeping
from trellis.controllers.buffers.looking import Looking
from trellis.controllers.buffers.settings import BufferControllerSettings
from trellis.controllers.buffers.sharing import Sharing
from trellis.controllers.buffers.target_plugins import GroupKind
from trellis.controllers.buffers.templates import Templates
from trellis.controllers.buffers.translator import Translator
from trellis.controllers.buffers.watching import Watching
from trellis.core.buffers import TargetKind
from trellis.core.model.keys import Key, key_of
from trellis.kube.scales import ScaleLookups
from trellis.runtime.boosts import boosts_in_force
from trellis.runtime.equipment import Equipment
from trellis.runtime.logs import Logger
from trellis.runtime.looks import LookingController
from trellis.runtime.recording import NO_RECORDER, Recorder
from trellis.runtime.steps import StepTimer

# A quota is shared out once all Buffers of its namespace have been looked at, or after so many tries.
_SETTLE_TRIES: Final = 20
# The key of a namespace whose quotas are to be shared out; no Buffer has this name.
_NAMESPACE: Final = ""

_log: Final = Logger("trellis.buffers")


class BufferController(LookingController):
    """One process's controller. `kinds` are the targets that other packages know."""

    def __init__(
        self,
        given: Equipment,
        settings: BufferControllerSettings,
        *,
        kinds: Mapping[GroupKind, TargetKind],
        recorder: Recorder = NO_RECORDER,
    ) -> None:
        super().__init__(
            given,
            settings.scope,
            what="buffer",
            interval=settings.translation.buffer_interval.total_seconds(),
            workers=settings.translation.concurrent_writes,
            failures=named.FAILURES,
            log=_log,
        )
        client, writer, served, metrics = given.client, given.writer, given.served, given.metrics
        self._most_figures = settings.translation.metrics_buffers
        self._tries: dict[str, int] = {}
        figures = settings.translation.figures()
        self.watching = Watching(self.informers, served, settings.scope)
        self.keeping = Keeping(figures)
        self.sharing = Sharing(self.watching.quotas_in)
        classes = Classes(self.watching.pods)
        templates = Templates(client, metrics)
        gathering = Gathering(
            client,
            self.watching,
            self.keeping,
            counting=Counting(client, self.watching.workloads, kinds),
            templates=templates,
            classes=classes,
            governing=Governing(
                self.watching.governors, self.watching.finders(), ScaleLookups(client, draw=given.draw)
            ),
            figures=figures,
            boosts=boosts_in_force(settings.scope.feature_gates, settings.translation.max_allowed_cpu_boost, served),
        )
        self.headroom = Headroom(
            given,
            settings.scope,
            settings.headroom,
            always=settings.elsewhere.translate,
            most_figures=self._most_figures,
            recorder=recorder,
            keys=lambda: [key_of(each) for each in self.watching.buffers.snapshot()],
            call=self.add,
        )
        self._capacity = Capacity(
            client,
            writer,
            settings.elsewhere,
            CapacityShared(gathering, templates, self.sharing, self.keeping.selecting, figures, self.headroom.on_top),
            informers=self.informers,
            served=served,
            settle=self._call_settling,
            metrics=metrics,
            record=given.record,
            now=given.now,
        )
        self._looking = Looking(
            self.watching,
            gathering,
            self.sharing,
            self.keeping,
            writer,
            elsewhere=self._capacity.elsewhere,
            headroom=self.headroom,
            translator=Translator(figures, recorder),
            settle=self._call_settling,
            metrics=metrics,
            record=given.record,
            now=given.now,
        )
        self._calling = Calling(
            self.watching, self.keeping, classes, self._capacity, add=self.add, settle=self._call_settling
        )

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run(), name="buffers")
            group.create_task(self.headroom.run(), name="headroom")

    def begin_anew(self) -> None:
        """Look at everything now: this process has become the leader."""
        self.keeping.begin_anew()
        self.sharing.clear()
        self._capacity.begin_anew()
        super().begin_anew()

    def subscribe(self) -> None:
        """Have those that a change concerns looked at."""
        self._calling.subscribe()

    async def look(self, key: Key) -> float | None:
        """Look at a Buffer or a CapacityBuffer, or share out the quotas of a namespace."""
        if key[1] == _NAMESPACE:
            return self._settle(key[0])
        if is_capacity_key(key):
            return await self._capacity.look(key)
        return await self._looking.look(key)

    def _settle(self, namespace: str) -> float | None:
        """Share out the quotas of a namespace, and look at those for whom that makes a difference."""
        tries = self._tries[namespace] = self._tries.get(namespace, 0) + 1
        if tries <= _SETTLE_TRIES and self._awaited(namespace):
            return GATHER_SECONDS
        del self._tries[namespace]
        for key in self.sharing.settle(namespace):
            self.add((key[0], key[1]))
        return None

    def _awaited(self, namespace: str) -> bool:
        """Whether some Buffer has not been translated yet, and may be older than those that have."""
        for buffer in self.watching.buffers_in(namespace):
            known, is_going = self.keeping.find(key_of(buffer)), buffer.metadata.deletion_timestamp is not None
            unknown = known is None or (known.alone is None and not self.sharing.knows(key_of(buffer)))
            if unknown and not is_going:
                return True
        return self._capacity.awaits(namespace)

    async def look_at_all(self) -> None:
        """Look at all of them, but for those of which nothing can be new."""
        timer = StepTimer(self._metrics, named.LATENCY, asyncio.get_running_loop().time)
        restless = (key_of(each) for each in self.watching.buffers.snapshot() if not self._looking.is_calm(each))
        for key in (*restless, *self._capacity.keys()):
            self.add(key)
        await self.drained()
        timer.step("looks")
        export(self._metrics, self.watching.buffers, self.keeping, self._most_figures)
        self._capacity.export()
        self.informers.export(self._metrics)
        timer.total()

    def _call_settling(self, namespace: str, delay: float = 0.0) -> None:
        self.add((namespace, _NAMESPACE), delay)
