"""What could a container have used of which only a summary is known? Drawn from what a recommender remembers of it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.layout import Layout
from trellis.core.usage.rings import Ring


def from_hours(measures: Ring, at: IntColumn, draw: np.random.Generator) -> FloatColumn:
    """One resource: (measures, hours) are mean, median, 90th, 95th percentile and maximum; `at` is the hour of a step.

    Each step is drawn between the percentiles of its hour. Below the median it is thought to be as far as above. NaN
    where nothing is known of the hour, or the hour is not there.
    """
    hours = measures.shape[-1]
    is_there = (at >= 0) & (at < hours)
    _, p50, p90, p95, highest = np.where(is_there, measures[:, np.clip(at, 0, hours - 1)], np.nan).astype(np.float64)
    lowest = np.maximum(0.0, 2 * p50 - p90)
    level = draw.uniform(size=len(at))
    found: FloatColumn = lowest
    for (low, below), (high, above) in pairwise(((0.0, lowest), (0.5, p50), (0.9, p90), (0.95, p95), (1.0, highest))):
        found = np.where(level >= low, below + (above - below) * (level - low) / (high - low), found)
    return found


def from_histogram(weights: Mapping[int, int], layout: Layout, levels: FloatColumn) -> FloatColumn:
    """What lies at these levels, from 0 to 1, of all that was counted; evenly spread within a bucket."""
    buckets: IntColumn = np.array(sorted(weights), dtype=np.int64)
    shares = np.cumsum([float(weights[int(each)]) for each in buckets])
    shares = shares / shares[-1]
    at = np.minimum(np.searchsorted(shares, levels), len(buckets) - 1)
    below = np.concatenate(([0.0], shares))[at]
    within = np.clip((levels - below) / np.maximum(shares[at] - below, 1e-12), 0.0, 1.0)
    starts, ends = layout.starts[buckets[at]], layout.starts[buckets[at] + 1]
    found: FloatColumn = starts + (ends - starts) * within
    return found


def filled(column: FloatColumn) -> FloatColumn:
    """Gaps as what came before them, at the beginning as what comes after; nothing at all is no usage."""
    known = np.flatnonzero(np.isfinite(column))
    if not len(known):
        return np.zeros(len(column))
    at = np.searchsorted(known, np.arange(len(column)), side="right") - 1
    found: FloatColumn = column[known[np.maximum(at, 0)]]
    return found
