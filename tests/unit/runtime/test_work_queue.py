"""Keys come out once, in order, at their time, and never into two hands at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from support import virtual_time
from trellis.kube.flow_control import RetryBackoff
from trellis.runtime.queues import WorkQueue

T = TypeVar("T")
EXACT = RetryBackoff(initial=1.0, maximum=60.0, jitter=0.0)


async def taken(queue: WorkQueue[str]) -> list[str]:
    """Everything that is ready, taken and done in turn."""
    keys = []
    while queue.ready:
        key = await queue.get()
        assert key is not None
        keys.append(key)
        queue.done(key)
    return keys


def test_a_key_that_changes_often_is_handed_out_once() -> None:
    async def main() -> list[str]:
        queue: WorkQueue[str] = WorkQueue()
        for _ in range(100):
            queue.add("a")
            queue.add("b")
        return await taken(queue)

    assert virtual_time.run(main()) == ["a", "b"]


def test_a_key_that_changes_while_processed_is_queued_again_once_and_last() -> None:
    async def main() -> list[str]:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("busy")
        key = await queue.get()
        queue.add("busy")
        queue.add("busy")
        queue.add("other")
        assert queue.ready == 1
        assert key is not None
        queue.done(key)
        return await taken(queue)

    assert virtual_time.run(main()) == ["other", "busy"]


def test_of_several_delays_the_shortest_counts() -> None:
    async def main() -> list[float]:
        queue: WorkQueue[str] = WorkQueue()
        times = []
        for delays in ((30.0, 10.0, 20.0), (10.0, 30.0)):
            for delay in delays:
                queue.add_after("a", delay)
            began = asyncio.get_running_loop().time()
            await queue.get()
            times.append(asyncio.get_running_loop().time() - began)
            queue.done("a")
            assert queue.delayed == 0
        return times

    assert virtual_time.run(main()) == [10.0, 10.0]


def test_a_change_does_not_wait_for_a_delay() -> None:
    async def main() -> tuple[float, int]:
        queue: WorkQueue[str] = WorkQueue()
        queue.add_after("a", 300.0)
        queue.add("a")
        await queue.get()
        return asyncio.get_running_loop().time(), queue.delayed

    assert virtual_time.run(main()) == (0.0, 0)


def test_failures_of_a_key_wait_twice_as_long_each_time_until_they_are_forgotten() -> None:
    async def main() -> list[float]:
        queue: WorkQueue[str] = WorkQueue(EXACT)
        delays = [queue.retry("a") for _ in range(8)]
        queue.retry("b")
        queue.forget("a")
        return [*delays, queue.retry("a")]

    assert virtual_time.run(main()) == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 1.0]


def test_a_cancelled_waiting_worker_loses_no_key() -> None:
    async def main() -> str | None:
        queue: WorkQueue[str] = WorkQueue()
        first = asyncio.create_task(queue.get())
        second = asyncio.create_task(queue.get())
        await asyncio.sleep(0)
        queue.add("a")
        first.cancel()
        return await second

    assert virtual_time.run(main()) == "a"


def test_a_closed_queue_hands_out_ready_keys_and_returns_delayed_ones() -> None:
    async def main() -> tuple[frozenset[str], list[str | None]]:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("ready")
        queue.add_after("later", 60.0)
        dropped = queue.close()
        queue.add("too late")
        return dropped, [await queue.get(), await queue.get()]

    assert virtual_time.run(main()) == (frozenset({"later"}), ["ready", None])


def test_a_change_before_the_end_is_worked_on_after_it() -> None:
    async def main() -> list[str | None]:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        await queue.get()
        queue.add("a")
        queue.close()
        waiting = asyncio.create_task(queue.get())
        await asyncio.sleep(1)
        queue.done("a")
        again = await waiting
        queue.done("a")
        return [again, await queue.get()]

    assert virtual_time.run(main()) == ["a", None]


def test_draining_waits_for_ready_and_running_keys() -> None:
    async def main() -> list[bool]:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a")
        queue.close()
        draining = asyncio.create_task(queue.wait_until_drained())
        await asyncio.sleep(1)
        states = [draining.done()]
        await queue.get()
        await asyncio.sleep(1)
        states.append(draining.done())
        queue.done("a")
        await draining
        return states

    assert virtual_time.run(main()) == [False, False]


def test_done_of_a_key_that_is_not_running_raises() -> None:
    async def main() -> None:
        WorkQueue[str]().done("a")

    with pytest.raises(KeyError):
        virtual_time.run(main())


KEYS = st.sampled_from("abcd")


class QueueMachine(RuleBasedStateMachine):
    """The queue against the simplest model of it: for each key the moment from which work on it is owed."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = virtual_time.VirtualLoop()
        self.owed: dict[str, float] = {}
        self.running: set[str] = set()
        self.failures: dict[str, int] = {}
        self.queue = self.on_loop(self.made())

    async def made(self) -> WorkQueue[str]:
        return WorkQueue(EXACT)

    def on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def owe(self, key: str, delay: float) -> None:
        when = self.loop.time() + delay
        self.owed[key] = min(self.owed.get(key, when), when)

    def due(self) -> set[str]:
        return {key for key, when in self.owed.items() if when <= self.loop.time()}

    @rule(key=KEYS)
    def something_changes(self, key: str) -> None:
        async def change() -> None:
            self.queue.add(key)

        self.on_loop(change())
        self.owe(key, 0)

    @rule(key=KEYS, delay=st.integers(0, 10))
    def a_later_run_is_planned(self, key: str, delay: int) -> None:
        async def plan() -> None:
            self.queue.add_after(key, delay)

        self.on_loop(plan())
        self.owe(key, delay)

    @rule(seconds=st.integers(1, 20))
    def time_passes(self, seconds: int) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds)
            await asyncio.sleep(0)

        self.on_loop(wait())

    @precondition(lambda self: self.due() - self.running)
    @rule()
    def a_worker_takes_a_key(self) -> None:
        key = self.on_loop(self.queue.get())
        assert key is not None
        assert key not in self.running
        assert key in self.due()
        del self.owed[key]
        self.running.add(key)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), failed=st.booleans())
    def a_worker_is_done(self, data: st.DataObject, failed: bool) -> None:
        key = data.draw(st.sampled_from(sorted(self.running)))
        self.running.remove(key)

        async def done() -> float:
            self.queue.done(key)
            if failed:
                return self.queue.retry(key)
            self.queue.forget(key)
            return -1.0

        delay = self.on_loop(done())
        self.failures[key] = self.failures.get(key, 0) + 1 if failed else 0
        if failed:
            assert delay == min(2.0 ** (self.failures[key] - 1), 60.0)
            self.owe(key, delay)

    @invariant()
    def nothing_is_lost_and_nothing_comes_too_early(self) -> None:
        assert self.queue.ready == len(self.due() - self.running)
        assert self.queue.delayed == len(self.owed.keys() - self.due())
        assert self.queue.running == len(self.running)

    def teardown(self) -> None:
        async def finish() -> set[str]:
            for key in self.running:
                self.queue.done(key)
            await asyncio.sleep(100)
            return set(await taken(self.queue))

        owed = set(self.owed)
        assert self.on_loop(finish()) == owed
        self.loop.close()


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(
    max_examples=30, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow]
)
