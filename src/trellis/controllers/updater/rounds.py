"""How far is a full pass? It is over when every workload has had its plan, and every plan has been carried out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from trellis.core.resize.governed import Workload


class Round:
    """The workloads of one full pass that are still to be planned for, and those whose plans are under way."""

    def __init__(self, workloads: Iterable[Workload] = ()) -> None:
        self._unplanned = set(workloads)
        self._unfinished = set(self._unplanned)
        self._changed = asyncio.Event()

    def planned(self, workload: Workload) -> None:
        """It has its plan."""
        self._unplanned.discard(workload)
        self._changed.set()

    def finished(self, workload: Workload) -> None:
        """Its plan has been carried out, or there was nothing to do."""
        self._unplanned.discard(workload)
        self._unfinished.discard(workload)
        self._changed.set()

    async def until_planned(self, workloads: Iterable[Workload]) -> None:
        """Return when all of these have their plans."""
        wanted = set(workloads)
        while wanted & self._unplanned:
            self._changed.clear()
            await self._changed.wait()

    async def until_finished(self) -> None:
        """Return when nothing is under way."""
        while self._unfinished:
            self._changed.clear()
            await self._changed.wait()
