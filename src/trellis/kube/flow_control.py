"""Flow control: exponential backoff with jitter, a token-bucket rate limiter, and ticks. Times are arguments.

The default backoff is that of client-go's reflector: 0.8 s, doubling up to 30 s, each wait stretched by up to as much
again, so that a thousand clients that lost one API server do not all come back in the same second. `Retry-After` of
the server is a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from trellis.base.errors import InvalidInput

# Draws a number from 0 to less than 1; `random.Random().random` is one.
Draw: TypeAlias = Callable[[], float]


class RetryBackoff(msgspec.Struct, frozen=True):
    """Waits in seconds; `jitter` is the largest share by which a wait is extended."""

    initial: float = 0.8
    maximum: float = 30.0
    factor: float = 2.0
    jitter: float = 1.0

    def wait(self, failures: int, draw: Draw, retry_after: float | None = None) -> float:
        """The wait after a number of failures in a row, counted from 1."""
        # Past the hundredth doubling a float overflows, long after the maximum has been reached.
        delay = min(self.maximum, self.initial * self.factor ** min(failures - 1, 100))
        return max(delay * (1 + self.jitter * draw()), retry_after or 0.0)


# A timer that fires this part of a period early is of the tick that comes, not of one before it.
_EARLY: Final = 0.1


def wait_for_tick(period: float, now: float) -> float:
    """Seconds until the next multiple of a period: loops with the same period wake the process together."""
    wait = period - now % period
    return wait if wait > _EARLY * period else wait + period


class Rate(msgspec.Struct, frozen=True):
    """`burst` at once, then `per_second`."""

    per_second: float
    burst: int = 1

    def __post_init__(self) -> None:
        if self.per_second <= 0 or self.burst < 1:
            raise InvalidInput(
                f"{self.per_second:g}/s, burst {self.burst}", "the rate must be above 0 and the burst at least 1"
            )


class TokenBucket:
    """Tokens come back at the rate and are spent one at a time."""

    __slots__ = ("_rate", "_refilled_at", "_tokens")

    def __init__(self, rate: Rate, now: float) -> None:
        self._rate = rate
        self._tokens = float(rate.burst)
        self._refilled_at = now

    def try_take(self, now: float) -> bool:
        """Spend a token if there is one."""
        self._refill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def reserve(self, now: float) -> float:
        """Spend a token, in advance if none is left; returns the seconds to wait. Callers are served in order."""
        self._refill(now)
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate.per_second)

    def _refill(self, now: float) -> None:
        self._tokens = min(
            float(self._rate.burst), self._tokens + max(0.0, now - self._refilled_at) * self._rate.per_second
        )
        self._refilled_at = now
