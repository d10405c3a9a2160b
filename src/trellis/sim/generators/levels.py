"""What stays, grows or changes by steps? Levels, trends and the versions of a program."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trellis.core.usage.columns import FloatColumn


def steady(times: FloatColumn, level: float) -> FloatColumn:
    """Always the same."""
    return np.full(len(times), level)


def trend(times: FloatColumn, begin: float, end: float) -> FloatColumn:
    """A straight line from the first time to the last."""
    return np.linspace(begin, end, len(times))


def versions(times: FloatColumn, changes: Sequence[float], factors: Sequence[float]) -> FloatColumn:
    """1 before the first change, and from each on its factor; the last factor holds for all changes that follow."""
    if not factors:
        return np.ones(len(times))
    version = np.searchsorted(np.asarray(changes), times, side="right")
    return np.asarray([1.0, *factors])[np.minimum(version, len(factors))]


def drawn_factors(count: int, shift: float, draw: np.random.Generator) -> tuple[float, ...]:
    """How many times the first version's usage that of each later one is: log-normal, and independent."""
    return tuple(draw.lognormal(0.0, shift, count).tolist())
