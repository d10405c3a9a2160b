"""Publishes whether Buffers are provisioned: one condition and one time in their status, and nothing else.

The rest of the status belongs to the Buffer controller. Each of the two writers owns its fields by server-side apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from trellis.api.kinds.buffer import Buffer
from trellis.api.registry import BUFFER
from trellis.api.resolve import resolve_buffer
from trellis.base.reasons import DetailedReason
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.nodes.buffers.status import PROVISIONED, build_provisioned_status
from trellis.core.nodes.scale_up.decisions import BufferDecision
from trellis.kube.resources import BUFFERS
from trellis.kube.watch.informer import Informer
from trellis.kube.write.actions import Action, PatchObject, Target
from trellis.kube.write.patches import apply_patch

FIELD_MANAGER: Final = "trellis-nodes"


def with_unreadable_buffers(
    verdicts: Iterable[BufferDecision],
    problems: Mapping[tuple[str, ObjectKey], DetailedReason],
    buffers: Informer[Buffer],
) -> tuple[BufferDecision, ...]:
    """Verdicts, with those about Buffers that cannot be read: whatever they stand for has no room."""
    found = [*verdicts]
    for (kind, key), said in problems.items():
        buffer = buffers.get(*key) if kind == BUFFER.name else None
        if buffer is not None:
            pods = buffer.status.pod_based_buffer_spec if buffer.status is not None else None
            count = max(1, pods.replica_num or 0) if pods is not None else 1
            found.append(BufferDecision(key, buffer.metadata.uid, said, count, unplaced=count))
    return tuple(found)


class BufferStatusPublisher:
    """Finds what is to be written. `covers` says of which namespaces Buffers are ours to look at."""

    def __init__(self, buffers: Informer[Buffer], covers: Callable[[str], bool]) -> None:
        self._buffers = buffers
        self._covers = covers
        # The UIDs of Buffers that tell something of ours.
        self._told: frozenset[str] = frozenset()

    def actions(self, verdicts: Iterable[BufferDecision], now: float) -> Iterator[Action]:
        """Write what is new, and take back what was said of Buffers of which nothing is said any more."""
        told: set[str] = set()
        for decision in verdicts:
            buffer = self._buffers.get(*decision.key)
            if buffer is None or buffer.metadata.uid != decision.uid:
                continue
            told.add(decision.uid)
            status = build_provisioned_status(decision, buffer.status, translated_generation(buffer), now)
            if status is not None:
                yield _apply(buffer, status)
        for buffer in self._buffers.snapshot():
            if buffer.metadata.uid not in told and _has_condition(buffer) and self._is_ours(buffer):
                yield _apply(buffer, _without_condition(buffer))
        self._told = frozenset(told)

    def _is_ours(self, buffer: Buffer) -> bool:
        """Whether this process writes the condition: for a Buffer out of scope only if it wrote it before."""
        covered = self._covers(buffer.metadata.namespace)
        return covered and (buffer.metadata.uid in self._told or resolve_buffer(buffer).is_ours)


def translated_generation(buffer: Buffer) -> int:
    """The generation that was translated, where whoever translates says so; of a later one no room is known yet."""
    told = buffer.status.observed_generation if buffer.status is not None else None
    return buffer.metadata.generation if told is None else told


def _has_condition(buffer: Buffer) -> bool:
    conditions = (buffer.status.conditions or ()) if buffer.status is not None else ()
    return any(condition.type == PROVISIONED for condition in conditions)


def _without_condition(buffer: Buffer) -> dict[str, Any]:
    """When there was room last stays true."""
    full = buffer.status.last_fully_provisioned if buffer.status is not None else None
    return {"lastFullyProvisioned": full} if full and resolve_buffer(buffer).is_ours else {}


def _apply(buffer: Buffer, status: dict[str, Any]) -> Action:
    namespace, name = key_of(buffer)
    document = {
        "apiVersion": BUFFERS.api_version,
        "kind": BUFFERS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "status": status,
    }
    # With the UID: a namesake that was made meanwhile would say for ever that it was provisioned before it was there.
    target = Target(BUFFERS, name, namespace, buffer.metadata.uid)
    return PatchObject(target, apply_patch(document, force=True), subresource="status", field_manager=FIELD_MANAGER)
