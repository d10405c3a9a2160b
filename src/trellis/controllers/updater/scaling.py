"""What do the scales of targets say that nobody watches? Asked again and again, and at once when a target is new."""

from __future__ import annotations

import asyncio
from typing import Final

from trellis.controllers.updater.watching import Watching
from trellis.core.model.owners import Owners
from trellis.core.resize.gathering import Gathering
from trellis.kube.scales import ScaleLookups

_AGAIN_SECONDS: Final = 30.0


class Scaling:
    """Keeps what is known of scales current. `run` in a task of its own."""

    def __init__(self, gathering: Gathering, watching: Watching, lookups: ScaleLookups) -> None:
        self._gathering = gathering
        self._lookups = lookups
        self._watched = {kind: each.get for kind, each in watching.workloads.items()}
        self._woken = asyncio.Event()
        gathering.on_new_target = self._woken.set

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            try:
                async with asyncio.timeout(_AGAIN_SECONDS):
                    await self._woken.wait()
            except TimeoutError:
                pass
            self._woken.clear()
            await self.ask()

    async def ask(self) -> None:
        """Know what the scales of targets of other kinds say, and of whoever controls a target."""
        governed = self._gathering.governed
        asked = governed.scaled_targets()
        found = await self._lookups.find_all(asked) if asked else {}
        while above := Owners(self._watched, found).unasked(governed.targets()):
            found |= await self._lookups.find_all(above)
        if found != self._gathering.scales:
            self._gathering.put_scales(found)
