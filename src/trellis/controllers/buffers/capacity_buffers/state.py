"""The state of each CapacityBuffer between reconciles."""

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
    """The state of one CapacityBuffer."""

    uid: str
    generation: int
    workload: ScalableReference | None
    # Whether the status is about the same workload, though about an earlier generation.
    target_stays: bool = False
    selection: tuple[object, Selector] | None = None
    pod: ShapePod | None = None
    template: ShapeTemplate | None = None
    facts: TranslationFacts | None = None
    # When, on the loop's clock, a read of its workload was first forbidden.
    forbidden_since: float | None = None
    translation: Translation | None = None
    # The object, the translation and the template of the last complete publish.
    published: tuple[CapacityBuffer, Translation, PodTemplate | None] | None = None
    reason_code: str = ""
    notes: frozenset[str] = frozenset()


class CapacityBufferStates:
    """The states of all CapacityBuffers. `selecting` indexes the pods of their workloads, and of those of Buffers."""

    def __init__(self, selecting: TargetSelectorIndex) -> None:
        self._selecting = selecting
        self._states: dict[ObjectKey, CapacityBufferState] = {}

    def get_or_create(self, key: ObjectKey, buffer: CapacityBuffer) -> CapacityBufferState:
        """The state of a CapacityBuffer; a new UID or generation starts a new one."""
        metadata, before = buffer.metadata, self._states.get(key)
        if before is not None and (before.uid, before.generation) == (metadata.uid, metadata.generation):
            return before
        self._selecting.forget(key)
        state = self._states[key] = CapacityBufferState(metadata.uid, metadata.generation, buffer.spec.scalable_ref)
        if before is not None and before.uid == metadata.uid:
            status_is_current = before.target_stays or observed_generation(buffer) == before.generation
            state.target_stays = status_is_current and before.workload == state.workload
            state.reason_code, state.notes = before.reason_code, before.notes
        return state

    def forget(self, key: ObjectKey) -> None:
        """Forget a CapacityBuffer that is deleted or not managed here."""
        self._states.pop(key, None)
        self._selecting.forget(key)

    def forget_templates(self, namespace: str) -> None:
        """Forget templates of a namespace, because admission may change its pods differently now."""
        for key, state in self._states.items():
            if key[0] == namespace:
                state.template = None

    def begin_anew(self) -> None:
        """Forget all, because another process has led in the meantime."""
        self._states.clear()

    def count_by_reason(self) -> Counter[str]:
        """The number of CapacityBuffers by reason."""
        return Counter(state.reason_code for state in self._states.values() if state.reason_code)


def observed_generation(buffer: CapacityBuffer) -> int | None:
    """The generation that the status is about."""
    conditions = buffer.status.conditions
    return next(
        (condition.observed_generation for condition in conditions if condition.type == LIMITED_BY_QUOTAS), None
    )
