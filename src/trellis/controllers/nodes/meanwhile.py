"""What are Buffers told while a provider does not answer? What is true without its word.

It may be silent for half a minute, and for minutes on end. Buffers that are new are not to wait for it, and one whose
room was taken is not to say that it is there. Nothing is ordered and nothing is remembered of such a look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from trellis.controllers.nodes.gathering import Gathering
from trellis.controllers.nodes.providing import PROVIDER_SILENT
from trellis.core.buffers.said import Said
from trellis.core.nodes.memory import UpMemory
from trellis.core.nodes.news import News
from trellis.core.nodes.planning import Looked, Planning
from trellis.core.nodes.settled import unanswered
from trellis.runtime.logs import Logger

# Asks in the thread of the plans, with all that is new by then.
Think: TypeAlias = Callable[[Callable[[Planning, News], Looked]], Awaitable[Looked]]
# Writes what is said of Buffers.
Publish: TypeAlias = Callable[[Looked, float], Awaitable[None]]

# So long an answer is waited for before Buffers are looked at without it.
ANSWER_SECONDS: Final = 1.0
_SILENT: Final = Said(PROVIDER_SILENT, "nothing is ordered until the provider answers")

_log: Final = Logger("trellis.nodes")


class Meanwhile:
    """Looks at Buffers while something else is waited for. `now` is the clock of verdicts."""

    def __init__(self, gathering: Gathering, think: Think, publish: Publish, now: Callable[[], float]) -> None:
        self._gathering = gathering
        self._think = think
        self._publish = publish
        self._now = now

    async def until_done(self, work: asyncio.Task[Any], memory: UpMemory) -> bool:
        """Wait for work, and have Buffers looked at whenever it matters to them; whether that was so."""
        clock = asyncio.get_running_loop().time
        has_looked, rest = False, ANSWER_SECONDS
        while not work.done():
            await asyncio.wait({work}, timeout=rest)
            if not work.done() and self._gathering.matters_to_buffers:
                started = clock()
                await self.look(memory)
                # Whoever looks for long is given as long a rest.
                has_looked, rest = True, max(ANSWER_SECONDS, clock() - started)
        return has_looked

    async def look(self, memory: UpMemory) -> None:
        """Tell Buffers. If that fails, the next pass fails likewise and says so: what is waited for goes on."""
        now = self._now()
        try:
            looked = await self._think(lambda planning, news: planning.look(news, memory, now))
            await self._publish(replace(looked, buffers=unanswered(looked.buffers, _SILENT)), now)
        except Exception as error:  # noqa: BLE001 - whatever it is must not end orders that are under way
            _log.warning("Buffers could not be looked at", error=error)
