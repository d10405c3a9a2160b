"""Steps from one shape of a workload to another: their direction, whether it is open, and whether they are worth it.

A step goes up if there are more replicas or any resource gets more in total, and down if there is less of anything; it
may do both.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from trellis.api.resolve import EffectiveHvpa, ScaleMode, ScalePolicy
from trellis.base.quantities import Quantity
from trellis.base.reasons import Reason
from trellis.base.times import DailyWindow
from trellis.base.wording import AMOUNTS_PER_UNIT, RESOURCE_WORDS, format_amount
from trellis.core.hvpa.ladder import Ladders
from trellis.core.recommend.amounts import ResourceAmounts

STABILIZATION_WINDOW = Reason(
    "StabilizationWindow", "The change of demand has not lasted for the stabilization window yet."
)
MAINTENANCE_WINDOW = Reason(
    "MaintenanceWindow", "Steps in this direction are taken only inside the maintenance window."
)
UPDATE_POLICY = Reason("UpdatePolicy", "Steps in this direction are disabled by updateMode.")
MIN_CHANGE = Reason("MinChange", "The size would fall by less than minChangePercent with the same number of replicas.")
NO_RECOMMENDATION = Reason("NoRecommendation", "Neither an HPA nor a VPA provides a demand.")


class StepDirection(StrEnum):
    """The direction of a step."""

    UP = "Up"
    DOWN = "Down"


class WorkloadShape(msgspec.Struct, frozen=True):
    """How many replicas, and what each of them has."""

    count: int
    size: ResourceAmounts

    @property
    def totals(self) -> ResourceAmounts:
        """The totals of all replicas, by resource."""
        return {name: self.count * amount for name, amount in self.size.items()}

    def describe(self, *, binary: bool) -> str:
        """For people: rounded, and in the family of suffixes that buckets are written in."""
        parts = [
            f"{RESOURCE_WORDS[name]} {format_amount(self.size[name], name, binary, unit)}"
            for name, unit in AMOUNTS_PER_UNIT.items()
            if name in self.size
        ]
        return f"{self.count} x ({', '.join(parts)})" if parts else str(self.count)

    def __str__(self) -> str:
        parts = [f"{self.size['cpu']}m"] if "cpu" in self.size else []
        parts += [str(Quantity.from_units(self.size["memory"]))] if "memory" in self.size else []
        return f"{self.count} x ({', '.join(parts)})" if parts else str(self.count)


class HeldStep(msgspec.Struct, frozen=True):
    """A step, or a part of one, that is not taken."""

    direction: StepDirection
    reason: Reason
    details: str = ""


def list_step_directions(before: WorkloadShape, after: WorkloadShape) -> tuple[StepDirection, ...]:
    """The directions of a step. Where the count moves, less than a unit for each replica is rounding and no step."""
    totals_before, totals_after = before.totals, after.totals
    rounding = max(before.count, after.count) - 1 if before.count != after.count else 0
    up = after.count > before.count or any(
        total > totals_before.get(name, 0) + rounding for name, total in totals_after.items()
    )
    down = after.count < before.count or any(
        total < totals_before.get(name, 0) - rounding for name, total in totals_after.items()
    )
    return (StepDirection.UP,) * up + (StepDirection.DOWN,) * down


def find_closed_directions(hvpa: EffectiveHvpa, now: float) -> dict[StepDirection, Reason]:
    """The directions in which no step is taken now, and why."""
    policies = {StepDirection.UP: hvpa.up, StepDirection.DOWN: hvpa.down}
    reasons = {direction: _find_closing_reason(policy, hvpa.window, now) for direction, policy in policies.items()}
    return {direction: reason for direction, reason in reasons.items() if reason is not None}


def find_next_window_change(hvpa: EffectiveHvpa, now: float) -> float | None:
    """When the maintenance window opens or closes next."""
    change = hvpa.window.next_change(datetime.fromtimestamp(now, UTC)) if hvpa.window is not None else None
    return change.timestamp() if change is not None else None


def is_below_min_change(before: WorkloadShape, after: WorkloadShape, ladders: Ladders, percent: int) -> bool:
    """Whether a fall is not worth a change: same count, nothing rises, and nothing falls by as much as this.

    What is above its bucket always has to come down to it.
    """
    if after == before or after.count != before.count or StepDirection.UP in list_step_directions(before, after):
        return False
    if any(amount > ladders.by_resource[name].maximum_in_bucket(after.count) for name, amount in before.size.items()):
        return False
    had = before.size
    return all(
        amount == had.get(name, 0) or 100 * amount > (100 - percent) * had.get(name, 0)
        for name, amount in after.size.items()
    )


def describe_step(before: WorkloadShape, after: WorkloadShape, *, binary: bool) -> str:
    """A step in words; exact amounts if the rounded ones are equal."""
    was, will_be = before.describe(binary=binary), after.describe(binary=binary)
    return f"{before} to {after}" if was == will_be else f"{was} to {will_be}"


def _find_closing_reason(policy: ScalePolicy, window: DailyWindow | None, now: float) -> Reason | None:
    if policy.mode is ScaleMode.OFF:
        return UPDATE_POLICY
    if policy.mode is ScaleMode.AUTO:
        return None
    inside = window is not None and window.contains(datetime.fromtimestamp(now, UTC))
    return None if inside else MAINTENANCE_WINDOW
