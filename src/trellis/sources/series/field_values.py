"""Parses columns of text into numbers, times and amounts; what cannot be read is reported with its row.

An amount is a number in the unit of its column, or a quantity of Kubernetes, as 250m or 512Mi. Quantities are
looked for only where a column has something else than numbers, so that a column of numbers costs no more. They are
whole millicores and whole bytes, rounded up, as those of the metrics API are.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from trellis.base.errors import InvalidSeries
from trellis.core.usage.columns import FloatColumn
from trellis.sources.amounts import parse_bytes, parse_cores
from trellis.sources.series.csv_parser import TextColumn, build_field_error
from trellis.sources.series.headers import ColumnRoles
from trellis.sources.series.timestamps import parse_timestamps
from trellis.sources.series.units import AmountColumn

# Seconds since 1970 stay below the first until the year 5138; what is larger counts something smaller.
_UNITS: Final = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
_NUMBER: Final = re.compile(
    rb"\s*[-+]?(\d+\.?\d*([eE][-+]?\d+)?|\.\d+([eE][-+]?\d+)?|nan|inf(inity)?)\s*", re.IGNORECASE
)
# What programs write where there is no number.
EMPTY_TEXTS: Final = (b"", b"null", b"none", b"na", b"n/a")


def parse_numbers(source: str, column: str, texts: TextColumn, first: int) -> FloatColumn:
    """Numbers; an empty field, or one that says null, is NaN. `first` is the row of the first."""
    filled = np.where(texts == b"", b"nan", texts)
    try:
        return filled.astype(np.float64)
    except ValueError:
        pass
    filled = np.where(np.isin(np.char.lower(np.char.strip(filled)), EMPTY_TEXTS), b"nan", filled)
    try:
        return filled.astype(np.float64)
    except ValueError:
        invalid = next(place for place, text in enumerate(filled.tolist()) if not _NUMBER.fullmatch(text))
        raise build_field_error(source, first + invalid, column, bytes(filled[invalid]), "is not a number") from None


def parse_times(source: str, column: str, texts: TextColumn, first: int) -> FloatColumn:
    """Times as they are written: numbers, or dates with a time of day, which are UTC unless they say otherwise."""
    if _NUMBER.fullmatch(bytes(texts[0])) or not texts[0]:
        return parse_numbers(source, column, texts, first)
    return parse_timestamps(source, column, texts, first)


def convert_to_seconds(times: FloatColumn) -> FloatColumn:
    """Times that are milliseconds, microseconds or nanoseconds, by their size."""
    largest = float(np.nanmax(np.abs(times), initial=0.0))
    scale = next((scale for least, scale in _UNITS if largest > least), 1.0)
    return times / scale


def parse_amounts(source: str, roles: ColumnRoles, amount: AmountColumn, texts: TextColumn, first: int) -> FloatColumn:
    """The amounts in a column, in its unit; an empty field, or one that says null, is NaN."""
    column = roles.header[amount.column]
    try:
        return parse_numbers(source, column, texts, first)
    except InvalidSeries:
        is_cpu = amount.column in roles.cores
        stripped = [None if text.lower() in (*EMPTY_TEXTS, b"nan") else text for text in np.char.strip(texts).tolist()]
        texts_or_none = [None if text is None else text.decode("utf-8", "replace") for text in stripped]
        amounts, unreadable = (parse_cores if is_cpu else parse_bytes)(texts_or_none)
    if unreadable:
        invalid = next(row for row, text in enumerate(texts_or_none) if text is not None and np.isnan(amounts[row]))
        rule = f"is neither a number nor a quantity such as {'250m' if is_cpu else '512Mi'}"
        if (texts_or_none[invalid] or "").startswith("-"):
            rule = "is negative; usage cannot be negative"
        raise build_field_error(source, first + invalid, column, bytes(texts[invalid]), rule)
    if amount.scale != 1.0:
        invalid = next(
            (row for row, text in enumerate(texts_or_none) if text is not None and not text[-1].isdigit()), 0
        )
        expected_name = f"{column.rpartition('_')[0]}_{'cores' if is_cpu else 'bytes'}".lstrip("_")
        rule = f"has another unit than its column name: rename the column to {expected_name}"
        raise build_field_error(source, first + invalid, column, bytes(texts[invalid]), rule)
    return amounts
