"""The clock on which all the other asynchronous tests run."""

from __future__ import annotations

import asyncio
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from support import virtual_time


def test_a_day_of_sleep_takes_no_time() -> None:
    async def main() -> float:
        await asyncio.sleep(86_400 * 3)
        return asyncio.get_running_loop().time()

    assert virtual_time.run(main(), start=1_700_000_000.0) == pytest.approx(1_700_000_000 + 86_400 * 3, abs=1e-6)


def test_timers_fire_in_the_order_of_their_time() -> None:
    async def main() -> list[tuple[str, float]]:
        loop = asyncio.get_running_loop()
        fired: list[tuple[str, float]] = []

        async def note(name: str, delay: float) -> None:
            await asyncio.sleep(delay)
            fired.append((name, loop.time()))

        loop.call_later(2.5, lambda: fired.append(("call", loop.time())))
        await asyncio.gather(note("late", 30), note("early", 1))
        return fired

    assert virtual_time.run(main()) == [("early", 1.0), ("call", 2.5), ("late", 30.0)]


def test_timeouts_go_by_the_virtual_clock() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 60)
        return asyncio.get_running_loop().time()

    assert virtual_time.run(main()) == 120.0


def test_the_clock_stands_still_while_a_thread_works() -> None:
    async def main() -> tuple[str, float]:
        loop = asyncio.get_running_loop()
        started, release = threading.Event(), threading.Event()
        ticks = 0

        def work() -> str:
            started.set()
            release.wait(10)
            return "worked"

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(1)
                ticks += 1

        ticking = asyncio.create_task(tick())
        working = loop.run_in_executor(None, work)
        threading.Timer(0.05, release.set).start()
        result = await working
        now = loop.time()
        ticking.cancel()
        assert started.is_set()
        assert ticks == now
        return result, now

    assert virtual_time.run(main()) == ("worked", 0.0)


def test_a_thread_with_a_cancelled_caller_still_holds_the_clock() -> None:
    async def main() -> bool:
        loop = asyncio.get_running_loop()
        started, release, finished = threading.Event(), threading.Event(), threading.Event()

        def work() -> None:
            started.set()
            release.wait(10)
            finished.set()

        with ThreadPoolExecutor(1) as pool:
            working = loop.run_in_executor(pool, work)
            assert started.wait(10)
            loop.call_soon(working.cancel)
            threading.Timer(0.05, release.set).start()
            await asyncio.sleep(3600)
        return finished.is_set()

    assert virtual_time.run(main())


def test_cancelled_work_that_has_not_started_does_not_hold_the_clock() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        started, release = threading.Event(), threading.Event()

        def work() -> None:
            started.set()
            release.wait(10)

        with ThreadPoolExecutor(1) as pool:
            working = loop.run_in_executor(pool, work)
            assert started.wait(10)
            never = loop.run_in_executor(pool, work)
            never.cancel()
            release.set()
            await working
            await asyncio.sleep(3600)
        return loop.time()

    assert virtual_time.run(main(), limit=20.0) == 3600.0


def test_a_deadlock_names_the_waiting_task() -> None:
    async def main() -> None:
        await asyncio.create_task(asyncio.Event().wait(), name="the-one-that-hangs")

    with pytest.raises(virtual_time.Deadlock, match="the-one-that-hangs"):
        virtual_time.run(main())


def test_a_loop_without_end_is_stopped_by_the_limit() -> None:
    async def main() -> None:
        for _ in itertools.count():
            await asyncio.sleep(1)

    with pytest.raises(virtual_time.RealTimeExceeded):
        virtual_time.run(main(), limit=0.05)


def test_threads_of_the_default_executor_end_with_the_run() -> None:
    async def main() -> str:
        return await asyncio.to_thread(lambda: threading.current_thread().name)

    name = virtual_time.run(main())
    assert name not in {thread.name for thread in threading.enumerate()}
