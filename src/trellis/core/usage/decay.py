"""How much less does an old sample weigh?

A sample of weight w at time t counts as w * 2^((t - reference) / half-life), so that nothing has to be touched as time
goes by. Where the exponent would pass 100, the reference of that row moves forward and its weights are scaled once. A
reference is a multiple of the half-life since the year 1, as Go's `Time.Round` has it: midnight UTC if it is a day.
"""

from __future__ import annotations

import math

import numpy as np

from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn

MOST_HALF_LIVES = 100
_YEAR_ONE = -62_135_596_800.0  # 0001-01-01T00:00:00Z
_NOTHING_LEFT = -2_000  # 2 to the power of this is 0, with room to spare


def rounded(times: FloatColumn, half_life: float) -> FloatColumn:
    """The nearest multiple of the half-life; from half way on it is the later one."""
    # Remainders are exact in floating point; a quotient since the year 1 is not.
    since = np.mod(times, half_life) + math.fmod(-_YEAR_ONE, half_life)
    since = np.where(since >= half_life, since - half_life, since)
    return np.where(since + since < half_life, times - since, times + (half_life - since))


def factors(times: FloatColumn, references: FloatColumn, half_life: float) -> FloatColumn:
    """What the weights of samples are multiplied by."""
    return np.exp2((times - references) / half_life)


def scales(before: FloatColumn, after: FloatColumn, half_life: float) -> FloatColumn:
    """What the weights of rows are multiplied by when their references move; 0 where there was none before."""
    exponents = np.floor((before - after) / half_life + 0.5)
    exponents = np.clip(np.nan_to_num(exponents, nan=_NOTHING_LEFT), _NOTHING_LEFT, MOST_HALF_LIVES)
    powers: FloatColumn = np.ldexp(1.0, exponents.astype(np.int32))
    return powers


def overdue(times: FloatColumn, references: FloatColumn, half_life: float) -> BoolColumn:
    """Which samples need a new reference first: their exponent is too large, or there is none yet."""
    return ~(times <= references + MOST_HALF_LIVES * half_life)


def before_overdue(rows: IntColumn, late: BoolColumn) -> tuple[BoolColumn, IntColumn]:
    """Which samples come before the first overdue one of their row, and the positions of those first ones."""
    positions = np.flatnonzero(late)
    found, index = np.unique(rows[positions], return_index=True)
    first = positions[index]
    nearest = np.minimum(np.searchsorted(found, rows), len(found) - 1)
    early = (found[nearest] != rows) | (np.arange(len(rows)) < first[nearest])
    return early, first
