"""Which pods are on which nodes, and which wait for one? In columns, kept current change by change.

A pod that cannot be read is named, and stops no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from trellis.api.kube.nodes import Node
from trellis.api.kube.pods import Pod
from trellis.api.kube.slices import NOTHING, Labels
from trellis.base.errors import InvalidInput
from trellis.base.reason import Reason, Severity
from trellis.core.buffers.said import Said
from trellis.core.fit import Demand, NodeTable, Resident, Storage, held_by, is_for_one_pod
from trellis.core.model.keys import Key, key_of
from trellis.core.nodes.claim_holders import ClaimHolders, claims_of
from trellis.core.nodes.pods import (
    Demands,
    PendingPod,
    PlacedPod,
    Shared,
    has_claims,
    is_finished,
    is_fixed,
    is_unschedulable,
    waits_for_a_node,
)
from trellis.core.nodes.worlds import World

DEMAND_UNREADABLE = Reason("PodDemandUnreadable", "What the pod asks of a node cannot be read.", Severity.WARNING)

# Pods below this priority make way for others, and no node is added for them.
EXPENDABLE_BELOW: Final = -10


class Population:
    """All nodes and pods. In each `put`, None says that the object is gone.

    `running` has all pods that count, `fixed` those of them that belong to their nodes. Both have numbers of `table`.
    """

    def __init__(self, expendable_below: int = EXPENDABLE_BELOW) -> None:
        self.table = NodeTable()
        self.running = World.of(self.table)
        self.fixed = World.of(self.table)
        self.nodes: dict[str, Node] = {}
        self.placed: dict[Key, PlacedPod] = {}
        self.pending: dict[Key, PendingPod] = {}
        # What is wrong with objects that cannot be read, by kind, namespace and name.
        self.problems: dict[tuple[str, Key], Said] = {}
        self._expendable_below = expendable_below
        self._storage = Storage()
        self._read = Demands()
        self._on: dict[str, dict[Key, PlacedPod]] = {}
        self._with_volumes: dict[Key, Pod] = {}
        self._holders = ClaimHolders()
        # Pods that the scheduler has promised a node and not given one yet.
        self._promised: dict[Key, Pod] = {}
        self._arrived: dict[str, int] = {}
        self._demands: Shared[Demand] = Shared()
        self._residents: Shared[Resident] = Shared()

    def on(self, node: str) -> Mapping[Key, PlacedPod]:
        """The pods on a node; not to be changed."""
        return self._on.get(node, {})

    def take_arrivals(self) -> dict[str, int]:
        """How many pods have come to each node since this was last asked, those apart that belong to it."""
        arrived, self._arrived = self._arrived, {}
        return arrived

    def put_arrivals(self, arrived: dict[str, int]) -> None:
        """Have those be told again that were taken last."""
        self._arrived = arrived

    def put_node(self, name: str, node: Node | None) -> None:
        """A node."""
        number = self.table.find(name)
        if node is not None:
            self.nodes[name] = node
            if number < 0:
                number = self.table.update(node)
                # Pods may have been seen before their node.
                for each in self.on(name).values():
                    self._count(number, each)
                self._look_again(name)
            else:
                self.table.update(node)
        elif number >= 0:
            del self.nodes[name]
            for each in self.on(name).values():
                self._uncount(number, each)
            self.table.remove(name)
            # Where nobody plans, for want of the lead, names would pile up.
            self._arrived.pop(name, None)
            self._look_again(name)

    def put_pod(self, key: Key, pod: Pod | None) -> None:
        """A pod."""
        left = self._leave(key)
        if pod is None or is_finished(pod):
            return
        node = pod.spec.node_name
        if not node and pod.status.nominated_node_name:
            self._promised[key] = pod
            # Who has been promised a node by the scheduler counts as there: others make way for it already. A promise
            # of a node that is gone helps nobody, and the scheduler may not notice for minutes.
            node = pod.status.nominated_node_name if pod.status.nominated_node_name in self.nodes else ""
        if node:
            placed = self._enter(key, pod, node)
            if node != left and not placed.is_fixed:
                self._arrived[node] = self._arrived.get(node, 0) + 1
        elif waits_for_a_node(pod, self._expendable_below):
            self._wait(key, pod)

    def put_namespace(self, name: str, labels: Labels | None) -> None:
        """The labels of a namespace."""
        for world in (self.running, self.fixed):
            world.near.name_namespace(name, labels or NOTHING)

    def put_storage(self, storage: Storage) -> None:
        """All claims, volumes and classes; pods that wait with volumes are read again."""
        self._storage = storage
        for key, pod in [*self._with_volumes.items()]:
            self._holders.wait_no_more(pod)
            self._wait(key, pod)

    def _look_again(self, node: str) -> None:
        """A node has come or gone: who was promised it counts as there, or waits."""
        for key, pod in [*self._promised.items()]:
            if pod.status.nominated_node_name == node:
                self.put_pod(key, pod)

    def _wait(self, key: Key, pod: Pod) -> None:
        """Read what a pod asks for; one that waits already is read again, and keeps what it was promised."""
        alone: tuple[Key, ...] = ()
        if has_claims(pod):
            self._with_volumes[key] = pod
            alone = tuple(each for each in claims_of(pod) if is_for_one_pod(self._storage.claims.get(each)))
            self._holders.wait(pod, alone)
        try:
            demand = self._demands.one(self._read.read(pod, self._storage, self._holders))
        except InvalidInput as error:
            self.problems["Pod", key] = Said(DEMAND_UNREADABLE, str(error))
            return
        priority = pod.spec.priority or 0
        self.pending[key] = PendingPod(key, pod.metadata.uid, demand, priority, is_unschedulable(pod), alone)

    def _enter(self, key: Key, pod: Pod, node: str) -> PlacedPod:
        try:
            demand = self._demands.one(held_by(pod))
        except InvalidInput as error:
            self.problems["Pod", key] = Said(DEMAND_UNREADABLE, str(error))
            demand = Demand()
        resident = self._residents.one(Resident.of(pod))
        is_expendable = (pod.spec.priority or 0) < self._expendable_below
        placed = PlacedPod(key, pod, node, demand, resident, is_fixed(pod), is_expendable)
        self.placed[key] = placed
        self._on.setdefault(node, {})[key] = placed
        self._count(self.table.find(node), placed)
        if pod.spec.volumes:
            self._changed_hands(self._holders.add(pod))
        return placed

    def _leave(self, key: Key) -> str:
        """Forget a pod; the node it was on."""
        self.problems.pop(("Pod", key), None)
        self._promised.pop(key, None)
        self.pending.pop(key, None)
        waited = self._with_volumes.pop(key, None)
        if waited is not None:
            self._holders.wait_no_more(waited)
        placed = self.placed.pop(key, None)
        if placed is None:
            return ""
        self._uncount(self.table.find(placed.node), placed)
        on = self._on[placed.node]
        del on[key]
        if not on:
            del self._on[placed.node]
        if placed.pod.spec.volumes:
            self._changed_hands(self._holders.remove(placed.pod))
        return placed.node

    def _changed_hands(self, claims: set[Key]) -> None:
        """Claims are in use now, or no longer: who waits with one that is for one pod is read again."""
        for claim in claims:
            for pod in self._holders.waiting(claim):
                self._wait(key_of(pod), pod)

    def _count(self, number: int, placed: PlacedPod) -> None:
        for world in self._worlds(placed):
            world.add(number, placed.demand, placed.resident)

    def _uncount(self, number: int, placed: PlacedPod) -> None:
        for world in self._worlds(placed):
            world.remove(number, placed.demand, placed.resident)

    def _worlds(self, placed: PlacedPod) -> Iterator[World]:
        if placed.is_counted:
            yield self.running
            if placed.is_fixed:
                yield self.fixed
