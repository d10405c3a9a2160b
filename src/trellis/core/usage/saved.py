"""How is a row written down? As upstream does: whole numbers of which the largest is 10000, and the total apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec
import numpy as np

from trellis.core.usage.columns import FloatColumn, IntColumn

LARGEST_WEIGHT = 10_000


class SavedHistogram(msgspec.Struct, frozen=True):
    """One row: weight by bucket, what all of them weigh together, and since when (NaN if there is nothing)."""

    reference: float = math.nan
    weights: Mapping[int, int] = {}
    total: float = 0.0


class Entries(NamedTuple):
    """Rows taken apart: for each of their buckets the row's position, the bucket and its weight; and rows' totals."""

    positions: IntColumn
    buckets: IntColumn
    weights: FloatColumn
    totals: FloatColumn


def written(weights: FloatColumn, references: FloatColumn, totals: FloatColumn) -> list[SavedHistogram]:
    """Rows from their weights (buckets, rows), which are scaled in place. A bucket too light to show is left out."""
    most = weights.max(axis=0)
    weights *= LARGEST_WEIGHT / np.where(most > 0, most, 1.0)
    weights += 0.5
    positions, buckets = np.nonzero(weights.T >= 1)
    listed, whole = buckets.tolist(), weights[buckets, positions].astype(np.int64).tolist()
    ends = np.cumsum(np.bincount(positions, minlength=len(totals))).tolist()
    saved = []
    begin = 0
    for end, reference, total in zip(ends, references.tolist(), totals.tolist(), strict=True):
        saved.append(SavedHistogram(reference, dict(zip(listed[begin:end], whole[begin:end], strict=True)), total))
        begin = end
    return saved


def entries(saved: Sequence[SavedHistogram]) -> Entries:
    """What rows weighed before they were written down: each bucket's share of the total."""
    sizes = np.fromiter((len(each.weights) for each in saved), dtype=np.int64, count=len(saved))
    positions = np.repeat(np.arange(len(saved)), sizes)
    buckets = np.fromiter(chain.from_iterable(each.weights for each in saved), dtype=np.int64)
    weights = np.fromiter(chain.from_iterable(each.weights.values() for each in saved), dtype=np.float64)
    sums = np.bincount(positions, weights, minlength=len(saved))
    totals = np.fromiter((each.total for each in saved), dtype=np.float64, count=len(saved))
    ratios = np.divide(totals, sums, out=np.zeros(len(saved)), where=sums > 0)
    return Entries(positions, buckets, weights * ratios[positions], np.where(sums > 0, totals, 0.0))
