"""Every container of a served VPA: one number each, its policy and its published amounts in columns.

Stored statuses are read for many VPAs at once, because a start reads all of them.

The annotation `vpa-post-processor.kubernetes.io/<container>_integerCPU: "true"` is upstream's, for nodes whose CPU
manager pins containers to cores: such a container gets whole CPUs. It is heeded only where a setting of the recommender
says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import repeat

import numpy as np

from trellis.api.kinds.vpa import ContainerRecommendation, VerticalPodAutoscalerStatus
from trellis.api.resolve import EffectiveContainerPolicy
from trellis.core.recommend.amounts import (
    CPU,
    LARGEST_EXACT_AMOUNT,
    MEMORY,
    RESOURCES,
    STATUS_FIELDS,
    parse_cpu_column,
    parse_memory_column,
)
from trellis.core.recommend.capping.policy import PolicyBounds
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn, KeyedTable, RowKey


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
        self.published: FloatColumn = np.full((len(STATUS_FIELDS), len(RESOURCES), 0), np.nan)
        # How bounds are spelled, where it matters; most containers have none.
        self.spelled: dict[int, dict[tuple[str, float], str]] = {}

    def lookup(self, keys: Sequence[RowKey]) -> IntColumn:
        """The number of each key; -1 where there is none."""
        return np.fromiter(map(self._numbers.get, keys, repeat(-1)), dtype=np.int64, count=len(keys))

    def name_of(self, number: int) -> str:
        """What a container is called."""
        return self.keys((number,))[0].container

    def compile(self, number: int, meaning: EffectiveContainerPolicy, caps: PolicyBounds, *, integer: bool) -> None:
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


def list_recommendations(status: VerticalPodAutoscalerStatus | None) -> Sequence[ContainerRecommendation]:
    """The entries of a status, if it has any."""
    if status is None or status.recommendation is None:
        return ()
    return status.recommendation.container_recommendations or ()


def read_published_amounts(recommendations: Sequence[ContainerRecommendation]) -> FloatColumn:
    """Every amount, (what, resource, entry); NaN where there is none, or nothing that can be read."""
    amounts = np.full((len(STATUS_FIELDS), len(RESOURCES), len(recommendations)), np.nan)
    parts = [
        (each.target, each.lower_bound, each.upper_bound, each.uncapped_target, each.total_target)
        for each in recommendations
    ]
    for what, column in enumerate(zip(*parts, strict=True)):
        if any(column):
            amounts[what, CPU] = parse_cpu_column([_text(each, "cpu") for each in column])
            amounts[what, MEMORY] = parse_memory_column([_text(each, "memory") for each in column])
    np.minimum(amounts, LARGEST_EXACT_AMOUNT, out=amounts)
    return amounts


def _text(amounts: Mapping[str, str | int] | None, resource: str) -> str | None:
    text = amounts.get(resource) if amounts else None
    return text if text is None or isinstance(text, str) else str(text)


INTEGER_CPU_PREFIX = "vpa-post-processor.kubernetes.io/"
INTEGER_CPU_SUFFIX = "_integerCPU"


def wants_integer_cpu(annotations: Mapping[str, str], container: str) -> bool:
    """Whether the annotation is there."""
    return annotations.get(f"{INTEGER_CPU_PREFIX}{container}{INTEGER_CPU_SUFFIX}") == "true"
