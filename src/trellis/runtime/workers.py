"""Who works on the keys of a queue: so many at once, and a failure costs nothing but a later attempt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from trellis.runtime.queue import WorkQueue
from trellis.runtime.settling import settle

K = TypeVar("K", bound=Hashable)

# Enough to hide the latency of single requests, and few enough for passes that share one thread.
WORKERS: Final = 4

# Work on one key. The answer says in how many seconds to look again; None if only a change is a reason to.
Handler: TypeAlias = Callable[[K], Coroutine[Any, Any, float | None]]


class Failure(msgspec.Struct, frozen=True):
    """Work on a key that ended with an error. `retry_in` is in seconds."""

    key: Any
    error: BaseException
    attempt: int
    retry_in: float


async def work(
    queue: WorkQueue[K],
    handle: Handler[K],
    *,
    workers: int = WORKERS,
    on_failure: Callable[[Failure], None],
) -> None:
    """Work until the queue is closed and empty, on at most `workers` keys at a time."""
    async with asyncio.TaskGroup() as group:
        for number in range(workers):
            group.create_task(_worker(queue, handle, on_failure), name=f"worker-{number}")


async def _worker(queue: WorkQueue[K], handle: Handler[K], on_failure: Callable[[Failure], None]) -> None:
    while (key := await queue.get()) is not None:
        try:
            settled = await settle(handle(key), name=f"work on {key}")
        finally:
            queue.done(key)
        if settled.error is not None:
            delay = queue.retry(key)
            on_failure(Failure(key, settled.error, queue.failures(key), delay))
            continue
        queue.forget(key)
        if settled.value is not None:
            queue.add_after(key, settled.value)
