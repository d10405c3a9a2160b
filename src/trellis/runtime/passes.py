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
from trellis.runtime.telemetry.cluster_metrics import PassGauges
from trellis.runtime.telemetry.health import Activity
from trellis.runtime.telemetry.logs import Logger
from trellis.runtime.threads import DaemonThreads


class PassReport(msgspec.Struct, frozen=True):
    """The result of a pass: `started` is on the loop's clock, `failures` counts failed passes in a row."""

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
        """The report of the last pass."""
        return self._last

    def wake(self) -> None:
        """Start the next pass as soon as the current one is over."""
        self._woken.set()

    async def run(self) -> None:
        """Run passes until cancelled, the first one at once."""
        loop = asyncio.get_running_loop()
        number = 0
        while True:
            number += 1
            started = loop.time()
            self._woken.clear()
            result = await run_task(self._run_limited(), name=f"{self.name} pass {number}")
            failures = (self._last.failures if self._last else 0) + 1 if result.error else 0
            self._last = PassReport(
                self.name, number, started, loop.time() - started, failures=failures, error=result.error
            )
            self._on_pass(self._last)
            await self._sleep_until(started + self._interval * (1 + self._jitter * self._draw()))

    async def _run_limited(self) -> None:
        async with asyncio.timeout(self._limit):
            await self._run_pass()

    async def _sleep_until(self, when: float) -> None:
        # A late pass still lets other tasks of this event loop run once.
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
        """Start no further pass. A running pass is not waited for, and ends with the process at the latest."""
        self._threads.shutdown(wait=False, cancel_futures=True)


# Intervals without the end of a pass after which a loop counts as dead, as upstream's.
_MISSED_INTERVALS: Final = 5
# Shorter intervals count as this long.
_MIN_INTERVAL: Final = 1.0


def build_activity(interval: float) -> Activity:
    """The activity that probes expect of passes at this interval."""
    return Activity(_MISSED_INTERVALS * max(interval, _MIN_INTERVAL), asyncio.get_running_loop().time)


def pass_reporter(activity: Activity, log: Logger, gauges: PassGauges) -> Callable[[PassReport], None]:
    """A function that reports passes to probes, log and metrics. A failed pass counts as activity too."""

    def report(passed: PassReport) -> None:
        activity.touch()
        gauges.observe(passed.seconds, passed.failures)
        if passed.error is not None:
            log.error("pass failed", number=passed.number, failures=passed.failures, error=passed.error)

    return report
