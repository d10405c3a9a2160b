"""What is kept of each Hvpa between reconciles: the plan's memory, and own writes until the watch shows them.

After `spec.targetRef` changes, recommendations made before are of the old target. A recommendation stays in place until
its recommender's next pass; until then `StaleRecommendations` hides it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from trellis.api.kinds.hvpa import Hvpa, ResourceTotals
from trellis.api.kinds.vpa import PodRecommendation, VerticalPodAutoscaler
from trellis.controllers.hvpa.owned_autoscalers import StoredSpec
from trellis.controllers.hvpa.status import FIELD_MANAGER
from trellis.core.cluster.store import ObjectKey
from trellis.core.cluster.target_selectors import TargetSelectorIndex
from trellis.core.hvpa import HvpaMemory, ResolvedHvpa, restore_memory
from trellis.core.hvpa.autoscalers import RelatedAutoscalers, is_owned_by, is_reference_to
from trellis.core.hvpa.view import read_hvpa
from trellis.core.hvpa.view_builder import PodEdit, find_scale_writer
from trellis.kube.write.outcomes import Result, WriteOutcome


class StaleRecommendations(msgspec.Struct):
    """Recommendations for the previous target, until each recommender has published a new one.

    `uid`, `generation` and `advice` are those of the owned VPA when it was first observed with the new target.
    """

    totals: ResourceTotals | None
    is_awaited: bool = True
    uid: str | None = None
    generation: int = 0
    advice: PodRecommendation | None = None

    def hide_stale(self, hvpa: Hvpa, related: RelatedAutoscalers) -> tuple[Hvpa, RelatedAutoscalers]:
        """An Hvpa and its related autoscalers, without stale recommendations."""
        if self.totals is not None and hvpa.status is not None:
            if hvpa.status.totals == self.totals:
                hvpa = msgspec.structs.replace(hvpa, status=msgspec.structs.replace(hvpa.status, totals=None))
            else:
                self.totals = None
        vpas = [_without_status(vpa) if self._is_old(vpa, hvpa) else vpa for vpa in related.vpas]
        return hvpa, msgspec.structs.replace(related, vpas=vpas)

    def _is_old(self, vpa: VerticalPodAutoscaler, hvpa: Hvpa) -> bool:
        target = vpa.spec.target_ref
        if not self.is_awaited or not is_owned_by(vpa.metadata, hvpa):
            return False
        if not is_reference_to(hvpa.spec.target_ref, target.kind, target.name):
            # It does not have the new target yet, and is not read before.
            return False
        metadata, advice = vpa.metadata, vpa.status.recommendation if vpa.status is not None else None
        if self.uid is None:
            self.uid, self.generation, self.advice = metadata.uid, metadata.generation, advice
        # Not every recommender publishes the generation that its recommendation is for.
        observed = vpa.status.observed_generation if vpa.status is not None else None
        is_old = advice == self.advice if observed is None else observed < self.generation
        # A VPA that was created since never had another target.
        self.is_awaited = is_old and metadata.uid == self.uid
        return self.is_awaited


def _without_status(vpa: VerticalPodAutoscaler) -> VerticalPodAutoscaler:
    return msgspec.structs.replace(vpa, status=None)


# The most edits that are kept: without a target no plan takes them, and they would pile up.
_MAX_EDITS: Final = 1_000

# Results of writes that may succeed the next time, and that only another reconcile retries.
RETRIABLE: Final = frozenset({Result.FAILED, Result.THROTTLED, Result.CONFLICT})


class PendingWrite(msgspec.Struct, frozen=True):
    """A write to an Hvpa and the resulting version: used until the watch shows that version."""

    version: str
    replicas: int | None = None
    recommendation: PodRecommendation | None = None


class HvpaState(msgspec.Struct):
    """State of one Hvpa between reconciles."""

    uid: str
    memory: HvpaMemory
    # The UID of the target's scale: a target that was created again is another one.
    target: str = ""
    # The kind and the name of the target, whether the size in the status is still that of another one, and what
    # recommenders published for that.
    reference: tuple[str, str] = ("", "")
    has_foreign_status: bool = False
    stale_recommendations: StaleRecommendations | None = None
    meaning: ResolvedHvpa | None = None
    validation_error: str = ""
    generation: int = -1
    pending_replicas: PendingWrite | None = None
    pending_size: PendingWrite | None = None
    last_decision: tuple[str, str] = ("", "")
    notes: frozenset[str] = frozenset()
    # The notes that an Event has been recorded of, with what they are about where each of them is news.
    recorded_notes: frozenset[tuple[str, str]] = frozenset()
    blocked: tuple[tuple[str, str], ...] = ()
    # Whether a write of the last reconcile failed that only another reconcile retries.
    needs_retry: bool = False
    # How many pods the target's status counts, how many there are if that is another number, and since when.
    pod_count_mismatch: tuple[int, int, float] | None = None
    # The changes of its pods since the last plan.
    edits: tuple[PodEdit, ...] = ()
    # When a write of an owned object may be retried, the messages of refused writes, and the specs that were stored.
    retry_times: dict[str, float] = msgspec.field(default_factory=dict)
    refusals: dict[str, str] = msgspec.field(default_factory=dict)
    stored_specs: dict[str, StoredSpec] = msgspec.field(default_factory=dict)

    def reset_for_new_target(self, hvpa: Hvpa, now: float) -> None:
        """Discard the state that belongs to the previous target."""
        self.memory = HvpaMemory(target_changed_at=now)
        self.has_foreign_status = True
        self.stale_recommendations = StaleRecommendations(hvpa.status.totals if hvpa.status is not None else None)

    def read_spec_replicas(self, hvpa: Hvpa) -> int | None:
        """`spec.replicas` with the pending write applied."""
        if self.pending_replicas is not None and _is_older(hvpa, self.pending_replicas):
            return self.pending_replicas.replicas
        return hvpa.spec.replicas

    def find_scale_writer(self, hvpa: Hvpa) -> str:
        """The field manager, other than this controller, that set `spec.replicas`; empty if unknown."""
        is_pending = self.pending_replicas is not None and _is_older(hvpa, self.pending_replicas)
        return "" if is_pending else find_scale_writer(hvpa, FIELD_MANAGER)

    def find_published(self, hvpa: Hvpa) -> PodRecommendation | None:
        """The published size with the pending write applied; None if it is that of another target."""
        if self.has_foreign_status:
            return None
        if self.pending_size is not None and _is_older(hvpa, self.pending_size):
            return self.pending_size.recommendation
        return hvpa.status.recommendation if hvpa.status is not None else None


class HvpaStates:
    """The states of all Hvpas."""

    def __init__(self) -> None:
        self._states: dict[ObjectKey, HvpaState] = {}
        self.selectors = TargetSelectorIndex()

    def get_or_create(self, hvpa: Hvpa, now: float) -> HvpaState:
        """The state of an Hvpa; a new UID or another target starts a new one.

        What one target needed says nothing about another, and neither does the status about it.
        """
        key, target = (hvpa.metadata.namespace, hvpa.metadata.name), hvpa.spec.target_ref
        state, reference = self._states.get(key), (target.kind, target.name)
        if state is None or state.uid != hvpa.metadata.uid:
            self.selectors.forget(key)
            state = self._states[key] = HvpaState(
                hvpa.metadata.uid, restore_memory(hvpa.status, now), reference=reference
            )
        elif state.reference != reference:
            self.selectors.forget(key)
            state = self._states[key] = HvpaState(hvpa.metadata.uid, HvpaMemory(), reference=reference)
            state.reset_for_new_target(hvpa, now)
        if state.generation != hvpa.metadata.generation or state.generation == 0:
            state.meaning, state.validation_error = read_hvpa(hvpa)
            state.generation = hvpa.metadata.generation
        return state

    def add_edit(self, key: ObjectKey, edit: PodEdit) -> None:
        """Keep the change of a pod for the next plan."""
        state = self._states.get(key)
        if state is not None and len(state.edits) < _MAX_EDITS:
            state.edits = (*state.edits, edit)

    def forget(self, key: ObjectKey) -> None:
        """Forget an Hvpa that is deleted."""
        self._states.pop(key, None)
        self.selectors.forget(key)

    def clear(self) -> None:
        """Forget all, because another process has led in the meantime."""
        self._states.clear()
        self.selectors.clear()

    def all(self) -> Iterable[HvpaState]:
        """The states of all Hvpas."""
        return self._states.values()


def build_pending_write(
    outcome: WriteOutcome, replicas: int | None = None, size: PodRecommendation | None = None
) -> PendingWrite | None:
    """The pending write after an outcome; None if it was not applied."""
    return PendingWrite(outcome.resource_version, replicas, size) if outcome.applied else None


def _is_older(hvpa: Hvpa, write: PendingWrite) -> bool:
    """Whether the watch has not shown the write yet. Versions of one kind are increasing numbers."""
    observed = hvpa.metadata.resource_version
    if observed.isdigit() and write.version.isdigit():
        return int(observed) < int(write.version)
    return False
