"""How does a recommender say why? In columns beside its answer: a number or a word or two for each row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from trellis.core.usage.columns import FloatColumn

# By what it is about: `{"season": ["daily", "weekly"], "score": scores}`.
Explanations: TypeAlias = Mapping[str, FloatColumn | Sequence[str]]

NO_EXPLANATION: Final[Explanations] = {}

MOST_COLUMNS: Final = 32
LONGEST_TEXT: Final = 200  # of a name, and of what a row says


def misexplained(explanation: object, rows: int) -> str:
    """What is wrong with an explanation of so many rows; empty if nothing is."""
    if not isinstance(explanation, Mapping):
        return f"explained itself with {type(explanation).__name__}, not with columns by name"
    if len(explanation) > MOST_COLUMNS:
        return f"explained itself in {len(explanation)} columns where {MOST_COLUMNS} are the most"
    for name, column in explanation.items():
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_TEXT:
            return "explained itself with a column whose name is no short text"
        wrong = _misshapen(column, rows)
        if wrong:
            return f"explained itself with a column {name} {wrong}"
    return ""


def of_row(explanation: Explanations, at: int) -> dict[str, float | str]:
    """What an explanation says of one row."""
    said: dict[str, float | str] = {}
    for name, column in explanation.items():
        value = column[at]
        said[name] = value[:LONGEST_TEXT] if isinstance(value, str) else float(value)
    return said


def _misshapen(column: object, rows: int) -> str:
    if isinstance(column, np.ndarray):
        if column.dtype != np.float64:
            return "that is neither a column of floats nor a list of texts"
        return f"of shape {column.shape} where {(rows,)} was asked for" if column.shape != (rows,) else ""
    if isinstance(column, str) or not isinstance(column, Sequence) or not all(isinstance(each, str) for each in column):
        return "that is neither a column of floats nor a list of texts"
    return f"of {len(column)} texts for {rows} rows" if len(column) != rows else ""
