"""What goes through phases? A batch job: one level after the other, and from the first again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trellis.core.usage.columns import FloatColumn


def phases(since: FloatColumn, lengths: Sequence[float], levels: Sequence[float]) -> FloatColumn:
    """The level of the phase that each moment falls into, `since` being seconds from the begin of the first."""
    ends = np.cumsum(np.asarray(lengths, dtype=np.float64))
    place = np.searchsorted(ends, since % ends[-1], side="right")
    found: FloatColumn = np.asarray(levels, dtype=np.float64)[np.minimum(place, len(ends) - 1)]
    return found
