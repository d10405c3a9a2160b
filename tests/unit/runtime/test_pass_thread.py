"""Passes are computed beside the event loop, and what blocks the loop is found."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from support import virtual_time
from support.blocking_calls import LIMIT_SECONDS, BlockingWatch
from trellis.runtime.passes import PassThread
from trellis.runtime.threads import DaemonThreads


def arithmetic(snapshot: tuple[int, ...]) -> tuple[int, str]:
    """Some 200 ms of Python, which gives its lock away every 5 ms as all of Python does."""
    total = 0
    for _ in range(40):
        for value in snapshot:
            total += value * value % 7
    return total, threading.current_thread().name


def test_a_pass_runs_in_its_own_thread_and_returns_its_result() -> None:
    async def main() -> tuple[int, str]:
        passes = PassThread("recommender")
        try:
            return await passes.run(arithmetic, (1, 2, 3))
        finally:
            passes.close()

    assert virtual_time.run(main()) == (40 * (1 + 4 + 2), "recommender-0")


def test_an_error_of_a_pass_is_raised_where_it_is_awaited() -> None:
    async def main() -> None:
        passes = PassThread()
        with pytest.raises(ZeroDivisionError):
            await passes.run(lambda: 1 // 0)
        assert await passes.run(lambda: "still there") == "still there"
        passes.close()

    virtual_time.run(main())


def test_passes_of_one_thread_never_overlap_even_if_a_caller_gives_up() -> None:
    async def main() -> list[str]:
        passes = PassThread()
        finished: list[str] = []
        release = threading.Event()

        def first() -> None:
            release.wait(10)
            finished.append("first")

        given_up = asyncio.create_task(passes.run(first))
        await asyncio.sleep(0)
        given_up.cancel()
        second = asyncio.create_task(passes.run(finished.append, "second"))
        asyncio.get_running_loop().call_soon(release.set)
        await second
        passes.close()
        return finished

    assert virtual_time.run(main()) == ["first", "second"]


def test_a_closed_thread_begins_no_further_pass() -> None:
    async def main() -> list[str]:
        passes = PassThread()
        started, release = threading.Event(), threading.Event()
        finished: list[str] = []

        def first() -> None:
            started.set()
            release.wait(10)

        running = asyncio.create_task(passes.run(first))
        waiting = asyncio.create_task(passes.run(finished.append, "second"))
        await asyncio.sleep(0)
        started.wait(10)
        passes.close()
        release.set()
        await running
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(RuntimeError, match="closed"):
            await passes.run(finished.append, "third")
        return finished

    assert virtual_time.run(main()) == []


def test_the_loop_is_not_blocked_while_a_pass_computes() -> None:
    async def main() -> BlockingWatch:
        passes = PassThread()
        with BlockingWatch() as watch:
            await passes.run(arithmetic, tuple(range(100_000)))
        passes.close()
        return watch

    # On a machine with more work than processors a thread may have to wait for 50 ms without anybody's fault. Computed
    # on the loop, the pass would block it every single time.
    assert any(asyncio.run(main()).blocks == [] for _ in range(5))


def test_the_detector_reports_a_blocking_call_with_its_place() -> None:
    def blocks_the_loop(watch: BlockingWatch) -> None:
        # For as long as the watch takes to notice, which on a busy machine gets its turn late.
        while watch.waited <= 2 * LIMIT_SECONDS:
            time.sleep(LIMIT_SECONDS)

    async def main() -> BlockingWatch:
        with BlockingWatch() as watch:
            blocks_the_loop(watch)
        return watch

    (block,) = asyncio.run(main()).blocks
    assert block.seconds > LIMIT_SECONDS
    assert "blocks_the_loop" in block.where[-1]


def test_the_detector_reports_a_pass_that_holds_the_gil() -> None:
    async def main() -> BlockingWatch:
        passes = PassThread()
        with BlockingWatch() as watch:
            # One call into C that never looks up: half a second in which no other thread runs.
            await passes.run(sum, range(30_000_000))
        passes.close()
        return watch

    assert len(asyncio.run(main()).blocks) >= 1


def test_more_threads_are_started_only_for_more_work() -> None:
    threads = DaemonThreads("io", most=2)
    barrier = threading.Barrier(2, timeout=60)
    both = [threads.submit(barrier.wait) for _ in range(2)]
    assert sorted(future.result(60) for future in both) == [0, 1]
    assert threads.submit(lambda: threading.current_thread().daemon).result(60)
    named = [thread.name for thread in threading.enumerate() if thread.name.startswith("io-")]
    assert len(named) == 2
    threads.shutdown()
    assert [thread for thread in threading.enumerate() if thread.name.startswith("io-")] == []
