"""Work queues and their workers: one entry for each key, however many changes there were.

    queue: WorkQueue[str] = WorkQueue()
    queue.add("default/web")                 # on every change
    queue.add_after("default/web", 30.0)     # or when it is due again
    key = await queue.get()                  # no other worker gets it now
    queue.done(key)                          # changes since then put it back at the end

The rules are those of client-go's work queue: first come, first served; a key is never handed to two workers at once;
a key that changes while it is worked on comes back once. A failure costs nothing but a later retry. All calls are
made on the event loop's own thread.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Final, Generic, TypeAlias, TypeVar

import msgspec

from trellis.kube.flow_control import Draw, RetryBackoff
from trellis.runtime.tasks import run_task

K = TypeVar("K", bound=Hashable)


# It starts at a tenth of a second, because most failures are conflicts that a fresh read heals. It ends at five
# minutes, so that an object that can never succeed costs twelve attempts an hour.
RETRIES: Final = RetryBackoff(first=0.1, most=300.0, jitter=0.1)


class WorkQueue(Generic[K]):
    """Keys to work on, now or later. A key is never None."""

    def __init__(self, backoff: RetryBackoff = RETRIES, draw: Draw = random.random) -> None:
        self._backoff = backoff
        self._draw = draw
        self._ready: OrderedDict[K, None] = OrderedDict()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._running: set[K] = set()
        self._again: set[K] = set()
        self._failures: dict[K, int] = {}
        self._closed = False
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()

    @property
    def ready(self) -> int:
        """How many keys could be handed out now."""
        return len(self._ready)

    @property
    def delayed(self) -> int:
        """How many keys wait for their time."""
        return len(self._timers)

    @property
    def running(self) -> int:
        """How many keys are worked on."""
        return len(self._running)

    def failures(self, key: K) -> int:
        """How often in a row work on this key has failed."""
        return self._failures.get(key, 0)

    def add(self, key: K) -> None:
        """Queue a key for the next free worker. A closed queue takes no more."""
        if self._closed:
            return
        self._drop_timer(key)
        if key in self._running:
            self._again.add(key)
        else:
            self._enqueue(key)

    def add_after(self, key: K, delay: float) -> None:
        """Work on this key in so many seconds, or sooner if it is added again."""
        if delay <= 0:
            self.add(key)
            return
        if self._closed or key in self._ready or key in self._again:
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None and timer.when() <= loop.time() + delay:
            return
        self._drop_timer(key)
        self._timers[key] = loop.call_later(delay, self._is_due, key)

    def retry(self, key: K) -> float:
        """Count a failure and work on the key again later; the answer is how much later."""
        self._failures[key] = self.failures(key) + 1
        delay = self._backoff.wait(self._failures[key], self._draw)
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """Forget the failures: the next one waits for the shortest time again."""
        self._failures.pop(key, None)

    async def get(self) -> K | None:
        """The key that has been ready for longest; None when the queue is closed and nothing is left."""
        while not self._ready:
            if self._closed and not self._again:
                return None
            self._changed.clear()
            await self._changed.wait()
        key, _ = self._ready.popitem(last=False)
        self._running.add(key)
        return key

    def done(self, key: K) -> None:
        """Work on this key has ended, well or badly. What changed meanwhile puts it at the end of the line."""
        self._running.remove(key)
        if key in self._again:
            self._again.remove(key)
            self._enqueue(key)
        elif self._closed:
            self._changed.set()
        self._tell_if_idle()

    def close(self) -> frozenset[K]:
        """Take no more keys and hand out what is ready. Returned are the keys whose time will not come."""
        self._closed = True
        dropped = frozenset(self._timers)
        for key in dropped:
            self._drop_timer(key)
        self._changed.set()
        self._tell_if_idle()
        return dropped

    async def drained(self) -> None:
        """Wait until no key is ready and no worker runs; returns at once if that is so."""
        while self._ready or self._running:
            self._idle.clear()
            await self._idle.wait()

    def _is_due(self, key: K) -> None:
        del self._timers[key]
        self.add(key)

    def _enqueue(self, key: K) -> None:
        if key not in self._ready:
            self._ready[key] = None
            self._changed.set()

    def _drop_timer(self, key: K) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def _tell_if_idle(self) -> None:
        if not self._ready and not self._running:
            self._idle.set()


# Enough to hide the latency of single requests, and few enough for passes that share one thread.
WORKERS: Final = 4

# Work on one key. The answer says in how many seconds to look again; None if only a change is a reason to.
Handler: TypeAlias = Callable[[K], Coroutine[Any, Any, float | None]]


class WorkFailure(msgspec.Struct, frozen=True):
    """Work on a key that ended with an error. `retry_in` is in seconds."""

    key: Any
    error: BaseException
    attempt: int
    retry_in: float


async def run_workers(
    queue: WorkQueue[K],
    handle: Handler[K],
    *,
    workers: int = WORKERS,
    on_failure: Callable[[WorkFailure], None],
) -> None:
    """Work until the queue is closed and empty, on at most `workers` keys at a time."""
    async with asyncio.TaskGroup() as group:
        for number in range(workers):
            group.create_task(_worker(queue, handle, on_failure), name=f"worker-{number}")


async def _worker(queue: WorkQueue[K], handle: Handler[K], on_failure: Callable[[WorkFailure], None]) -> None:
    while (key := await queue.get()) is not None:
        try:
            settled = await run_task(handle(key), name=f"work on {key}")
        finally:
            queue.done(key)
        if settled.error is not None:
            delay = queue.retry(key)
            on_failure(WorkFailure(key, settled.error, queue.failures(key), delay))
            continue
        queue.forget(key)
        if settled.value is not None:
            queue.add_after(key, settled.value)
