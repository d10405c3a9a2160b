"""How often something may happen: so many at once, then so many a second. The time is an argument."""

from __future__ import annotations

import msgspec

from trellis.base.errors import InvalidInput


class Rate(msgspec.Struct, frozen=True):
    """`burst` at once, then `per_second`."""

    per_second: float
    burst: int = 1

    def __post_init__(self) -> None:
        if self.per_second <= 0 or self.burst < 1:
            raise InvalidInput(f"{self.per_second:g}/s, burst {self.burst}", "a rate is above 0 and a burst at least 1")


class TokenBucket:
    """Tokens come back at the rate and are spent one at a time."""

    __slots__ = ("_at", "_rate", "_tokens")

    def __init__(self, rate: Rate, now: float) -> None:
        self._rate = rate
        self._tokens = float(rate.burst)
        self._at = now

    def take(self, now: float) -> bool:
        """Spend a token if there is one."""
        self._refill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def reserve(self, now: float) -> float:
        """Spend a token, in advance if need be. Returns how many seconds to wait: those who ask first go first."""
        self._refill(now)
        self._tokens -= 1
        return max(0.0, -self._tokens / self._rate.per_second)

    def _refill(self, now: float) -> None:
        self._tokens = min(float(self._rate.burst), self._tokens + max(0.0, now - self._at) * self._rate.per_second)
        self._at = now
