"""What do past hours make together, each counting so much? A histogram for every row and moment.

For one moment only the hours that count are looked up. For many, as when a rule is replayed, every hour is spread out
into a histogram of its own first, and then whole stretches of them are added: it comes to the same, at a tenth of the
time.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from trellis.core.recommend.past_hours import BUCKETS, SHARES, PastHours
from trellis.core.usage.columns import FloatColumn, IntColumn

Histograms: TypeAlias = npt.NDArray[np.float32]


def gathered(past: PastHours, hours: IntColumn, counts: FloatColumn) -> Histograms:
    """(rows, moments, buckets) of some hours (moments, hours) that count so much, (rows, moments, hours)."""
    rows, moments = len(past.known), len(hours)
    inside = (hours >= 0) & (hours < past.hours)
    hours = np.where(inside, hours, 0)
    weights = counts * (inside & np.take(past.known, hours, axis=1))
    begins = (np.arange(rows * moments) * BUCKETS).reshape(rows, moments, 1)
    sums = np.zeros(rows * moments * BUCKETS)
    for places, share in zip(past.places, SHARES.tolist(), strict=True):
        which = np.take(places, hours, axis=1) + begins
        sums += share * np.bincount(which.reshape(-1), weights.reshape(-1), len(sums))
    return sums.reshape(rows, moments, BUCKETS).astype(np.float32)


def spread_out(past: PastHours) -> Histograms:
    """(rows, hours, buckets): each hour by itself; nothing where nothing is known."""
    every = np.arange(past.hours)[:, np.newaxis]
    return gathered(past, every, np.ones((len(past.known), past.hours, 1)))


def with_neighbours(hours: Histograms, share: float) -> Histograms:
    """Every hour together with a share of the one before it and of the one after it."""
    found = hours.copy()
    found[:, 1:] += np.float32(share) * hours[:, :-1]
    found[:, :-1] += np.float32(share) * hours[:, 1:]
    return found


def days_back(hours: Histograms, first: int, counts: FloatColumn) -> Histograms:
    """What days ago was at the moments from `first` on, each day counting so much, (rows, moments, days)."""
    rows, moments, days = counts.shape
    found = np.zeros((rows, moments, BUCKETS), dtype=np.float32)
    weights = counts.astype(np.float32)[..., np.newaxis]
    for day in range(days):
        begin = first - 24 * (day + 1)
        here = slice(max(-begin, 0), min(moments, hours.shape[1] - begin))
        if here.start < here.stop:
            found[:, here] += weights[:, here, day] * hours[:, begin + here.start : begin + here.stop]
    return found


def fading(hours: Histograms, first: int, moments: int, aged: float, reach: int) -> Histograms:
    """The last `reach` hours at the moments from `first` on, each counting `aged` times as much as the next."""
    found = np.zeros((len(hours), moments, BUCKETS), dtype=np.float32)
    held = np.zeros((len(hours), BUCKETS))
    last = aged**reach
    for moment in range(max(first - reach, 0) + 1, first + moments):
        held += _hour(hours, moment - 1)
        held *= aged
        held -= last * aged * _hour(hours, moment - 1 - reach)
        if moment >= first:
            np.maximum(held, 0.0, out=found[:, moment - first], casting="same_kind")
    return found


def _hour(hours: Histograms, hour: int) -> Histograms | float:
    return hours[:, hour] if 0 <= hour < hours.shape[1] else 0.0
