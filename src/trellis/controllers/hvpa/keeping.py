"""What does the controller remember of an Hvpa between two looks?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from trellis.api.hvpa import Hvpa
from trellis.api.vpa import PodRecommendation
from trellis.controllers.hvpa.believing import SaidBefore
from trellis.controllers.hvpa.owned import Made
from trellis.controllers.hvpa.publishing import FIELD_MANAGER
from trellis.core.hvpa import Meaning, Memory, recalled
from trellis.core.hvpa.reading import meaning_of
from trellis.core.hvpa.viewing import Edit, wisher_of
from trellis.core.model.keys import Key
from trellis.core.model.selecting import Selecting
from trellis.kube.outcomes import Outcome, Result

# Of more than these the rest says little more; they would pile up where no plan can be made, for want of a target.
_MOST_EDITS: Final = 1_000

# What becomes of a write that may go well the next time, and that nobody but us would try again.
PASSING: Final = frozenset({Result.FAILED, Result.THROTTLED, Result.CONFLICT})


class Written(msgspec.Struct, frozen=True):
    """Something that we wrote into an Hvpa, and its version then: until the watch shows that, ours is what is true."""

    version: str
    replicas: int | None = None
    recommendation: PodRecommendation | None = None


class Known(msgspec.Struct):
    """What is remembered of one Hvpa."""

    uid: str
    memory: Memory
    # Of the target's scale: a target that was made anew is another one.
    target: str = ""
    # The kind and the name of the target, whether the size in the status is still that of another one, and what
    # recommenders have said of that.
    reference: tuple[str, str] = ("", "")
    strange: bool = False
    before: SaidBefore | None = None
    meaning: Meaning | None = None
    refused: str = ""
    generation: int = -1
    replicas: Written | None = None
    size: Written | None = None
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
    edits: tuple[Edit, ...] = ()
    # When a write of an owned object may be tried again, what the API server said of one that it refused, and what it
    # made of one that it did not.
    upkeep: dict[str, float] = msgspec.field(default_factory=dict)
    refusals: dict[str, str] = msgspec.field(default_factory=dict)
    made: dict[str, Made] = msgspec.field(default_factory=dict)

    def turn(self, hvpa: Hvpa, now: float) -> None:
        """From here on the target is another one than the status is about."""
        self.memory = Memory(anew=now)
        self.strange = True
        self.before = SaidBefore(hvpa.status.totals if hvpa.status is not None else None)

    def wish(self, hvpa: Hvpa) -> int | None:
        """What `spec.replicas` says, our own last write included."""
        if self.replicas is not None and _is_older(hvpa, self.replicas):
            return self.replicas.replicas
        return hvpa.spec.replicas

    def wisher(self, hvpa: Hvpa) -> str:
        """Which other writer `spec.replicas` is of, if it is known."""
        ours_is_newer = self.replicas is not None and _is_older(hvpa, self.replicas)
        return "" if ours_is_newer else wisher_of(hvpa, FIELD_MANAGER)

    def published(self, hvpa: Hvpa) -> PodRecommendation | None:
        """What the status says of the size, our own last write included; nothing if it is of another target."""
        if self.strange:
            return None
        if self.size is not None and _is_older(hvpa, self.size):
            return self.size.recommendation
        return hvpa.status.recommendation if hvpa.status is not None else None


class Keeping:
    """What is remembered of all of them."""

    def __init__(self) -> None:
        self._known: dict[Key, Known] = {}
        self.selecting = Selecting()

    def of(self, hvpa: Hvpa, now: float) -> Known:
        """What is remembered of one; another object of the same name begins anew, and so does one for another target.

        What that has needed says nothing of the new one, in the status neither.
        """
        key, target = (hvpa.metadata.namespace, hvpa.metadata.name), hvpa.spec.target_ref
        known, reference = self._known.get(key), (target.kind, target.name)
        if known is None or known.uid != hvpa.metadata.uid:
            self.selecting.forget(key)
            known = self._known[key] = Known(hvpa.metadata.uid, recalled(hvpa.status, now), reference=reference)
        elif known.reference != reference:
            self.selecting.forget(key)
            known = self._known[key] = Known(hvpa.metadata.uid, Memory(), reference=reference)
            known.turn(hvpa, now)
        if known.generation != hvpa.metadata.generation or known.generation == 0:
            known.meaning, known.refused = meaning_of(hvpa)
            known.generation = hvpa.metadata.generation
        return known

    def note(self, key: Key, edit: Edit) -> None:
        """A pod of one was changed, which the next plan is told."""
        known = self._known.get(key)
        if known is not None and len(known.edits) < _MOST_EDITS:
            known.edits = (*known.edits, edit)

    def forget(self, key: Key) -> None:
        """It is gone."""
        self._known.pop(key, None)
        self.selecting.forget(key)

    def begin_anew(self) -> None:
        """Forget all: somebody else has led in the meantime."""
        self._known.clear()
        self.selecting.clear()

    def all(self) -> Iterable[Known]:
        """All of them."""
        return self._known.values()


def written(outcome: Outcome, replicas: int | None = None, size: PodRecommendation | None = None) -> Written | None:
    """What is to be held against the watch after a write."""
    return Written(outcome.resource_version, replicas, size) if outcome.applied else None


def _is_older(hvpa: Hvpa, ours: Written) -> bool:
    """Whether the watch has not shown our write yet. Versions of one kind are numbers that grow."""
    seen = hvpa.metadata.resource_version
    if seen.isdigit() and ours.version.isdigit():
        return int(seen) < int(ours.version)
    return False
