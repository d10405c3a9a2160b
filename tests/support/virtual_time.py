"""An event loop whose clock jumps to the next timer whenever there is nothing to do: an hour of waiting takes no time.

`run(coroutine)` takes the place of `asyncio.run`. `asyncio.sleep`, `wait_for`, `timeout` and `call_later` all go by the
loop's clock, and so does code under test, which must take the time from `loop.time()` alone.

- Work in threads is real: the clock stands still while any of it runs.
- Sockets and pipes do not hold the clock back. A test that waits for real bytes with a timeout belongs on a real loop.
- A loop that waits for nothing at all would hang for ever. It is ended with `Deadlock`, which says who waits where.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# How long a poll may last while a thread works. The loop's own pipe ends it at once in every usual case; the rest are
# threads whose future was cancelled, and they are found this much late.
_POLL_SECONDS: Final = 0.005

# Real seconds of a test, ten times what any takes on a quiet machine, and less than pytest gives: this says who waits.
LIMIT: Final = 100.0


class Deadlock(AssertionError):
    """Every task waits, no timer is set and no thread works: nothing will ever happen again."""


class RealTimeExceeded(AssertionError):
    """The test ran out of real time: a task that never ends, or a thread that never returns."""


def run(main: Coroutine[Any, Any, T], *, start: float = 0.0, limit: float = LIMIT) -> T:
    """The result of a coroutine, run on a virtual clock that begins at `start`; `limit` is in real seconds."""
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(start, limit)) as runner:
        return runner.run(main)


@asynccontextmanager
async def in_background(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Runs coroutines in the background of a test; none of them may end by itself."""
    tasks = {asyncio.create_task(coroutine) for coroutine in work}
    try:
        yield
        for task in tasks:
            assert not task.done(), task.result()
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A selector loop that is its own clock."""

    def __init__(self, start: float = 0.0, limit: float = LIMIT) -> None:
        self._now = start
        self._limit = limit
        self._deadline = time.monotonic() + limit
        self._lock = threading.Lock()
        self._working = 0
        super().__init__(_Selector(self))
        # A timer fires when it is earlier than now plus this. At the seconds of a wall clock the usual nanosecond is
        # lost in rounding, and a timer that is due would never fire.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """The virtual time."""
        return self._now

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """As ever, but the clock stands still until the thread is done and the loop has taken its result."""
        has_begun = is_cancelled = False

        def work() -> T:
            nonlocal has_begun
            with self._lock:
                has_begun = not is_cancelled
            try:
                return func(*args)
            finally:
                if has_begun:
                    self._count(-1)

        def finish(_future: object) -> None:
            """Count the work as done: the loop has its result, or it was cancelled before a thread began it."""
            nonlocal is_cancelled
            with self._lock:
                is_cancelled = not has_begun
                self._working -= 2 if is_cancelled else 1

        self._count(2)
        try:
            future = super().run_in_executor(executor, work)
        except BaseException:
            self._count(-2)
            raise
        future.add_done_callback(finish)
        return future

    async def shutdown_default_executor(self, *args: Any) -> None:
        """As ever; it waits for a thread that the loop starts past `run_in_executor`."""
        self._count(1)
        try:
            await super().shutdown_default_executor(*args)
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        with self._lock:
            self._working += change

    def wait(self, poll: Callable[[float], list[Any]], timeout: float | None, *, pipes: int) -> list[Any]:
        """What the selector does instead of waiting `timeout` seconds."""
        events = poll(0)
        if time.monotonic() > self._deadline:
            self._deadline += 5.0  # Time to cancel what is left.
            raise RealTimeExceeded(f"{self._limit} real seconds are over at {self._now}; {self._waiting()}")
        if events or timeout == 0:
            return events
        if self._working:
            return poll(_POLL_SECONDS)
        if timeout is not None:
            self._now += timeout
            return []
        if pipes > 1:  # The first one is the loop's own.
            return poll(_POLL_SECONDS)
        raise Deadlock(f"nothing can happen after {self._now}; {self._waiting()}")

    def _waiting(self) -> str:
        frames = [(task.get_name(), task.get_stack(limit=1)) for task in asyncio.all_tasks(self)]
        places = [
            f"{name} at {stack[-1].f_code.co_filename}:{stack[-1].f_lineno}" if stack else name
            for name, stack in sorted(frames, key=lambda frame: frame[0])
        ]
        return "waiting: " + ", ".join(places or ["no task"])


class _Selector(selectors.DefaultSelector):
    """Asks the loop what to do where another would wait."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Events that are there already, or none after the clock has moved."""
        return self._loop.wait(super().select, timeout, pipes=len(self.get_map()))
