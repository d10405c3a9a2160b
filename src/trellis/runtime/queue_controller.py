"""The base of controllers that reconcile objects one by one: on a change, when one is due, and every interval.

    class HvpaController(QueueController):
        def subscribe(self) -> None:
            self._watched.hvpas.subscribe(lambda change: self.enqueue(change.key))

        async def reconcile(self, key: ObjectKey) -> float | None: ...

An object is never reconciled twice at a time. While this process does not lead, or one of its informers is stale, no
object is reconciled.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Final, Protocol

from trellis.core.cluster.store import ObjectKey
from trellis.kube.flow_control import Draw
from trellis.runtime.component import Controller, ControllerContext
from trellis.runtime.passes import Periodic, pass_reporter
from trellis.runtime.queues import WorkFailure, WorkQueue, run_workers
from trellis.runtime.settings.component import NamespaceSettings
from trellis.runtime.telemetry.cluster_metrics import PassGauges
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import CounterSpec
from trellis.runtime.telemetry.tracing import TracedWork, trace_passes, traced

# The delay of reconciles while an informer is stale.
_STALE_SECONDS: Final = 2.0


class Enqueue(Protocol):
    """Puts an object into a work queue."""

    def __call__(self, key: ObjectKey, delay: float = 0.0, /) -> None:
        """Reconcile the object soon, or after a delay in seconds."""


class ObjectQueue:
    """The work queue of the objects in covered namespaces."""

    def __init__(self, scope: NamespaceSettings, draw: Draw) -> None:
        self._scope = scope
        self.queue: WorkQueue[ObjectKey] = WorkQueue(draw=draw)

    def enqueue(self, key: ObjectKey, delay: float = 0.0) -> None:
        """Reconcile an object soon, or after a delay in seconds, if its namespace is covered."""
        if self._scope.covers(key[0]):
            self.queue.add_after(key, delay)


class QueueController(Controller):
    """A controller with a work queue of objects. `noun` names an object in the log.

    The controller's first kind is that of the objects. All objects are reconciled every `interval` seconds, as many at
    a time as there are `workers`. `failures` counts failed reconciles, which are retried.
    """

    def __init__(
        self,
        context: ControllerContext,
        objects: ObjectQueue,
        *,
        noun: str,
        interval: float,
        workers: int,
        failures: CounterSpec,
        log: Logger,
    ) -> None:
        self._informer_set = context.informers
        self.enqueue = objects.enqueue
        self._noun = noun
        self._workers = workers
        self._failures = failures
        self._log = log
        self._metrics = context.metrics
        self._may_act = context.may_act
        self._complete_pass = context.complete_pass
        self._component = context.component
        self._queue = objects.queue
        self._loop = Periodic(
            noun,
            trace_passes(context.component, self._pass),
            interval,
            on_pass=pass_reporter(context.activity, log, PassGauges(context.metrics, context.component)),
            jitter=0.0,
        )

    @abstractmethod
    def subscribe(self) -> None:
        """Subscribe to changes, and enqueue the objects that each change concerns. The caches are synced."""

    @abstractmethod
    async def reconcile(self, key: ObjectKey) -> float | None:
        """Reconcile one object; returns the seconds until the next reconcile, None if only a change requires one."""

    @abstractmethod
    async def reconcile_all(self) -> None:
        """Enqueue all objects, wait until the queue is drained, and export metrics."""

    def on_started_leading(self) -> None:
        """Reconcile everything now: this process has become the leader."""
        if self._informer_set.synced:
            self._loop.wake()

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await self._informer_set.wait_until_synced()
        own = next(iter(self._informer_set))
        self._log.info("caches synced", **{own.resource.plural: len(own.snapshot())})
        self.subscribe()
        async with asyncio.TaskGroup() as group:
            reconciles = run_workers(self._queue, self._reconcile, workers=self._workers, on_failure=self._on_failure)
            group.create_task(reconciles, name="reconciles")
            group.create_task(self._loop.run(), name="full passes")

    async def wait_until_drained(self) -> None:
        """Return once no object is due and none is being reconciled."""
        await self._queue.wait_until_drained()

    async def _pass(self) -> None:
        await self.reconcile_all()
        if self._may_act() and self._informer_set.find_staleness_problem() is None:
            self._complete_pass()

    async def _reconcile(self, key: ObjectKey) -> float | None:
        if not self._may_act():
            return None
        problem = self._informer_set.find_staleness_problem()
        if problem is None:
            with traced(TracedWork.RECONCILE, self._component, namespace=key[0], name=key[1]) as trace:
                requeue_after = await self.reconcile(key)
                trace.complete()
            return requeue_after
        self._log.detail(2, "reconciling skipped", why=problem, **{self._noun: "/".join(key)})
        return _STALE_SECONDS

    def _on_failure(self, failure: WorkFailure) -> None:
        self._metrics.add(self._failures, 1)
        fields = {self._noun: "/".join(failure.key)}
        self._log.error("reconciling failed", **fields, error=failure.error, again_in=failure.retry_in)
