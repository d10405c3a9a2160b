"""Which number, or which time, does a field say? Whole columns at once; what cannot be read is found by its row."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from trellis.base.errors import InvalidTime
from trellis.base.times import parse_time
from trellis.core.usage.columns import FloatColumn
from trellis.sources.series.csv_fields import Texts, refuse_text

# Seconds since 1970 stay below the first until the year 5138; what is larger counts something smaller.
_UNITS: Final = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
_NUMBER: Final = re.compile(
    rb"\s*[-+]?(\d+\.?\d*([eE][-+]?\d+)?|\.\d+([eE][-+]?\d+)?|nan|inf(inity)?)\s*", re.IGNORECASE
)
_ZONES: Final = (b"Z", b"z", b"+00:00")
_DATE: Final = 10  # characters of one


def numbers(source: str, column: str, texts: Texts, first: int) -> FloatColumn:
    """Numbers; an empty field is NaN. `first` is the row of the first."""
    filled = np.where(texts == b"", b"nan", texts)
    try:
        return filled.astype(np.float64)
    except ValueError:
        wrong = next(place for place, text in enumerate(filled.tolist()) if not _NUMBER.fullmatch(text))
        raise refuse_text(source, first + wrong, column, bytes(filled[wrong]), "is not a number") from None


def times(source: str, column: str, texts: Texts, first: int) -> FloatColumn:
    """Times as they are written: numbers, or dates with a time of day, which are UTC unless they say otherwise."""
    if _NUMBER.fullmatch(bytes(texts[0])) or not texts[0]:
        return numbers(source, column, texts, first)
    return _dates(source, column, texts, first)


def in_seconds(found: FloatColumn) -> FloatColumn:
    """Times that are milliseconds, microseconds or nanoseconds, by their size."""
    largest = float(np.nanmax(np.abs(found), initial=0.0))
    scale = next((scale for least, scale in _UNITS if largest > least), 1.0)
    return found / scale


def _dates(source: str, column: str, texts: Texts, first: int) -> FloatColumn:
    plain = _without_zone(texts)
    if plain is not None:
        try:
            return plain.astype("datetime64[us]").astype(np.float64) / 1e6
        except ValueError:
            pass  # somewhere there is one that is none, and below it is found
    found = np.empty(len(texts))
    for place, text in enumerate(texts.tolist()):
        try:
            found[place] = parse_time(_as_rfc_3339(text)).timestamp()
        except (InvalidTime, UnicodeDecodeError):
            rule = "is not a time: write seconds since 1970, or as in 2026-11-15T18:00:00Z"
            raise refuse_text(source, first + place, column, text, rule) from None
    return found


def _without_zone(texts: Texts) -> Texts | None:
    """The same texts without the end that stands for UTC; None if not all of them have the same one."""
    for zone in _ZONES:
        if np.char.endswith(texts, zone).all():
            width = texts.dtype.itemsize - len(zone)
            return texts.astype(f"S{width}") if (np.char.str_len(texts) == width + len(zone)).all() else None
    has_zone = np.char.find(texts, b"+") >= _DATE
    has_zone |= np.char.rfind(texts, b"-") >= _DATE
    has_zone |= np.char.endswith(texts, b"Z")
    return None if has_zone.any() else texts


def _as_rfc_3339(text: bytes) -> str:
    written = text.decode().strip().replace(" ", "T", 1)
    return written if re.search(r"(Z|[-+]\d\d:\d\d)$", written) else f"{written}Z"
