"""Workers take the keys of a queue, so many at a time, and outlive every failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import virtual_time
from trellis.kube.flow_control import RetryBackoff
from trellis.runtime.queues import Handler, WorkFailure, WorkQueue, run_workers

EXACT = RetryBackoff(initial=1.0, maximum=60.0, jitter=0.0)


def unexpected(failure: WorkFailure) -> None:
    raise AssertionError(failure)


async def worked_for(
    queue: WorkQueue[str],
    handle: Handler[str],
    seconds: float,
    *,
    workers: int = 4,
    on_failure: Callable[[WorkFailure], None] = unexpected,
) -> None:
    """Let workers work for a while, and drain."""
    working = asyncio.create_task(run_workers(queue, handle, workers=workers, on_failure=on_failure))
    await asyncio.sleep(seconds)
    queue.close()
    await working


def test_at_most_as_many_keys_are_processed_as_there_are_workers() -> None:
    async def main() -> tuple[int, int]:
        queue: WorkQueue[str] = WorkQueue()
        now = most = done = 0

        async def handle(key: str) -> None:
            nonlocal now, most, done
            now += 1
            most = max(most, now)
            await asyncio.sleep(1)
            now -= 1
            done += 1

        for number in range(10):
            queue.add(f"key-{number}")
        await worked_for(queue, handle, 0, workers=3)
        return most, done

    assert virtual_time.run(main()) == (3, 10)


def test_the_result_of_a_handler_requeues_the_key() -> None:
    async def main() -> list[float]:
        queue: WorkQueue[str] = WorkQueue()
        times = []

        async def handle(key: str) -> float | None:
            times.append(asyncio.get_running_loop().time())
            return 20.0 if len(times) < 3 else None

        queue.add("a")
        await worked_for(queue, handle, 1000)
        return times

    assert virtual_time.run(main()) == [0.0, 20.0, 40.0]


def test_a_failure_is_reported_and_retried_later_without_blocking_other_keys() -> None:
    async def main() -> tuple[list[tuple[str, float]], list[tuple[object, str, int, float]]]:
        queue: WorkQueue[str] = WorkQueue(EXACT)
        calls: list[tuple[str, float]] = []
        failures: list[WorkFailure] = []

        async def handle(key: str) -> None:
            calls.append((key, asyncio.get_running_loop().time()))
            if key == "bad" and len(failures) < 2:
                raise ZeroDivisionError("a bug")

        queue.add("bad")
        queue.add("good")
        await worked_for(queue, handle, 100, workers=1, on_failure=failures.append)
        return calls, [(f.key, str(f.error), f.attempt, f.retry_in) for f in failures]

    handled, failures = virtual_time.run(main())
    assert handled == [("bad", 0.0), ("good", 0.0), ("bad", 1.0), ("bad", 3.0)]
    assert failures == [("bad", "a bug", 1, 1.0), ("bad", "a bug", 2, 2.0)]


def test_success_resets_the_count_of_failures() -> None:
    async def main() -> list[float]:
        queue: WorkQueue[str] = WorkQueue(EXACT)
        failures: list[WorkFailure] = []
        attempts = 0

        async def handle(key: str) -> float | None:
            nonlocal attempts
            attempts += 1
            if attempts != 3:
                raise ValueError(attempts)
            return 10.0

        queue.add("a")
        await worked_for(queue, handle, 13.5, on_failure=failures.append)
        return [failure.retry_in for failure in failures]

    assert virtual_time.run(main()) == [1.0, 2.0, 1.0]


def test_closing_lets_running_work_end_and_starts_what_was_ready() -> None:
    async def main() -> list[str]:
        queue: WorkQueue[str] = WorkQueue()
        ended = []

        async def handle(key: str) -> None:
            await asyncio.sleep(5)
            ended.append(key)

        for key in ("first", "second"):
            queue.add(key)
        await worked_for(queue, handle, 1, workers=1)
        return ended

    assert virtual_time.run(main()) == ["first", "second"]


def test_cancelling_the_workers_cancels_the_work() -> None:
    async def main() -> list[str]:
        queue: WorkQueue[str] = WorkQueue()
        ended = []

        async def handle(key: str) -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                ended.append(key)

        queue.add("a")
        working = asyncio.create_task(run_workers(queue, handle, on_failure=unexpected))
        await asyncio.sleep(1)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        return ended

    assert virtual_time.run(main()) == ["a"]


CHANGES = st.lists(st.tuples(st.integers(0, 30), st.sampled_from("abc"), st.integers(0, 7)), max_size=25)


@given(changes=CHANGES, workers=st.integers(1, 4))
def test_every_change_is_observed_by_work_that_starts_after_it_and_no_key_runs_twice_at_once(
    changes: list[tuple[int, str, int]], workers: int
) -> None:
    async def main() -> None:
        queue: WorkQueue[str] = WorkQueue()
        versions = dict.fromkeys("abc", 0)
        observed = dict.fromkeys("abc", 0)
        busy: set[str] = set()
        lengths = dict.fromkeys("abc", 0)

        async def handle(key: str) -> None:
            assert key not in busy
            busy.add(key)
            version = versions[key]
            await asyncio.sleep(lengths[key])
            observed[key] = version
            busy.remove(key)

        async def change(when: int, key: str, length: int) -> None:
            await asyncio.sleep(when)
            versions[key] += 1
            lengths[key] = length
            queue.add(key)

        changing = [asyncio.create_task(change(*planned)) for planned in changes]
        await worked_for(queue, handle, 31, workers=workers)
        await asyncio.gather(*changing)
        assert observed == versions
        assert busy == set()

    virtual_time.run(main())
