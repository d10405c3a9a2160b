"""How far can a history be trusted, and how much farther does that move the bounds?

Upstream's measure: days of history at a sample a minute. It counts CPU samples alone, for memory too. The upper bound
is multiplied by 1 + 1/c and the lower one divided by (1 + 0.001/c) squared, so that little history keeps running pods
from being touched: with none, the bounds are nothing and everything.
"""

from __future__ import annotations

import numpy as np

from trellis.core.usage.columns import FloatColumn, IntColumn

_LOWER_MULTIPLIER = 0.001


def confidence(first: FloatColumn, last: FloatColumn, count: IntColumn, interval: float) -> FloatColumn:
    """From the times of the first and last sample and their number; `interval`, in seconds, is what counts as 1.

    No sample at all is no confidence.
    """
    span = (last - first) / interval
    density = count / (interval / 60.0)
    found: FloatColumn = np.nan_to_num(np.clip(np.minimum(span, density), 0.0, None), nan=0.0)
    return found


def lower_factor(confident: FloatColumn) -> FloatColumn:
    """What the lower bound is multiplied by."""
    with np.errstate(divide="ignore"):
        wider = 1.0 + _LOWER_MULTIPLIER / confident
    return 1.0 / (wider * wider)


def upper_factor(confident: FloatColumn) -> FloatColumn:
    """What the upper bound is multiplied by; infinite without any confidence."""
    with np.errstate(divide="ignore"):
        return 1.0 + 1.0 / confident
