"""What comes unforeseen? Bursts, and noise."""

from __future__ import annotations

import msgspec
import numpy as np

from trellis.core.usage.columns import FloatColumn
from trellis.sim.generators.rhythms import DAY

_LENGTHS_DIFFER = 0.4
_HEIGHTS_DIFFER = 0.25


class Spikes(msgspec.Struct, frozen=True):
    """How high bursts are, how many there are in a day, and how many seconds they last; all on average."""

    height: float
    per_day: float
    length: float


def spiky(times: FloatColumn, step: float, spikes: Spikes, draw: np.random.Generator) -> FloatColumn:
    """Nothing but for bursts: so many a day on average, at any time, each of its own length and height.

    Where two meet, the higher counts. A burst that is shorter than a step adds to it in proportion.
    """
    found = np.zeros(len(times))
    span = step * len(times)
    count = int(draw.poisson(spikes.per_day * span / DAY))
    begins = draw.uniform(0.0, span, count)
    lengths = spikes.length * draw.lognormal(-(_LENGTHS_DIFFER**2) / 2, _LENGTHS_DIFFER, count)
    heights = spikes.height * draw.lognormal(-(_HEIGHTS_DIFFER**2) / 2, _HEIGHTS_DIFFER, count)
    for begin, lasts, high in zip(begins.tolist(), lengths.tolist(), heights.tolist(), strict=True):
        first = int(begin // step)
        steps = max(1, round(lasts / step))
        level = high * min(1.0, lasts / step)
        found[first : first + steps] = np.maximum(found[first : first + steps], level)
    return found


def noise(count: int, spread: float, draw: np.random.Generator) -> FloatColumn:
    """Factors around 1, log-normal, with so much of a standard deviation in their logarithm."""
    if spread == 0:
        return np.ones(count)
    return draw.lognormal(-(spread**2) / 2, spread, count)
