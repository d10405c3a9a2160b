"""How fast may it go, where somebody has set a rate? Workloads that find it used up are called again in their order.

They are called to make another plan, and not held in line with the old one: minutes may go by until it is their turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from trellis.core.resize.governed import Workload
from trellis.kube.token_bucket import Rate, TokenBucket


class Pace:
    """One rate. `call` is told whose turn it is."""

    def __init__(self, rate: Rate, call: Callable[[Workload], None]) -> None:
        self._rate = rate
        self._call = call
        self._bucket = TokenBucket(rate, _clock())
        self._waiting: dict[Workload, None] = {}
        self._called: dict[Workload, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def may_go(self, workload: Workload) -> bool:
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
