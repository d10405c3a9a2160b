"""How is a recommendation held in columns? As whole millicores and whole bytes, in one array for all containers.

`Amounts` has the axes (what, resource, container): what is one of `TARGET` to `TOTAL`, resource is `CPU` or `MEMORY`.
NaN is "none". A float holds every whole number that upstream's amounts can be.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trellis.core.usage.columns import FloatColumn

# Upstream's largest amount. What is beyond it, as an upper bound without any confidence is, stops there.
LARGEST: Final = 1e14
# A policy or a stored status that says more is read as this much: up to here a float holds every whole number.
LARGEST_READ: Final = 2.0**53

CPU: Final = 0
MEMORY: Final = 1
RESOURCES: Final = ("cpu", "memory")

# The first axis of estimates.
LOWER: Final = 0
MIDDLE: Final = 1
UPPER: Final = 2

# The first axis of what is published, and its names there.
TARGET: Final = 0
LOWER_BOUND: Final = 1
UPPER_BOUND: Final = 2
UNCAPPED: Final = 3
TOTAL: Final = 4
PUBLISHED_AS: Final = ("target", "lowerBound", "upperBound", "uncappedTarget", "totalTarget")

MILLICORES: Final = 1000.0  # in a core


def whole(amounts: FloatColumn) -> FloatColumn:
    """Amounts as upstream converts them: fractions cut off, between 0 and `LARGEST`; NaN becomes 0."""
    return np.trunc(np.clip(np.nan_to_num(amounts, nan=0.0, posinf=LARGEST, neginf=0.0), 0.0, LARGEST))
