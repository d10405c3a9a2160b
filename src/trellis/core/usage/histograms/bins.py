"""The bins of histograms: which bin a value falls into, and where a bin starts.

Bin 0 is [0, first) and every bin is 5 % wider than the one before it; the last has no end. Bounds and formulas are
upstream's, so that a checkpoint means the same number here and there. (Upstream and checkpoints say bucket.)
"""

from __future__ import annotations

import math
from functools import cached_property

import msgspec
import numpy as np

from trellis.core.usage.columns import FloatColumn, IntColumn

# What weighs less than this counts as nothing: a thousandth of the lightest sample.
MIN_WEIGHT = 0.1
EPSILON = 0.001 * MIN_WEIGHT


class BinLayout(msgspec.Struct, frozen=True, dict=True):
    """Bins that grow exponentially. `first_width` is the width of bin 0."""

    first_width: float
    bins: int
    growth: float = 0.05

    @cached_property
    def starts(self) -> FloatColumn:
        """Where each bin starts, and a last entry for the end of the last one: its start, as it has no end."""
        powers = np.array([math.pow(1 + self.growth, number) for number in range(self.bins)])
        edges = np.append(self.first_width * (powers - 1) / self._ratio_less_one, np.nan)
        edges[-1] = edges[-2]
        edges.flags.writeable = False
        return edges

    def find_bins(self, values: FloatColumn) -> IntColumn:
        """The bin of each value; values are not negative."""
        # By the logarithm it would be faster and, right at an edge such as 10m, a matter of the processor's rounding.
        return np.searchsorted(self.starts[1:-1], values, side="right")

    @property
    def _ratio_less_one(self) -> float:
        return (1 + self.growth) - 1  # not quite the growth, and the edges follow it


def build_layout(first: float, largest: float) -> BinLayout:
    """The shortest layout whose last bin starts at `largest` or above."""
    layout = BinLayout(first, 1)
    steps = math.log(largest * layout._ratio_less_one / first + 1) / math.log(1 + layout.growth)
    return BinLayout(first, math.ceil(steps) + 1)


# Cores and bytes. A whole workload uses more than one container can, in bins of the same widths.
CPU_BINS = build_layout(0.01, 1e3)
MEMORY_BINS = build_layout(1e7, 1e12)
CPU_TOTAL_BINS = build_layout(0.01, 1e6)
MEMORY_TOTAL_BINS = build_layout(1e7, 1e15)
