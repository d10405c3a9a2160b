"""What does the status of an Hvpa say of a plan, and what can be read back from it?"""

from __future__ import annotations

from datetime import UTC, datetime

from trellis.api.hvpa import BlockedStep, HpaDemand, HvpaStatus, ResourceTotals
from trellis.api.vpa import ContainerRecommendation, PodRecommendation
from trellis.base.quantity import Quantity
from trellis.base.times import format_time
from trellis.core.hvpa.memory import Memory
from trellis.core.hvpa.plan import Plan
from trellis.core.hvpa.steps import Blocked
from trellis.core.hvpa.windows import Seen
from trellis.core.recommend.capping.limit_ranges import Counts, counts


def recommendation_of(plan: Plan) -> PodRecommendation | None:
    """What admission and updater apply; None if nothing has been decided yet."""
    parts = [ContainerRecommendation(name, {**_texts(amounts)}) for name, amounts in plan.containers.items() if amounts]
    return PodRecommendation(parts) if parts else None


def hpa_demand_of(plan: Plan) -> HpaDemand | None:
    """The HPA's total in force, and since when."""
    if not plan.hpa or plan.memory.told is None:
        return None
    texts = _texts(plan.hpa)
    since = format_time(datetime.fromtimestamp(plan.memory.told, UTC))
    return HpaDemand(ResourceTotals(texts.get("cpu"), texts.get("memory")), since)


def blocked_of(plan: Plan) -> list[BlockedStep]:
    """The steps held back."""
    return [_blocked(each) for each in plan.verdict.blocked]


def _blocked(step: Blocked) -> BlockedStep:
    told = f"{step.details}: {step.reason.meaning}" if step.details else step.reason.meaning
    return BlockedStep(step.direction.value, step.reason.code, told)


def recalled(status: HvpaStatus | None, now: float) -> Memory:
    """What a controller that starts anew knows of an Hvpa: the HPA's total in force, which is held from here on."""
    demand = status.hpa if status is not None else None
    if demand is None or demand.total is None:
        return Memory()
    texts = {"cpu": demand.total.cpu, "memory": demand.total.memory}
    totals = counts({name: text for name, text in texts.items() if text is not None})
    return Memory(hpa={name: (Seen(total, now),) for name, total in totals.items()}, told=now)


def _texts(amounts: Counts) -> dict[str, str]:
    """Millicores and bytes as quantities."""
    return {
        name: str(Quantity.from_milli(amount) if name == "cpu" else Quantity.from_units(amount))
        for name, amount in amounts.items()
    }
