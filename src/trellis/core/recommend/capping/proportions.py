"""Limits and requests in the proportion in which the pod's author wrote them.

A limit without a request counts as equal to it, as the API server fills it in. Results are exact and cut off, or
rounded up where a minimum must be met; nothing overflows, as upstream's may, but the largest count is 2^63-1.
"""

from __future__ import annotations

from fractions import Fraction

from trellis.base.quantities import LARGEST_COUNT


def exact_proportional_limit(recommended: int, request: int, limit: int, default_limit: int) -> Fraction | None:
    """The exact limit beside a recommended request; None if the container has none. Zero is "not set" everywhere."""
    limit = limit or default_limit
    if not limit or not recommended:
        return None
    return Fraction(recommended) if not request else Fraction(recommended * limit, request)


def proportional_limit(recommended: int, request: int, limit: int, default_limit: int) -> int | None:
    """The same as a count, cut off. In whole numbers throughout: every new pod waits for some of these."""
    limit = limit or default_limit
    if not limit or not recommended:
        return None
    return min(recommended * limit // request if request else recommended, LARGEST_COUNT)


def request_at_limit(bound: int, request: int, limit: int, default_limit: int, *, at_least: bool) -> int:
    """The request whose limit is just at a bound, on the side that meets it; 0 if there is no limit to bound."""
    limit = limit or default_limit
    if not limit or not bound:
        return 0
    if not request:
        return bound
    exact = request * bound
    return min(-(-exact // limit) if at_least else exact // limit, LARGEST_COUNT)


def scale_count(count: int, factor: Fraction, *, up: bool) -> int:
    """A count times a factor."""
    exact = count * factor
    return min(-int(-exact // 1) if up else int(exact // 1), LARGEST_COUNT)
