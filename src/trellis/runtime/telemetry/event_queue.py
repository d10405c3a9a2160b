"""The queue in front of the Event recorder: Events wait until no other write waits, and for a few seconds at most.

A thousand evictions are two thousand Events, and on a small API server each of them takes the place of an eviction.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from trellis.api.kube.meta import ObjectReference
from trellis.base.reasons import Reason
from trellis.kube.events import EventRecorder
from trellis.kube.write.outcomes import WriteOutcome
from trellis.runtime.telemetry.cluster_metrics import is_expected
from trellis.runtime.telemetry.logs import Logger

# The most Events that wait; the oldest are dropped first.
_CAPACITY: Final = 10_000
_BATCH_SIZE: Final = 100
_MAX_DELAY_SECONDS: Final = 10.0
_POLL_SECONDS: Final = 0.25
_RETRY_SECONDS: Final = 5.0
_LOG_INTERVAL_SECONDS: Final = 60.0

EventSink: TypeAlias = Callable[[ObjectReference, Reason, str], None]


class EventFailureLog:
    """Logs that Events cannot be written, at most once per interval."""

    def __init__(self, log: Logger) -> None:
        self._log = log
        self._unsaid = 0
        self._silent_until = -math.inf

    def note(self, outcome: WriteOutcome) -> None:
        """Log the outcome of an Event if it failed."""
        # A conflict of names and an expired series are retried at once.
        if is_expected(outcome):
            return
        self._unsaid += 1
        now = asyncio.get_running_loop().time()
        if now >= self._silent_until:
            failed = self._unsaid
            self._log.warning("writing Events failed", failed=failed, result=outcome.result, why=outcome.message)
            self._unsaid, self._silent_until = 0, now + _LOG_INTERVAL_SECONDS


class EventQueue:
    """Delays Events while the component is busy. Call `record` from the event loop and `run` in its own task."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._waiting: deque[tuple[ObjectReference, Reason, str]] = deque(maxlen=_CAPACITY)
        self._has_pending = asyncio.Event()

    def record(self, about: ObjectReference, reason: Reason, message: str) -> None:
        """Queue an Event."""
        self._waiting.append((about, reason, message))
        self._has_pending.set()

    async def run(self, is_busy: Callable[[], bool] = lambda: False) -> None:
        """Post until cancelled. While the component `is_busy` with other writes, Events wait."""
        while True:
            await self._has_pending.wait()
            await _wait_until_quiet(is_busy)
            for _ in range(min(len(self._waiting), _BATCH_SIZE)):
                self._recorder.record(*self._waiting.popleft())
            if not await self._recorder.flush():
                await asyncio.sleep(_RETRY_SECONDS)
            elif not self._waiting:
                self._has_pending.clear()


async def _wait_until_quiet(is_busy: Callable[[], bool]) -> None:
    clock = asyncio.get_running_loop().time
    latest = clock() + _MAX_DELAY_SECONDS
    while is_busy() and clock() < latest:  # noqa: ASYNC110 - a queue does not tell that it is empty
        await asyncio.sleep(_POLL_SECONDS)
