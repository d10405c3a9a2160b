"""The base of all parts, parts that several kinds share, and the texts of amounts and times.

Parts are printed as they are: what is empty is left out. Amounts and times are written as Kubernetes writes them, and
as an empty text if they are not known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from trellis.base.quantities import Quantity
from trellis.base.reasons import DetailedReason, Reason
from trellis.base.times import format_time
from trellis.core.cluster.json_patches import format_resource_amount
from trellis.core.recommend.amounts import RESOURCES


def format_amount(resource: str, amount: float | None) -> str:
    """Millicores or bytes as a quantity."""
    return format_resource_amount(resource, int(amount)) if amount is not None and math.isfinite(amount) else ""


def format_amounts(amounts: Mapping[str, int]) -> dict[str, str]:
    """The same by resource."""
    return {resource: format_amount(resource, amounts[resource]) for resource in RESOURCES if resource in amounts}


def format_total(resource: str, amount: int, *, binary: bool) -> str:
    """Millicores or bytes of all replicas, in the family of suffixes that buckets are written in."""
    return str(Quantity.from_milli(amount) if resource == "cpu" else Quantity.from_units(amount, binary=binary))


def format_totals(amounts: Mapping[str, int], *, binary: bool) -> dict[str, str]:
    """The same by resource."""
    return {resource: format_total(resource, amount, binary=binary) for resource, amount in amounts.items()}


def format_timestamp(seconds: float | None) -> str:
    """Seconds since 1970 as RFC 3339."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    return format_time(datetime.fromtimestamp(seconds, UTC))


def format_moment(moment: datetime | None) -> str:
    """A time of an object as RFC 3339."""
    return format_time(moment) if moment is not None else ""


# Quantities by resource.
QuantityTexts = Mapping[str, str]


class ExplanationPart(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A part of an explanation."""


class ReasonPart(ExplanationPart, frozen=True):
    """A reason with its details."""

    reason: Reason
    details: str = ""


class ObstaclePart(ExplanationPart, frozen=True):
    """Why a number of nodes take no further chunk."""

    reason: Reason
    nodes: int
    resource: str = ""


def build_reason_part(detailed: DetailedReason) -> ReasonPart:
    """The part of a reason with its details."""
    return ReasonPart(detailed.reason, detailed.details)
