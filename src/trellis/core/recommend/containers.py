"""What is asked and published for each container? One number per container of a served VPA, all facts in columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import repeat

import numpy as np

from trellis.api.resolve import ContainerMeaning
from trellis.core.recommend.amounts import CPU, MEMORY, PUBLISHED_AS, RESOURCES
from trellis.core.recommend.capping.policy import Caps
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn, RowKey
from trellis.core.usage.tables import KeyedTable


class ContainerTable(KeyedTable[RowKey]):
    """Policies compiled once, and the amounts of the status that is stored, (what, resource, number)."""

    fills = {
        "vpa": -1,
        "scaled": True,
        "cpu": True,
        "memory": True,
        "integer": False,
        "least_cpu": 0.0,
        "least_memory": 0.0,
        "most_cpu": math.nan,
        "most_memory": math.nan,
    }

    vpa: IntColumn
    scaled: BoolColumn
    """False under `mode: Off`."""
    cpu: BoolColumn
    """Whether it is among the controlled resources."""
    memory: BoolColumn
    integer: BoolColumn
    """Whether an annotation asks for whole CPUs."""
    least_cpu: FloatColumn
    least_memory: FloatColumn
    most_cpu: FloatColumn
    most_memory: FloatColumn

    def __init__(self) -> None:
        super().__init__()
        self.published: FloatColumn = np.full((len(PUBLISHED_AS), len(RESOURCES), 0), np.nan)
        # How bounds are spelled, where it matters; most containers have none.
        self.spelled: dict[int, dict[tuple[str, float], str]] = {}

    def lookup(self, keys: Sequence[RowKey]) -> IntColumn:
        """The number of each key; -1 where there is none."""
        return np.fromiter(map(self._numbers.get, keys, repeat(-1)), dtype=np.int64, count=len(keys))

    def name_of(self, number: int) -> str:
        """What a container is called."""
        return self.keys((number,))[0].container

    def compile(self, number: int, meaning: ContainerMeaning, caps: Caps, *, integer: bool) -> None:
        """Put a container's policy into the columns."""
        self.scaled[number] = meaning.scaled
        self.cpu[number], self.memory[number] = (resource in meaning.controlled for resource in RESOURCES)
        self.integer[number] = integer
        self.least_cpu[number], self.least_memory[number] = caps.least
        self.most_cpu[number], self.most_memory[number] = caps.most
        self.spelled.pop(number, None)
        if caps.spelled:
            self.spelled[number] = dict(caps.spelled)

    def least(self) -> FloatColumn:
        """Lower ends of the policies, (resource, number), of all numbers ever in use."""
        return np.stack([self.least_cpu[: self.reach], self.least_memory[: self.reach]])

    def most(self) -> FloatColumn:
        """Upper ends."""
        return np.stack([self.most_cpu[: self.reach], self.most_memory[: self.reach]])

    def controlled(self) -> BoolColumn:
        """Which resources are recommended at all, (resource, number)."""
        controlled = np.empty((len(RESOURCES), self.reach), dtype=np.bool_)
        np.logical_and(self.cpu[: self.reach], self.scaled[: self.reach], out=controlled[CPU])
        np.logical_and(self.memory[: self.reach], self.scaled[: self.reach], out=controlled[MEMORY])
        return controlled

    def release(self, numbers: IntColumn) -> None:
        """Give numbers back and forget what was published for them."""
        super().release(numbers)
        self.published[:, :, numbers] = np.nan
        for number in numbers.tolist():
            self.spelled.pop(number, None)

    def _grow(self, capacity: int) -> None:
        super()._grow(capacity)
        published = np.full((*self.published.shape[:2], capacity), np.nan)
        published[:, :, : self.published.shape[2]] = self.published
        self.published = published
