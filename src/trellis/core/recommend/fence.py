"""Is what a recommender answered possible? If not, its VPAs keep what was recommended before, and say why."""

from __future__ import annotations

import numpy as np

from trellis.core.recommend.amounts import LOWER, MIDDLE, RESOURCES, UPPER
from trellis.core.recommend.explaining import misexplained
from trellis.core.recommend.protocol import Estimates
from trellis.core.usage.columns import BoolColumn, FloatColumn

_NAMES = ("lower bound", "target", "upper bound")


def misshapen(answer: object, rows: int) -> str:
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
    return misexplained(answer.explanation, rows)


def impossible(answer: Estimates) -> BoolColumn:
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


def described(bounds: FloatColumn) -> str:
    """An impossible answer for one row, (bound, resource), in words."""
    parts = []
    for resource, amounts in zip(RESOURCES, bounds.T, strict=True):
        listed = ", ".join(f"{name} {amount:g}" for name, amount in zip(_NAMES, amounts.tolist(), strict=True))
        parts.append(f"{resource}: {listed}")
    return "; ".join(parts)
