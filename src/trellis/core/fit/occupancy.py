"""The resources and host ports that pods take on each node.

Numbers are those of one table: when a node is removed from the table, `clear` its number here before it stands for
another node. A negative number stands for no node, and nothing is counted there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from trellis.core.fit.demand import ALL_ADDRESSES, Demand, HostPort
from trellis.core.fit.node_table import Matrix, NodeTable
from trellis.core.fit.resources import LARGEST_AMOUNT
from trellis.core.usage.columns import BoolColumn, IntColumn


class Occupancy:
    """What is taken on the nodes of one table."""

    def __init__(self, table: NodeTable, placed: Iterable[tuple[int, Demand]] = ()) -> None:
        self._table = table
        self._amounts: Matrix = np.zeros((0, 0), dtype=np.int64)
        # By protocol and port, then by address: how many pods of each node hold it.
        self._ports: dict[tuple[str, int], dict[str, dict[int, int]]] = {}
        self._add_all(placed)

    @property
    def amounts(self) -> Matrix:
        """How much is taken, (resources, nodes), as the table's `allocatable`."""
        return self._fitted()[:, : self._table.reach]

    def free(self, resource: str) -> IntColumn:
        """How much of one resource is left, node by node; below zero where more is taken than there is."""
        row = self._table.resources.get(resource)
        return self._table.offered(resource) if row is None else self._table.allocatable[row] - self.amounts[row]

    def add(self, number: int, demand: Demand, times: int = 1) -> None:
        """Put a pod on a node, or take one away with -1 times."""
        if number < 0:
            return
        rows = [self._table.row(name) for name, _ in demand.amounts]
        amounts = np.array([amount for _, amount in demand.amounts], dtype=np.int64)
        self._fitted()[rows, number] += times * amounts
        for port in demand.ports:
            self._hold(port, number, times)

    def add_many(self, numbers: IntColumn, demand: Demand, times: IntColumn) -> None:
        """Put so many pods that are alike on several nodes, each of them named once."""
        for name, amount in demand.amounts:
            row = self._table.row(name)
            self._fitted()[row, numbers] += times * amount
        for port in demand.ports:
            for number, count in zip(numbers.tolist(), times.tolist(), strict=True):
                self._hold(port, number, count)

    def count_fitting(self, demand: Demand, numbers: IntColumn) -> IntColumn:
        """How many pods that are alike would fit on each of some nodes, if nothing but room counted."""
        allocatable, taken = self._table.allocatable, self.amounts
        counts = np.full(len(numbers), 1 if demand.ports else LARGEST_AMOUNT, dtype=np.int64)
        for name, amount in demand.amounts:
            row = self._table.resources.get(name)
            if row is None:
                return np.zeros(len(numbers), dtype=np.int64)
            left = allocatable[row, numbers]
            left -= taken[row, numbers]
            left //= amount
            np.minimum(counts, left, out=counts)
        for port in demand.ports:
            counts[~self.nodes_with_free_port(port)[numbers]] = 0
        return np.maximum(counts, 0, out=counts)

    def copy(self) -> Occupancy:
        """The same pods, to try something with."""
        copy = Occupancy(self._table)
        copy._amounts = self._amounts.copy()
        copy._ports = {
            port: {address: dict(held) for address, held in addresses.items()}
            for port, addresses in self._ports.items()
        }
        return copy

    def remove(self, number: int, demand: Demand) -> None:
        """Take a pod away that was put there with this demand."""
        self.add(number, demand, -1)

    def clear(self, number: int) -> None:
        """Take all pods away from one node."""
        self._fitted()[:, number] = 0
        for addresses in self._ports.values():
            for held in addresses.values():
                held.pop(number, None)

    def nodes_with_free_port(self, port: HostPort) -> BoolColumn:
        """The nodes on which a pod could have this port."""
        free = np.ones(self._table.reach, dtype=np.bool_)
        for address, held in self._ports.get((port.protocol, port.port), {}).items():
            if ALL_ADDRESSES in (port.address, address) or address == port.address:
                free[list(held)] = False
        return free

    def _add_all(self, placed: Iterable[tuple[int, Demand]]) -> None:
        """All at once: the rows of a demand are looked up once for all pods that are alike."""
        numbers: defaultdict[Demand, list[int]] = defaultdict(list)
        for number, demand in placed:
            if number >= 0:
                numbers[demand].append(number)
        for demand, where in numbers.items():
            for name, amount in demand.amounts:
                row = self._table.row(name)
                np.add.at(self._fitted()[row], where, amount)
            for port in demand.ports:
                for number in where:
                    self._hold(port, number, 1)

    def _hold(self, port: HostPort, number: int, times: int) -> None:
        held = self._ports.setdefault((port.protocol, port.port), {}).setdefault(port.address, {})
        held[number] = held.get(number, 0) + times
        if held[number] <= 0:
            del held[number]

    def _fitted(self) -> Matrix:
        """The matrix, with the rows and the capacity that the table has now."""
        shape = (len(self._table.resources), self._table.capacity)
        if self._amounts.shape != shape:
            grown = np.zeros(shape, dtype=np.int64)
            rows, columns = self._amounts.shape
            grown[:rows, :columns] = self._amounts
            self._amounts = grown
        return self._amounts
