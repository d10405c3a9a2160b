"""What is on the nodes, as one value: how much is taken, and who is there."""

from __future__ import annotations

from typing import NamedTuple

from trellis.core.fit import Demand, Neighbours, NodeTable, Occupancy, Resident
from trellis.core.usage.columns import IntColumn


class World(NamedTuple):
    """Pods on the nodes of one table. There is that of all pods, and that of those alone that belong to their nodes."""

    used: Occupancy
    near: Neighbours

    @classmethod
    def of(cls, table: NodeTable) -> World:
        """With nobody in it."""
        return cls(Occupancy(table), Neighbours(table))

    def add(self, number: int, demand: Demand, resident: Resident) -> None:
        """Put a pod on a node."""
        self.used.add(number, demand)
        self.near.add(number, resident)

    def remove(self, number: int, demand: Demand, resident: Resident) -> None:
        """Take one away that was put there like this."""
        self.used.remove(number, demand)
        self.near.remove(number, resident)

    def add_each(self, numbers: IntColumn, demand: Demand, times: IntColumn) -> None:
        """Put so many pods that are alike on several nodes, each of them named once; -1 times takes one away."""
        self.used.add_each(numbers, demand, times)
        self.near.add_each(numbers, demand.resident, times)

    def copy(self) -> World:
        """The same, to try something with."""
        return World(self.used.copy(), self.near.copy())
