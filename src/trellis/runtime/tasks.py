"""Runs a coroutine in a task of its own and returns its result or its error as a value.

A loop must outlive a pass, and a queue must outlive a key: their failures are values to record instead of exceptions
to catch, so that bugs are counted and logged like everything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


class TaskResult(msgspec.Struct, Generic[T], frozen=True):
    """A value, or the error that came instead of it."""

    value: T | None
    error: BaseException | None


async def run_task(work: Coroutine[Any, Any, T], *, name: str | None = None) -> TaskResult[T]:
    """Run to the end and say how it went. Who cancels this cancels the work, and waits until it has stopped."""
    task = asyncio.create_task(work, name=name)
    try:
        await asyncio.wait({task})
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
            _ = task.cancelled() or task.exception()  # Read, so that the loop does not complain that nobody did.
    if task.cancelled():
        return TaskResult(None, asyncio.CancelledError("the work cancelled itself"))
    error = task.exception()
    return TaskResult(None, error) if error else TaskResult(task.result(), None)
