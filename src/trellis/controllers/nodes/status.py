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
    decisions: Iterable[BufferDecision],
    problems: Mapping[tuple[str, ObjectKey], DetailedReason],
    buffers: Informer[Buffer],
) -> tuple[BufferDecision, ...]:
    """The decisions, with one for each Buffer that cannot be read: none of its chunks is provisioned."""
    all_decisions = [*decisions]
    for (kind, key), problem in problems.items():
        buffer = buffers.get(*key) if kind == BUFFER.name else None
        if buffer is not None:
            pods = buffer.status.pod_based_buffer_spec if buffer.status is not None else None
            count = max(1, pods.replica_num or 0) if pods is not None else 1
            all_decisions.append(BufferDecision(key, buffer.metadata.uid, problem, count, unplaced=count))
    return tuple(all_decisions)


class BufferStatusPublisher:
    """Builds the status writes of Buffers. `covers` says in which namespaces Buffers are managed."""

    def __init__(self, buffers: Informer[Buffer], covers: Callable[[str], bool]) -> None:
        self._buffers = buffers
        self._covers = covers
        # The UIDs of the Buffers of the last decisions.
        self._published: frozenset[str] = frozenset()

    def actions(self, decisions: Iterable[BufferDecision], now: float) -> Iterator[Action]:
        """Write each status that differs, and remove the condition of Buffers without a decision."""
        published: set[str] = set()
        for decision in decisions:
            buffer = self._buffers.get(*decision.key)
            if buffer is None or buffer.metadata.uid != decision.uid:
                continue
            published.add(decision.uid)
            status = build_provisioned_status(decision, buffer.status, translated_generation(buffer), now)
            if status is not None:
                yield _apply(buffer, status)
        for buffer in self._buffers.snapshot():
            if buffer.metadata.uid not in published and _has_condition(buffer) and self._removes_condition(buffer):
                yield _apply(buffer, _without_condition(buffer))
        self._published = frozenset(published)

    def _removes_condition(self, buffer: Buffer) -> bool:
        """Whether to remove the condition: in a covered namespace, if published here or if the Buffer is managed."""
        covered = self._covers(buffer.metadata.namespace)
        return covered and (buffer.metadata.uid in self._published or resolve_buffer(buffer).is_active_capacity)


def translated_generation(buffer: Buffer) -> int:
    """The generation that was translated, if the status has it; otherwise the present one."""
    observed = buffer.status.observed_generation if buffer.status is not None else None
    return buffer.metadata.generation if observed is None else observed


def _has_condition(buffer: Buffer) -> bool:
    conditions = (buffer.status.conditions or ()) if buffer.status is not None else ()
    return any(condition.type == PROVISIONED for condition in conditions)


def _without_condition(buffer: Buffer) -> dict[str, Any]:
    """The status without the condition; when the Buffer was last fully provisioned stays."""
    full = buffer.status.last_fully_provisioned if buffer.status is not None else None
    return {"lastFullyProvisioned": full} if full and resolve_buffer(buffer).is_active_capacity else {}


def _apply(buffer: Buffer, status: dict[str, Any]) -> Action:
    namespace, name = key_of(buffer)
    document = {
        "apiVersion": BUFFERS.api_version,
        "kind": BUFFERS.kind,
        "metadata": {"name": name, "namespace": namespace},
        "status": status,
    }
    # With the UID: a new Buffer of the same name would otherwise keep a time from before its creation.
    target = Target(BUFFERS, name, namespace, buffer.metadata.uid)
    return PatchObject(target, apply_patch(document, force=True), subresource="status", field_manager=FIELD_MANAGER)
