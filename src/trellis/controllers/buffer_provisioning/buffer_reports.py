"""What is reported of a Buffer's provisioning, by whichever controller observes it: decisions and Events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from trellis.api.kinds.buffer import Buffer
from trellis.api.kube.meta import ObjectReference
from trellis.api.registry import BUFFER
from trellis.base.reasons import DetailedReason
from trellis.core.cluster.store import ObjectKey
from trellis.core.nodes.buffers.status import describe_provisioned_chunks
from trellis.core.nodes.scale_up.decisions import BUFFER_NEEDS_NOTHING, BUFFER_PROVISIONED, BufferDecision
from trellis.kube.watch.informer import Informer
from trellis.runtime.telemetry.event_queue import EventSink

# The owner of the fields that the node autoscaler writes.
NODES_FIELD_MANAGER: Final = "trellis-nodes"
_PROVISIONED_REASONS: Final = (BUFFER_PROVISIONED, BUFFER_NEEDS_NOTHING)


def translated_generation(buffer: Buffer) -> int:
    """The generation that was translated, if the status has it; otherwise the present one."""
    observed = buffer.status.observed_generation if buffer.status is not None else None
    return buffer.metadata.generation if observed is None else observed


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


class BufferEvents:
    """Records events on Buffers whose provisioning has changed."""

    def __init__(self, record: EventSink) -> None:
        self._record = record
        # The code of the last reason, by the UID of a Buffer.
        self._recorded: dict[str, str] = {}

    def reset(self) -> None:
        """Forget the last reasons, because another process has recorded Events in the meantime."""
        self._recorded = {}

    def record_buffers(self, decisions: Iterable[BufferDecision]) -> None:
        """Record Buffers that are provisioned now, or no longer, or whose nodes are upcoming."""
        recorded: dict[str, str] = {}
        for decision in decisions:
            recorded[decision.uid] = code = decision.reason.reason.code
            before = self._recorded.get(decision.uid)
            if before != code and (before is not None or decision.reason.reason not in _PROVISIONED_REASONS):
                about = ObjectReference(BUFFER.name, *decision.key, decision.uid, BUFFER.api_version)
                self._record(about, decision.reason.reason, _build_chunk_message(decision))
        self._recorded = recorded


def _build_chunk_message(decision: BufferDecision) -> str:
    refused = "".join(f"; {refusal}" for refusal in decision.refused)
    return f"{describe_provisioned_chunks(decision)}: {decision.reason}{refused}"
