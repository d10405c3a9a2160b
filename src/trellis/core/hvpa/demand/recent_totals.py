"""Windows over the recent totals of a resource: their highest, their lowest and their mean.

A total counts until the next one is observed, not only at the moment of a pass: passes are far apart while nothing
happens. What cannot decide any more, because a later total is at least as extreme, is dropped, so that a window stays
short.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class WindowSample(msgspec.Struct, frozen=True, gc=False):
    """An amount and until when it was the present one."""

    amount: int
    until: float


DemandWindow: TypeAlias = tuple[WindowSample, ...]
"""From the most extreme to the present one."""


class MeanDemand(msgspec.Struct, frozen=True, gc=False):
    """A mean of late, of which older amounts fade: their weighted sum, its weight, and the extremes.

    `is_current` is whether the last amount still holds; else it does not count from `time` on.
    """

    total: float
    weight: float
    time: float
    high: DemandWindow
    low: DemandWindow
    is_current: bool = True


def add_sample(window: DemandWindow, amount: int, now: float, length: float, *, lowest: bool = False) -> DemandWindow:
    """The window with this amount added. A window of no length holds the current amount alone."""
    if window and window[-1].until < now:
        window = (*window[:-1], WindowSample(window[-1].amount, now))
    sign = -1 if lowest else 1
    earlier = [sample for sample in window if sample.until > now - length and sign * sample.amount > sign * amount]
    return (*earlier, WindowSample(amount, now))


def drop_expired(window: DemandWindow, now: float, length: float) -> DemandWindow:
    """The window without expired samples."""
    return tuple(sample for sample in window if sample.until > now - length)


def read_extreme(window: DemandWindow) -> int:
    """The highest of a window of highest amounts, the lowest of one of lowest."""
    return window[0].amount


def find_next_extreme_change(window: DemandWindow, length: float, now: float) -> float | None:
    """When the extreme expires if no sample is added; None if it is the current amount."""
    return window[0].until + length if len(window) > 1 or window[0].until < now else None
