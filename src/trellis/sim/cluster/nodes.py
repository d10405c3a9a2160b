"""The nodes of the model cluster, what is allocated on them, and which are off.

Two accounts are kept of each node. The scheduler's is that of `core.fit`: a pod holds the most of what it asks for and
what it has. The kubelet's is what it has really allocated, which never exceeds what the node offers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
import numpy as np

from trellis.api.kube.decoder import convert_object
from trellis.api.kube.meta import Condition, ObjectMeta
from trellis.api.kube.nodes import Node, Taint
from trellis.api.kube.pods import READY, PodTemplateSpec
from trellis.core.fit import Demand, ExistingPods, NodeTable, Occupancy
from trellis.core.fit.constraints.taints import SOFT
from trellis.core.fit.resources import CPU, MEMORY, PODS
from trellis.core.nodes.state.pods import depends_on_other_pods
from trellis.core.nodes.state.transient_taints import NO_TRANSIENT_TAINTS
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn
from trellis.sim.cluster.pod_state import ModelPod
from trellis.sim.cluster.pods import api_time
from trellis.sim.fleet import Fleet, SimulatedWorkload

_MAX_PODS = "110"
_OFF = (
    Taint("node.kubernetes.io/unreachable", "", "NoSchedule"),
    Taint("node.kubernetes.io/unreachable", "", "NoExecute"),
)
ALLOCATED_RESOURCES = (CPU, MEMORY)


class ModelNodes:
    """All nodes, by number; `pods` are those that are placed on each.

    The number of a node that is gone is used again, so columns are as long as the most nodes there were. `booting` has
    the prices of machines that are not nodes yet. `existing_pods` indexes pods for affinity and spread; it is there
    where nodes can be ordered, or where a workload has rules about other pods.
    """

    def __init__(self, fleet: Fleet) -> None:
        now = fleet.clock.begin
        self.table = NodeTable()
        self.occupancy = Occupancy(self.table)
        self.existing_pods = (
            ExistingPods(self.table) if fleet.pools or any(map(_depends_on_other_pods, fleet.workloads)) else None
        )
        self.objects: dict[int, Node] = {}
        # The taints of nodes that the scheduler avoids where it can.
        self.soft_taints: dict[int, tuple[Taint, ...]] = {}
        self.pods: dict[int, dict[tuple[str, str], ModelPod]] = {}
        self.booting: dict[str, float] = {}
        prices = []
        for node, price in _initial_nodes(fleet, now):
            number = self.table.update(node)
            self._put_object(number, node)
            self.pods[number] = {}
            prices.append(price)
        self.prices: FloatColumn = np.array(prices, dtype=np.float64)
        self.up: BoolColumn = np.ones(len(prices), dtype=np.bool_)
        self.allocated: dict[str, IntColumn] = {
            name: np.zeros(len(prices), dtype=np.int64) for name in ALLOCATED_RESOURCES
        }
        self._update_capacity()

    def __len__(self) -> int:
        """The length of columns."""
        return self.table.numbers_end

    def add(self, node: Node, price: float) -> int:
        """Add a node; returns its number."""
        number = self.table.update(node)
        if number == len(self.prices):
            self.prices = np.append(self.prices, 0.0)
            self.up = np.append(self.up, False)
            self.allocated = {name: np.append(column, 0) for name, column in self.allocated.items()}
        self._put_object(number, node)
        self.pods[number] = {}
        self.prices[number], self.up[number] = price, True
        self._update_capacity()
        return number

    def remove(self, number: int) -> Node:
        """Remove a node without pods; returns its last state."""
        node = self.objects.pop(number)
        self.soft_taints.pop(number, None)
        del self.pods[number]
        self.prices[number], self.up[number] = 0.0, False
        self.table.remove(node.metadata.name)
        self._update_capacity()
        return node

    def replace(self, number: int, node: Node) -> Node:
        """Replace a node; returns its last state."""
        old = self.objects[number]
        self._put_object(number, node)
        self.table.update(node)
        return old

    def can_allocate(self, number: int, model_pod: ModelPod, size: Mapping[str, int]) -> bool:
        """Whether a kubelet can allocate this much to a pod in place of what it has."""
        return all(
            self.allocated[name][number] - model_pod.allocated.get(name, 0) + size.get(name, 0)
            <= self.table.offered(name)[number]
            for name in ALLOCATED_RESOURCES
        )

    def has_capacity(self, number: int, size: Mapping[str, int]) -> bool:
        """Whether the node could allocate this much without other pods."""
        return all(size.get(name, 0) <= self.table.offered(name)[number] for name in ALLOCATED_RESOURCES)

    def allocate(self, model_pod: ModelPod, size: Mapping[str, int]) -> None:
        """Allocate this much to a pod on its node, in place of what it has."""
        for name in ALLOCATED_RESOURCES:
            self.allocated[name][model_pod.node] += size.get(name, 0) - model_pod.allocated.get(name, 0)
        model_pod.allocated = dict(size)

    def switch(self, number: int, up: bool, now: float) -> tuple[Node, Node]:
        """Turn a node off or on; returns its old and its new state."""
        old = self.objects[number]
        status = "True" if up else "Unknown"
        new = msgspec.structs.replace(
            old,
            spec=msgspec.structs.replace(
                old.spec,
                taints=(*(taint for taint in old.spec.taints if taint not in _OFF), *(() if up else _OFF)),
            ),
            status=msgspec.structs.replace(
                old.status,
                conditions=(Condition(READY, 0, status, api_time(now), "KubeletReady" if up else "NodeStatusUnknown"),),
            ),
        )
        self.up[number] = up
        return self.replace(number, new), new

    def _put_object(self, number: int, node: Node) -> None:
        self.objects[number] = node
        self.soft_taints.pop(number, None)
        soft = tuple(taint for taint in node.spec.taints if taint.effect == SOFT)
        if soft:
            self.soft_taints[number] = soft

    def _update_capacity(self) -> None:
        self.cores: FloatColumn = self.table.offered(CPU) / 1000.0
        self.bytes: FloatColumn = self.table.offered(MEMORY).astype(np.float64)


def build_node(template: Node, name: str, now: float) -> Node:
    """A node of a name, as it is once it is up: without startup taints."""
    status, spec = template.status, NO_TRANSIENT_TAINTS.remove_from(template).spec
    offered = {PODS: _MAX_PODS, **status.capacity, **status.allocatable}
    ready = Condition(READY, 0, "True", api_time(now), "KubeletReady")
    metadata = ObjectMeta(
        name=name,
        uid=f"node-{name}",
        creation_timestamp=api_time(now),
        labels={**template.metadata.labels, "kubernetes.io/hostname": name},
        annotations=template.metadata.annotations,
    )
    return Node(metadata, spec, msgspec.structs.replace(status, allocatable=offered, conditions=(ready,)))


def _depends_on_other_pods(workload: SimulatedWorkload) -> bool:
    """Whether the placement of a workload's pods depends on other pods."""
    template = convert_object(workload.template, PodTemplateSpec)
    return depends_on_other_pods(Demand.of(template.spec, metadata=template.metadata))


def _initial_nodes(fleet: Fleet, now: float) -> Iterator[tuple[Node, float]]:
    """The nodes at the start."""
    for shape in (*fleet.nodes, *fleet.pools):
        template = convert_object(shape.document, Node)
        for number in range(shape.count):
            yield build_node(template, f"{shape.name}-{number + 1}", now), shape.price
