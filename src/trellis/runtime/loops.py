"""When is the next pass? Passes at an interval that never overlap and never end because one of them failed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from trellis.base.errors import InternalError
from trellis.kube.backoff import Draw
from trellis.runtime.settling import settle


class PassReport(msgspec.Struct, frozen=True):
    """How a pass went: `started` is on the loop's clock, `failures` counts those in a row up to this one."""

    loop: str
    number: int
    started: float
    seconds: float
    failures: int = 0
    error: BaseException | None = None


class Periodic:
    """One loop: a pass, and the time from the start of one to the start of the next.

    Each interval is longer by up to `jitter` of it, so that replicas that start together drift apart. A pass that takes
    longer than its interval is followed at once by the next. With a `limit`, in seconds, a pass that takes longer is
    cancelled and counts as failed.
    """

    def __init__(
        self,
        name: str,
        run_pass: Callable[[], Coroutine[Any, Any, None]],
        interval: float,
        *,
        on_pass: Callable[[PassReport], None],
        jitter: float = 0.1,
        limit: float | None = None,
        draw: Draw = random.random,
    ) -> None:
        if interval <= 0:
            raise InternalError(f"the loop {name} has no interval: {interval}")
        self.name = name
        self._run_pass = run_pass
        self._interval = interval
        self._on_pass = on_pass
        self._jitter = jitter
        self._limit = limit
        self._draw = draw
        self._woken = asyncio.Event()
        self._last: PassReport | None = None

    @property
    def last(self) -> PassReport | None:
        """The pass that ended last."""
        return self._last

    def wake(self) -> None:
        """Let the next pass begin as soon as the present one is over, if there is one."""
        self._woken.set()

    async def run(self) -> None:
        """Begin with a pass at once, and go on until this is cancelled."""
        loop = asyncio.get_running_loop()
        number = 0
        while True:
            number += 1
            started = loop.time()
            self._woken.clear()
            settled = await settle(self._limited(), name=f"{self.name} pass {number}")
            failures = (self._last.failures if self._last else 0) + 1 if settled.error else 0
            self._last = PassReport(
                self.name, number, started, loop.time() - started, failures=failures, error=settled.error
            )
            self._on_pass(self._last)
            await self._until(started + self._interval * (1 + self._jitter * self._draw()))

    async def _limited(self) -> None:
        async with asyncio.timeout(self._limit):
            await self._run_pass()

    async def _until(self, when: float) -> None:
        # A pass that is late still lets others run once: everybody else shares this loop.
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout_at(when):
                await self._woken.wait()
        except TimeoutError:
            return
