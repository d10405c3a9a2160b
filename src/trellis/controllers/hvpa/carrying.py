"""How is a plan carried out? The target's scale is written first, then the Hvpa's `spec.replicas`.

What became of each write is remembered, so that the next plan neither takes our own count for somebody else's nor reads
a wish that has been acted on.
"""

from __future__ import annotations

import msgspec

from trellis.api.hvpa import Hvpa
from trellis.controllers.hvpa import metrics as named
from trellis.controllers.hvpa.keeping import Known, written
from trellis.controllers.hvpa.targets import Scaled
from trellis.core.hvpa import Plan, SetScale, View, WriteBack, unwritten
from trellis.kube import actions
from trellis.kube.outcomes import Outcome, Result
from trellis.kube.patches import json_patch
from trellis.kube.resources import HVPAS
from trellis.kube.writer import Writer
from trellis.runtime.metrics import Metrics


class Carrying:
    """Carries plans out."""

    def __init__(self, writer: Writer, metrics: Metrics) -> None:
        self._writer = writer
        self._metrics = metrics

    async def out(self, hvpa: Hvpa, known: Known, found: Scaled, view: View, made: Plan) -> Outcome | None:
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
                outcome = await self._writer.write(actions.SetScale(target, action.replicas))
                if outcome.applied:
                    self._metrics.add(named.SCALED, 1, "Up" if action.replicas > view.replicas else "Down")
                elif outcome.result is Result.SKIPPED:
                    # Who only reads finds the count next time as it is now.
                    memory = msgspec.structs.replace(memory, count=view.replicas)
                else:
                    if outcome.uncertain:
                        # What may stand there all the same would pass for somebody else's, and what is done after it
                        # has to wait for pods that may be on their way.
                        known.memory = msgspec.structs.replace(unwritten(memory), count=None)
                    return outcome
            elif isinstance(action, WriteBack):
                outcome = await self._writer.write(_write_back(hvpa, view.wish, action.replicas))
                known.replicas = written(outcome, replicas=action.replicas)
                if outcome.result is Result.SKIPPED:
                    # Who only reads leaves standing what is there, and knows it.
                    memory = msgspec.structs.replace(memory, left=view.wish)
                elif not outcome.applied:
                    memory, known.unwritten = unwritten(memory), True
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
