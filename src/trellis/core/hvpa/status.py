"""The status of an Hvpa, made from a plan, and the memory that is restored from it."""

from __future__ import annotations

from datetime import UTC, datetime

from trellis.api.kinds.hvpa import BlockedStep, HpaDemand, HvpaStatus, ResourceTotals
from trellis.api.kinds.vpa import ContainerRecommendation, PodRecommendation
from trellis.base.errors import InvalidTime
from trellis.base.quantities import Quantity
from trellis.base.times import format_time, parse_time
from trellis.core.hvpa.demand.recent_totals import WindowSample
from trellis.core.hvpa.plan import HvpaPlan
from trellis.core.hvpa.remembered_state import HvpaMemory
from trellis.core.hvpa.steps import HeldStep
from trellis.core.recommend.amounts import ResourceAmounts, parse_amounts


def build_recommendation(plan: HvpaPlan) -> PodRecommendation | None:
    """The recommendation that admission and updater apply; None if nothing has been decided yet.

    Its bounds equal its target, because the plan has already decided that the change is worth it.
    """
    sized = {name: _format_amounts(amounts) for name, amounts in plan.containers.items() if amounts}
    parts = [
        ContainerRecommendation(name, target={**quantities}, lower_bound={**quantities}, upper_bound={**quantities})
        for name, quantities in sized.items()
    ]
    return PodRecommendation(parts) if parts else None


def build_hpa_demand(plan: HvpaPlan) -> HpaDemand | None:
    """The HPA's total in force, and since when."""
    if not plan.hpa or plan.memory.hpa_changed_at is None:
        return None
    quantities = _format_amounts(plan.hpa)
    since = format_time(datetime.fromtimestamp(plan.memory.hpa_changed_at, UTC))
    return HpaDemand(ResourceTotals(quantities.get("cpu"), quantities.get("memory")), since)


def build_blocked_steps(plan: HvpaPlan) -> list[BlockedStep]:
    """The steps held back."""
    return [_build_blocked_step(step) for step in plan.summary.blocked]


def _build_blocked_step(step: HeldStep) -> BlockedStep:
    message = f"{step.details}: {step.reason.meaning}" if step.details else step.reason.meaning
    return BlockedStep(step.direction.value, step.reason.code, message)


def restore_memory(status: HvpaStatus | None, now: float) -> HvpaMemory:
    """What a controller that starts anew knows of an Hvpa.

    The HPA's total in force is held from here on, and its metrics are believed when they would have been.
    """
    if status is None:
        return HvpaMemory()
    scaled = _parse_past_time(status.last_scale_time, now)
    if status.hpa is None or status.hpa.total is None:
        return HvpaMemory(scaled_at=scaled)
    quantities = {"cpu": status.hpa.total.cpu, "memory": status.hpa.total.memory}
    totals = parse_amounts({name: text for name, text in quantities.items() if text is not None})
    return HvpaMemory(
        hpa_windows={name: (WindowSample(total, now),) for name, total in totals.items()},
        hpa_changed_at=now,
        scaled_at=scaled,
    )


def _parse_past_time(text: str | None, now: float) -> float | None:
    """A time that another client, or another clock, may have written: one that is still to come would be waited for."""
    try:
        return min(parse_time(text).timestamp(), now) if text else None
    except InvalidTime:
        return None


def _format_amounts(amounts: ResourceAmounts) -> dict[str, str]:
    """Millicores and bytes as quantities."""
    return {
        name: str(Quantity.from_milli(amount) if name == "cpu" else Quantity.from_units(amount))
        for name, amount in amounts.items()
    }
