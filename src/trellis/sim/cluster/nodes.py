"""Which nodes are there, what have they set aside, and which of them are off?

Two accounts are kept of each node. The scheduler's is that of `core.fit`: a pod holds the most of what it asks for and
what it has. The kubelet's is what it has really set aside, which never exceeds what the node offers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from trellis.api.kube.decode import convert_object
from trellis.api.kube.meta import Condition, ObjectMeta
from trellis.api.kube.nodes import Node, Taint
from trellis.api.kube.pods import READY
from trellis.core.fit import NodeTable, Occupancy
from trellis.core.fit.resources import CPU, MEMORY, PODS
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.sim.cluster.living import Living
from trellis.sim.cluster.pods import moment
from trellis.sim.fleet import NodeShape

_MOST_PODS = "110"
_OFF = (
    Taint("node.kubernetes.io/unreachable", "", "NoSchedule"),
    Taint("node.kubernetes.io/unreachable", "", "NoExecute"),
)
SET_ASIDE = (CPU, MEMORY)


class Nodes:
    """All nodes, by number; `pods` are those that have their place there."""

    def __init__(self, shapes: Sequence[NodeShape], now: float) -> None:
        self.table = NodeTable()
        self.occupancy = Occupancy(self.table)
        self.objects: list[Node] = []
        self.pods: list[dict[tuple[str, str], Living]] = []
        prices = []
        for node, price in _made(shapes, now):
            self.table.update(node)
            self.objects.append(node)
            self.pods.append({})
            prices.append(price)
        self.prices: FloatColumn = np.array(prices, dtype=np.float64)
        self.up: BoolColumn = np.ones(len(self.objects), dtype=np.bool_)
        self.set_aside: dict[str, IntColumn] = {name: np.zeros(len(self.objects), dtype=np.int64) for name in SET_ASIDE}
        self.cores: FloatColumn = self.table.offered(CPU) / 1000.0
        self.bytes: FloatColumn = self.table.offered(MEMORY).astype(np.float64)

    def __len__(self) -> int:
        return len(self.objects)

    def has_room(self, number: int, living: Living, wanted: Mapping[str, int]) -> bool:
        """Whether a kubelet can give a pod this much in place of what it has set aside for it."""
        return all(
            self.set_aside[name][number] - living.allocated.get(name, 0) + wanted.get(name, 0)
            <= self.table.offered(name)[number]
            for name in SET_ASIDE
        )

    def could_ever(self, number: int, wanted: Mapping[str, int]) -> bool:
        """Whether it could if there were no other pods."""
        return all(wanted.get(name, 0) <= self.table.offered(name)[number] for name in SET_ASIDE)

    def allocate(self, living: Living, wanted: Mapping[str, int]) -> None:
        """Set this much aside for a pod on its node, in place of what was."""
        for name in SET_ASIDE:
            self.set_aside[name][living.node] += wanted.get(name, 0) - living.allocated.get(name, 0)
        living.allocated = dict(wanted)

    def switch(self, number: int, up: bool, now: float) -> tuple[Node, Node]:
        """Turn a node off or on; how it was, and how it is."""
        old = self.objects[number]
        status = "True" if up else "Unknown"
        new = msgspec.structs.replace(
            old,
            spec=msgspec.structs.replace(
                old.spec,
                taints=(*(each for each in old.spec.taints if each not in _OFF), *(() if up else _OFF)),
            ),
            status=msgspec.structs.replace(
                old.status,
                conditions=(Condition(READY, 0, status, moment(now), "KubeletReady" if up else "NodeStatusUnknown"),),
            ),
        )
        self.objects[number] = new
        self.up[number] = up
        self.table.update(new)
        return old, new


def _made(shapes: Sequence[NodeShape], now: float) -> Iterator[tuple[Node, float]]:
    for shape in shapes:
        written = convert_object(shape.document, Node)
        status = written.status
        offered = {PODS: _MOST_PODS, **status.capacity, **status.allocatable}
        ready = Condition(READY, 0, "True", moment(now), "KubeletReady")
        status = msgspec.structs.replace(status, allocatable=offered, conditions=(ready,))
        for number in range(shape.count):
            name = f"{shape.name}-{number + 1}"
            metadata = ObjectMeta(
                name=name,
                uid=f"node-{name}",
                creation_timestamp=moment(now),
                labels={**written.metadata.labels, "kubernetes.io/hostname": name},
                annotations=written.metadata.annotations,
            )
            yield Node(metadata, written.spec, status), shape.price
