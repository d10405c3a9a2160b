"""Does usage grow steadily, as with a leak, and where will it be?

A straight line through the last days, where the hours hardly stray from it. A line that falls, or one through a cloud,
says nothing: then nothing is expected.
"""

from __future__ import annotations

import numpy as np

from trellis.core.usage.columns import FloatColumn

_HOURS = 72
_LEAST_KNOWN = 48
_STEADY = 0.8  # of the variance must be growth
_LEAST_GROWTH = 0.01  # of the mean, in a day: less is covered by any margin


def expected(values: FloatColumn, ahead: float) -> FloatColumn:
    """What rows will use so many hours from now, from hourly values (rows, hours); NaN for those that do not grow."""
    recent = values[:, -_HOURS:]
    known = ~np.isnan(recent)
    count = np.maximum(known.sum(axis=1), 1)
    hours = np.arange(1.0 - recent.shape[1], 1.0)
    filled = np.where(known, recent, 0.0)
    middle = (known * hours).sum(axis=1) / count
    mean = filled.sum(axis=1) / count
    apart = known * (hours - middle[:, np.newaxis])
    off = np.where(known, recent - mean[:, np.newaxis], 0.0)
    spread = (apart**2).sum(axis=1)
    together = (apart * off).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        slope = together / spread
        steady = together**2 / (spread * (off**2).sum(axis=1))
    grows = (count >= _LEAST_KNOWN) & (steady >= _STEADY) & (slope * 24 >= _LEAST_GROWTH * mean)
    return np.where(grows, mean + slope * (ahead - middle), np.nan)
