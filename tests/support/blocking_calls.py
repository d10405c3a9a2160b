"""Detects calls that block the event loop, and where.

A thread asks the loop for a sign of life again and again. While none comes, something else holds the loop, and the
stack of the loop's thread says what. Tests hold the promise with it that nothing does so for more than 50 ms.

The watch does not blame code for a busy machine. It reckons a wait by its own rounds of 5 ms, which are late when the
whole process is; only where the process itself used the processor does the time in between count in full. That is how
a C function shows that keeps Python's lock, and the watch with it, from running.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections import Counter
from types import TracebackType
from typing import Final, Self

import msgspec

LIMIT_SECONDS: Final = 0.05
_ROUND_SECONDS: Final = 0.005
_FRAMES: Final = 6


class Block(msgspec.Struct, frozen=True):
    """The loop did nothing else for so many seconds; `where` is the innermost part of the stack at the time."""

    seconds: float
    where: tuple[str, ...]


class BlockingWatch:
    """Use it as a context on the thread of a running loop; `blocks` are found while it is open."""

    def __init__(self, limit: float = LIMIT_SECONDS) -> None:
        self.blocks: list[Block] = []
        self._limit = limit
        self._stop = threading.Event()
        self._alive = threading.Event()
        self._thread: threading.Thread | None = None
        self._lap = _Lap()
        # For how many seconds it has been waiting for a sign of life.
        self.waited = 0.0

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._lap = _Lap()
        arguments = (loop, threading.get_ident())
        self._thread = threading.Thread(target=self._watch, args=arguments, name="blocking-watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._alive.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self, loop: asyncio.AbstractEventLoop, thread: int) -> None:
        while not self._stop.is_set():
            self._alive.clear()
            loop.call_soon_threadsafe(self._alive.set)
            self._await_sign(thread)
            # Where Python's lock is held meanwhile, the pause is as long, and nobody could look where.
            self._stop.wait(_ROUND_SECONDS)
            self._note(self._lap.seconds(), ())

    def _await_sign(self, thread: int) -> None:
        self.waited = 0.0
        stacks: Counter[tuple[str, ...]] = Counter()
        alive = False
        while not alive and not self._stop.is_set():
            alive = self._alive.wait(_ROUND_SECONDS)
            self.waited += self._lap.seconds()
            if not alive:
                stacks[_stack(thread)] += 1
        # What held it is where it was seen most often; the last look may already show what came after.
        self._note(self.waited, max(stacks, key=stacks.__getitem__, default=()))

    def _note(self, seconds: float, where: tuple[str, ...]) -> None:
        if seconds > self._limit:
            self.blocks.append(Block(seconds, where))


class _Lap:
    """Measures from one question to the next, without a gap: Python's lock may be lost between any two lines."""

    def __init__(self) -> None:
        self._wall, self._used = time.perf_counter(), time.process_time()

    def seconds(self) -> float:
        """How many seconds since the last time count."""
        wall, used = time.perf_counter(), time.process_time()
        seconds = min(wall - self._wall, max(_ROUND_SECONDS, used - self._used))
        self._wall, self._used = wall, used
        return seconds


def _stack(thread: int) -> tuple[str, ...]:
    frame = sys._current_frames().get(thread)
    if frame is None:
        return ()
    return tuple(f"{f.filename}:{f.lineno} {f.name}" for f in traceback.extract_stack(frame)[-_FRAMES:])
