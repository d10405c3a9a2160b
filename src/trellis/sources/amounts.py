"""Parses amounts of usage into columns, and counts what cannot be read by reason.

CPU is in cores and memory in bytes, NaN where nothing is known. CPU is counted in whole millicores, rounded up, and
memory in whole bytes, as upstream does it: a difference there would be one in recommendations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from trellis.base.errors import InvalidQuantity
from trellis.base.quantities import Quantity
from trellis.base.quantity_columns import Counts, parse_milli_column, parse_unit_column
from trellis.base.reasons import Reason, Severity
from trellis.core.usage.columns import FloatColumn

UNREADABLE_ENTRY: Final = Reason(
    "UnreadableUsageEntry",
    "An entry of a usage response is malformed, or does not identify its container.",
    Severity.WARNING,
)
WITHOUT_TIME: Final = Reason("UsageWithoutTime", "A usage entry has no time, or an invalid one.", Severity.WARNING)
UNREADABLE_AMOUNT: Final = Reason(
    "UnreadableUsageAmount", "A usage amount is negative, or not a quantity.", Severity.WARNING
)


def count_by_code(counts: Mapping[Reason, int]) -> dict[str, int]:
    """The counts by code, without those that are zero."""
    return {reason.code: count for reason, count in counts.items() if count}


_USUAL: Final = re.compile(r"[0-9]+(?:[numkMGTPE]|[KMGTPE]i)?")
_MISSING: Final = -1


def parse_cores(texts: Sequence[str | None]) -> tuple[FloatColumn, int]:
    """CPU, and how many texts are negative or no quantities. None is just missing."""
    amounts, unreadable = _parse_column(texts, parse_milli_column)
    return amounts / 1000.0, unreadable


def parse_bytes(texts: Sequence[str | None]) -> tuple[FloatColumn, int]:
    """Memory, and how many texts are negative or no quantities. None is just missing."""
    return _parse_column(texts, parse_unit_column)


def _parse_column(
    texts: Sequence[str | None], column: Callable[[Sequence[str | None], int], Counts]
) -> tuple[FloatColumn, int]:
    try:
        counts = column(texts, _MISSING)
    except InvalidQuantity:
        counts = column([text if text is not None and _is_quantity(text) else None for text in texts], _MISSING)
    unusable = counts < 0
    amounts = counts.astype(np.float64)
    amounts[unusable] = np.nan
    return amounts, int(np.count_nonzero(unusable)) - texts.count(None)


def _is_quantity(text: str) -> bool:
    if _USUAL.fullmatch(text):
        return True
    try:
        Quantity.parse(text)
    except InvalidQuantity:
        return False
    return True
