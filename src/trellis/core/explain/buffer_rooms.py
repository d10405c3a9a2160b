"""Is there room for it? Nodes, what pods take of them, and how many chunks they would hold now.

A chunk on top of what runs is put beside all pods. One that counts whether used or not is put where no pod ran but
those of DaemonSets, which every node has anyway. Other Buffers want room too, and are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from trellis.api.kube.decode import convert_object
from trellis.api.kube.meta import ObjectMeta
from trellis.api.kube.pods import Pod, PodSpec
from trellis.api.kube.slices import Labels
from trellis.base.errors import InvalidInput
from trellis.core.buffers import NodesOfClass, Translation, is_live, nodes_of_class
from trellis.core.explain.buffer_parts import Hindrance, Room
from trellis.core.explain.updating import knows_rooms
from trellis.core.fit import (
    Demand,
    Neighbours,
    NodeTable,
    Obstacle,
    Occupancy,
    Resident,
    fits,
    held_at_least,
    pack,
    why_not,
)
from trellis.core.model.collected import Collected
from trellis.core.usage.columns import IntColumn

_DAEMON_SET = "DaemonSet"


class Rooms:
    """All nodes that were collected, and the pods on them."""

    def __init__(self, collected: Collected) -> None:
        self.are_known = knows_rooms(collected)
        self._table = NodeTable(collected.nodes)
        self._nodes = {each.metadata.name: each for each in collected.nodes}
        self._namespaces = {each.metadata.name: each.metadata.labels for each in collected.namespaces}
        self._placed = [pod for pod in collected.pods if pod.spec.node_name and is_live(pod)]
        self._daemons = [pod for pod in self._placed if _is_daemon(pod)]

    def of_class(self, labels: Labels) -> NodesOfClass:
        """The nodes with these labels, and what the pods of DaemonSets leave on them."""
        return nodes_of_class(self._table, self._nodes, labels, self._kept)

    @cached_property
    def _kept(self) -> dict[str, IntColumn]:
        """By resource and node, what the pods of DaemonSets take."""
        used = self._occupied(self._daemons)
        return {name: used.amounts[self._table.row(name)] for name in ("cpu", "memory")}

    def for_chunks(self, translation: Translation, namespace: str) -> Room | None:
        """How many chunks find room; None without a chunk that could be put anywhere."""
        if translation.pod_spec is None or not self._table.size:
            return None
        spec = convert_object(dict(translation.pod_spec), PodSpec)
        labels = dict(translation.labels)
        try:
            demand = Demand.of(spec, metadata=ObjectMeta(namespace=namespace, labels=labels))
        except InvalidInput:
            return None
        table = self._table
        takes = int(np.count_nonzero(fits(table, demand)))
        if not self.are_known:
            return Room(table.size, takes, obstacles=_hindrances(why_not(table, demand)))
        beside = self._placed if translation.on_top else self._daemons
        used, near = self._occupied(beside), self._residents(beside)
        ready = np.flatnonzero(table.exists & table.ready[: table.reach])
        [placed] = pack(table, used, [(demand, translation.chunks)], near, ready)
        obstacles = () if len(placed) == translation.chunks else why_not(table, demand, used, near)
        return Room(table.size, takes, len(placed), len(np.unique(placed)), _hindrances(obstacles))

    def _occupied(self, pods: Iterable[Pod]) -> Occupancy:
        return Occupancy(self._table, ((self._table.find(pod.spec.node_name), held_at_least(pod)) for pod in pods))

    def _residents(self, pods: Iterable[Pod]) -> Neighbours:
        placed = ((self._table.find(pod.spec.node_name), Resident.of(pod)) for pod in pods)
        return Neighbours(self._table, placed, self._namespaces)


def _is_daemon(pod: Pod) -> bool:
    controller = pod.metadata.controller
    return controller is not None and controller.kind == _DAEMON_SET


def _hindrances(obstacles: Iterable[Obstacle]) -> tuple[Hindrance, ...]:
    return tuple(Hindrance(each.reason, each.nodes, each.resource) for each in obstacles)
