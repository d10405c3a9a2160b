"""A process ends within a second of a signal, in order, whatever is stuck in it."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap

import pytest

from support import virtual_time
from trellis.base.errors import InvalidInput
from trellis.runtime.shutdown import (
    DRAIN_SECONDS,
    UNWIND_SECONDS,
    Main,
    Shutdown,
    ShutdownReport,
    run_together,
    supervise,
)


def ended(main: Main, *, after: float = 10.0) -> tuple[ShutdownReport, float]:
    """How `main` ends, and how long after the signal at the given time."""

    async def run() -> tuple[ShutdownReport, float]:
        loop, stop = asyncio.get_running_loop(), Shutdown()
        loop.call_later(after, stop.request, "SIGTERM")
        ending = await supervise(main, stop, drain=DRAIN_SECONDS, unwind=UNWIND_SECONDS)
        return ending, round(loop.time() - after, 3)

    return virtual_time.run(run())


def test_work_that_is_over_ends_without_a_reason() -> None:
    async def main(stop: Shutdown) -> None:
        await asyncio.sleep(3)

    assert ended(main) == (ShutdownReport(None, drained=True), -7.0)


def test_a_task_that_waits_for_the_signal_drains() -> None:
    drained = []

    async def main(stop: Shutdown) -> None:
        await stop.wait()
        await asyncio.sleep(0.25)
        drained.append(stop.reason)

    assert ended(main) == (ShutdownReport("SIGTERM", drained=True), 0.25)
    assert drained == ["SIGTERM"]


def test_a_task_that_ignores_the_signal_is_cancelled_at_the_deadline() -> None:
    unwound = []

    async def main(stop: Shutdown) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            unwound.append("yes")

    assert ended(main) == (ShutdownReport("SIGTERM", drained=False), DRAIN_SECONDS)
    assert unwound == ["yes"]


def test_a_task_that_will_not_stop_is_abandoned_and_named_within_a_second() -> None:
    async def stubborn() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(5)

    async def main(stop: Shutdown) -> None:
        background = asyncio.create_task(stubborn(), name="stubborn")
        await stop.wait()
        assert not background.done()

    ending, seconds = ended(main)
    assert ending == ShutdownReport("SIGTERM", drained=True, abandoned=("stubborn",))
    assert seconds < 1.0


def test_remaining_tasks_of_main_are_cancelled() -> None:
    cancelled = []

    async def background() -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            cancelled.append("background")
            raise

    async def main(stop: Shutdown) -> None:
        task = asyncio.create_task(background())
        await asyncio.sleep(1)
        assert not task.done()

    assert ended(main)[0] == ShutdownReport(None, drained=True)
    assert cancelled == ["background"]


def test_an_error_of_main_is_raised() -> None:
    async def main(stop: Shutdown) -> None:
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        ended(main)


def test_the_first_reason_counts() -> None:
    async def main(stop: Shutdown) -> None:
        await asyncio.sleep(1)
        stop.request("the lease is lost")
        await stop.wait()

    assert ended(main)[0].reason == "the lease is lost"


def test_mains_that_run_together_end_together() -> None:
    ended: list[str] = []

    def one(name: str) -> Main:
        async def main(stop: Shutdown) -> None:
            await stop.wait()
            ended.append(name)

        return main

    async def scenario() -> None:
        stop = Shutdown()
        asyncio.get_running_loop().call_soon(stop.request, "enough")
        await run_together(one("first"), one("second"))(stop)

    asyncio.run(scenario())
    assert ended == ["first", "second"]


def test_an_error_of_one_main_ends_the_others() -> None:
    unwound: list[str] = []

    async def fails(_stop: Shutdown) -> None:
        raise InvalidInput(":80", "cannot be listened on")

    async def works(stop: Shutdown) -> None:
        try:
            await stop.wait()
        finally:
            unwound.append("works")

    with pytest.raises(InvalidInput, match="cannot be listened on"):
        asyncio.run(run_together(works, fails)(Shutdown()))
    assert unwound == ["works"]


def started(body: str) -> subprocess.Popen[str]:
    """A process that serves the given body of `main` and has said that it is ready."""
    script = "import asyncio, sys, time\nfrom trellis.runtime.shutdown import serve\n\nasync def main(stop):\n"
    script += textwrap.indent(textwrap.dedent(body), "    ")
    script += "\n\nprint(serve(main), flush=True)\n"
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_process_in_order(number: signal.Signals) -> None:
    process = started(
        """
        print("ready", flush=True)
        await stop.wait()
        print("draining", flush=True)
        """
    )
    process.send_signal(number)
    output, _ = process.communicate(timeout=60)
    assert output == f"draining\nShutdownReport(reason='{number.name}', drained=True, abandoned=())\n"
    assert process.returncode == 0


def test_a_second_signal_ends_a_process_at_once() -> None:
    process = started(
        """
        print("ready", flush=True)
        await stop.wait()
        print("draining", flush=True)
        time.sleep(600)  # Blocks the loop, and with it every orderly way out.
        """
    )
    assert process.stdout is not None
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "draining\n"
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert output == ""
    assert process.returncode == 128 + signal.SIGTERM


def test_a_pass_and_a_lookup_that_never_return_do_not_hold_up_the_end() -> None:
    process = started(
        """
        from trellis.runtime.passes import PassThread
        asyncio.create_task(PassThread().run(time.sleep, 600))
        asyncio.create_task(asyncio.to_thread(time.sleep, 600))
        await asyncio.sleep(0.01)
        print("ready", flush=True)
        await stop.wait()
        """
    )
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)
    assert output == "ShutdownReport(reason='SIGTERM', drained=True, abandoned=())\n"
    assert process.returncode == 0
