"""How much is each earlier day like the one that has just passed?

A day that went as the last 24 hours and the last three hours did is a better guide to the coming hour than others: so
weekends are told from working days, and a day that was out of order from its neighbours, without a calendar.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trellis.core.recommend.past_hours import PastHours
from trellis.core.usage.columns import FloatColumn, IntColumn

_DAY = 24
_SPANS: Final = (3, 24)  # hours that are compared, to the same part
_TOLERANCE = 0.1  # a day that differs by a tenth more counts 2.7 times less
_UNKNOWN = 0.3  # how much a day differs of which nothing is known


def likeness(past: PastHours, moments: IntColumn, days: int) -> FloatColumn:
    """What each of the last days counts, (rows, moments, days), the latest first; by the hours before each moment."""
    first = int(moments.min()) - max(_SPANS)
    found = np.empty((len(past.means), len(moments), days))
    for day in range(1, days + 1):
        gaps = _gaps(past, first, int(moments.max()), _DAY * day)
        sums = _running(np.nan_to_num(gaps))
        counts = _running(~np.isnan(gaps))
        differs = np.zeros((len(gaps), len(moments)))
        for span in _SPANS:
            ends = moments - first
            known = counts[:, ends] - counts[:, ends - span]
            apart = sums[:, ends] - sums[:, ends - span]
            differs += np.where(known > 0, apart / np.maximum(known, 1), _UNKNOWN)
        found[:, :, day - 1] = np.exp(-differs / (len(_SPANS) * _TOLERANCE))
    return found


def _gaps(past: PastHours, first: int, last: int, back: int) -> FloatColumn:
    """By how much each hour from `first` on differs from the one so many hours earlier; NaN where one is not known."""
    hours = np.arange(first, last)
    gaps = np.full((len(past.means), len(hours)), np.nan)
    inside = (hours >= back) & (hours < past.hours)
    now = hours[inside]
    gaps[:, inside] = np.abs(past.means[:, now] - past.means[:, now - back])
    return gaps


def _running(values: FloatColumn) -> FloatColumn:
    sums = np.zeros((len(values), values.shape[1] + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums
