"""How did what was found become what is recommended? Every stage that changed a target, with what it made of it.

A trace watches a pass: it sees the very columns that the pass goes through, and works nothing out itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from trellis.base.reason import Reason
from trellis.core.recommend.amounts import RESOURCES, TARGET
from trellis.core.usage.columns import FloatColumn


class TargetStep(msgspec.Struct, frozen=True):
    """One stage that changed the target of a resource, in millicores or bytes; NaN is none."""

    resource: str
    reason: Reason
    before: float
    after: float


class Trace:
    """What targets were after every stage, (resource, container number)."""

    def __init__(self) -> None:
        self._seen: list[tuple[Reason | None, FloatColumn]] = []

    def __call__(self, reason: Reason | None, amounts: FloatColumn) -> None:
        """A stage is over; without a reason, all of them are still to come."""
        self._seen.append((reason, amounts[TARGET].copy()))

    def steps(self, place: int) -> Iterator[TargetStep]:
        """What changed the targets of one container, by its number: resource after resource, in the order of stages."""
        for which, resource in enumerate(RESOURCES):
            before = np.nan
            for reason, targets in self._seen:
                after = float(targets[which, place])
                if reason is not None and after != before and not (np.isnan(after) and np.isnan(before)):
                    yield TargetStep(resource, reason, float(before), after)
                before = after
