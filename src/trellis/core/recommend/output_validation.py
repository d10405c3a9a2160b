"""Validates what a recommender returned: shapes, impossible amounts, and its explanation.

VPAs whose estimates are invalid keep what was recommended before, and their condition gives the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from trellis.core.recommend.amounts import LOWER, MIDDLE, RESOURCES, UPPER
from trellis.core.recommend.protocol import LONGEST_EXPLANATION_TEXT, Estimates
from trellis.core.usage.columns import BoolColumn, FloatColumn

MOST_EXPLANATION_COLUMNS: Final = 32


def find_explanation_problem(explanation: object, rows: int) -> str:
    """What is wrong with an explanation of so many rows; empty if nothing is."""
    if not isinstance(explanation, Mapping):
        return f"explained itself with {type(explanation).__name__}, not with columns by name"
    if len(explanation) > MOST_EXPLANATION_COLUMNS:
        return f"explained itself in {len(explanation)} columns where {MOST_EXPLANATION_COLUMNS} are the most"
    for name, column in explanation.items():
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_EXPLANATION_TEXT:
            return "explained itself with a column whose name is no short text"
        wrong = _find_column_problem(column, rows)
        if wrong:
            return f"explained itself with a column {name} {wrong}"
    return ""


def _find_column_problem(column: object, rows: int) -> str:
    if isinstance(column, np.ndarray):
        if column.dtype != np.float64:
            return "that is neither a column of floats nor a list of texts"
        return f"of shape {column.shape} where {(rows,)} was asked for" if column.shape != (rows,) else ""
    if isinstance(column, str) or not isinstance(column, Sequence) or not all(isinstance(each, str) for each in column):
        return "that is neither a column of floats nor a list of texts"
    return f"of {len(column)} texts for {rows} rows" if len(column) != rows else ""


_BOUND_NAMES = ("lower bound", "target", "upper bound")


def find_shape_problem(answer: object, rows: int) -> str:
    """What is wrong with an answer as a whole; empty if nothing is."""
    if not isinstance(answer, Estimates):
        return f"answered with {type(answer).__name__}, not with estimates"
    columns: tuple[tuple[str, object, tuple[int, ...]], ...] = (
        ("bounds", answer.bounds, (3, len(RESOURCES), rows)),
        ("totals", answer.totals, (len(RESOURCES), rows)),
        ("confidence", answer.confidence, (rows,)),
    )
    for name, column, shape in columns:
        if column is None:
            continue
        if not isinstance(column, np.ndarray) or column.dtype != np.float64:
            return f"answered with {name} that are no column of floats"
        if column.shape != shape:
            return f"answered with {name} of shape {column.shape} where {shape} was asked for"
    return find_explanation_problem(answer.explanation, rows)


def find_impossible_rows(answer: Estimates) -> BoolColumn:
    """Which rows have an amount that is negative, infinite, out of order, or missing beside others that are not."""
    bounds = answer.bounds
    missing = np.isnan(bounds)
    wrong = missing.any(axis=0) & ~missing.all(axis=0)
    wrong |= ((bounds < 0) | np.isinf(bounds)).any(axis=0)
    wrong |= (bounds[LOWER] > bounds[MIDDLE]) | (bounds[MIDDLE] > bounds[UPPER])
    if answer.totals is not None:
        wrong |= (answer.totals < 0) | np.isinf(answer.totals)
    found: BoolColumn = wrong.any(axis=0)
    return found


def describe_bounds(bounds: FloatColumn) -> str:
    """An impossible answer for one row, (bound, resource), in words."""
    parts = []
    for resource, amounts in zip(RESOURCES, bounds.T, strict=True):
        listed = ", ".join(f"{name} {amount:g}" for name, amount in zip(_BOUND_NAMES, amounts.tolist(), strict=True))
        parts.append(f"{resource}: {listed}")
    return "; ".join(parts)
