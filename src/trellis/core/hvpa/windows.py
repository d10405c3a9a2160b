"""What was the highest, or the lowest, of late? Totals that were seen, each for as long as it was the present one.

A total counts until another is seen, not only at the moment of a look: looks are far apart while nothing happens. What
cannot decide any more, because a later one is at least as extreme, is not kept, so that a window stays short.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class Seen(msgspec.Struct, frozen=True, gc=False):
    """An amount and until when it was the present one."""

    amount: int
    until: float


Window: TypeAlias = tuple[Seen, ...]
"""From the most extreme to the present one."""


class Measured(msgspec.Struct, frozen=True, gc=False):
    """A mean of late, of which older amounts fade: their weighted sum, its weight, and the extremes.

    `present` is whether the last amount still holds; else it does not count from `time` on.
    """

    total: float
    weight: float
    time: float
    high: Window
    low: Window
    present: bool = True


def seen(window: Window, amount: int, now: float, length: float, *, lowest: bool = False) -> Window:
    """The window after this amount is seen. One without any length holds the present amount alone."""
    if window and window[-1].until < now:
        window = (*window[:-1], Seen(window[-1].amount, now))
    sign = -1 if lowest else 1
    kept = [each for each in window if each.until > now - length and sign * each.amount > sign * amount]
    return (*kept, Seen(amount, now))


def aged(window: Window, now: float, length: float) -> Window:
    """The window after nothing was seen: what is too old is gone, in the end all of it."""
    return tuple(each for each in window if each.until > now - length)


def extreme(window: Window) -> int:
    """The highest of a window of highest amounts, the lowest of one of lowest."""
    return window[0].amount


def changes_at(window: Window, length: float, now: float) -> float | None:
    """When the extreme will be another one if nothing else is seen; None if it stays, because it is seen still."""
    return window[0].until + length if len(window) > 1 or window[0].until < now else None
