"""How long to wait before asking again.

The figures are those of client-go's reflector: 0.8 s, doubling up to 30 s, each wait stretched by up to as much again,
so that a thousand clients which lost one API server do not all come back in the same second. What the server says with
`Retry-After` is a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import msgspec

# Draws a number from 0 to less than 1; `random.Random().random` is one.
Draw: TypeAlias = Callable[[], float]


class Backoff(msgspec.Struct, frozen=True):
    """Waits in seconds; `jitter` is the largest share by which one is stretched."""

    first: float = 0.8
    most: float = 30.0
    factor: float = 2.0
    jitter: float = 1.0

    def wait(self, failures: int, draw: Draw, retry_after: float | None = None) -> float:
        """After so many failures in a row, the first of which counts as 1."""
        # Past the hundredth doubling a float overflows, long after the most has been reached.
        grown = min(self.most, self.first * self.factor ** min(failures - 1, 100))
        return max(grown * (1 + self.jitter * draw()), retry_after or 0.0)
