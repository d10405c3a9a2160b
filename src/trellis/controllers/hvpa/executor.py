"""Executes plans: writes the target's scale, then the Hvpa's `spec.replicas`; maintains its HPA and VPA.

The result of each write is kept, so that the next plan neither takes its own count for that of another writer nor reads
a `spec.replicas` that was acted on. The same write to an owned object is not repeated within 30 seconds: the watch
may be late, or another writer may undo it each time.
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
    OWNED_AUTOSCALER_REFUSED,
    AutoscalerUpkeep,
    plan_hpa_upkeep,
    plan_vpa_upkeep,
    read_stored_spec,
)
from trellis.controllers.hvpa.state import RETRIABLE, HvpaState, build_pending_write
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
    """Executes plans."""

    def __init__(self, writer: Writer, metrics: Metrics) -> None:
        self._writer = writer
        self._metrics = metrics

    async def execute(
        self, hvpa: Hvpa, state: HvpaState, target: TargetScale, view: HvpaView, plan: HvpaPlan
    ) -> WriteOutcome | None:
        """Execute a plan and remember it in the state; the failed write, if the target could not be scaled."""
        memory = plan.memory
        for action in plan.actions:
            if isinstance(action, SetScale):
                metadata = target.scale.metadata
                scaled = actions.Target(
                    target.resource,
                    hvpa.spec.target_ref.name,
                    hvpa.metadata.namespace,
                    metadata.uid,
                    metadata.resource_version,
                )
                outcome = await self._writer.write(actions.PatchScale(scaled, action.replicas))
                if outcome.applied:
                    self._metrics.add(named.SCALED, 1, named.UP if action.replicas > view.replicas else named.DOWN)
                elif outcome.result is Result.SKIPPED:
                    # A read-only process finds the same count next time.
                    memory = msgspec.structs.replace(memory, target_replicas=view.replicas)
                else:
                    if outcome.uncertain:
                        # The count may be written all the same. It would pass for that of another writer, and what is
                        # done after it has to wait for pods that may be created.
                        state.memory = msgspec.structs.replace(forget_written_replicas(memory), target_replicas=None)
                    return outcome
            elif isinstance(action, WriteBack):
                outcome = await self._writer.write(_write_back(hvpa, view.spec_replicas, action.replicas))
                state.pending_replicas = build_pending_write(outcome, replicas=action.replicas)
                if outcome.result is Result.SKIPPED:
                    # A read-only process leaves what is there, and remembers it.
                    memory = msgspec.structs.replace(memory, spec_replicas=view.spec_replicas)
                elif not outcome.applied:
                    memory, state.needs_retry = forget_written_replicas(memory), True
        state.memory = memory
        return None


def _write_back(hvpa: Hvpa, observed: int | None, replicas: int) -> actions.Action:
    """Set `spec.replicas`, but only if it is still what was read: an HPA may have written in the meantime."""
    operations: list[dict[str, object]] = []
    if observed is not None:
        operations.append({"op": "test", "path": "/spec/replicas", "value": observed})
    operations.append({"op": "add", "path": "/spec/replicas", "value": replicas})
    target = actions.build_target(HVPAS, hvpa, with_version=observed is None)
    return actions.PatchObject(target, json_patch(operations))


# Seconds in which the same write is not repeated: the watch may be late, or another writer may undo it each time.
RETRY_SECONDS: Final = 30.0


class OwnedAutoscalers:
    """Maintains the HPA and the VPA that an Hvpa owns. `now` is the wall clock."""

    def __init__(self, writer: Writer, now: Callable[[], float]) -> None:
        self._writer = writer
        self._now = now

    async def maintain(
        self, hvpa: Hvpa, state: HvpaState, effective: EffectiveHvpa, related: RelatedAutoscalers
    ) -> list[HvpaNote]:
        """Make both what they should be; the notes say what prevents it."""
        hpa = await self._maintain(
            state, "HPA", plan_hpa_upkeep(hvpa, effective, related.hpas, state.stored_specs.get("HPA"))
        )
        vpa = await self._maintain(
            state, "VPA", plan_vpa_upkeep(hvpa, effective, related.vpas, state.stored_specs.get("VPA"))
        )
        return hpa + vpa

    async def _maintain(self, state: HvpaState, kind: str, upkeep: AutoscalerUpkeep) -> list[HvpaNote]:
        if not upkeep.actions:
            state.refusals.pop(kind, None)
        for action in upkeep.actions:
            await self._write(state, kind, upkeep, action)
        notes = [HvpaNote(NAME_TAKEN, upkeep.name_conflict)] if upkeep.name_conflict else []
        refusal = state.refusals.get(kind)
        return [*notes, HvpaNote(OWNED_AUTOSCALER_REFUSED, refusal)] if refusal else notes

    async def _write(self, state: HvpaState, kind: str, upkeep: AutoscalerUpkeep, action: Action) -> None:
        now, key = self._now(), f"{type(action).__name__} {kind} {state.generation}"
        if now < state.retry_times.get(key, now):
            return
        state.retry_times = {write: until for write, until in state.retry_times.items() if now < until}
        state.retry_times[key] = now + RETRY_SECONDS
        outcome = await self._writer.write(action)
        if outcome.result in RETRIABLE:
            del state.retry_times[key]
            state.needs_retry = True
        if outcome.result in (Result.INVALID, Result.FORBIDDEN):
            state.refusals[kind] = f"{kind}: {outcome.message}"
        elif outcome.applied:
            state.refusals.pop(kind, None)
            if (stored := read_stored_spec(upkeep, outcome.body)) is not None:
                state.stored_specs[kind] = stored
