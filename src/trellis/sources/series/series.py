"""A series of usage over time in columns, with the requests and limits that are declared for it."""

from __future__ import annotations

import math
from functools import cached_property

import msgspec
import numpy as np

from trellis.base.errors import InternalError
from trellis.core.usage.columns import FloatColumn


class DeclaredResources(msgspec.Struct, frozen=True):
    """Declared requests and limits in cores and bytes; NaN where not declared."""

    cpu_request: float = math.nan
    memory_request: float = math.nan
    cpu_limit: float = math.nan
    memory_limit: float = math.nan

    @property
    def is_empty(self) -> bool:
        """Whether nothing is declared."""
        return all(math.isnan(value) for value in msgspec.structs.astuple(self))

    def overlay(self, other: DeclaredResources) -> DeclaredResources:
        """These resources, completed by the other ones where not declared."""
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return DeclaredResources(*(second if math.isnan(first) else first for first, second in pairs))


class ContainerIdentity(msgspec.Struct, frozen=True):
    """The container that a series is of, as far as its columns say; a field without a column is empty."""

    namespace: str = ""
    workload: str = ""
    pod: str = ""
    container: str = ""


_NO_INTERVAL = 60.0


class Series(msgspec.Struct, frozen=True, dict=True):
    """The usage of one container: seconds since 1970 in ascending order, cores and bytes.

    The columns are equally long, NaN where not measured. `source` is where it was read, `identity` the container that
    columns there name, and `declared` the requests and limits there.
    """

    name: str
    times: FloatColumn
    cpu: FloatColumn
    memory: FloatColumn
    source: str = ""
    declared: DeclaredResources = DeclaredResources()
    identity: ContainerIdentity = ContainerIdentity()

    def __post_init__(self) -> None:
        lengths = {len(column) for column in (self.times, self.cpu, self.memory)}
        if len(lengths) != 1 or lengths == {0}:
            raise InternalError(f"the columns of series {self.name} have lengths {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.times)

    @property
    def has_cpu(self) -> bool:
        """Whether CPU was measured at all."""
        return bool((~np.isnan(self.cpu)).any())

    @property
    def has_memory(self) -> bool:
        """Whether memory was measured at all."""
        return bool((~np.isnan(self.memory)).any())

    @cached_property
    def interval(self) -> float:
        """The usual distance between two samples, in seconds."""
        return float(np.median(np.diff(self.times))) if len(self) > 1 else _NO_INTERVAL

    @property
    def span(self) -> float:
        """The time from the first sample to the end of the last one, in seconds."""
        return float(self.times[-1] - self.times[0]) + self.interval

    @property
    def missing(self) -> float:
        """The share of missing samples at the usual interval."""
        return max(0.0, 1.0 - len(self) / max(1.0, round(self.span / self.interval)))
