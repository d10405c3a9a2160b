"""How does a controller run? It follows its sources and works on its keys until it is told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, TypeVar

from trellis.runtime.queue import WorkQueue
from trellis.runtime.shutdown import Shutdown
from trellis.runtime.workers import WORKERS, Failure, Handler, work

K = TypeVar("K", bound=Hashable)


async def control(
    stop: Shutdown,
    queue: WorkQueue[K],
    handle: Handler[K],
    *following: Coroutine[Any, Any, None],
    on_failure: Callable[[Failure], None],
    workers: int = WORKERS,
) -> None:
    """Follow, such as `informer.run()`, and work; on a stop finish the keys that are ready, and only then look away.

    A source that fails ends everything with its error: a controller that sees nothing must not go on deciding.
    """
    async with asyncio.TaskGroup() as group:
        sources = [group.create_task(source) for source in following]
        working = group.create_task(work(queue, handle, workers=workers, on_failure=on_failure))
        await stop.wait()
        queue.close()
        await asyncio.wait({working})
        for source in sources:
            source.cancel()
