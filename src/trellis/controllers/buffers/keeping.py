"""What does the controller remember of a Buffer between two looks?"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

import msgspec

from trellis.api.buffer import Buffer
from trellis.api.kube.pods import Pod, PodTemplateSpec
from trellis.api.resolve import EffectiveBuffer, NodeClassTotals, resolve_buffer
from trellis.base.selectors import Selector
from trellis.core.buffers import BufferSettings, Facts, Said, Translation, left_alone
from trellis.core.model.keys import Key, key_of
from trellis.core.model.selecting import Selecting
from trellis.core.nodes.buffer_status import Provision


class ShownPod(msgspec.Struct, frozen=True):
    """The pod that shows a target's shape, as it was when it was asked for; `mark` tells whether it still is."""

    mark: tuple[object, ...]
    pod: Pod


class ShownTemplate(msgspec.Struct, frozen=True):
    """A template as the API server would store a pod of it, or as it is written if that was refused.

    `read` is which generation of which workload it is from, `digest` that of the template itself, and `until` how long
    the answer is believed, on the loop's clock.
    """

    read: tuple[str, int]
    digest: bytes
    until: float
    template: PodTemplateSpec
    refusal: str = ""


class Shown(Protocol):
    """What is remembered of a target between two looks: its selector, and what shows its shape."""

    selection: tuple[object, Selector] | None
    pod: ShownPod | None
    template: ShownTemplate | None


class Known(msgspec.Struct):
    """What is remembered of one Buffer."""

    uid: str
    meaning: EffectiveBuffer
    alone: Said | None
    generation: int
    # Whether what the status says is of the same target, though of a spec before this one.
    target_stays: bool = False
    # A workload, and its selector in a form that can be asked.
    selection: tuple[object, Selector] | None = None
    pod: ShownPod | None = None
    template: ShownTemplate | None = None
    facts: Facts | None = None
    made: Translation | None = None
    # The object, and the translation and the provisioning that it is known to tell.
    told: tuple[Buffer, Translation, Provision] | None = None
    settled: Translation | None = None
    # Since when, on the loop's clock, its target may not be read.
    forbidden_since: float | None = None
    # Until then, on the loop's clock, only a change that is told is a reason to look.
    calm_until: float = -math.inf
    verdict: str = ""
    notes: frozenset[str] = frozenset()
    changed: float | None = None


class Keeping:
    """What is remembered of all of them. `selecting` has the pods of targets, `filling` those that fill Buffers."""

    def __init__(self, settings: BufferSettings) -> None:
        self._settings = settings
        self._known: dict[Key, Known] = {}
        self.selecting = Selecting()
        self.filling = Selecting()
        self.of_classes: set[Key] = set()

    def of(self, buffer: Buffer) -> Known:
        """What is remembered of one; another object of the same name, and another spec, begin anew."""
        key, metadata = key_of(buffer), buffer.metadata
        known = self._known.get(key)
        if known is not None and known.uid == metadata.uid and known.generation == metadata.generation != 0:
            return known
        before = known if known is not None and known.uid == metadata.uid else None
        self.forget(key)
        meaning = resolve_buffer(buffer)
        known = Known(metadata.uid, meaning, left_alone(meaning, self._settings), metadata.generation)
        if before is not None and before.meaning.target == meaning.target:
            known.target_stays = before.target_stays or _told_of(buffer) == before.generation
            known.pod, known.template, known.selection = before.pod, before.template, before.selection
            known.verdict, known.notes, known.changed = before.verdict, before.notes, before.changed
        self._known[key] = known
        if known.alone is None:
            if meaning.filled_by is not None:
                self.filling.put(key, meaning.filled_by)
            if isinstance(meaning.capacity, NodeClassTotals):
                self.of_classes.add(key)
        return known

    def find(self, key: Key) -> Known | None:
        """What is remembered of the Buffer of this name, if it has been looked at."""
        return self._known.get(key)

    def forget(self, key: Key) -> None:
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

    def all(self) -> Iterable[tuple[Key, Known]]:
        """All of them."""
        return self._known.items()


def _told_of(buffer: Buffer) -> int | None:
    """The generation that the status is about."""
    return buffer.status.observed_generation if buffer.status is not None else None
