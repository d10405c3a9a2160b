"""What the controller keeps of each Buffer between reconciles, and for how long it is trusted.

The watch reports everything most Buffers depend on; these are reconciled every ten minutes all the same. What no watch
reports is read in every pass: the scale of a kind that is not watched, and the governor of a workload that another one
owns. Capacity is not given up because an API server is slow, or has just started and forbids everything for a moment;
and a scale that is not watched is read again, because it reports pods a moment after they were created.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from typing import Final, Protocol

import msgspec

from trellis.api.kinds.buffer import Buffer
from trellis.api.kube.observed_workloads import ObservedObject
from trellis.api.kube.pods import Pod, PodTemplateSpec
from trellis.api.resolve import EffectiveBuffer, GivenPods, NodeClassTotals, resolve_buffer
from trellis.base.selectors import Selector
from trellis.core.buffers import (
    BufferSettings,
    DetailedReason,
    TargetFacts,
    Translation,
    TranslationFacts,
    find_skip_reason,
)
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.cluster.target_problems import TARGET_FORBIDDEN, TARGET_UNREACHABLE, TargetProblem
from trellis.core.cluster.target_selectors import TargetSelectorIndex
from trellis.core.nodes.buffers.status import ProvisioningReport


class ShapePod(msgspec.Struct, frozen=True):
    """The pod that shows a target's shape, as it was when it was asked for; `mark` tells whether it still is."""

    mark: tuple[object, ...]
    pod: Pod


class ShapeTemplate(msgspec.Struct, frozen=True):
    """A template as the API server would store a pod of it, or as it is written if that was refused.

    `read` is which generation of which workload it is from, `digest` that of the template itself, and `until` how long
    the answer is believed, on the loop's clock.
    """

    read: tuple[str, int]
    digest: bytes
    until: float
    template: PodTemplateSpec
    refusal: str = ""


class TargetState(Protocol):
    """What is remembered of a target between two looks: its selector, and what shows its shape."""

    selection: tuple[object, Selector] | None
    pod: ShapePod | None
    template: ShapeTemplate | None


class BufferState(msgspec.Struct):
    """What is remembered of one Buffer."""

    uid: str
    meaning: EffectiveBuffer
    alone: DetailedReason | None
    generation: int
    # Whether what the status says is of the same target, though of a spec before this one.
    target_stays: bool = False
    # A workload, and its selector in a form that can be asked.
    selection: tuple[object, Selector] | None = None
    pod: ShapePod | None = None
    template: ShapeTemplate | None = None
    facts: TranslationFacts | None = None
    made: Translation | None = None
    # The object, and the translation and the provisioning that it is known to tell.
    told: tuple[Buffer, Translation, ProvisioningReport] | None = None
    settled: Translation | None = None
    # Since when, on the loop's clock, its target may not be read.
    forbidden_since: float | None = None
    # Until then, on the loop's clock, only a change that is told is a reason to look.
    calm_until: float = -math.inf
    verdict: str = ""
    notes: frozenset[str] = frozenset()
    changed: float | None = None


class BufferStates:
    """What is remembered of all of them. `selecting` has the pods of targets, `filling` those that fill Buffers."""

    def __init__(self, settings: BufferSettings) -> None:
        self._settings = settings
        self._known: dict[ObjectKey, BufferState] = {}
        self.selecting = TargetSelectorIndex()
        self.filling = TargetSelectorIndex()
        self.of_classes: set[ObjectKey] = set()

    def of(self, buffer: Buffer) -> BufferState:
        """What is remembered of one; another object of the same name, and another spec, begin anew."""
        key, metadata = key_of(buffer), buffer.metadata
        known = self._known.get(key)
        if known is not None and known.uid == metadata.uid and known.generation == metadata.generation != 0:
            return known
        before = known if known is not None and known.uid == metadata.uid else None
        self.forget(key)
        meaning = resolve_buffer(buffer)
        known = BufferState(metadata.uid, meaning, find_skip_reason(meaning, self._settings), metadata.generation)
        if before is not None and before.meaning.target == meaning.target:
            known.target_stays = before.target_stays or _observed_generation(buffer) == before.generation
            known.pod, known.template, known.selection = before.pod, before.template, before.selection
            known.verdict, known.notes, known.changed = before.verdict, before.notes, before.changed
        self._known[key] = known
        if known.alone is None:
            if meaning.filled_by is not None:
                self.filling.put(key, meaning.filled_by)
            if isinstance(meaning.capacity, NodeClassTotals):
                self.of_classes.add(key)
        return known

    def find(self, key: ObjectKey) -> BufferState | None:
        """What is remembered of the Buffer of this name, if it has been looked at."""
        return self._known.get(key)

    def forget(self, key: ObjectKey) -> None:
        """It is gone."""
        self._known.pop(key, None)
        self.selecting.forget(key)
        self.filling.forget(key)
        self.of_classes.discard(key)

    def forget_templates(self, namespace: str) -> None:
        """What admission makes of pods there may be something else now."""
        for key, known in self._known.items():
            if key[0] == namespace:
                known.template = None

    def begin_anew(self) -> None:
        """Forget all: somebody else has led in the meantime."""
        self._known.clear()
        self.selecting.clear()
        self.filling.clear()
        self.of_classes.clear()

    def all(self) -> Iterable[tuple[ObjectKey, BufferState]]:
        """All of them."""
        return self._known.items()


def _observed_generation(buffer: Buffer) -> int | None:
    """The generation that the status is about."""
    return buffer.status.observed_generation if buffer.status is not None else None


_RESYNC_SECONDS: Final = 600.0


def loop_time() -> float:
    """The loop's clock, by which calm is measured."""
    return asyncio.get_running_loop().time()


def next_resync(known: BufferState) -> float:
    """When to look again, for a Buffer of which all has been told."""
    until = loop_time() + _RESYNC_SECONDS
    if isinstance(known.meaning.capacity, NodeClassTotals | GivenPods):
        return until
    workload = known.selection[0] if known.selection is not None else None
    if not isinstance(workload, ObservedObject) or workload.metadata.controller is not None:
        return -math.inf
    target = known.facts.target if known.facts is not None else None
    if isinstance(target, TargetFacts) and target.pod is not None:
        return until
    # What admission makes of a template is believed for a while only.
    return min(until, known.template.until) if known.template is not None else -math.inf


# In so many seconds a scale is asked again that may have more to tell.
RECHECK_SECONDS: Final = 3.0
# A refusal that lasts so long is believed.
_FORBIDDEN_SECONDS: Final = 30.0


class TargetReads(Protocol):
    """What is remembered of what was asked: `forbidden_since` is when, on the loop's clock, that was first refused."""

    selection: tuple[object, Selector] | None
    facts: TranslationFacts | None
    forbidden_since: float | None


def is_uncertain(known: TargetReads, facts: TranslationFacts) -> bool:
    """Whether what was known before is to stand."""
    problem = facts.target.reason if isinstance(facts.target, TargetProblem) else None
    if problem is not TARGET_FORBIDDEN:
        known.forbidden_since = None
        return problem is TARGET_UNREACHABLE
    if known.forbidden_since is None:
        known.forbidden_since = loop_time()
    return loop_time() < known.forbidden_since + _FORBIDDEN_SECONDS


def may_change_again(known: TargetReads, facts: TranslationFacts) -> bool:
    """Whether these facts are news, and those of a kind whose count no watch shows."""
    target = facts.target
    is_counted = isinstance(target, TargetFacts) and target.replicas is not None
    return is_counted and known.selection is None and known.facts != facts
