"""What the controller keeps of each CapacityBuffer between reconciles."""

from __future__ import annotations

from collections import Counter

import msgspec

from trellis.api.kube.capacity_buffers import CapacityBuffer, ScalableReference
from trellis.api.kube.pods import PodTemplate
from trellis.base.selectors import Selector
from trellis.controllers.buffers.state import ShapePod, ShapeTemplate
from trellis.core.buffers import Translation, TranslationFacts
from trellis.core.buffers.status import LIMITED_BY_QUOTAS
from trellis.core.cluster.store import ObjectKey
from trellis.core.cluster.target_selectors import TargetSelectorIndex


class CapacityBufferState(msgspec.Struct):
    """What is remembered of one."""

    uid: str
    generation: int
    workload: ScalableReference | None
    # Whether what the status says is of the same workload, though of a spec before this one.
    target_stays: bool = False
    selection: tuple[object, Selector] | None = None
    pod: ShapePod | None = None
    template: ShapeTemplate | None = None
    facts: TranslationFacts | None = None
    # Since when, on the loop's clock, its workload may not be read.
    forbidden_since: float | None = None
    made: Translation | None = None
    # The object, the translation and the template that are known to agree.
    told: tuple[CapacityBuffer, Translation, PodTemplate | None] | None = None
    verdict: str = ""
    notes: frozenset[str] = frozenset()


class CapacityBufferStates:
    """What is remembered of all of them. `selecting` has the pods of their workloads, and of those of Buffers."""

    def __init__(self, selecting: TargetSelectorIndex) -> None:
        self._selecting = selecting
        self._known: dict[ObjectKey, CapacityBufferState] = {}

    def of(self, key: ObjectKey, buffer: CapacityBuffer) -> CapacityBufferState:
        """What is remembered of one; another object of the same name, and another spec, begin anew."""
        metadata, before = buffer.metadata, self._known.get(key)
        if before is not None and (before.uid, before.generation) == (metadata.uid, metadata.generation):
            return before
        self._selecting.forget(key)
        known = self._known[key] = CapacityBufferState(metadata.uid, metadata.generation, buffer.spec.scalable_ref)
        if before is not None and before.uid == metadata.uid:
            told = before.target_stays or observed_generation(buffer) == before.generation
            known.target_stays = told and before.workload == known.workload
            known.verdict, known.notes = before.verdict, before.notes
        return known

    def forget(self, key: ObjectKey) -> None:
        """It is gone, or none of ours."""
        self._known.pop(key, None)
        self._selecting.forget(key)

    def forget_templates(self, namespace: str) -> None:
        """What admission makes of pods there may be something else now."""
        for key, known in self._known.items():
            if key[0] == namespace:
                known.template = None

    def begin_anew(self) -> None:
        """Forget all: somebody else has led in the meantime."""
        self._known.clear()

    def verdicts(self) -> Counter[str]:
        """How many there are of each verdict."""
        return Counter(each.verdict for each in self._known.values() if each.verdict)


def observed_generation(buffer: CapacityBuffer) -> int | None:
    """The generation that the status is about."""
    conditions = buffer.status.conditions
    return next((each.observed_generation for each in conditions if each.type == LIMITED_BY_QUOTAS), None)
