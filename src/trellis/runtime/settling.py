"""How did it end? Anything may fail without taking its caller along.

A loop must outlive a pass, and a queue must outlive a key. The work runs in a task of its own, and its error is then a
value to record instead of an exception to catch: bugs are counted and logged like everything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


class Settled(msgspec.Struct, Generic[T], frozen=True):
    """A value, or the error that came instead of it."""

    value: T | None
    error: BaseException | None


async def settle(work: Coroutine[Any, Any, T], *, name: str | None = None) -> Settled[T]:
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
        return Settled(None, asyncio.CancelledError("the work cancelled itself"))
    error = task.exception()
    return Settled(None, error) if error else Settled(task.result(), None)
