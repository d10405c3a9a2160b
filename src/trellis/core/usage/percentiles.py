"""Below which value do the samples stay most of the time? One sweep over the buckets, for all rows and fractions."""

from __future__ import annotations

import numpy as np

from trellis.core.usage.columns import FloatColumn, IntColumn


def percentile_buckets(
    weights: FloatColumn,
    columns: IntColumn | None,
    totals: FloatColumn,
    within: tuple[IntColumn, IntColumn],
    fractions: FloatColumn,
) -> IntColumn:
    """The bucket of each fraction and row, (fractions, rows), from some columns, or all, of weights (buckets, rows).

    `within` are the lowest and the highest bucket of each row. The weights are added up from the lowest on; the first
    bucket whose sum reaches `fraction * total` is it, the highest at the latest. What an empty row gets, with a highest
    bucket below its lowest, means nothing.
    """
    lowest, highest = within
    first, last = int(lowest.min()), int(highest.max())
    thresholds = fractions[:, None] * totals
    sums = np.zeros(len(totals))
    below = np.zeros(thresholds.shape, dtype=np.bool_)
    # Counting up in bytes is an eighth of the memory to go through.
    buckets = np.zeros(thresholds.shape, dtype=np.uint8 if len(weights) <= 255 else np.uint16)
    order = np.argsort(lowest.astype(np.uint16), kind="stable")
    begins = np.concatenate(([0], np.cumsum(np.bincount(lowest, minlength=len(weights)))))
    for bucket in range(first, last):
        beginning = order[begins[bucket] : begins[bucket + 1]]
        if len(beginning):  # what lies below their lowest bucket is too little to count
            sums[beginning] = 0
            buckets[:, beginning] = bucket
        sums += weights[bucket] if columns is None else weights[bucket].take(columns)
        np.less(sums, thresholds, out=below)
        np.add(buckets, below.view(np.uint8), out=buckets)
    unswept = order[begins[max(first, last)] :]
    buckets[:, unswept] = lowest[unswept]
    return np.minimum(buckets, highest)
