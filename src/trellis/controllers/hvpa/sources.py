"""How are the HPA and the VPA of an Hvpa kept as they should be? Made, set right and removed, and not too often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from trellis.api.hvpa import Hvpa
from trellis.api.resolve import EffectiveHvpa
from trellis.controllers.hvpa.keeping import PASSING, Known
from trellis.controllers.hvpa.owned import NAME_TAKEN, SOURCE_REFUSED, Upkeep, hpa_upkeep, made_of, vpa_upkeep
from trellis.controllers.hvpa.publishing import Said
from trellis.core.hvpa.surroundings import Surroundings
from trellis.kube.actions import Action
from trellis.kube.outcomes import Result
from trellis.kube.writer import Writer

# The same write is not tried again for so long: the watch may be late, and somebody may undo it each time.
AGAIN_SECONDS: Final = 30.0


class Sources:
    """Keeps HPAs and VPAs. `now` is the wall clock."""

    def __init__(self, writer: Writer, now: Callable[[], float]) -> None:
        self._writer = writer
        self._now = now

    async def keep(self, hvpa: Hvpa, known: Known, meaning: EffectiveHvpa, around: Surroundings) -> list[Said]:
        """Make both what they should be; what is in the way of it."""
        hpa = await self._keep(known, "HPA", hpa_upkeep(hvpa, meaning, around.hpas, known.made.get("HPA")))
        vpa = await self._keep(known, "VPA", vpa_upkeep(hvpa, meaning, around.vpas, known.made.get("VPA")))
        return hpa + vpa

    async def _keep(self, known: Known, kind: str, upkeep: Upkeep) -> list[Said]:
        if not upkeep.actions:
            known.refusals.pop(kind, None)
        for action in upkeep.actions:
            await self._write(known, kind, upkeep, action)
        taken = [Said(NAME_TAKEN, upkeep.taken)] if upkeep.taken else []
        refused = known.refusals.get(kind)
        return [*taken, Said(SOURCE_REFUSED, refused)] if refused else taken

    async def _write(self, known: Known, kind: str, upkeep: Upkeep, action: Action) -> None:
        now, what = self._now(), f"{type(action).__name__} {kind} {known.generation}"
        if now < known.upkeep.get(what, now):
            return
        known.upkeep = {each: until for each, until in known.upkeep.items() if now < until}
        known.upkeep[what] = now + AGAIN_SECONDS
        outcome = await self._writer.write(action)
        if outcome.result in PASSING:
            del known.upkeep[what]
            known.unwritten = True
        if outcome.result in (Result.INVALID, Result.FORBIDDEN):
            known.refusals[kind] = f"{kind}: {outcome.message}"
        elif outcome.applied:
            known.refusals.pop(kind, None)
            if (made := made_of(upkeep, outcome.body)) is not None:
                known.made[kind] = made
