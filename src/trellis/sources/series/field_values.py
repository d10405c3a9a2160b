"""Which number, or which time, does a field say? Whole columns at once; what cannot be read is found by its row."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from trellis.core.usage.columns import FloatColumn
from trellis.sources.series.csv_fields import Texts, refuse_text
from trellis.sources.series.dates import instants

# Seconds since 1970 stay below the first until the year 5138; what is larger counts something smaller.
_UNITS: Final = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
_NUMBER: Final = re.compile(
    rb"\s*[-+]?(\d+\.?\d*([eE][-+]?\d+)?|\.\d+([eE][-+]?\d+)?|nan|inf(inity)?)\s*", re.IGNORECASE
)
# What programs write where there is no number.
NOTHING: Final = (b"", b"null", b"none", b"na", b"n/a")


def numbers(source: str, column: str, texts: Texts, first: int) -> FloatColumn:
    """Numbers; an empty field, or one that says null, is NaN. `first` is the row of the first."""
    filled = np.where(texts == b"", b"nan", texts)
    try:
        return filled.astype(np.float64)
    except ValueError:
        pass
    filled = np.where(np.isin(np.char.lower(np.char.strip(filled)), NOTHING), b"nan", filled)
    try:
        return filled.astype(np.float64)
    except ValueError:
        wrong = next(place for place, text in enumerate(filled.tolist()) if not _NUMBER.fullmatch(text))
        raise refuse_text(source, first + wrong, column, bytes(filled[wrong]), "is not a number") from None


def times(source: str, column: str, texts: Texts, first: int) -> FloatColumn:
    """Times as they are written: numbers, or dates with a time of day, which are UTC unless they say otherwise."""
    if _NUMBER.fullmatch(bytes(texts[0])) or not texts[0]:
        return numbers(source, column, texts, first)
    return instants(source, column, texts, first)


def in_seconds(found: FloatColumn) -> FloatColumn:
    """Times that are milliseconds, microseconds or nanoseconds, by their size."""
    largest = float(np.nanmax(np.abs(found), initial=0.0))
    scale = next((scale for least, scale in _UNITS if largest > least), 1.0)
    return found / scale
