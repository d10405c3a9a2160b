"""Tentative placement: pods are placed on existing and new nodes such that all of it can be undone.

Pods that are placed together or not at all are tried this way. After `undo`, the simulation, the limits and the
estimator are as before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trellis.core.fit import Demand
from trellis.core.nodes.scale_up.estimator import NodeEstimator, UnplacedPods
from trellis.core.nodes.state.pods import PlacedPods
from trellis.core.nodes.state.simulation import ClusterSimulation
from trellis.core.usage.columns import IntColumn


class TentativePlacement:
    """Places pods beside all running ones, and remembers where."""

    def __init__(self, simulation: ClusterSimulation, estimator: NodeEstimator) -> None:
        self._simulation = simulation
        self._estimator = estimator
        self._new_before: IntColumn = simulation.new
        self._placed: list[tuple[PlacedPods, Demand, IntColumn]] = []

    def place(self, demand: Demand, count: int, nodes: IntColumn) -> IntColumn:
        """Place equal pods on these nodes; return the number of the node of each pod that fits."""
        running = self._simulation.running
        numbers = self._simulation.place(running, demand, count, nodes)
        self._placed.append((running, demand, numbers))
        return numbers

    def place_on_new_nodes(self, unplaced: Sequence[UnplacedPods]) -> None:
        """Place as many of the rest as possible on new nodes: first on those that are ordered for others anyway."""
        running = self._simulation.running
        for pods in unplaced:
            pods.record_placed(self._simulation.place(running, pods.demand, pods.count, self._new_before))
        self._estimator.place_on_new_nodes([pods for pods in unplaced if pods.count], running)
        self._placed += [(running, pods.demand, pods.places) for pods in unplaced]

    @property
    def new_nodes(self) -> IntColumn:
        """The nodes that are added for these pods."""
        new = self._simulation.new
        return new[~np.isin(new, self._new_before)]

    def undo(self) -> None:
        """Take the pods off their nodes, and remove the nodes that were added for them."""
        for placed, demand, numbers in reversed(self._placed):
            nodes, counts = np.unique(numbers, return_counts=True)
            if len(nodes):
                placed.add_many(nodes, demand, -counts.astype(np.int64))
        self._placed.clear()
        # Backwards, so that later rows get the same numbers as without this attempt.
        self._estimator.remove_nodes(self.new_nodes[::-1])
