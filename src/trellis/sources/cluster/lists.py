"""How are many lists read at once and yet come in one order? Each into a queue of its own, emptied one after the other.

A list waits when it is two pages ahead of whoever empties its queue, so that a cluster of any size takes the memory of
a few pages. Lists are begun in the order in which they are emptied, so that none waits for one behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Final

from trellis.core.model.dump_lines import Missing
from trellis.sources.cluster.listing import FORBIDDEN, NOT_SERVED
from trellis.sources.cluster.where import Places

_TOGETHER: Final = 6
_PAGES_AHEAD: Final = 2

# Takes the lines of a page, and waits while there are too many.
Put = Callable[[list[bytes]], Awaitable[None]]
# Reads one list, page by page.
Reads = Callable[[Put], Awaitable[None]]
# How many lists have been read, and of how many.
Tell = Callable[[int, int], None]


async def in_order(lists: Sequence[Reads], tell: Tell) -> AsyncGenerator[bytes, None]:
    """The lines of all lists; the first error of one of them ends it."""
    together = asyncio.Semaphore(_TOGETHER)
    queues: list[asyncio.Queue[list[bytes] | None]] = [asyncio.Queue(_PAGES_AHEAD) for _ in lists]

    async def read(reads: Reads, queue: asyncio.Queue[list[bytes] | None]) -> None:
        async with together:
            try:
                await reads(queue.put)
            except Exception:
                await queue.put(None)
                raise
            await queue.put(None)

    tasks = [asyncio.create_task(read(reads, queue)) for reads, queue in zip(lists, queues, strict=True)]
    try:
        for done, (queue, task) in enumerate(zip(queues, tasks, strict=True)):
            tell(done, len(lists))
            while (page := await queue.get()) is not None:
                for line in page:
                    yield line
            await task
        tell(len(lists), len(lists))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def in_all_places(what: str, places: Places, read: Callable[[str], Awaitable[str]]) -> list[Missing]:
    """Read something wherever it is wanted; `read` says why it could not, or nothing.

    What may not be read everywhere at once is tried in each namespace. What is missing in all of them is said once.
    """
    hidden = await _hidden(places.asked, read)
    asked = places.asked
    if asked == ("",) and hidden.get("") == FORBIDDEN and places.names:
        asked = places.names
        hidden = await _hidden(asked, read)
    whys = set(hidden.values())
    if len(whys) == 1 and (NOT_SERVED in whys or len(hidden) == len(asked) > 1):
        return [Missing(what, "", whys.pop())]
    return [Missing(what, place, why) for place, why in hidden.items()]


async def _hidden(asked: Sequence[str], read: Callable[[str], Awaitable[str]]) -> dict[str, str]:
    """Where it could not be read, and why. What is not served in one place is served in none."""
    hidden: dict[str, str] = {}
    for place in asked:
        why = await read(place)
        if why:
            hidden[place] = why
        if why == NOT_SERVED:
            break
    return hidden
