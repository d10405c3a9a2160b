"""Passes: started at an interval, computed in a thread on a snapshot, and reported to probes and log.

Passes never overlap, and one that fails does not end the loop. Leases, probes and admission wait for the event loop,
and none of them may wait for arithmetic over ten thousand pods. A pass is therefore a function of frozen values: it
gets a snapshot, and shares nothing with the loop that could change under it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar, TypeVarTuple

import msgspec

from trellis.base.errors import InternalError
from trellis.kube.flow_control import Draw
from trellis.runtime.tasks import run_task
from trellis.runtime.telemetry.health import Activity
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.threads import DaemonThreads


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
            settled = await run_task(self._limited(), name=f"{self.name} pass {number}")
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
        # A pass that is late still lets other tasks of this event loop run once.
        await asyncio.sleep(0)
        try:
            async with asyncio.timeout_at(when):
                await self._woken.wait()
        except TimeoutError:
            return


T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class PassThread:
    """One thread for passes, one at a time.

    A second thread would gain nothing while Python holds its lock, and passes of one controller must not overlap. A
    caller that gives up leaves its pass to run to its end; the next pass begins after that.
    """

    def __init__(self, name: str = "pass") -> None:
        self._threads = DaemonThreads(name)

    async def run(self, decide: Callable[[*Ts], T], *values: *Ts) -> T:
        """The result of `decide` for these values, computed in the thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, decide, *values)

    def close(self) -> None:
        """Begin no further pass. One that is running is not waited for, and ends with the process at the latest."""
        self._threads.shutdown(wait=False, cancel_futures=True)


# A pass that has not ended for so many intervals is taken for dead, as upstream's is.
_PATIENCE: Final = 5
# Passes that follow one another faster than this are given as much time as if they did not.
_SHORTEST: Final = 1.0


def expect_passes(interval: float) -> Activity:
    """What probes are told of passes that begin every so many seconds."""
    return Activity(_PATIENCE * max(interval, _SHORTEST), asyncio.get_running_loop().time)


def pass_reporter(activity: Activity, log: Logger) -> Callable[[PassReport], None]:
    """What a loop reports to. A pass that failed is a sign of life too: the next one may do better."""

    def report(passed: PassReport) -> None:
        activity.touch()
        if passed.error is not None:
            log.error("pass failed", number=passed.number, failures=passed.failures, error=passed.error)

    return report
