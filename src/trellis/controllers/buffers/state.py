"""The state of each Buffer between reconciles, and how long it is valid.

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
from trellis.api.resolve import EffectiveBuffer, FixedPods, NodeClassTotals, resolve_buffer
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
    """The pod that shows a target's shape, as it was read; `version` differs once the pod has changed."""

    version: tuple[object, ...]
    pod: Pod


class ShapeTemplate(msgspec.Struct, frozen=True):
    """A template as the API server would store a pod of it, or as it is written if that was refused.

    `source` is the UID and the generation of the workload, `digest` that of the template itself, and `until` when the
    dry run expires, on the loop's clock.
    """

    source: tuple[str, int]
    digest: bytes
    until: float
    template: PodTemplateSpec
    refusal: str = ""


class TargetState(Protocol):
    """The state of a target between reconciles: its selector, and the pod or template that shows its shape."""

    selection: tuple[object, Selector] | None
    pod: ShapePod | None
    template: ShapeTemplate | None


class BufferState(msgspec.Struct):
    """The state of one Buffer."""

    uid: str
    meaning: EffectiveBuffer
    skip_reason: DetailedReason | None
    generation: int
    # Whether the status is about the same target, though about an earlier generation.
    target_stays: bool = False
    # A workload, and its parsed selector.
    selection: tuple[object, Selector] | None = None
    pod: ShapePod | None = None
    template: ShapeTemplate | None = None
    facts: TranslationFacts | None = None
    translation: Translation | None = None
    # The object, the translation and the provisioning of the last complete publish.
    published: tuple[Buffer, Translation, ProvisioningReport] | None = None
    within_quotas: Translation | None = None
    # When, on the loop's clock, a read of its target was first forbidden.
    forbidden_since: float | None = None
    # Until then, on the loop's clock, the Buffer is reconciled only if the watch reports a change.
    at_rest_until: float = -math.inf
    reason_code: str = ""
    notes: frozenset[str] = frozenset()
    changed: float | None = None


class BufferStates:
    """The states of all Buffers. `selecting` indexes the pods of targets, `filling` those that fill Buffers."""

    def __init__(self, settings: BufferSettings) -> None:
        self._settings = settings
        self._states: dict[ObjectKey, BufferState] = {}
        self.selecting = TargetSelectorIndex()
        self.filling = TargetSelectorIndex()
        self.with_node_class: set[ObjectKey] = set()

    def get_or_create(self, buffer: Buffer) -> BufferState:
        """The state of a Buffer; a new UID or generation starts a new one."""
        key, metadata = key_of(buffer), buffer.metadata
        state = self._states.get(key)
        if state is not None and state.uid == metadata.uid and state.generation == metadata.generation != 0:
            return state
        before = state if state is not None and state.uid == metadata.uid else None
        self.forget(key)
        meaning = resolve_buffer(buffer)
        state = BufferState(metadata.uid, meaning, find_skip_reason(meaning, self._settings), metadata.generation)
        if before is not None and before.meaning.target == meaning.target:
            state.target_stays = before.target_stays or _observed_generation(buffer) == before.generation
            state.pod, state.template, state.selection = before.pod, before.template, before.selection
            state.reason_code, state.notes, state.changed = before.reason_code, before.notes, before.changed
        self._states[key] = state
        if state.skip_reason is None:
            if meaning.filled_by is not None:
                self.filling.put(key, meaning.filled_by)
            if isinstance(meaning.capacity, NodeClassTotals):
                self.with_node_class.add(key)
        return state

    def find(self, key: ObjectKey) -> BufferState | None:
        """The state of the Buffer with this key, if it has been reconciled."""
        return self._states.get(key)

    def forget(self, key: ObjectKey) -> None:
        """Forget a Buffer that is deleted."""
        self._states.pop(key, None)
        self.selecting.forget(key)
        self.filling.forget(key)
        self.with_node_class.discard(key)

    def forget_templates(self, namespace: str) -> None:
        """Forget templates of a namespace, because admission may change its pods differently now."""
        for key, state in self._states.items():
            if key[0] == namespace:
                state.template = None

    def begin_anew(self) -> None:
        """Forget all, because another process has led in the meantime."""
        self._states.clear()
        self.selecting.clear()
        self.filling.clear()
        self.with_node_class.clear()

    def all(self) -> Iterable[tuple[ObjectKey, BufferState]]:
        """The states of all Buffers, by key."""
        return self._states.items()


def _observed_generation(buffer: Buffer) -> int | None:
    """The generation that the status is about."""
    return buffer.status.observed_generation if buffer.status is not None else None


_RESYNC_SECONDS: Final = 600.0


def loop_time() -> float:
    """The time of the event loop's clock."""
    return asyncio.get_running_loop().time()


def next_resync(state: BufferState) -> float:
    """When to reconcile a Buffer again whose status is published, on the loop's clock."""
    until = loop_time() + _RESYNC_SECONDS
    if isinstance(state.meaning.capacity, NodeClassTotals | FixedPods):
        return until
    workload = state.selection[0] if state.selection is not None else None
    if not isinstance(workload, ObservedObject) or workload.metadata.controller is not None:
        return -math.inf
    target = state.facts.target if state.facts is not None else None
    if isinstance(target, TargetFacts) and target.pod is not None:
        return until
    # The result of a dry run expires.
    return min(until, state.template.until) if state.template is not None else -math.inf


# Seconds until a scale that has just changed is read again.
RECHECK_SECONDS: Final = 3.0
# Seconds of refused reads after which a target counts as forbidden.
_FORBIDDEN_SECONDS: Final = 30.0


class TargetReads(Protocol):
    """The reads of a target. `forbidden_since` is when, on the loop's clock, a read was first forbidden."""

    selection: tuple[object, Selector] | None
    facts: TranslationFacts | None
    forbidden_since: float | None


def is_uncertain(state: TargetReads, facts: TranslationFacts) -> bool:
    """Whether these facts are too uncertain to replace the published ones."""
    problem = facts.target.reason if isinstance(facts.target, TargetProblem) else None
    if problem is not TARGET_FORBIDDEN:
        state.forbidden_since = None
        return problem is TARGET_UNREACHABLE
    if state.forbidden_since is None:
        state.forbidden_since = loop_time()
    return loop_time() < state.forbidden_since + _FORBIDDEN_SECONDS


def may_be_outdated(state: TargetReads, facts: TranslationFacts) -> bool:
    """Whether these facts are new, and are about a kind whose count no watch reports."""
    target = facts.target
    is_counted = isinstance(target, TargetFacts) and target.replicas is not None
    return is_counted and state.selection is None and state.facts != facts
