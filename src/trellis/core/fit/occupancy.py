"""The resources and host ports that pods use on each node.

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
    """The resources and host ports that pods use on the nodes of one table."""

    def __init__(self, table: NodeTable, placed: Iterable[tuple[int, Demand]] = ()) -> None:
        self._table = table
        self._amounts: Matrix = np.zeros((0, 0), dtype=np.int64)
        # By protocol and port, then by address: the number of pods of each node that use it.
        self._ports: dict[tuple[str, int], dict[str, dict[int, int]]] = {}
        self._add_all(placed)

    @property
    def amounts(self) -> Matrix:
        """The used amounts, (resources, nodes), in the units of the table's `allocatable`."""
        return self._resized_amounts()[:, : self._table.numbers_end]

    def free(self, resource: str) -> IntColumn:
        """The free amount of one resource, node by node; below zero where more is used than is allocatable."""
        row = self._table.resources.get(resource)
        return self._table.offered(resource) if row is None else self._table.allocatable[row] - self.amounts[row]

    def add(self, number: int, demand: Demand, times: int = 1) -> None:
        """Add a pod to a node, or remove it with -1 times."""
        if number < 0:
            return
        rows = [self._table.row(name) for name, _ in demand.amounts]
        amounts = np.array([amount for _, amount in demand.amounts], dtype=np.int64)
        self._resized_amounts()[rows, number] += times * amounts
        for port in demand.ports:
            self._count_port(port, number, times)

    def add_many(self, numbers: IntColumn, demand: Demand, times: IntColumn) -> None:
        """Add equal pods to several distinct nodes, `times` to each."""
        for name, amount in demand.amounts:
            row = self._table.row(name)
            self._resized_amounts()[row, numbers] += times * amount
        for port in demand.ports:
            for number, count in zip(numbers.tolist(), times.tolist(), strict=True):
                self._count_port(port, number, count)

    def add_occupancy(self, other: Occupancy, times: int = 1) -> None:
        """Add the resources of another occupancy of the same table to every node, or remove them with -1 times."""
        self._resized_amounts()[:] += times * other._resized_amounts()

    def count_fitting(self, demand: Demand, numbers: IntColumn) -> IntColumn:
        """The number of equal pods that fit on each node by resources and host ports alone."""
        allocatable, used = self._table.allocatable, self.amounts
        counts = np.full(len(numbers), 1 if demand.ports else LARGEST_AMOUNT, dtype=np.int64)
        for name, amount in demand.amounts:
            row = self._table.resources.get(name)
            if row is None:
                return np.zeros(len(numbers), dtype=np.int64)
            free = allocatable[row, numbers]
            free -= used[row, numbers]
            free //= amount
            np.minimum(counts, free, out=counts)
        for port in demand.ports:
            counts[~self.nodes_with_free_port(port)[numbers]] = 0
        return np.maximum(counts, 0, out=counts)

    def copy(self) -> Occupancy:
        """A copy for a simulation."""
        copy = Occupancy(self._table)
        copy._amounts = self._amounts.copy()
        copy._ports = {
            port: {address: dict(counts) for address, counts in addresses.items()}
            for port, addresses in self._ports.items()
        }
        return copy

    def remove(self, number: int, demand: Demand) -> None:
        """Remove a pod that was added with this demand."""
        self.add(number, demand, -1)

    def clear(self, number: int) -> None:
        """Remove all pods from one node."""
        self._resized_amounts()[:, number] = 0
        for addresses in self._ports.values():
            for counts in addresses.values():
                counts.pop(number, None)

    def nodes_with_free_port(self, port: HostPort) -> BoolColumn:
        """The nodes on which a port is free."""
        free = np.ones(self._table.numbers_end, dtype=np.bool_)
        for address, counts in self._ports.get((port.protocol, port.port), {}).items():
            if ALL_ADDRESSES in (port.address, address) or address == port.address:
                free[list(counts)] = False
        return free

    def _add_all(self, placed: Iterable[tuple[int, Demand]]) -> None:
        """Add all pods, with one lookup of rows for all equal pods."""
        numbers: defaultdict[Demand, list[int]] = defaultdict(list)
        for number, demand in placed:
            if number >= 0:
                numbers[demand].append(number)
        for demand, nodes in numbers.items():
            for name, amount in demand.amounts:
                row = self._table.row(name)
                np.add.at(self._resized_amounts()[row], nodes, amount)
            for port in demand.ports:
                for number in nodes:
                    self._count_port(port, number, 1)

    def _count_port(self, port: HostPort, number: int, times: int) -> None:
        counts = self._ports.setdefault((port.protocol, port.port), {}).setdefault(port.address, {})
        counts[number] = counts.get(number, 0) + times
        if counts[number] <= 0:
            del counts[number]

    def _resized_amounts(self) -> Matrix:
        """The matrix, grown to the rows and the capacity of the table."""
        shape = (len(self._table.resources), self._table.capacity)
        if self._amounts.shape != shape:
            grown = np.zeros(shape, dtype=np.int64)
            rows, columns = self._amounts.shape
            grown[:rows, :columns] = self._amounts
            self._amounts = grown
        return self._amounts
