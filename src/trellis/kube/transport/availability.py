"""Availability of the API server, shared by all clients of a process: a response to one ends the backoff of the others.

Each watch has its own backoff. After an outage of a minute a watch may have half a minute to wait, although the lease
of the same process is renewed already. Therefore every response wakes the waiting watches. They retry as after a first
failure, each at its own random moment. A watch that was woken and fails again shortens its next wait less, so that a
server that fails only some requests gets no more requests than without this.

While the server does not respond, one client retries every few seconds, instead of all of them rarely.
"""

from __future__ import annotations

import asyncio
from typing import Final

from trellis.kube.flow_control import Draw, RetryBackoff

# How often a process retries an unavailable server: as often as ten watches at their longest wait would.
SCOUT_BACKOFF: Final = RetryBackoff(initial=4.0, maximum=4.0)


class ServerAvailability:
    """Shared by all clients of one server. Times are the event loop's."""

    def __init__(self) -> None:
        # The waiting clients, and when each retries without a wake-up.
        self._waiting: dict[asyncio.Future[None], float] = {}

    def wake_waiting(self) -> None:
        """Wake all waiting clients: the server has responded without a fault."""
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    def shorten_wait(self, wait: float, draw: Draw) -> float:
        """The wait after a failed attempt: shorter if no other client retries soon."""
        scout_wait = SCOUT_BACKOFF.wait(1, draw)
        soon = asyncio.get_running_loop().time() + scout_wait
        return wait if any(until <= soon for until in self._waiting.values()) else min(wait, scout_wait)

    async def wait(self, seconds: float, wake_delay: float) -> bool:
        """Wait; after a wake-up, at most `wake_delay` seconds more. Returns whether there was a wake-up."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        wake_up: asyncio.Future[None] = loop.create_future()
        self._waiting[wake_up] = until
        try:
            async with asyncio.timeout_at(until):
                await wake_up
        except TimeoutError:
            return False
        finally:
            self._waiting.pop(wake_up, None)
        await asyncio.sleep(min(until - loop.time(), wake_delay))
        return True
