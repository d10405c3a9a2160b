"""How do texts of usage become numbers? CPU in cores and memory in bytes, NaN where there is nothing to know.

CPU is counted in whole millicores, rounded up, and memory in whole bytes, as upstream does it: a difference there would
be one in recommendations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from trellis.base.errors import InvalidQuantity
from trellis.base.quantity import Quantity
from trellis.base.quantity_columns import Counts, milli_column, unit_column
from trellis.core.usage.columns import FloatColumn

_USUAL: Final = re.compile(r"[0-9]+(?:[numkMGTPE]|[KMGTPE]i)?")
_MISSING: Final = -1


def cores_of(texts: Sequence[str | None]) -> tuple[FloatColumn, int]:
    """CPU, and how many texts are negative or no quantities. None is just missing."""
    amounts, unreadable = _read(texts, milli_column)
    return amounts / 1000.0, unreadable


def bytes_of(texts: Sequence[str | None]) -> tuple[FloatColumn, int]:
    """Memory, and how many texts are negative or no quantities. None is just missing."""
    return _read(texts, unit_column)


def _read(
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
