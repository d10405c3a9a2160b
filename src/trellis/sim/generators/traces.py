"""What was measured, on the steps of a simulation? Each step takes what fell into it; gaps keep the last value."""

from __future__ import annotations

import numpy as np

from trellis.core.usage.columns import FloatColumn


def resampled(times: FloatColumn, values: FloatColumn, steps: int, step: float, highest: bool) -> FloatColumn:
    """A trace laid over so many steps, its first figure upon the first of them.

    A step holds the mean of the figures in it, or the highest: CPU is spent over a step, memory must fit at its peak.
    A trace that is shorter than the steps begins anew, as long after its last figure as others follow one another.
    """
    apart = float(np.median(np.diff(times))) if len(times) > 1 else step
    # What lies beyond the last step is not needed, and may be far away.
    length = min(steps, max(1, round((times[-1] - times[0] + apart) / step)))
    known = np.isfinite(values) & (times - times[0] < length * step)
    at = ((times[known] - times[0]) // step).astype(np.int64)
    sums = np.full(length, -np.inf) if highest else np.zeros(length)
    if highest:
        np.maximum.at(sums, at, values[known])
    else:
        np.add.at(sums, at, values[known])
    counts = np.bincount(at, minlength=length)
    filled = np.flatnonzero(counts)
    if not len(filled):
        return np.zeros(steps)
    figures = sums if highest else sums / np.maximum(counts, 1)
    # The last step that has a figure; what comes before the first takes the first.
    last = np.maximum.accumulate(np.where(counts > 0, np.arange(length), filled[0]))
    return np.resize(figures[last], steps)
