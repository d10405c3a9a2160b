"""Who needs a place, and how many of them would a new node of each group hold?"""

from __future__ import annotations

import numpy as np

from trellis.core.fit import Demand, eligible
from trellis.core.nodes.templates import Templates
from trellis.core.usage.columns import IntColumn


class Need:
    """Pods that are alike and have no place: how many are left, and where the others are once nodes have come."""

    def __init__(self, demand: Demand, count: int) -> None:
        self.demand = demand
        self.left = count
        self.requests = demand.requests
        self.places: IntColumn = np.zeros(0, dtype=np.int64)

    @property
    def goes_by_others(self) -> bool:
        """Whether it depends on other pods where these can be put."""
        return goes_by_others(self.demand)

    def placed(self, numbers: IntColumn) -> None:
        """Note that some got a place."""
        self.left -= len(numbers)
        self.places = np.concatenate((self.places, numbers))


def goes_by_others(demand: Demand) -> bool:
    """Whether it depends on other pods where such pods can be put."""
    return bool(demand.near or demand.spread or demand.resident.apart)


def rooms_for(templates: Templates, demand: Demand) -> IntColumn:
    """How many pods that are alike fit on a new node of each group, whatever other pods there are."""
    rooms = templates.used.rooms(demand, np.arange(len(templates)))
    rooms[~eligible(templates.table, demand)] = 0
    return rooms
