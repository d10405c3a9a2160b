"""Availability of the API server, shared by all clients of a process: an answer to one wakes those that back off.

Each watch has a backoff of its own. After an outage of a minute one may have half a minute to wait, while the lease
of the same process is renewed already; without this, the process would be blind for as long as its unluckiest watch.
So every answer wakes those that wait. They retry as after a first failure, each at a moment of its own, and after a
wake-up in vain they shorten their wait less: a server that answers some requests and fails others gets no more
requests than without.

While the server answers no request, one client asks every few seconds, instead of all of them rarely.
"""

from __future__ import annotations

import asyncio
from typing import Final

from trellis.kube.flow_control import Draw, RetryBackoff

# How often one process as a whole retries an absent server: as often as ten watches at their longest wait would.
SCOUT_BACKOFF: Final = RetryBackoff(first=4.0, most=4.0)


class ServerAvailability:
    """Shared by all that talk to one server. Times are the event loop's."""

    def __init__(self) -> None:
        # Who can be called, and when each asks again by itself.
        self._waiting: dict[asyncio.Future[None], float] = {}

    def heard(self) -> None:
        """Wake those that wait: the server has answered a request of this process, and not with a fault."""
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_result(None)

    def scouted(self, wait: float, draw: Draw) -> float:
        """The wait after an attempt that found no server: shorter if no other attempt is due soon."""
        longest = SCOUT_BACKOFF.wait(1, draw)
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
