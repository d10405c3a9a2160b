"""What does the controller remember of a CapacityBuffer between two looks?"""

from __future__ import annotations

from collections import Counter

import msgspec

from trellis.api.kube.capacity_buffers import CapacityBuffer, ScalableReference
from trellis.api.kube.pods import PodTemplate
from trellis.base.selectors import Selector
from trellis.controllers.buffers.keeping import ShownPod, ShownTemplate
from trellis.core.buffers import Facts, Translation
from trellis.core.buffers.status import LIMITED_BY_QUOTAS
from trellis.core.model.keys import Key
from trellis.core.model.selecting import Selecting


class KnownCapacity(msgspec.Struct):
    """What is remembered of one."""

    uid: str
    generation: int
    workload: ScalableReference | None
    # Whether what the status says is of the same workload, though of a spec before this one.
    target_stays: bool = False
    selection: tuple[object, Selector] | None = None
    pod: ShownPod | None = None
    template: ShownTemplate | None = None
    facts: Facts | None = None
    # Since when, on the loop's clock, its workload may not be read.
    forbidden_since: float | None = None
    made: Translation | None = None
    # The object, the translation and the template that are known to agree.
    told: tuple[CapacityBuffer, Translation, PodTemplate | None] | None = None
    verdict: str = ""
    notes: frozenset[str] = frozenset()


class CapacityKeeping:
    """What is remembered of all of them. `selecting` has the pods of their workloads, and of those of Buffers."""

    def __init__(self, selecting: Selecting) -> None:
        self._selecting = selecting
        self._known: dict[Key, KnownCapacity] = {}

    def of(self, key: Key, buffer: CapacityBuffer) -> KnownCapacity:
        """What is remembered of one; another object of the same name, and another spec, begin anew."""
        metadata, before = buffer.metadata, self._known.get(key)
        if before is not None and (before.uid, before.generation) == (metadata.uid, metadata.generation):
            return before
        self._selecting.forget(key)
        known = self._known[key] = KnownCapacity(metadata.uid, metadata.generation, buffer.spec.scalable_ref)
        if before is not None and before.uid == metadata.uid:
            told = before.target_stays or told_of(buffer) == before.generation
            known.target_stays = told and before.workload == known.workload
            known.verdict, known.notes = before.verdict, before.notes
        return known

    def forget(self, key: Key) -> None:
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


def told_of(buffer: CapacityBuffer) -> int | None:
    """The generation that the status is about."""
    conditions = buffer.status.conditions
    return next((each.observed_generation for each in conditions if each.type == LIMITED_BY_QUOTAS), None)
