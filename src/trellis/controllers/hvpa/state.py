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
    """What recommenders had said when the target became another one; nothing once all of them have said more.

    `uid`, `generation` and `advice` are those of its own VPA when that was first seen with the new target.
    """

    totals: ResourceTotals | None
    is_awaited: bool = True
    uid: str | None = None
    generation: int = 0
    advice: PodRecommendation | None = None

    def without_it(self, hvpa: Hvpa, around: RelatedAutoscalers) -> tuple[Hvpa, RelatedAutoscalers]:
        """An Hvpa and what is around it, as if it had not been said."""
        if self.totals is not None and hvpa.status is not None:
            if hvpa.status.totals == self.totals:
                hvpa = msgspec.structs.replace(hvpa, status=msgspec.structs.replace(hvpa.status, totals=None))
            else:
                self.totals = None
        vpas = [_without_status(each) if self._is_old(each, hvpa) else each for each in around.vpas]
        return hvpa, msgspec.structs.replace(around, vpas=vpas)

    def _is_old(self, vpa: VerticalPodAutoscaler, hvpa: Hvpa) -> bool:
        target = vpa.spec.target_ref
        if not self.is_awaited or not is_owned_by(vpa.metadata, hvpa):
            return False
        if not is_reference_to(hvpa.spec.target_ref, target.kind, target.name):
            # It is still to be pointed at the new target, and nobody listens to it before.
            return False
        metadata, advice = vpa.metadata, vpa.status.recommendation if vpa.status is not None else None
        if self.uid is None:
            self.uid, self.generation, self.advice = metadata.uid, metadata.generation, advice
        # Not every recommender tells which spec its recommendation is for.
        observed = vpa.status.observed_generation if vpa.status is not None else None
        is_old = advice == self.advice if observed is None else observed < self.generation
        # One that was made since has never been about another target.
        self.is_awaited = is_old and metadata.uid == self.uid
        return self.is_awaited


def _without_status(vpa: VerticalPodAutoscaler) -> VerticalPodAutoscaler:
    return msgspec.structs.replace(vpa, status=None)


# Of more than these the rest says little more; they would pile up where no plan can be made, for want of a target.
_MOST_EDITS: Final = 1_000

# What becomes of a write that may go well the next time, and that nobody but us would try again.
RETRIABLE: Final = frozenset({Result.FAILED, Result.THROTTLED, Result.CONFLICT})


class PendingWrite(msgspec.Struct, frozen=True):
    """Something that we wrote into an Hvpa, and its version then: until the watch shows that, ours is what is true."""

    version: str
    replicas: int | None = None
    recommendation: PodRecommendation | None = None


class HvpaState(msgspec.Struct):
    """What is remembered of one Hvpa."""

    uid: str
    memory: HvpaMemory
    # Of the target's scale: a target that was made anew is another one.
    target: str = ""
    # The kind and the name of the target, whether the size in the status is still that of another one, and what
    # recommenders have said of that.
    reference: tuple[str, str] = ("", "")
    strange: bool = False
    before: StaleRecommendations | None = None
    meaning: ResolvedHvpa | None = None
    refused: str = ""
    generation: int = -1
    replicas: PendingWrite | None = None
    size: PendingWrite | None = None
    verdict: tuple[str, str] = ("", "")
    notes: frozenset[str] = frozenset()
    # The notes that an Event has been recorded of, with what they are about where each of them is news.
    noted: frozenset[tuple[str, str]] = frozenset()
    blocked: tuple[tuple[str, str], ...] = ()
    # Whether a write of the last look failed that only another look would repeat.
    unwritten: bool = False
    # How many pods the target's status counts, how many there are if that is another number, and since when.
    behind: tuple[int, int, float] | None = None
    # What became of its pods since the last plan.
    edits: tuple[PodEdit, ...] = ()
    # When a write of an owned object may be tried again, what the API server said of one that it refused, and what it
    # made of one that it did not.
    upkeep: dict[str, float] = msgspec.field(default_factory=dict)
    refusals: dict[str, str] = msgspec.field(default_factory=dict)
    made: dict[str, StoredSpec] = msgspec.field(default_factory=dict)

    def turn(self, hvpa: Hvpa, now: float) -> None:
        """From here on the target is another one than the status is about."""
        self.memory = HvpaMemory(anew=now)
        self.strange = True
        self.before = StaleRecommendations(hvpa.status.totals if hvpa.status is not None else None)

    def wish(self, hvpa: Hvpa) -> int | None:
        """What `spec.replicas` says, our own last write included."""
        if self.replicas is not None and _is_older(hvpa, self.replicas):
            return self.replicas.replicas
        return hvpa.spec.replicas

    def wisher(self, hvpa: Hvpa) -> str:
        """Which other writer `spec.replicas` is of, if it is known."""
        ours_is_newer = self.replicas is not None and _is_older(hvpa, self.replicas)
        return "" if ours_is_newer else find_scale_writer(hvpa, FIELD_MANAGER)

    def published(self, hvpa: Hvpa) -> PodRecommendation | None:
        """What the status says of the size, our own last write included; nothing if it is of another target."""
        if self.strange:
            return None
        if self.size is not None and _is_older(hvpa, self.size):
            return self.size.recommendation
        return hvpa.status.recommendation if hvpa.status is not None else None


class HvpaStates:
    """What is remembered of all of them."""

    def __init__(self) -> None:
        self._known: dict[ObjectKey, HvpaState] = {}
        self.selecting = TargetSelectorIndex()

    def of(self, hvpa: Hvpa, now: float) -> HvpaState:
        """What is remembered of one; another object of the same name begins anew, and so does one for another target.

        What that has needed says nothing of the new one, in the status neither.
        """
        key, target = (hvpa.metadata.namespace, hvpa.metadata.name), hvpa.spec.target_ref
        known, reference = self._known.get(key), (target.kind, target.name)
        if known is None or known.uid != hvpa.metadata.uid:
            self.selecting.forget(key)
            known = self._known[key] = HvpaState(
                hvpa.metadata.uid, restore_memory(hvpa.status, now), reference=reference
            )
        elif known.reference != reference:
            self.selecting.forget(key)
            known = self._known[key] = HvpaState(hvpa.metadata.uid, HvpaMemory(), reference=reference)
            known.turn(hvpa, now)
        if known.generation != hvpa.metadata.generation or known.generation == 0:
            known.meaning, known.refused = read_hvpa(hvpa)
            known.generation = hvpa.metadata.generation
        return known

    def note(self, key: ObjectKey, edit: PodEdit) -> None:
        """A pod of one was changed, which the next plan is told."""
        known = self._known.get(key)
        if known is not None and len(known.edits) < _MOST_EDITS:
            known.edits = (*known.edits, edit)

    def forget(self, key: ObjectKey) -> None:
        """It is gone."""
        self._known.pop(key, None)
        self.selecting.forget(key)

    def begin_anew(self) -> None:
        """Forget all: somebody else has led in the meantime."""
        self._known.clear()
        self.selecting.clear()

    def all(self) -> Iterable[HvpaState]:
        """All of them."""
        return self._known.values()


def pending_write(
    outcome: WriteOutcome, replicas: int | None = None, size: PodRecommendation | None = None
) -> PendingWrite | None:
    """What is to be held against the watch after a write."""
    return PendingWrite(outcome.resource_version, replicas, size) if outcome.applied else None


def _is_older(hvpa: Hvpa, ours: PendingWrite) -> bool:
    """Whether the watch has not shown our write yet. Versions of one kind are numbers that grow."""
    seen = hvpa.metadata.resource_version
    if seen.isdigit() and ours.version.isdigit():
        return int(seen) < int(ours.version)
    return False
