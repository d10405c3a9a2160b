"""On which node does a new pod run?

Pods wait in the order of their priority, then of their making; those of DaemonSets go before others of their priority,
because the estimate of how many pods a new node takes counts on them. `core.fit` says where one fits; of these nodes
the one with the largest share left free is taken. What pods ask about one another counts. Who fits nowhere waits until
room appears, and how long is counted.

Where nodes can be had, more is modelled: who waits says so, and pods of lower priority make way.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count
from typing import TypeAlias

import numpy as np

from trellis.core.fit import Demand, fits
from trellis.core.fit.resources import CPU, MEMORY
from trellis.core.nodes.pods import is_fixed
from trellis.core.usage.columns import BoolColumn
from trellis.sim.cluster.living import Living
from trellis.sim.cluster.pods import unschedulable
from trellis.sim.cluster.preempting import Preempting
from trellis.sim.cluster.state import State
from trellis.sim.kernel import Priority, Ticket

Bind: TypeAlias = Callable[[Living, int], None]


class Scheduler:
    """Places pods. `bind` is the kubelet's part: what follows when a pod has got its node."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._tells = bool(state.fleet.pools)
        self.preempting: Preempting | None = None
        self._waiting: list[tuple[int, bool, int, Living]] = []
        self._order = count()
        self._ticket: Ticket | None = None
        self.bind: Bind = lambda _living, _node: None
        state.kick = self.kick

    @property
    def waiting(self) -> list[Living]:
        """The pods without a node, in no order."""
        return [living for *_, living in self._waiting if self._waits(living)]

    def enqueue(self, living: Living) -> None:
        """Take on a new pod."""
        heapq.heappush(self._waiting, (-living.priority, not is_fixed(living.pod), next(self._order), living))
        self.kick()

    def kick(self) -> None:
        """Look again: something has changed."""
        if self._waiting and (self._ticket is None or not self._ticket.waits):
            self._ticket = self._state.kernel.after(0.0, self._pass, Priority.SCHEDULER)

    def _waits(self, living: Living) -> bool:
        return living.node < 0 and not living.going and self._state.pods.get(living.key) is living

    def _pass(self) -> None:
        """Place whom there is room for. What fitted nowhere a moment ago does not fit anywhere now."""
        left = []
        hopeless: set[Demand] = set()
        while self._waiting:
            entry = heapq.heappop(self._waiting)
            living = entry[-1]
            if not self._waits(living):
                continue
            demand = self._demand(living)
            node = -1 if demand in hopeless else self._choose(living, demand)
            if node >= 0:
                self.bind(living, node)
                continue
            left.append(entry)
            # What is near somebody may fit as soon as that one has its node.
            if not demand.near:
                hopeless.add(demand)
            if self.preempting is not None:
                self.preempting.make_way(living, demand)
            if self._tells:
                self._state.put(living, unschedulable(living.pod, self._state.now))
        self._waiting = left
        heapq.heapify(self._waiting)

    def _demand(self, living: Living) -> Demand:
        pod = living.pod
        return Demand.of(pod.spec) if self._state.nodes.near is None else Demand.of(pod.spec, metadata=pod.metadata)

    def _choose(self, living: Living, demand: Demand) -> int:
        nodes = self._state.nodes
        if self.preempting is None:
            possible = fits(nodes.table, demand, nodes.occupancy, nodes.near)
        else:
            with self.preempting.promised(living):
                possible = fits(nodes.table, demand, nodes.occupancy, nodes.near)
        return self._best(possible, demand) if possible.any() else -1

    def _best(self, possible: BoolColumn, demand: Demand) -> int:
        """The node with the most left once the pod is there; the first of several."""
        nodes, asked = self._state.nodes, demand.requests
        score = np.zeros(nodes.table.reach)
        for resource in (CPU, MEMORY):
            offered = np.maximum(nodes.table.offered(resource), 1)
            score += (nodes.occupancy.free(resource) - asked.get(resource, 0)) / offered
        return int(np.argmax(np.where(possible, score, -np.inf)))
