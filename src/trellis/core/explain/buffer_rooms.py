"""Is there room for it? Nodes, what pods take of them, and how many chunks they would hold now.

Chunks are placed as the controllers place them, by `core.nodes.observing`: those on top of what runs beside all pods,
those that count whether used or not as if no pod ran but those of DaemonSets. Other Buffers are placed with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from msgspec.structs import replace

from trellis.api.buffer import Buffer, BufferStatus, PodCapacity
from trellis.api.kube.decode import convert_object
from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.pods import Pod, PodSpec
from trellis.api.kube.slices import Labels
from trellis.base.errors import InvalidInput
from trellis.core.buffers import NodesOfClass, Translation, is_live, nodes_of_class
from trellis.core.explain.buffer_parts import Hindrance, Room
from trellis.core.explain.evidence import Evidence
from trellis.core.explain.noding import KnownGroups, known_by_uid, snapshot_of, storage_of
from trellis.core.explain.updating import knows_rooms
from trellis.core.fit import Demand, NodeTable, Obstacle, Occupancy, fits, held_at_least, why_not
from trellis.core.model.collected import Collected
from trellis.core.model.keys import key_of
from trellis.core.nodes.memory import UpMemory
from trellis.core.nodes.observing import Observed, observe
from trellis.core.nodes.snapshot import Snapshot
from trellis.core.usage.columns import IntColumn

_DAEMON_SET = "DaemonSet"


class Rooms:
    """All nodes that were collected, and the pods on them."""

    def __init__(self, collected: Collected) -> None:
        self.are_known = knows_rooms(collected)
        self._table = NodeTable(collected.nodes)
        self._nodes = {each.metadata.name: each for each in collected.nodes}
        self._collected = collected
        self._daemons = [pod for pod in collected.pods if pod.spec.node_name and is_live(pod) and _is_daemon(pod)]

    def of_class(self, labels: Labels) -> NodesOfClass:
        """The nodes with these labels, and what the pods of DaemonSets leave on them."""
        return nodes_of_class(self._table, self._nodes, labels, self._kept)

    @cached_property
    def _kept(self) -> dict[str, IntColumn]:
        """By resource and node, what the pods of DaemonSets take."""
        used = self._occupied(self._daemons)
        return {name: used.amounts[self._table.row(name)] for name in ("cpu", "memory")}

    def for_chunks(self, translation: Translation, buffer: Buffer, evidence: Evidence) -> Room | None:
        """How many chunks fit; None without a chunk that could be put anywhere."""
        if translation.pod_spec is None or not self._table.size:
            return None
        spec = convert_object(dict(translation.pod_spec), PodSpec)
        metadata = ObjectMeta(namespace=buffer.metadata.namespace, labels=dict(translation.labels))
        try:
            demand = Demand.of(spec, metadata=metadata)
        except InvalidInput:
            return None
        table = self._table
        takes = int(np.count_nonzero(fits(table, demand)))
        if not self.are_known:
            return Room(table.size, takes, obstacles=_hindrances(why_not(table, demand)))
        snapshot = snapshot_of(
            self._collected, KnownGroups(), storage_of(self._collected), evidence.components.expendable_below
        )
        snapshot.put_buffer(key_of(buffer), known_by_uid(_as_translated(buffer, translation)))
        observed = observe(snapshot, UpMemory(), evidence.now, evidence.components.nodes_up)
        verdict = next((each for each in observed.buffers if each.key == key_of(buffer)), None)
        if verdict is None:
            return Room(table.size, takes, obstacles=_hindrances(why_not(table, demand)))
        is_short = verdict.on_ready < verdict.chunks
        return Room(
            table.size,
            takes,
            verdict.on_ready,
            len({each for each in verdict.nodes if each}),
            _obstacles(snapshot, observed, demand, on_top=translation.on_top) if is_short else (),
            kept_on_top=observed.on_top.get(verdict.uid),
        )

    def _occupied(self, pods: Iterable[Pod]) -> Occupancy:
        return Occupancy(self._table, ((self._table.find(pod.spec.node_name), held_at_least(pod)) for pod in pods))


def _as_translated(buffer: Buffer, translation: Translation) -> Buffer:
    """The Buffer with a status that says what it is translated into now."""
    labels = dict(translation.labels)
    pods = PodCapacity(replica_num=translation.chunks, pod_spec=dict(translation.pod_spec or {}), pod_labels=labels)
    status = replace(buffer.status or BufferStatus(), pod_based_buffer_spec=pods)
    return replace(buffer, status=status)


def _obstacles(snapshot: Snapshot, observed: Observed, demand: Demand, *, on_top: bool) -> tuple[Hindrance, ...]:
    """What keeps a further chunk from each node, beside the chunks that have been placed."""
    world = (snapshot.running if on_top else snapshot.fixed).copy()
    for verdict in observed.buffers:
        chunks = snapshot.buffers[verdict.key]
        numbers = [number for name in verdict.nodes if (number := snapshot.table.find(name)) >= 0]
        if chunks.on_top is on_top and numbers:
            where, times = np.unique(np.array(numbers, dtype=np.int64), return_counts=True)
            world.add_each(where, chunks.demand, times)
    return _hindrances(why_not(snapshot.table, demand, world.used, world.near))


def _is_daemon(pod: Pod) -> bool:
    controller = pod.metadata.controller
    return controller is not None and controller.kind == _DAEMON_SET


def _hindrances(obstacles: Iterable[Obstacle]) -> tuple[Hindrance, ...]:
    return tuple(Hindrance(each.reason, each.nodes, each.resource) for each in obstacles)
