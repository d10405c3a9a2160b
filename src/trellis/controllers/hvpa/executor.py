"""Executes plans: writes the target's scale, then the Hvpa's `spec.replicas`; maintains its HPA and VPA.

The result of each write is kept, so that the next plan neither takes its own count for somebody else's nor reads a
`spec.replicas` that was acted on. The same write to an owned object is not repeated within 30 seconds: the watch may be
late, or another writer may undo it each time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from trellis.api.kinds.hvpa import Hvpa
from trellis.api.resolve import EffectiveHvpa
from trellis.controllers.hvpa import metrics as named
from trellis.controllers.hvpa.owned_autoscalers import (
    NAME_TAKEN,
    SOURCE_REFUSED,
    AutoscalerUpkeep,
    plan_hpa_upkeep,
    plan_vpa_upkeep,
    read_stored_spec,
)
from trellis.controllers.hvpa.state import RETRIABLE, HvpaState, pending_write
from trellis.controllers.hvpa.status import HvpaNote
from trellis.controllers.hvpa.target_scales import TargetScale
from trellis.core.hvpa import HvpaPlan, HvpaView, SetScale, WriteBack, forget_written_replicas
from trellis.core.hvpa.autoscalers import RelatedAutoscalers
from trellis.kube.resources import HVPAS
from trellis.kube.write import actions
from trellis.kube.write.actions import Action
from trellis.kube.write.outcomes import Result, WriteOutcome
from trellis.kube.write.patches import json_patch
from trellis.kube.write.writer import Writer
from trellis.runtime.telemetry.metrics import Metrics


class HvpaExecutor:
    """Carries plans out."""

    def __init__(self, writer: Writer, metrics: Metrics) -> None:
        self._writer = writer
        self._metrics = metrics

    async def out(
        self, hvpa: Hvpa, known: HvpaState, found: TargetScale, view: HvpaView, made: HvpaPlan
    ) -> WriteOutcome | None:
        """Do what the plan says and remember it; what failed, if the target could not be scaled."""
        memory = made.memory
        for action in made.actions:
            if isinstance(action, SetScale):
                metadata = found.scale.metadata
                target = actions.Target(
                    found.resource,
                    hvpa.spec.target_ref.name,
                    hvpa.metadata.namespace,
                    metadata.uid,
                    metadata.resource_version,
                )
                outcome = await self._writer.write(actions.PatchScale(target, action.replicas))
                if outcome.applied:
                    self._metrics.add(named.SCALED, 1, "Up" if action.replicas > view.replicas else "Down")
                elif outcome.result is Result.SKIPPED:
                    # Who only reads finds the count next time as it is now.
                    memory = msgspec.structs.replace(memory, count=view.replicas)
                else:
                    if outcome.uncertain:
                        # What may stand there all the same would pass for somebody else's, and what is done after it
                        # has to wait for pods that may be on their way.
                        known.memory = msgspec.structs.replace(forget_written_replicas(memory), count=None)
                    return outcome
            elif isinstance(action, WriteBack):
                outcome = await self._writer.write(_write_back(hvpa, view.wish, action.replicas))
                known.replicas = pending_write(outcome, replicas=action.replicas)
                if outcome.result is Result.SKIPPED:
                    # Who only reads leaves standing what is there, and knows it.
                    memory = msgspec.structs.replace(memory, left=view.wish)
                elif not outcome.applied:
                    memory, known.unwritten = forget_written_replicas(memory), True
        known.memory = memory
        return None


def _write_back(hvpa: Hvpa, seen: int | None, replicas: int) -> actions.Action:
    """Set `spec.replicas`, but only if it still says what was read: an HPA may have written in the meantime."""
    operations: list[dict[str, object]] = []
    if seen is not None:
        operations.append({"op": "test", "path": "/spec/replicas", "value": seen})
    operations.append({"op": "add", "path": "/spec/replicas", "value": replicas})
    target = actions.target_of(HVPAS, hvpa, at_this_version=seen is None)
    return actions.PatchObject(target, json_patch(operations))


# The same write is not tried again for so long: the watch may be late, and somebody may undo it each time.
RETRY_SECONDS: Final = 30.0


class OwnedAutoscalers:
    """Keeps HPAs and VPAs. `now` is the wall clock."""

    def __init__(self, writer: Writer, now: Callable[[], float]) -> None:
        self._writer = writer
        self._now = now

    async def keep(
        self, hvpa: Hvpa, known: HvpaState, meaning: EffectiveHvpa, around: RelatedAutoscalers
    ) -> list[HvpaNote]:
        """Make both what they should be; what is in the way of it."""
        hpa = await self._keep(known, "HPA", plan_hpa_upkeep(hvpa, meaning, around.hpas, known.made.get("HPA")))
        vpa = await self._keep(known, "VPA", plan_vpa_upkeep(hvpa, meaning, around.vpas, known.made.get("VPA")))
        return hpa + vpa

    async def _keep(self, known: HvpaState, kind: str, upkeep: AutoscalerUpkeep) -> list[HvpaNote]:
        if not upkeep.actions:
            known.refusals.pop(kind, None)
        for action in upkeep.actions:
            await self._write(known, kind, upkeep, action)
        taken = [HvpaNote(NAME_TAKEN, upkeep.taken)] if upkeep.taken else []
        refused = known.refusals.get(kind)
        return [*taken, HvpaNote(SOURCE_REFUSED, refused)] if refused else taken

    async def _write(self, known: HvpaState, kind: str, upkeep: AutoscalerUpkeep, action: Action) -> None:
        now, what = self._now(), f"{type(action).__name__} {kind} {known.generation}"
        if now < known.upkeep.get(what, now):
            return
        known.upkeep = {each: until for each, until in known.upkeep.items() if now < until}
        known.upkeep[what] = now + RETRY_SECONDS
        outcome = await self._writer.write(action)
        if outcome.result in RETRIABLE:
            del known.upkeep[what]
            known.unwritten = True
        if outcome.result in (Result.INVALID, Result.FORBIDDEN):
            known.refusals[kind] = f"{kind}: {outcome.message}"
        elif outcome.applied:
            known.refusals.pop(kind, None)
            if (made := read_stored_spec(upkeep, outcome.body)) is not None:
                known.made[kind] = made
