"""Shutdown of a process: on SIGTERM or SIGINT, within a second, with a report of abandoned tasks.

    async def main(stop: Shutdown) -> None:
        ...                          # start everything
        await stop.wait()            # the signal
        queue.close()                # drain: finish what has begun, start nothing new
        await queue.drained()

    ending = serve(main)

After the signal `main` has until the deadline to drain. It is then cancelled, and has the rest of the second to
unwind. What still runs after that is abandoned and named. A second signal ends the process at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, Final, TypeAlias

import msgspec

from trellis.runtime.threads import DaemonThreads

# A replica that holds a lease and stops slowly delays its successor; one that is interrupted repeats work. A second is
# the compromise, of which 0.1 s remain for Python to exit.
DRAIN_SECONDS: Final = 0.6
UNWIND_SECONDS: Final = 0.15

Main: TypeAlias = Callable[["Shutdown"], Coroutine[Any, Any, None]]
NewLoop: TypeAlias = Callable[[], asyncio.AbstractEventLoop]


class ShutdownReport(msgspec.Struct, frozen=True):
    """Why a process ended, and the tasks it abandoned. `reason` is None if the work was complete."""

    reason: str | None
    drained: bool
    abandoned: tuple[str, ...] = ()


class Shutdown:
    """A request to stop: by a signal, or by a component, such as on a lost lease."""

    def __init__(self) -> None:
        self._requested = asyncio.Event()
        self._reason: str | None = None

    @property
    def reason(self) -> str | None:
        """The name of the signal, or the reason passed to `request`; None until then."""
        return self._reason

    def request(self, reason: str) -> None:
        """Request a shutdown. The first reason counts."""
        if self._reason is None:
            self._reason = reason
            self._requested.set()

    async def wait(self) -> None:
        """Return when a shutdown has been requested."""
        await self._requested.wait()


def serve(
    main: Main,
    *,
    drain: float = DRAIN_SECONDS,
    unwind: float = UNWIND_SECONDS,
    new_loop: NewLoop = asyncio.new_event_loop,
) -> ShutdownReport:
    """Run `main` until it returns or a signal comes. An error of `main` is raised here."""
    loop = new_loop()
    loop.set_default_executor(DaemonThreads("io", most=4))
    try:
        return loop.run_until_complete(_serve(main, drain, unwind))
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        loop.close()


async def _serve(main: Main, drain: float, unwind: float) -> ShutdownReport:
    loop, stop = asyncio.get_running_loop(), Shutdown()

    def on_signal(number: signal.Signals) -> None:
        for handled in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(handled)
            # Not the default action: the kernel gives process 1, which a container's command is, no default actions.
            signal.signal(handled, _exit_immediately)
        stop.request(number.name)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return await supervise(main, stop, drain=drain, unwind=unwind)


def _exit_immediately(number: int, _frame: FrameType | None) -> None:
    os._exit(128 + number)


async def supervise(main: Main, stop: Shutdown, *, drain: float, unwind: float) -> ShutdownReport:
    """Run `main` until it ends or a shutdown is requested; then drain and cancel it."""
    task = asyncio.create_task(main(stop), name="main")
    stopping = asyncio.create_task(stop.wait(), name="stop")
    await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        await asyncio.wait({task}, timeout=drain)
    drained = task.done()
    abandoned = await _cancel_all(unwind)
    if task.done() and not task.cancelled():
        task.result()
    return ShutdownReport(stop.reason, drained, abandoned)


def run_together(*mains: Main) -> Main:
    """All of them in one process. An error of one ends the others, and is raised when they have ended."""

    async def main(stop: Shutdown) -> None:
        tasks = [asyncio.create_task(entry_point(stop)) for entry_point in mains]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    return main


async def run_until_stopped(stop: Shutdown, work: Coroutine[Any, Any, None], name: str) -> None:
    """Run this work until it ends or a shutdown is requested, and then unwind it. Raises the error of the work."""
    working = asyncio.create_task(work, name=name)
    stopping = asyncio.create_task(stop.wait(), name="stopping")
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        working.cancel()
        await asyncio.wait({working})
    if not working.cancelled():
        working.result()


async def _cancel_all(seconds: float) -> tuple[str, ...]:
    """Cancel every other task of the loop; returns the names of the tasks that still run after the timeout."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    if tasks:
        _, tasks = await asyncio.wait(tasks, timeout=seconds)
    return tuple(sorted(task.get_name() for task in tasks))
