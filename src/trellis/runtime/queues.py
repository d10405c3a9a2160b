"""Work queues and their workers: one entry for each key, whatever the number of changes.

    queue: WorkQueue[str] = WorkQueue()
    queue.add("default/web")                 # on every change
    queue.add_after("default/web", 30.0)     # or after a delay
    key = await queue.get()                  # no other worker gets the key until it is done
    queue.done(key)                          # changes since then put the key back at the end

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


# It starts at a tenth of a second, because most failures are conflicts, which a new read resolves. It ends at five
# minutes, so that an object that always fails costs twelve attempts an hour.
RETRIES: Final = RetryBackoff(initial=0.1, maximum=300.0, jitter=0.1)


class WorkQueue(Generic[K]):
    """Keys to process, now or after a delay. A key is never None."""

    def __init__(self, backoff: RetryBackoff = RETRIES, draw: Draw = random.random) -> None:
        self._backoff = backoff
        self._draw = draw
        self._ready: OrderedDict[K, None] = OrderedDict()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._running: set[K] = set()
        self._dirty: set[K] = set()
        self._failures: dict[K, int] = {}
        self._closed = False
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()

    @property
    def ready(self) -> int:
        """How many keys are ready."""
        return len(self._ready)

    @property
    def delayed(self) -> int:
        """How many keys wait for their delay to pass."""
        return len(self._timers)

    @property
    def running(self) -> int:
        """How many keys are being processed."""
        return len(self._running)

    def failures(self, key: K) -> int:
        """How often in a row processing this key has failed."""
        return self._failures.get(key, 0)

    def add(self, key: K) -> None:
        """Queue a key for the next free worker. A closed queue ignores it."""
        if self._closed:
            return
        self._drop_timer(key)
        if key in self._running:
            self._dirty.add(key)
        else:
            self._enqueue(key)

    def add_after(self, key: K, delay: float) -> None:
        """Queue a key after a delay in seconds, or sooner if it is added again."""
        if delay <= 0:
            self.add(key)
            return
        if self._closed or key in self._ready or key in self._dirty:
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None and timer.when() <= loop.time() + delay:
            return
        self._drop_timer(key)
        self._timers[key] = loop.call_later(delay, self._on_timer, key)

    def retry(self, key: K) -> float:
        """Count a failure and queue the key again after a backoff; returns the delay."""
        self._failures[key] = self.failures(key) + 1
        delay = self._backoff.wait(self._failures[key], self._draw)
        self.add_after(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """Reset the count of failures of a key."""
        self._failures.pop(key, None)

    async def get(self) -> K | None:
        """The key that has been ready for longest; None once the queue is closed and empty."""
        while not self._ready:
            if self._closed and not self._dirty:
                return None
            self._changed.clear()
            await self._changed.wait()
        key, _ = self._ready.popitem(last=False)
        self._running.add(key)
        return key

    def done(self, key: K) -> None:
        """Mark a key as processed. If it was added meanwhile, it goes to the end of the queue."""
        self._running.remove(key)
        if key in self._dirty:
            self._dirty.remove(key)
            self._enqueue(key)
        elif self._closed:
            self._changed.set()
        self._signal_if_idle()

    def close(self) -> frozenset[K]:
        """Accept no more keys; ready keys are still handed out. Returns the delayed keys, which are dropped."""
        self._closed = True
        dropped = frozenset(self._timers)
        for key in dropped:
            self._drop_timer(key)
        self._changed.set()
        self._signal_if_idle()
        return dropped

    async def wait_until_drained(self) -> None:
        """Wait until no key is ready and no worker runs."""
        while self._ready or self._running:
            self._idle.clear()
            await self._idle.wait()

    def _on_timer(self, key: K) -> None:
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

    def _signal_if_idle(self) -> None:
        if not self._ready and not self._running:
            self._idle.set()


# Enough to hide the latency of requests, and few enough for passes that share one thread.
WORKERS: Final = 4

# Processes one key; returns the seconds until it is queued again, None if only a change requires that.
Handler: TypeAlias = Callable[[K], Coroutine[Any, Any, float | None]]


class WorkFailure(msgspec.Struct, frozen=True):
    """A key whose processing failed. `retry_in` is in seconds."""

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
    """Process keys until the queue is closed and empty, at most `workers` at a time."""
    async with asyncio.TaskGroup() as group:
        for number in range(workers):
            group.create_task(_worker(queue, handle, on_failure), name=f"worker-{number}")


async def _worker(queue: WorkQueue[K], handle: Handler[K], on_failure: Callable[[WorkFailure], None]) -> None:
    while (key := await queue.get()) is not None:
        try:
            result = await run_task(handle(key), name=f"reconcile {key}")
        finally:
            queue.done(key)
        if result.error is not None:
            delay = queue.retry(key)
            on_failure(WorkFailure(key, result.error, queue.failures(key), delay))
            continue
        queue.forget(key)
        if result.value is not None:
            queue.add_after(key, result.value)
