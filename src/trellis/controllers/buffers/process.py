"""Composes the Buffer controller: the process with its component, and the controller with its parts.

A Buffer is reconciled when something about it changes, when its schedule does, and every interval. `ChangeHandlers`
finds the Buffers that a change of a workload, a pod, a node or a namespace concerns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from typing import Any, Final, Protocol

from trellis.api.kinds.buffer import Buffer
from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.policies import LimitRange, ResourceQuota
from trellis.controllers.buffers import metrics as named
from trellis.controllers.buffers.capacity_buffers.controller import CapacityBuffers, SharedWithBuffers
from trellis.controllers.buffers.capacity_buffers.informers import is_capacity_key
from trellis.controllers.buffers.headroom.controller import HeadroomController
from trellis.controllers.buffers.informers import BufferInformers
from trellis.controllers.buffers.metrics import BUFFER_METRICS, export_buffers
from trellis.controllers.buffers.node_classes import NodeClasses
from trellis.controllers.buffers.quota_shares import QuotaShares
from trellis.controllers.buffers.reconcile import BufferReconciler
from trellis.controllers.buffers.recording import BufferTranslator
from trellis.controllers.buffers.settings import BufferControllerSettings
from trellis.controllers.buffers.state import BufferStates
from trellis.controllers.buffers.status import FIELD_MANAGER
from trellis.controllers.buffers.targets import GroupKind, TargetReader, load_target_kinds
from trellis.controllers.buffers.template_dry_runs import TemplateDryRuns
from trellis.controllers.buffers.view import BufferViewBuilder, GovernorLookup
from trellis.core.buffers import TargetKind
from trellis.core.buffers.pod_summaries import workload_differs
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.recording.format import BUFFERS
from trellis.core.sizing.governing_objects import governor_of
from trellis.kube.client import Client
from trellis.kube.resources import JOBS
from trellis.kube.scales import ScaleLookups
from trellis.kube.watch.cache import ObjectChange
from trellis.runtime.cluster_connection import run_on_cluster
from trellis.runtime.component import Component, ControllerContext
from trellis.runtime.reconciler import Reconciler
from trellis.runtime.recorder import NO_RECORDER, Recorder, open_recorder
from trellis.runtime.settings.component import effective_boost_settings
from trellis.runtime.shared_informers import SharedInformers
from trellis.runtime.shutdown import Main, Shutdown
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import Metrics, StepTimer

# Pods, quotas and nodes change in numbers: so long the rest of them is waited for.
DEBOUNCE_SECONDS: Final = 0.25


class EnqueueBuffer(Protocol):
    """Has a Buffer looked at."""

    def __call__(self, key: ObjectKey, delay: float = 0.0, /) -> None:
        """Soon, or in so many seconds."""


class ChangeHandlers:
    """Calls for looks. `settle` is told of namespaces whose quotas have to be shared out anew."""

    def __init__(
        self,
        watching: BufferInformers,
        keeping: BufferStates,
        classes: NodeClasses,
        capacity: CapacityBuffers,
        *,
        add: EnqueueBuffer,
        settle: Callable[[str, float], None],
    ) -> None:
        self._watching = watching
        self._keeping = keeping
        self._classes = classes
        self._capacity = capacity
        self._add = add
        self._settle = settle

    def subscribe(self) -> None:
        """Be told of all that is followed."""
        watching = self._watching
        watching.buffers.subscribe(self._buffer_changed)
        watching.pods.subscribe(self._pod_changed)
        watching.nodes.subscribe(self._node_changed)
        watching.quotas.subscribe(self._quota_changed)
        watching.limit_ranges.subscribe(self._limits_changed)
        for informer in (watching.vpas, watching.hvpas):
            informer.subscribe(self._governor_changed)
        for kind, workloads in watching.workloads.items():
            workloads.subscribe(self._workload_changed(kind))
        self._capacity.subscribe(self._add)

    def _buffer_changed(self, change: ObjectChange[Buffer]) -> None:
        self._add(change.key)

    def _pod_changed(self, change: ObjectChange[Pod]) -> None:
        if not self._watching.demands.differ(change.old, change.new):
            return
        if self._classes.pod_changed(change):
            self._call_classes()
        # A pod whose labels have changed may have left one and joined another.
        for each in (change.old, change.new):
            if each is not None:
                for selecting in (self._keeping.selecting, self._keeping.filling):
                    for key in selecting.concerned(change.key[0], each.metadata.labels):
                        self._add(key, DEBOUNCE_SECONDS)

    def _node_changed(self, change: ObjectChange[Node]) -> None:
        if self._classes.node_changed(change):
            self._call_classes()

    def _quota_changed(self, change: ObjectChange[ResourceQuota]) -> None:
        old, new = change.old, change.new
        if old is None or new is None or (old.spec, old.status) != (new.spec, new.status):
            self._settle(change.key[0], DEBOUNCE_SECONDS)

    def _limits_changed(self, change: ObjectChange[LimitRange]) -> None:
        namespace = change.key[0]
        self._keeping.forget_templates(namespace)
        self._capacity.forget_templates(namespace)
        for key in (*map(key_of, self._watching.buffers_in(namespace)), *self._capacity.keys_in(namespace)):
            self._add(key, DEBOUNCE_SECONDS)

    def _governor_changed(self, change: ObjectChange[Any]) -> None:
        for each in (change.old, change.new):
            governor = governor_of(each)
            if governor is not None:
                target = governor.claim.target
                self._call(target.namespace, target.kind, target.name)
                for job in self._watching.jobs_of(target.namespace, target.kind, target.name):
                    self._call(target.namespace, JOBS.kind, job)

    def _workload_changed(self, kind: str) -> Callable[[ObjectChange[Any]], None]:
        def changed(change: ObjectChange[Any]) -> None:
            if workload_differs(change.old, change.new):
                self._call(change.key[0], kind, change.key[1])

        return changed

    def _call(self, namespace: str, kind: str, name: str) -> None:
        """Look at those with this target."""
        found = map(key_of, self._watching.buffers_of(namespace, kind, name))
        for key in (*found, *self._capacity.keys_of(namespace, kind, name)):
            self._add(key)

    def _call_classes(self) -> None:
        for key in self._keeping.of_classes:
            self._add(key, DEBOUNCE_SECONDS)


# A quota is shared out once all Buffers of its namespace have been looked at, or after so many tries.
_SETTLE_TRIES: Final = 20
# The key of a namespace whose quotas are to be shared out; no Buffer has this name.
_NAMESPACE: Final = ""

_log: Final = Logger("trellis.buffers")


class BufferController(Reconciler):
    """One process's controller. `kinds` are the targets that other packages know."""

    def __init__(
        self,
        given: ControllerContext,
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
        self.watching = BufferInformers(self.informers, served, settings.scope)
        self.keeping = BufferStates(figures)
        self.sharing = QuotaShares(self.watching.quotas_in)
        classes = NodeClasses(self.watching.pods, self.watching.demands)
        templates = TemplateDryRuns(client, metrics)
        gathering = BufferViewBuilder(
            client,
            self.watching,
            self.keeping,
            counting=TargetReader(client, self.watching.workloads, kinds),
            templates=templates,
            classes=classes,
            governing=GovernorLookup(
                self.watching.governors, self.watching.finders(), ScaleLookups(client, draw=given.draw)
            ),
            figures=figures,
            boosts=effective_boost_settings(
                settings.scope.feature_gates, settings.translation.max_allowed_cpu_boost, served
            ),
        )
        self.headroom = HeadroomController(
            given,
            settings.scope,
            settings.headroom,
            always=settings.elsewhere.translate,
            most_figures=self._most_figures,
            recorder=recorder,
            keys=lambda: [key_of(each) for each in self.watching.buffers.snapshot()],
            call=self.add,
        )
        self._capacity = CapacityBuffers(
            client,
            writer,
            settings.elsewhere,
            SharedWithBuffers(
                gathering, templates, self.sharing, self.keeping.selecting, figures, self.headroom.on_top
            ),
            informers=self.informers,
            served=served,
            settle=self._call_settling,
            metrics=metrics,
            record=given.record,
            now=given.now,
        )
        self._looking = BufferReconciler(
            self.watching,
            gathering,
            self.sharing,
            self.keeping,
            writer,
            elsewhere=self._capacity.elsewhere,
            headroom=self.headroom,
            translator=BufferTranslator(figures, recorder),
            settle=self._call_settling,
            metrics=metrics,
            record=given.record,
            now=given.now,
        )
        self._calling = ChangeHandlers(
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

    async def look(self, key: ObjectKey) -> float | None:
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
            return DEBOUNCE_SECONDS
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
        export_buffers(self._metrics, self.watching.buffers, self.keeping, self._most_figures)
        self._capacity.export()
        self.informers.export(self._metrics)
        timer.total()

    def _call_settling(self, namespace: str, delay: float = 0.0) -> None:
        self.add((namespace, _NAMESPACE), delay)


COMPONENT: Final = "trellis-buffers"


def buffers_main(settings: BufferControllerSettings, shared: SharedInformers | None = None) -> Main:
    """What a process with these settings does until it is told to stop; `shared` are its informers."""

    async def main(stop: Shutdown) -> None:
        with closing(open_recorder(settings.recording.record, BUFFERS, settings)) as recording:
            await run_on_cluster(
                partial(run_buffers, recording=recording, shared=shared), settings, FIELD_MANAGER, _log
            )(stop)

    return main


async def run_buffers(
    client: Client,
    settings: BufferControllerSettings,
    stop: Shutdown,
    recording: Recorder = NO_RECORDER,
    shared: SharedInformers | None = None,
) -> None:
    """Answer probes and work until it is time to stop."""
    component = Component(
        client,
        settings,
        stop,
        name=COMPONENT,
        log=_log,
        metrics=Metrics(BUFFER_METRICS),
        interval=settings.translation.buffer_interval.total_seconds(),
        shared=shared,
    )

    async def make() -> BufferController:
        given = await component.equipment(component.writer(concurrency=settings.translation.concurrent_writes))
        return BufferController(given, settings, kinds=load_target_kinds(), recorder=recording)

    await component.run(make)
