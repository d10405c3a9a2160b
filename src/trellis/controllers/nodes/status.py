"""Publishes whether Buffers are provisioned: one condition and one time in their status, and nothing else.

The rest of the status belongs to the Buffer controller. Each of the two writers owns its fields by server-side apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from trellis.api.kinds.buffer import Buffer
from trellis.api.resolve import resolve_buffer
from trellis.controllers.buffer_provisioning.buffer_reports import NODES_FIELD_MANAGER, translated_generation
from trellis.core.cluster.store import key_of
from trellis.core.cluster.transforms import ManagedBuffer
from trellis.core.nodes.buffers.status import PROVISIONED, build_provisioned_status, read_stored_fields
from trellis.core.nodes.scale_up.decisions import BufferDecision
from trellis.kube.resources import BUFFERS
from trellis.kube.watch.informer import Informer
from trellis.kube.write.actions import Action, PatchObject, Target
from trellis.kube.write.patches import apply_patch


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
            if status is None and not _owns_fields(buffer):
                # The Buffer controller wrote the same a moment before it noticed this process, and gives its fields up
                # only once they have another owner.
                status = read_stored_fields(buffer.status)
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


def _owns_fields(buffer: Buffer) -> bool:
    """Whether this process owns all of the two fields that any field manager owns."""
    owners = buffer.owners if isinstance(buffer, ManagedBuffer) else {}
    own = frozenset(owners.get(NODES_FIELD_MANAGER, ()))
    return all(own.issuperset(leaves) for leaves in owners.values())


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
    return PatchObject(
        target, apply_patch(document, force=True), subresource="status", field_manager=NODES_FIELD_MANAGER
    )
