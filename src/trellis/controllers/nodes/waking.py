"""When is the next pass, if not at the next interval? Soon after news, and when something is due."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from trellis.runtime.loops import Periodic

# Pods come in numbers: so long the rest of them is waited for. A pass that takes longer is given as long a rest.
_GATHER_SECONDS: Final = 0.25


class Waking:
    """Wakes a loop, by the earliest of all moments that it is told. `now` is the clock of those moments."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.loop: Periodic | None = None
        self._now = now
        self._timer: asyncio.TimerHandle | None = None

    def soon(self) -> None:
        """Something has changed."""
        last = self.loop.last if self.loop is not None else None
        self._wake_in(max(_GATHER_SECONDS, last.seconds if last is not None else 0.0))

    def at(self, moments: Iterable[float | None]) -> None:
        """Something is due at these moments."""
        first = min((each for each in moments if each is not None), default=None)
        if first is not None:
            self._wake_in(max(_GATHER_SECONDS, first - self._now()))

    def _wake_in(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        when = loop.time() + seconds
        if self._timer is not None and loop.time() < self._timer.when():
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = loop.call_at(when, self._wake)

    def _wake(self) -> None:
        if self.loop is not None:
            self.loop.wake()
