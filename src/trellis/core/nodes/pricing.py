"""What does the room cost that pods hold? The share of each node that they take, at the price of the node."""

from __future__ import annotations

import numpy as np

from trellis.base.prices import GIB
from trellis.core.fit import Demand
from trellis.core.fit.resources import CPU, MEMORY
from trellis.core.nodes.look import Look
from trellis.core.nodes.trial import Trial
from trellis.core.usage.columns import FloatColumn, IntColumn


class Prices:
    """Money for an hour of each node, by its number; of one that is of no group by its cores and its memory."""

    def __init__(self, seen: Look, tried: Trial) -> None:
        self._table = tried.table
        self._hourly: FloatColumn = np.zeros(tried.table.reach)
        if (prices := seen.settings.prices) is not None:
            cores, memory = self._table.offered(CPU) / 1000.0, self._table.offered(MEMORY) / GIB
            self._hourly += cores * prices.core_hour + memory * prices.gib_hour
        groups = seen.snapshot.groups
        for name, (group, _) in seen.snapshot.ties.instances.items():
            number = tried.table.find(name)
            if number >= 0:
                self._hourly[number] = groups[group].group.price
        for rows in (tried.coming, tried.new):
            self._hourly[rows] = seen.templates.prices[tried.groups_of(rows)]

    def of(self, demand: Demand, numbers: IntColumn) -> float:
        """Of pods that are alike, one on each of these nodes: by CPU or memory, whichever they take more of."""
        requests = demand.requests
        share = np.zeros(len(numbers))
        for name in (CPU, MEMORY):
            offered = np.maximum(self._table.offered(name)[numbers], 1)
            share = np.maximum(share, requests.get(name, 0) / offered)
        return float((share * self._hourly[numbers]).sum())
