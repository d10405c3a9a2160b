"""When is a Buffer looked at? When something about it changes, when its schedule does, and every interval."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

from trellis.api.buffer import Buffer
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange, ResourceQuota
from trellis.controllers.buffers import metrics as named
from trellis.controllers.buffers.capacity import Capacity, CapacityShared
from trellis.controllers.buffers.capacity_watching import is_capacity_key
from trellis.controllers.buffers.classes import Classes
from trellis.controllers.buffers.counting import Counting
from trellis.controllers.buffers.figures import export
from trellis.controllers.buffers.gathering import Gathering
from trellis.controllers.buffers.governing import Governing
from trellis.controllers.buffers.keeping import Keeping
from trellis.controllers.buffers.looking import Looking
from trellis.controllers.buffers.settings import BufferControllerSettings
from trellis.controllers.buffers.sharing import Sharing
from trellis.controllers.buffers.slimming import pod_differs, workload_differs
from trellis.controllers.buffers.target_plugins import GroupKind
from trellis.controllers.buffers.templates import Templates
from trellis.controllers.buffers.watching import Watching, governor_of
from trellis.core.boost.raising import BoostSettings
from trellis.core.buffers import TargetKind
from trellis.core.model.keys import Key, key_of
from trellis.kube.backoff import Draw
from trellis.kube.changes import Change
from trellis.kube.client import Client
from trellis.kube.scales import ScaleLookups
from trellis.kube.served import Served
from trellis.kube.writer import Writer
from trellis.runtime import pass_reports
from trellis.runtime.component import Controller
from trellis.runtime.health import Activity
from trellis.runtime.informers import Informers
from trellis.runtime.logs import Logger
from trellis.runtime.loops import Periodic
from trellis.runtime.metrics import Metrics
from trellis.runtime.posting import Record
from trellis.runtime.queue import WorkQueue
from trellis.runtime.steps import StepTimer
from trellis.runtime.unseen import Unseen
from trellis.runtime.workers import Failure, work

# Pods, quotas and nodes change in numbers: so long the rest of them is waited for.
_GATHER_SECONDS: Final = 0.25
_UNTRUSTED_SECONDS: Final = 2.0
# A quota is shared out once all Buffers of its namespace have been looked at, or after so many tries.
_SETTLE_TRIES: Final = 20
# The key of a namespace whose quotas are to be shared out; no Buffer has this name.
_NAMESPACE: Final = ""

_log: Final = Logger("trellis.buffers")


class BufferController(Controller):
    """One process's controller. `kinds` are the targets that other packages know."""

    def __init__(
        self,
        client: Client,
        writer: Writer,
        settings: BufferControllerSettings,
        served: Served,
        *,
        kinds: Mapping[GroupKind, TargetKind],
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
        self._figures = settings.translation.figures()
        self._queue: WorkQueue[Key] = WorkQueue(draw=draw)
        self._tries: dict[str, int] = {}
        own = settings.scope.vpa_object_namespace
        self.informers = Informers(client, Unseen(metrics, _log), draw=draw, namespace=own)
        self.watching = Watching(self.informers, served, settings.scope)
        self.keeping = Keeping(self._figures)
        self.sharing = Sharing(self.watching.quotas_in)
        self._classes = Classes(self.watching.pods)
        templates = Templates(client, metrics)
        gathering = Gathering(
            client,
            self.watching,
            self.keeping,
            counting=Counting(client, self.watching.workloads, kinds),
            templates=templates,
            classes=self._classes,
            governing=Governing(self.watching.governors, self.watching.finders(), ScaleLookups(client, draw=draw)),
            figures=self._figures,
            boosts=boost_settings(settings, served),
        )
        self._capacity = Capacity(
            client,
            writer,
            settings.elsewhere,
            CapacityShared(gathering, templates, self.sharing, self.keeping.selecting, self._figures),
            informers=self.informers,
            served=served,
            settle=self._call_settling,
            metrics=metrics,
            record=record,
            now=now,
        )
        self._looking = Looking(
            self.watching,
            gathering,
            self.sharing,
            self.keeping,
            writer,
            elsewhere=self._capacity.elsewhere,
            figures=self._figures,
            settle=self._call_settling,
            metrics=metrics,
            record=record,
            now=now,
        )
        interval = settings.translation.buffer_interval.total_seconds()
        self._loop = Periodic(
            "buffers", self._pass, interval, on_pass=pass_reports.reporting(activity, _log), jitter=0.0
        )

    def begin_anew(self) -> None:
        """Look at everything now: this process has become the leader."""
        self.keeping.begin_anew()
        self.sharing.clear()
        self._capacity.begin_anew()
        if self.informers.synced:
            self._loop.wake()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informers.run(), name="watching")
            group.create_task(self._begin(), name="looking")

    async def _begin(self) -> None:
        await self.informers.wait_until_synced()
        _log.info("everything has been seen", buffers=len(self.watching.buffers.snapshot()))
        self._subscribe()
        workers = self._settings.translation.concurrent_writes
        async with asyncio.TaskGroup() as group:
            group.create_task(work(self._queue, self._look, workers=workers, on_failure=self._failed), name="looks")
            group.create_task(self._loop.run(), name="full passes")

    async def _look(self, key: Key) -> float | None:
        why = self.informers.why_not_trusted() if self._may_act() else "not leading"
        if why is not None:
            _log.detail(2, "nothing is decided", buffer=key, why=why)
            return _UNTRUSTED_SECONDS if self._may_act() else None
        if key[1] == _NAMESPACE:
            return self._settle(key[0])
        if is_capacity_key(key):
            return await self._capacity.look(key)
        return await self._looking.look(key)

    def _settle(self, namespace: str) -> float | None:
        """Share out the quotas of a namespace, and look at those for whom that makes a difference."""
        tries = self._tries[namespace] = self._tries.get(namespace, 0) + 1
        if tries <= _SETTLE_TRIES and self._awaited(namespace):
            return _GATHER_SECONDS
        del self._tries[namespace]
        for key in self.sharing.settle(namespace):
            self._add((key[0], key[1]))
        return None

    def _awaited(self, namespace: str) -> bool:
        """Whether some Buffer has not been translated yet, and may be older than those that have."""
        for buffer in self.watching.buffers_in(namespace):
            known = self.keeping.find(key_of(buffer))
            if known is None or (known.alone is None and not self.sharing.knows(key_of(buffer))):
                return True
        return self._capacity.awaits(namespace)

    async def _pass(self) -> None:
        """Look at all of them, but for those of which nothing can be new."""
        timer = StepTimer(self._metrics, named.LATENCY, asyncio.get_running_loop().time)
        restless = (key_of(each) for each in self.watching.buffers.snapshot() if not self._looking.is_calm(each))
        for key in (*restless, *self._capacity.keys()):
            self._add(key)
        await self._queue.drained()
        timer.step("looks")
        export(self._metrics, self.watching.buffers, self.keeping, self._settings.translation.metrics_buffers)
        self._capacity.export()
        self.informers.export(self._metrics)
        timer.total()

    def _add(self, key: Key, delay: float = 0.0) -> None:
        if self._settings.scope.covers(key[0]):
            self._queue.add_after(key, delay)

    def _call_settling(self, namespace: str) -> None:
        self._add((namespace, _NAMESPACE))

    # What changes, and whose business it is.

    def _subscribe(self) -> None:
        self.watching.buffers.subscribe(self._buffer_changed)
        self.watching.pods.subscribe(self._pod_changed)
        self.watching.nodes.subscribe(self._node_changed)
        self.watching.quotas.subscribe(self._quota_changed)
        self.watching.limit_ranges.subscribe(self._limits_changed)
        for informer in (self.watching.vpas, self.watching.hvpas):
            informer.subscribe(self._governor_changed)
        for kind, workloads in self.watching.workloads.items():
            workloads.subscribe(self._workload_changed(kind))
        self._capacity.subscribe(self._add)

    def _buffer_changed(self, change: Change[Buffer]) -> None:
        self._add(change.key)

    def _pod_changed(self, change: Change[Pod]) -> None:
        if not pod_differs(change.old, change.new):
            return
        if self._classes.pod_changed(change):
            self._call_classes()
        # A pod whose labels have changed may have left one and joined another.
        for each in (change.old, change.new):
            if each is not None:
                for selecting in (self.keeping.selecting, self.keeping.filling):
                    for key in selecting.concerned(change.key[0], each.metadata.labels):
                        self._add(key, _GATHER_SECONDS)

    def _node_changed(self, change: Change[Node]) -> None:
        if self._classes.node_changed(change):
            self._call_classes()

    def _quota_changed(self, change: Change[ResourceQuota]) -> None:
        old, new = change.old, change.new
        if old is None or new is None or (old.spec, old.status) != (new.spec, new.status):
            self._add((change.key[0], _NAMESPACE), _GATHER_SECONDS)

    def _limits_changed(self, change: Change[LimitRange]) -> None:
        namespace = change.key[0]
        self.keeping.forget_templates(namespace)
        for key in (*map(key_of, self.watching.buffers_in(namespace)), *self._capacity.keys_in(namespace)):
            self._add(key, _GATHER_SECONDS)

    def _governor_changed(self, change: Change[Any]) -> None:
        for each in (change.old, change.new):
            governor = governor_of(each)
            if governor is not None:
                target = governor.claim.target
                self._call(target.namespace, target.kind, target.name)

    def _workload_changed(self, kind: str) -> Callable[[Change[Any]], None]:
        def changed(change: Change[Any]) -> None:
            if workload_differs(change.old, change.new):
                self._call(change.key[0], kind, change.key[1])

        return changed

    def _call(self, namespace: str, kind: str, name: str) -> None:
        """Look at those with this target."""
        found = map(key_of, self.watching.buffers_of(namespace, kind, name))
        for key in (*found, *self._capacity.keys_of(namespace, kind, name)):
            self._add(key)

    def _call_classes(self) -> None:
        for key in self.keeping.of_classes:
            self._add(key, _GATHER_SECONDS)

    def _failed(self, failure: Failure) -> None:
        self._metrics.add(named.FAILURES, 1)
        _log.error("a look failed", buffer=failure.key, error=failure.error, again_in=failure.retry_in)


def boost_settings(settings: BufferControllerSettings, served: Served) -> BoostSettings:
    """Whether pods start boosted, as the admission controller decides it."""
    most = settings.translation.max_allowed_cpu_boost
    return BoostSettings(
        enabled=settings.scope.feature_gates.cpu_startup_boost and served.resizes_pods,
        max_cpu=most.milli if most is not None else None,
    )
