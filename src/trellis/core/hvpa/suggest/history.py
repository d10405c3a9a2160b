"""The history of a workload that buckets are proposed from: its pods, what all of them used, and their bounds.

CPU is in millicores and memory in bytes; NaN is "none" or "not known".
"""

from __future__ import annotations

import math
from functools import cached_property

import msgspec
import numpy as np

from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn

_DAY = 86_400.0


class SuggestionRules(msgspec.Struct, frozen=True):
    """The figures by which buckets are proposed.

    An HPA keeps CPU at `utilization` of the requests, unless the workload has an HPA with another target. Memory gets
    `memory_margin` times the usage. The last count holds `headroom` times the highest usage.
    """

    utilization: float = 0.8
    memory_margin: float = 1.15
    headroom: float = 1.3
    min_seconds: float = 2 * _DAY
    min_variation: float = 1.5
    overlap: float = 0.1


class WorkloadUsageHistory(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Columns of equal length, `step` seconds apart: pods, and what all of them used together."""

    step: float
    pods: IntColumn
    cpu: FloatColumn
    memory: FloatColumn

    @cached_property
    def complete_samples(self) -> WorkloadUsageHistory:
        """Without the times of which something is not known."""
        is_complete: BoolColumn = (self.pods > 0) & np.isfinite(self.cpu) & np.isfinite(self.memory)
        return WorkloadUsageHistory(self.step, self.pods[is_complete], self.cpu[is_complete], self.memory[is_complete])

    @property
    def seconds(self) -> float:
        """The length of the history."""
        return self.step * len(self.pods)


class ObservedHpa(msgspec.Struct, frozen=True):
    """An HPA on the workload: its bounds, and the share of CPU requests that it keeps to, NaN if it does not.

    `others` is how many other metrics it goes by.
    """

    name: str
    least: int = 1
    most: int = 1
    utilization: float = math.nan
    others: int = 0


class WorkloadHistory(msgspec.Struct, frozen=True, eq=False):
    """A workload. `request` is what one pod asks for, CPU and memory; `largest` is the most that one may ask for.

    `hvpa` is what to call an Hvpa for it, if not as the workload.
    """

    namespace: str
    api_version: str
    kind: str
    name: str
    usage: WorkloadUsageHistory
    replicas: int
    request: tuple[float, float] = (math.nan, math.nan)
    largest: tuple[float, float] = (math.inf, math.inf)
    hpa: ObservedHpa | None = None
    hvpa: str = ""

    def find_utilization(self, rules: SuggestionRules) -> float:
        """The share of CPU requests that an HPA is to keep to."""
        if self.hpa is not None and self.hpa.utilization > 0:
            return self.hpa.utilization
        return rules.utilization
