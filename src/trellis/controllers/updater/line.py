"""Whose change is written next? So many at a time; the end of a boost goes before everything else.

An eviction that waits a few seconds harms nobody. A boost costs CPU for as long as it stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from enum import IntEnum
from itertools import count
from typing import Any, TypeAlias

Job: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class Turn(IntEnum):
    """Who goes first."""

    UNBOOST = 0
    RESIZE = 1
    EVICT = 2


class Line:
    """Jobs in their order, and those who do them. `run` in a task of its own. A job raises nothing."""

    def __init__(self, seats: int) -> None:
        self._seats = seats
        self._waiting: asyncio.PriorityQueue[tuple[int, int, Job]] = asyncio.PriorityQueue()
        self._numbers = count()
        self._closed = False

    def __len__(self) -> int:
        return self._waiting.qsize()

    def add(self, turn: Turn, job: Job) -> None:
        """Do this when its turn has come."""
        self._waiting.put_nowait((turn, next(self._numbers), job))

    async def run(self) -> None:
        """Work until the line is closed, and then finish what has begun."""
        async with asyncio.TaskGroup() as group:
            for number in range(self._seats):
                group.create_task(self._work(), name=f"write-{number}")

    def close(self) -> None:
        """Begin nothing more."""
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
