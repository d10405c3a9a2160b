"""How are amounts and times written in an explanation? As Kubernetes writes them; nothing for what is not known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime

from trellis.base.quantity import Quantity
from trellis.base.times import format_time
from trellis.core.model.patches import quantity_text
from trellis.core.recommend.amounts import RESOURCES


def amount_text(resource: str, amount: float | None) -> str:
    """Millicores or bytes as a quantity."""
    return quantity_text(resource, int(amount)) if amount is not None and math.isfinite(amount) else ""


def amounts_text(amounts: Mapping[str, int]) -> dict[str, str]:
    """The same by resource."""
    return {resource: amount_text(resource, amounts[resource]) for resource in RESOURCES if resource in amounts}


def sum_text(resource: str, amount: int, *, binary: bool) -> str:
    """Millicores or bytes of all replicas, in the family of suffixes that buckets are written in."""
    return str(Quantity.from_milli(amount) if resource == "cpu" else Quantity.from_units(amount, binary=binary))


def sums_text(amounts: Mapping[str, int], *, binary: bool) -> dict[str, str]:
    """The same by resource."""
    return {resource: sum_text(resource, amount, binary=binary) for resource, amount in amounts.items()}


def time_text(seconds: float | None) -> str:
    """Seconds since 1970 as RFC 3339."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    return format_time(datetime.fromtimestamp(seconds, UTC))


def moment_text(moment: datetime | None) -> str:
    """The same of a time that an object has."""
    return format_time(moment) if moment is not None else ""
