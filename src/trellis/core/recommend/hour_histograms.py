"""What do past hours make together, each counting so much? A histogram for every row and moment.

For one moment only the hours that count are looked up. For many, as when a rule is replayed, every hour is spread out
into a histogram of its own first, and then whole stretches of them are added: it comes to the same, at a tenth of the
time.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from trellis.core.recommend.past_hours import BUCKETS, SAMPLE_MEASURES, SAMPLE_SHARES, PastHours
from trellis.core.usage.columns import BoolColumn, FloatColumn, IntColumn

Histograms: TypeAlias = npt.NDArray[np.float32]


def gathered(past: PastHours, hours: IntColumn, counts: FloatColumn, settled: BoolColumn | bool = False) -> Histograms:
    """(rows, moments, buckets) of some hours (moments, hours) that count so much, (rows, moments, hours).

    `settled` says which of them are put beside the level that they settled at.
    """
    rows, moments = len(past.known), len(hours)
    inside = (hours >= 0) & (hours < past.hours)
    hours = np.where(inside, hours, 0)
    weights = counts * (inside & np.take(past.known, hours, axis=1))
    begins = (np.arange(rows * moments) * BUCKETS).reshape(rows, moments, 1)
    sums = np.zeros(rows * moments * BUCKETS)
    for measure, share in zip(SAMPLE_MEASURES, SAMPLE_SHARES.tolist(), strict=True):
        which = past.places(measure, hours, settled) + begins
        sums += share * np.bincount(which.reshape(-1), weights.reshape(-1), len(sums))
    return sums.reshape(rows, moments, BUCKETS).astype(np.float32)


def spread_out(past: PastHours, *, settled: bool) -> Histograms:
    """(rows, hours, buckets): each hour by itself, beside one of its levels; nothing where nothing is known."""
    found = np.zeros((*past.known.shape, BUCKETS), dtype=np.float32)
    known = np.flatnonzero(past.known)
    every = np.arange(past.hours)
    for measure, share in zip(SAMPLE_MEASURES, SAMPLE_SHARES.tolist(), strict=True):
        places = past.places(measure, every, settled).reshape(-1)[known]
        found.reshape(-1)[known * BUCKETS + places] += np.float32(share)
    return found


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
    one = np.empty_like(found)
    weights = counts.astype(np.float32)[..., np.newaxis]
    for day in range(days):
        begin = first - 24 * (day + 1)
        here = slice(max(-begin, 0), min(moments, hours.shape[1] - begin))
        if here.start < here.stop:
            then = hours[:, begin + here.start : begin + here.stop]
            found[:, here] += np.multiply(weights[:, here, day], then, out=one[:, here])
    return found


def fading(hours: Histograms, first: int, moments: int, aged: float, reach: int) -> Histograms:
    """The last `reach` hours at the moments from `first` on, each counting `aged` times as much as the next."""
    found = np.zeros((len(hours), moments, BUCKETS), dtype=np.float32)
    held = np.zeros((len(hours), BUCKETS))
    begin, end, last = max(first - reach, 0), hours.shape[1], aged ** (reach + 1)
    for moment in range(begin + 1, first + moments):
        held += hours[:, moment - 1] if moment <= end else 0.0
        held *= aged
        left = moment - 1 - reach
        if begin <= left < end:
            held -= last * hours[:, left]
        if moment >= first:
            np.maximum(held, 0.0, out=found[:, moment - first], casting="same_kind")
    return found
