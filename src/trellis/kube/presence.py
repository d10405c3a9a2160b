"""Is the API server there? Whoever waits because it was not, learns here that somebody has been answered.

Each watch has a backoff of its own. After an outage of a minute one may have half a minute to wait, while the lease of
the same process is renewed already: all would be blind for as long as the unluckiest of them. So every answer calls
those that wait. They come back as after a first failure, each at a moment of its own, and when a call was in vain they
take the next one for less: a server that answers some requests and fails others sees no more of them than without.

While nobody is answered, one of them asks every few seconds, instead of all of them rarely.
"""

from __future__ import annotations

import asyncio
from typing import Final

from trellis.kube.backoff import Backoff, Draw

# How often an absent server is asked by somebody of one process: as often as ten watches at their longest wait would.
SCOUT: Final = Backoff(first=4.0, most=4.0)


class Presence:
    """Shared by all that talk to one server. Times are the event loop's."""

    def __init__(self) -> None:
        # Who can be called, and when each asks again by itself.
        self._waiting: dict[asyncio.Future[None], float] = {}

    def heard(self) -> None:
        """The server has answered somebody, and not with a fault."""
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for each in waiting:
                if not each.done():
                    each.set_result(None)

    def scouted(self, wait: float, draw: Draw) -> float:
        """The wait of one who found nobody there: shorter if nobody else asks before long."""
        longest = SCOUT.wait(1, draw)
        soon = asyncio.get_running_loop().time() + longest
        return wait if any(until <= soon for until in self._waiting.values()) else min(wait, longest)

    async def wait(self, seconds: float, when_called: float) -> bool:
        """Wait; if there is a call, no longer than so much from then on. Returns whether there was one."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        call: asyncio.Future[None] = loop.create_future()
        self._waiting[call] = until
        try:
            async with asyncio.timeout_at(until):
                await call
        except TimeoutError:
            return False
        finally:
            self._waiting.pop(call, None)
        await asyncio.sleep(min(until - loop.time(), when_called))
        return True
