"""The chunks of a Buffer: the virtual pods in its status, and the strategy of its spec.

A chunk is a number of its Buffer, and never an object of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from trellis.api.kinds.buffer import Buffer, PodCapacity
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.pods import PodSpec
from trellis.api.resolve import Strategy, resolve_buffer
from trellis.base.errors import InvalidInput, UnreadableObject
from trellis.base.reasons import DetailedReason, Reason, Severity
from trellis.core.cluster.store import ObjectKey, key_of
from trellis.core.fit import Demand

CHUNKS_UNREADABLE = Reason("ChunksUnreadable", "The pods in the Buffer's status cannot be read.", Severity.ERROR)

_MOST_CHUNKS = 100_000


class BufferChunks(msgspec.Struct, frozen=True):
    """The chunks of one Buffer, from 0 to `count` - 1; `uid` and the number are what one is known by.

    Chunks `on_top` are kept beside all running pods. The others are counted as if only DaemonSet and mirror pods ran:
    capacity counts whether it is used or not.
    """

    key: ObjectKey
    uid: str
    count: int
    demand: Demand
    on_top: bool = True
    priority: int = 0

    def name_of(self, number: int) -> str:
        """The name of one chunk. It never changes, and no pod can have it."""
        return f"{self.uid}#{number}"


def in_placement_order(buffers: Iterable[BufferChunks]) -> list[BufferChunks]:
    """Buffers in the order of placement: by priority, then those with a node selector or affinity before others.

    Chunks that fit anywhere would otherwise take the only nodes of the others, and a node would be ordered although
    all of them fit.
    """
    return sorted(buffers, key=lambda chunks: (-chunks.priority, not _selects_nodes(chunks.demand), chunks.key))


def _selects_nodes(demand: Demand) -> bool:
    return bool(demand.selector) or demand.node_affinity is not None


def read_chunks(buffer: Buffer) -> BufferChunks | DetailedReason | None:
    """The chunks, or the reason why they are unreadable; None if the Buffer is not ours or not translated yet."""
    meaning = resolve_buffer(buffer)
    pods = buffer.status.pod_based_buffer_spec if buffer.status is not None else None
    if not meaning.is_ours or pods is None or buffer.metadata.deletion_timestamp is not None:
        return None
    count = pods.replica_num or 0
    if not 0 <= count <= _MOST_CHUNKS:
        return DetailedReason(
            CHUNKS_UNREADABLE, f"status.podBasedBufferSpec.replicaNum: {count} is not 0 to {_MOST_CHUNKS}"
        )
    try:
        spec, demand = _read_pod_template(pods, buffer.metadata.namespace)
    except (UnreadableObject, InvalidInput) as error:
        return DetailedReason(CHUNKS_UNREADABLE, f"status.podBasedBufferSpec.podSpec: {error}")
    on_top = meaning.strategy is Strategy.KEEP_EMPTY or meaning.filled_by is not None
    return BufferChunks(key_of(buffer), buffer.metadata.uid, count, demand, on_top, spec.priority or 0)


def _read_pod_template(pods: PodCapacity, namespace: str) -> tuple[PodSpec, Demand]:
    spec = convert_object(dict(pods.pod_spec or {}), PodSpec)
    metadata = ObjectMeta(namespace=namespace, labels=pods.pod_labels or {})
    return spec, Demand.of(msgspec.structs.replace(spec, node_name="", volumes=()), metadata=metadata)
