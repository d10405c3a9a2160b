"""Headroom for a Buffer: nodes, what pods take of them, and how many chunks they would hold now.

Chunks are placed as the controllers place them, by the core's own observation of nodes: those on top of what runs
beside all pods, those that count whether used or not as if no pod ran but those of DaemonSets. Other Buffers are
placed with them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from msgspec.structs import replace

from trellis.api.kinds.buffer import Buffer, BufferStatus, PodCapacity
from trellis.api.kube.decoder import convert_object
from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.pods import Pod, PodSpec
from trellis.api.kube.slices import Labels
from trellis.base.errors import InvalidInput
from trellis.core.buffers import NodeClassFacts, Translation, is_live, observe_node_class
from trellis.core.cluster.state import ClusterState
from trellis.core.cluster.store import key_of
from trellis.core.explain.component_decisions.evidence import Evidence
from trellis.core.explain.component_decisions.node_plans import (
    KnownNodeGroups,
    build_node_snapshot,
    build_storage,
    with_uid,
)
from trellis.core.explain.component_decisions.resize_plans import has_all_nodes_and_pods
from trellis.core.explain.explanation.buffer import HeadroomPart
from trellis.core.explain.explanation.values import ObstaclePart
from trellis.core.fit import (
    Demand,
    NodeTable,
    Occupancy,
    UnfitNodes,
    explain_unfit_nodes,
    find_fitting_nodes,
    read_running_demand_or_empty,
)
from trellis.core.nodes.buffers.headroom import ObservedHeadroom, observe_headroom
from trellis.core.nodes.scale_up.remembered_state import ScaleUpMemory
from trellis.core.nodes.state.snapshot import ClusterSnapshot
from trellis.core.usage.columns import IntColumn

_DAEMON_SET = "DaemonSet"


class BufferHeadroom:
    """All nodes that were collected, and the pods on them."""

    def __init__(self, collected: ClusterState) -> None:
        self.is_complete = has_all_nodes_and_pods(collected)
        self._table = NodeTable(collected.nodes)
        self._nodes = {node.metadata.name: node for node in collected.nodes}
        self._collected = collected
        self._daemons = [pod for pod in collected.pods if pod.spec.node_name and is_live(pod) and _is_daemon(pod)]

    def observe_class(self, labels: Labels) -> NodeClassFacts:
        """The nodes with these labels, and what the pods of DaemonSets leave on them."""
        return observe_node_class(self._table, self._nodes, labels, self._daemon_usage)

    @cached_property
    def _daemon_usage(self) -> dict[str, IntColumn]:
        """The requests of DaemonSet pods, by resource and node."""
        used = self._occupied(self._daemons)
        return {name: used.amounts[self._table.row(name)] for name in ("cpu", "memory")}

    def build_part(self, translation: Translation, buffer: Buffer, evidence: Evidence) -> HeadroomPart | None:
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
        fitting_nodes = int(np.count_nonzero(find_fitting_nodes(table, demand)))
        if not self.is_complete:
            return HeadroomPart(
                table.size, fitting_nodes, obstacles=_build_obstacle_parts(explain_unfit_nodes(table, demand))
            )
        snapshot = build_node_snapshot(
            self._collected, KnownNodeGroups(), build_storage(self._collected), evidence.components.expendable_below
        )
        snapshot.put_buffer(key_of(buffer), with_uid(_as_translated(buffer, translation)))
        observed = observe_headroom(snapshot, ScaleUpMemory(), evidence.now, evidence.components.nodes_up)
        decision = next(
            (buffer_decision for buffer_decision in observed.buffers if buffer_decision.key == key_of(buffer)), None
        )
        if decision is None:
            return HeadroomPart(
                table.size, fitting_nodes, obstacles=_build_obstacle_parts(explain_unfit_nodes(table, demand))
            )
        is_short = decision.on_ready < decision.chunks
        return HeadroomPart(
            table.size,
            fitting_nodes,
            decision.on_ready,
            len({node for node in decision.nodes if node}),
            _find_obstacles(snapshot, observed, demand, on_top=translation.on_top) if is_short else (),
            kept_on_top=observed.on_top.get(decision.uid),
        )

    def _occupied(self, pods: Iterable[Pod]) -> Occupancy:
        return Occupancy(
            self._table, ((self._table.find(pod.spec.node_name), read_running_demand_or_empty(pod)) for pod in pods)
        )


def _as_translated(buffer: Buffer, translation: Translation) -> Buffer:
    """The Buffer with a status that says what it is translated into now."""
    labels = dict(translation.labels)
    pods = PodCapacity(replica_num=translation.chunks, pod_spec=dict(translation.pod_spec or {}), pod_labels=labels)
    status = replace(buffer.status or BufferStatus(), pod_based_buffer_spec=pods)
    return replace(buffer, status=status)


def _find_obstacles(
    snapshot: ClusterSnapshot, observed: ObservedHeadroom, demand: Demand, *, on_top: bool
) -> tuple[ObstaclePart, ...]:
    """The reasons why no node takes a further chunk, beside the chunks that have been placed."""
    placed = (snapshot.running if on_top else snapshot.fixed).copy()
    for decision in observed.buffers:
        chunks = snapshot.buffers[decision.key]
        numbers = [number for name in decision.nodes if (number := snapshot.table.find(name)) >= 0]
        if chunks.on_top is on_top and numbers:
            where, times = np.unique(np.array(numbers, dtype=np.int64), return_counts=True)
            placed.add_many(where, chunks.demand, times)
    return _build_obstacle_parts(explain_unfit_nodes(snapshot.table, demand, placed.used, placed.existing_pods))


def _is_daemon(pod: Pod) -> bool:
    controller = pod.metadata.controller
    return controller is not None and controller.kind == _DAEMON_SET


def _build_obstacle_parts(obstacles: Iterable[UnfitNodes]) -> tuple[ObstaclePart, ...]:
    return tuple(ObstaclePart(obstacle.reason, obstacle.nodes, obstacle.resource) for obstacle in obstacles)
