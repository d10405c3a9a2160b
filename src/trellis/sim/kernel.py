"""The event queue of a simulation, on virtual time.

Ties are broken by time, then priority, then the order in which events were scheduled, so that one history follows from
one beginning. Time never goes back, and the kernel does not know what an event does.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from enum import IntEnum
from itertools import count
from typing import TypeAlias

from trellis.base.errors import InternalError

Callback: TypeAlias = Callable[[], None]


class Priority(IntEnum):
    """The order of events of one time: the cluster before the components that watch it."""

    FAULT = 0
    KUBELET = 10
    CONTROLLER = 20
    SCHEDULER = 30
    USAGE = 40
    HPA = 45
    RECOMMENDER = 50
    HVPA = 55
    UPDATER = 60
    NODES = 70


class Ticket:
    """A scheduled event, which can be cancelled."""

    __slots__ = ("_callback", "time")

    def __init__(self, time: float, callback: Callback) -> None:
        self.time = time
        self._callback: Callback | None = callback

    @property
    def is_pending(self) -> bool:
        """Whether it has neither happened nor been cancelled."""
        return self._callback is not None

    def cancel(self) -> None:
        self._callback = None

    def take_callback(self) -> Callback | None:
        """Take what is to be done, once."""
        callback, self._callback = self._callback, None
        return callback


class Kernel:
    """Virtual time, and its events. `now` is in seconds since 1970."""

    def __init__(self, begin: float) -> None:
        self.now = begin
        self.executed_events = 0
        self._queue: list[tuple[float, int, int, Ticket]] = []
        self._order = count()

    def at(self, time: float, callback: Callback, priority: int = Priority.KUBELET) -> Ticket:
        """Schedule an event at a time, which is not before now."""
        if not time >= self.now:
            raise InternalError(f"an event for {time} cannot be scheduled at {self.now}")
        ticket = Ticket(time, callback)
        heapq.heappush(self._queue, (time, priority, next(self._order), ticket))
        return ticket

    def after(self, seconds: float, callback: Callback, priority: int = Priority.KUBELET) -> Ticket:
        """Schedule an event after a delay in seconds."""
        return self.at(self.now + seconds, callback, priority)

    def run_until(self, time: float) -> None:
        """Run all events up to a time, those that are scheduled meanwhile and those of that very time included."""
        queue = self._queue
        while queue and queue[0][0] <= time:
            at, _, _, ticket = heapq.heappop(queue)
            callback = ticket.take_callback()
            if callback is not None:
                self.now = at
                self.executed_events += 1
                callback()
        self.now = max(self.now, time)
