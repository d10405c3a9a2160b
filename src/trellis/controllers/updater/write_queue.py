"""The queue of writes by priority, and the rate limiter of `--eviction-rate-limit`.

The end of a boost goes first: a boost costs CPU for as long as it lasts, and an eviction that waits a few seconds harms
nothing. A workload that exceeds the rate is planned again when it is its turn, because its plan may be minutes old by
then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from enum import IntEnum
from itertools import count
from typing import Any, TypeAlias

from trellis.core.resize.state.ownership import WorkloadKey
from trellis.kube.flow_control import Rate, TokenBucket

WriteJob: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class WritePriority(IntEnum):
    """Who goes first."""

    UNBOOST = 0
    RESIZE = 1
    EVICT = 2


class WriteQueue:
    """A priority queue of jobs, and its workers. `run` in a task of its own. A job raises nothing."""

    def __init__(self, seats: int) -> None:
        self._seats = seats
        self._waiting: asyncio.PriorityQueue[tuple[int, int, WriteJob]] = asyncio.PriorityQueue()
        self._numbers = count()
        self._closed = False

    def __len__(self) -> int:
        return self._waiting.qsize()

    def add(self, priority: WritePriority, job: WriteJob) -> None:
        """Add a job with this priority."""
        self._waiting.put_nowait((priority, next(self._numbers), job))

    async def run(self) -> None:
        """Run jobs until the queue is closed, and then finish those that have started."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._seats):
                group.create_task(self._work(), name=f"write-{number}")

    def close(self) -> None:
        """Start no further job."""
        self._closed = True
        for _ in range(self._seats):
            self._waiting.put_nowait((-1, next(self._numbers), _nothing))

    async def _work(self) -> None:
        while not self._closed:
            _, _, job = await self._waiting.get()
            if not self._closed:
                await job()


async def _nothing() -> None:
    return


class WriteRateLimiter:
    """Limits writes to a rate. `call` is called with a workload whose write may go next."""

    def __init__(self, rate: Rate, call: Callable[[WorkloadKey], None]) -> None:
        self._rate = rate
        self._call = call
        self._bucket = TokenBucket(rate, _clock())
        self._waiting: dict[WorkloadKey, None] = {}
        self._called: dict[WorkloadKey, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def may_go(self, workload: WorkloadKey) -> bool:
        """Whether one pod of a workload may be changed now; if not, the workload will be called."""
        if workload in self._called:
            del self._called[workload]
            return True
        if not self._waiting and self._bucket.take(_clock()):
            return True
        self._waiting[workload] = None
        self._arm()
        return False

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(1.0 / self._rate.per_second, self._next)

    def _next(self) -> None:
        self._timer = None
        while self._waiting and self._bucket.take(_clock()):
            workload = next(iter(self._waiting))
            del self._waiting[workload]
            self._called[workload] = None
            self._call(workload)
        if self._waiting:
            self._arm()


def _clock() -> float:
    return asyncio.get_running_loop().time()
