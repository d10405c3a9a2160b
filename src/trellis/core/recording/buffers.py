"""Recording of the Buffer controller: the facts that each translation was made from, and the translation.

Of a pod that is written into a Buffer only the part is recorded which a translation reads: no environments, no
commands. Reasons are recorded by their codes: another wording is no other decision. What quotas leave is shared out
among all Buffers of a namespace afterwards, and is no part of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from trellis.api.kinds.buffer import Buffer, BufferSpec
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.pods import PodSpec
from trellis.api.kube.slices import NOTHING, Labels
from trellis.base.errors import UnreadableObject
from trellis.core.buffers.chunks import Translation
from trellis.core.buffers.quota_usage import QuotaUsage
from trellis.core.buffers.translation_facts import BufferSettings, NodeClassFacts, TargetFacts, TranslationFacts
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.cluster.target_problems import TargetProblem
from trellis.core.recommend.amounts import ResourceAmounts

# Fields of a pod that may hold private data.
_PRIVATE: Final = frozenset({"env", "envFrom", "command", "args", "image", "lifecycle", "livenessProbe"})


class BufferRecordingStart(msgspec.Struct, frozen=True):
    """The settings of the translations that follow."""

    settings: BufferSettings


class TranslationInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Buffer is translated, at that time. `problem` is set instead of `target` if the target cannot be used."""

    buffer: ObjectKey
    now: float
    spec: BufferSpec
    target: TargetFacts | None = None
    problem: TargetProblem | None = None
    nodes: NodeClassFacts = NodeClassFacts()
    filled: ResourceAmounts = {}

    @classmethod
    def of(cls, buffer: Buffer, facts: TranslationFacts, now: float) -> TranslationInput:
        target_facts = facts.target
        problem = target_facts if isinstance(target_facts, TargetProblem) else None
        target = _without_nan_age(target_facts) if isinstance(target_facts, TargetFacts) else None
        return cls(key_of(buffer), now, _strip_spec(buffer.spec), target, problem, facts.nodes, facts.filled)

    @property
    def facts(self) -> TranslationFacts:
        return TranslationFacts(self.problem or self.target, self.nodes, self.filled)


class RecordedTranslation(msgspec.Struct, frozen=True, omit_defaults=True):
    """A translation. Reasons are recorded as a code with its details."""

    desired_chunks: int
    chunks: int
    ready: tuple[str, str]
    is_ready: bool = False
    pod_spec: Mapping[str, Any] | None = None
    labels: Labels = NOTHING
    usage: QuotaUsage | None = None
    notes: tuple[tuple[str, str], ...] = ()
    on_top: bool = True
    next_change: float | None = None

    @classmethod
    def of(cls, translation: Translation) -> RecordedTranslation:
        """Record the parts of a translation that a replay compares."""
        return cls(
            translation.requested,
            translation.chunks,
            (translation.ready.reason.code, translation.ready.details),
            translation.is_ready,
            translation.pod_spec,
            translation.labels,
            translation.usage,
            tuple((note.reason.code, note.details) for note in translation.notes),
            translation.on_top,
            translation.next_change,
        )


def select_read_fields(pod_spec: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a pod spec that are read; of an unreadable one, all fields but private data."""
    try:
        part: dict[str, Any] = msgspec.to_builtins(convert_object(dict(pod_spec), PodSpec))
    except UnreadableObject:
        part = _without_private(dict(pod_spec))
    return part


def _without_nan_age(target: TargetFacts) -> TargetFacts:
    """JSON has no NaN, which is the age of an object that says none; no translation asks for it."""
    governor = target.governor
    if governor is None or not math.isnan(governor.claim.created):
        return target
    return replace(target, governor=replace(governor, claim=replace(governor.claim, created=0.0)))


def _strip_spec(spec: BufferSpec) -> BufferSpec:
    """The spec, with its own pod reduced to the fields that are read."""
    pods = spec.capacity.pods if spec.capacity is not None else None
    if spec.capacity is None or pods is None or pods.pod_spec is None:
        return spec
    return replace(
        spec, capacity=replace(spec.capacity, pods=replace(pods, pod_spec=select_read_fields(pods.pod_spec)))
    )


def _without_private(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_private(item) for name, item in value.items() if name not in _PRIVATE}
    return [_without_private(item) for item in value] if isinstance(value, list) else value
