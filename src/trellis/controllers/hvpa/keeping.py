"""What does the controller remember of an Hvpa between two looks?"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from trellis.api.hvpa import Hvpa
from trellis.api.kinds import HVPA
from trellis.api.resolve import resolve_hvpa
from trellis.api.validate import validate
from trellis.api.vpa import PodRecommendation
from trellis.base.selectors import Selector
from trellis.core.hvpa import Meaning, Memory, recalled
from trellis.core.model.keys import Key
from trellis.kube.outcomes import Outcome

_NOTHING = Selector.nothing()


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
    selector: Selector = _NOTHING
    meaning: Meaning | None = None
    refused: str = ""
    generation: int = -1
    replicas: Written | None = None
    size: Written | None = None
    verdict: tuple[str, str] = ("", "")
    notes: frozenset[str] = frozenset()
    blocked: tuple[tuple[str, str], ...] = ()
    # When a write of an owned object may be tried again, and what the API server said of one that it refused.
    upkeep: dict[str, float] = msgspec.field(default_factory=dict)
    refusals: dict[str, str] = msgspec.field(default_factory=dict)

    def wish(self, hvpa: Hvpa) -> int | None:
        """What `spec.replicas` says, our own last write included."""
        if self.replicas is not None and _is_older(hvpa, self.replicas):
            return self.replicas.replicas
        return hvpa.spec.replicas

    def published(self, hvpa: Hvpa) -> PodRecommendation | None:
        """What the status says of the size, our own last write included."""
        if self.size is not None and _is_older(hvpa, self.size):
            return self.size.recommendation
        return hvpa.status.recommendation if hvpa.status is not None else None


class Keeping:
    """What is remembered of all of them."""

    def __init__(self) -> None:
        self._known: dict[Key, Known] = {}

    def of(self, hvpa: Hvpa, now: float) -> Known:
        """What is remembered of one; another object of the same name begins anew."""
        key = hvpa.metadata.namespace, hvpa.metadata.name
        known = self._known.get(key)
        if known is None or known.uid != hvpa.metadata.uid:
            known = self._known[key] = Known(hvpa.metadata.uid, recalled(hvpa.status, now))
        if known.generation != hvpa.metadata.generation or known.generation == 0:
            known.meaning, known.refused = _meaning(hvpa)
            known.generation = hvpa.metadata.generation
        return known

    def forget(self, key: Key) -> None:
        """It is gone."""
        self._known.pop(key, None)

    def begin_anew(self) -> None:
        """Forget all: somebody else has led in the meantime."""
        self._known.clear()

    def selector(self, key: Key) -> Selector:
        """Which pods are those of its target, as far as that is known."""
        known = self._known.get(key)
        return known.selector if known is not None else _NOTHING

    def all(self) -> Iterable[Known]:
        """All of them."""
        return self._known.values()


def written(outcome: Outcome, replicas: int | None = None, size: PodRecommendation | None = None) -> Written | None:
    """What is to be held against the watch after a write."""
    return Written(outcome.resource_version, replicas, size) if outcome.applied else None


def _meaning(hvpa: Hvpa) -> tuple[Meaning | None, str]:
    """What it means, or why that cannot be said: it may have been stored before the rules were there."""
    spec = msgspec.to_builtins(hvpa.spec)
    found = [each.message for each in validate(HVPA, {"metadata": {"name": "x"}, "spec": spec}) if each.is_error]
    return (None, "; ".join(found)) if found else (Meaning.of(resolve_hvpa(hvpa)), "")


def _is_older(hvpa: Hvpa, ours: Written) -> bool:
    """Whether the watch has not shown our write yet. Versions of one kind are numbers that grow."""
    seen = hvpa.metadata.resource_version
    if seen.isdigit() and ours.version.isdigit():
        return int(seen) < int(ours.version)
    return False
