"""Runs coroutines in separate tasks: one whose result or error is a value, or several that end together.

A loop must outlive a pass, and a queue must outlive a key: their failures are values to record instead of exceptions
to catch, so that bugs are counted and logged like everything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


class TaskResult(msgspec.Struct, Generic[T], frozen=True):
    """The value or the error of a task."""

    value: T | None
    error: BaseException | None


async def run_task(work: Coroutine[Any, Any, T], *, name: str | None = None) -> TaskResult[T]:
    """Run a coroutine and return its result. Cancelling this cancels the coroutine and waits until it has stopped."""
    task = asyncio.create_task(work, name=name)
    try:
        await asyncio.wait({task})
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
            _ = task.cancelled() or task.exception()  # Retrieved, so that the loop does not log it.
    if task.cancelled():
        return TaskResult(None, asyncio.CancelledError("the task cancelled itself"))
    error = task.exception()
    return TaskResult(None, error) if error else TaskResult(task.result(), None)


async def run_all(*work: Coroutine[Any, Any, object]) -> None:
    """Run these until one of them ends, and cancel the others. An error of the first is raised."""
    tasks = [asyncio.create_task(coroutine) for coroutine in work]
    try:
        await wait_for_first(tasks)
    finally:
        await cancel_all(tasks)


async def wait_for_first(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Return once one of these tasks has ended, or raise its error. Without tasks it waits until cancelled."""
    if not tasks:
        await asyncio.get_running_loop().create_future()
    ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in ended:
        task.result()


async def cancel_all(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel these tasks, and return when all of them have ended."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
