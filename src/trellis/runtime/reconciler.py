"""The base of controllers that reconcile objects one by one: on a change, when one is due, and every interval.

    class HvpaController(Reconciler):
        def subscribe(self) -> None:
            self.watching.hvpas.subscribe(lambda change: self.add(change.key))

        async def look(self, key: Key) -> float | None: ...

An object is never reconciled twice at a time. While this process does not lead, or one of its informers is stale, no
object is.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from typing import Final

from trellis.core.cluster.store import ObjectKey
from trellis.runtime.component import Controller, ControllerContext
from trellis.runtime.informers import Informers
from trellis.runtime.optional_kinds import UnreadableKinds
from trellis.runtime.passes import Periodic, pass_reporter
from trellis.runtime.queues import WorkFailure, WorkQueue, run_workers
from trellis.runtime.settings.component import NamespaceSettings
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.telemetry.metrics import CounterSpec

# So long after sight was lost it is asked again whether it is back.
_UNTRUSTED_SECONDS: Final = 2.0


class Reconciler(Controller):
    """One that has a line of objects to look at. `what` is what one of them is called in the log.

    The first kind that it follows is that of these objects. All of them are looked at every `interval` seconds, so many
    at a time as there are `workers`; `failures` counts looks that ended with an error, and are tried again.
    """

    def __init__(
        self,
        given: ControllerContext,
        scope: NamespaceSettings,
        *,
        what: str,
        interval: float,
        workers: int,
        failures: CounterSpec,
        log: Logger,
    ) -> None:
        own = scope.vpa_object_namespace
        self.informers = Informers(
            given.client, UnreadableKinds(given.metrics, log), draw=given.draw, namespace=own, shared=given.shared
        )
        self._scope = scope
        self._what = what
        self._workers = workers
        self._failures = failures
        self._log = log
        self._metrics = given.metrics
        self._may_act = given.may_act
        self._queue: WorkQueue[ObjectKey] = WorkQueue(draw=given.draw)
        self._loop = Periodic(what, self.look_at_all, interval, on_pass=pass_reporter(given.activity, log), jitter=0.0)

    @abstractmethod
    def subscribe(self) -> None:
        """Have those that a change concerns looked at, from now on. All there is has been seen."""

    @abstractmethod
    async def look(self, key: ObjectKey) -> float | None:
        """Look at one; the answer is in how many seconds to look again, None if only a change is a reason to."""

    @abstractmethod
    async def look_at_all(self) -> None:
        """Look at all of them, wait for the `drained` line, and say how they are."""

    def begin_anew(self) -> None:
        """Look at everything now: this process has become the leader."""
        if self.informers.synced:
            self._loop.wake()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informers.run(), name="watching")
            group.create_task(self._begin(), name="looking")

    def add(self, key: ObjectKey, delay: float = 0.0) -> None:
        """Have one looked at soon, or in so many seconds; one that is none of ours is not."""
        if self._scope.covers(key[0]):
            self._queue.add_after(key, delay)

    async def drained(self) -> None:
        """Return once nobody waits to be looked at now."""
        await self._queue.drained()

    async def _begin(self) -> None:
        await self.informers.wait_until_synced()
        own = next(iter(self.informers))
        self._log.info("everything has been seen", **{own.resource.plural: len(own.snapshot())})
        self.subscribe()
        async with asyncio.TaskGroup() as group:
            looks = run_workers(self._queue, self._guarded, workers=self._workers, on_failure=self._failed)
            group.create_task(looks, name="looks")
            group.create_task(self._loop.run(), name="full passes")

    async def _guarded(self, key: ObjectKey) -> float | None:
        if not self._may_act():
            return None
        why = self.informers.why_not_trusted()
        if why is None:
            return await self.look(key)
        self._log.detail(2, "nothing is decided", why=why, **{self._what: "/".join(key)})
        return _UNTRUSTED_SECONDS

    def _failed(self, failure: WorkFailure) -> None:
        self._metrics.add(self._failures, 1)
        told = {self._what: "/".join(failure.key)}
        self._log.error("a look failed", **told, error=failure.error, again_in=failure.retry_in)
