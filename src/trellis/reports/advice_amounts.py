"""How is a size written in advice, and how one that changes? Short enough for a table, and the same in all forms."""

from __future__ import annotations

import math

from trellis.core.advice.advised import ContainerAdvice, Totals
from trellis.core.advice.judging import REQUEST_UNKNOWN, Change
from trellis.core.advice.policy import part
from trellis.reports.figures import GIB, NOTHING, money, share, significant

NO_AMOUNT = "none"
UNKNOWN = "?"
_UNITS = ((2.0**40, "Ti"), (2.0**30, "Gi"), (2.0**20, "Mi"), (2.0**10, "Ki"))
_CENT = 0.01


def amount(resource: str, value: float) -> str:
    """Of one container, as Kubernetes writes it and short: `320m`, `1.25`, `512Mi`."""
    if math.isnan(value):
        return NO_AMOUNT
    if resource == "cpu":
        return f"{value:.0f}m" if value < 1000 else _short(value / 1000)
    for size, unit in _UNITS:
        if value >= size:
            return f"{_short(value / size)}{unit}"
    return f"{value:.0f}"


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def step(resource: str, change: Change) -> str:
    """A request from what it is to what it should be: `500m -> 320m`, or only what it is where that stays."""
    before, after = requested_before(resource, change), amount(resource, change.request)
    return before if before == after else f"{before} -> {after}"


def requested_before(resource: str, change: Change) -> str:
    """What is requested now, where that is known."""
    return UNKNOWN if change.reason is REQUEST_UNKNOWN else amount(resource, change.request_before)


def difference(resource: str, value: float) -> str:
    """Of all pods together: `-0.72` cores, `+2.8Gi`; nothing where there is none."""
    if not value:
        return ""
    sign = "+" if value > 0 else "-"
    if resource == "cpu":
        return f"{sign}{significant(abs(value) / 1000)}"
    for size, unit in _UNITS:
        if abs(value) >= size:
            return f"{sign}{significant(abs(value) / size)}{unit}"
    return f"{sign}{abs(value):.0f}"


def signed_money(value: float) -> str:
    """What more or less costs: `+12.30`, `-1,234`."""
    return f"{'-' if value < 0 else '+'}{money(abs(value))}" if abs(value) >= _CENT / 2 else "0"


def rounded_days(container: ContainerAdvice) -> str:
    """How much history there is."""
    days = container.surveyed.days
    if math.isnan(container.surveyed.first):
        return NOTHING
    return f"{days:.0f} d" if days >= 2 else f"{days * 24:.0f} h"


def total_of(resource: str, total: Totals) -> tuple[float, float]:
    """Requests before and after, in cores or GiB."""
    unit = 1000.0 if resource == "cpu" else GIB
    return part(total.before, resource) / unit, part(total.after, resource) / unit


def is_unseen(total: Totals) -> bool:
    """Whether nobody could see what any of the containers requests now."""
    return 0 < total.containers == total.reasons.get(REQUEST_UNKNOWN.code, 0)


def sums(resource: str, total: Totals) -> tuple[str, str, str]:
    """Requests before and after, in cores or GiB, and how far they are apart."""
    before, after = total_of(resource, total)
    if is_unseen(total):
        return UNKNOWN, significant(after), ""
    return significant(before), significant(after), relative(before, after)


def money_apart(total: Totals) -> str:
    """What all requests would cost more or less."""
    return "" if is_unseen(total) else signed_money(total.money_after - total.money_before)


def relative(before: float, after: float) -> str:
    """How far one sum is off the other, in per cent."""
    if not before or math.isclose(before, after):
        return "" if before else "new" if after else ""
    return f"{'-' if after < before else '+'}{share(abs(after / before - 1))}"
