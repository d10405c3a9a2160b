"""Which pods does one run of a Job have? So many at a time, until so many of them have ended well.

A pod that was lost or evicted is made again, and begins anew; one that has ended is removed.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from trellis.sim.cluster.living import Living
from trellis.sim.cluster.making import Making
from trellis.sim.cluster.pods import SUCCEEDED
from trellis.sim.cluster.state import State


class JobSize(msgspec.Struct, frozen=True):
    """How many pods run at a time, and how many have to end well."""

    parallelism: int
    completions: int

    @classmethod
    def of(cls, parallelism: int, completions: int | None) -> JobSize:
        """As a Job says it: without completions each of its pods runs once."""
        return cls(parallelism, parallelism if completions is None else completions)


class JobRun:
    """One run under way; `make` makes one more of its pods."""

    def __init__(self, state: State, making: Making, size: JobSize, make: Callable[[], Living]) -> None:
        self._state = state
        self._making = making
        self._size = size
        self._make = make
        self._succeeded = 0
        self._pods: list[Living] = []

    def begin(self) -> None:
        """Make the first pods."""
        self._add(min(self._size.parallelism, self._size.completions))

    def reconcile(self) -> bool:
        """Remove what has ended, and make what is missing; whether the run is over."""
        left = []
        for living in self._pods:
            if living.pod.status.phase == SUCCEEDED:
                self._succeeded += 1
                self._making.forget(living)
            elif not living.going and self._state.pods.get(living.key) is living:
                left.append(living)
        self._pods = left
        self._add(min(self._size.parallelism, self._size.completions - self._succeeded) - len(left))
        return not self._pods

    def stop(self) -> None:
        """Delete its pods."""
        for living in self._pods:
            self._making.delete(living)
        self._pods = []

    def _add(self, count: int) -> None:
        self._pods += [self._make() for _ in range(count)]
