"""Where is a pass computed? In a thread of its own, on its snapshot, while the event loop goes on.

Leases, probes and admission wait for the event loop. None of them may wait for arithmetic over ten thousand pods. A
pass is therefore a function of frozen values: it gets a snapshot, and shares nothing with the loop that could change
under it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from trellis.runtime.threads import DaemonThreads

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class PassThread:
    """One thread for passes, one at a time.

    A second thread would gain nothing while Python holds its lock, and passes of one controller must not overlap. A
    caller that gives up leaves its pass to run to its end; the next pass begins after that.
    """

    def __init__(self, name: str = "pass") -> None:
        self._threads = DaemonThreads(name)

    async def run(self, decide: Callable[[*Ts], T], *values: *Ts) -> T:
        """What `decide` says of these values, computed in the thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, decide, *values)

    def close(self) -> None:
        """Begin no further pass. One that is running is not waited for, and ends with the process at the latest."""
        self._threads.shutdown(wait=False, cancel_futures=True)
