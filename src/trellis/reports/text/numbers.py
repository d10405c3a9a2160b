"""Formats numbers with three significant digits, and shares, money, counts and time spans.

Text is plain ASCII; pages put a real minus and a dash in its place. NaN is written as `-`.
"""

from __future__ import annotations

import math

GIB = 2.0**30
NO_VALUE = "-"
_SMALLEST_SHARE = 0.0001  # of one: below that a share is only known to be small
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def format_significant(value: float) -> str:
    """Three digits, with thousands set apart: `0.0123`, `1.2`, `41.2`, `1,234`."""
    if not math.isfinite(value):
        return NO_VALUE
    if value == 0:
        return "0"
    # The exponent after rounding: 9.996 is 10.0.
    places = 2 - int(f"{value:.2e}".partition("e")[2])
    if places <= 0:
        return f"{value:,.0f}"
    return f"{value:.{min(places, 6)}f}"


def format_gib(value: float) -> str:
    """Bytes as a number of GiB."""
    return format_significant(value / GIB)


def format_share(value: float) -> str:
    """A share of one, in per cent: `41 %`, `1.2 %`, `0.05 %`."""
    if not math.isfinite(value):
        return NO_VALUE
    return f"{_percent(abs(value))} %" if value >= 0 else f"-{_percent(abs(value))} %"


def _percent(value: float) -> str:
    if value == 0:
        return "0"
    if value < _SMALLEST_SHARE:
        return "<0.01"
    places = 2 if value < 0.00995 else 1 if value < 0.0995 else 0
    return f"{value * 100:,.{places}f}"


def format_money(value: float) -> str:
    """An amount of money, with cents if it is small."""
    if not math.isfinite(value):
        return NO_VALUE
    return f"{value:,.2f}" if abs(value) < 99.995 else f"{value:,.0f}"


def format_count(value: float) -> str:
    """A whole number."""
    return f"{value:,.0f}" if math.isfinite(value) else NO_VALUE


def format_rate(value: float) -> str:
    """A number of events in a span of time, with one decimal place."""
    if not math.isfinite(value):
        return NO_VALUE
    return "0" if value == 0 else "<0.1" if 0 < value < 0.05 else f"{value:,.1f}"


def format_factor(value: float) -> str:
    """A factor: `1.31x`."""
    return f"{value:.2f}x" if math.isfinite(value) else NO_VALUE


def format_span(seconds: float) -> str:
    """Seconds in the unit that suits them: `12 s`, `5 min`, `14 d`."""
    if not math.isfinite(seconds):
        return NO_VALUE
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{format_trimmed(seconds / size)} {unit}"
    return f"{format_trimmed(seconds)} s"


_NEARLY_WHOLE = 0.03  # of a day
_INTERVAL_WORDS = {"s": "second", "min": "minute", "h": "hour", "d": "day"}


def format_interval(seconds: float) -> str:
    """How often something happens: `every hour`, `every 5 min`."""
    count, _, unit = format_span(seconds).partition(" ")
    return f"every {_INTERVAL_WORDS[unit]}" if count == "1" and unit in _INTERVAL_WORDS else f"every {count} {unit}"


def format_trimmed(value: float) -> str:
    """Three digits at most, without noughts at the end."""
    text = format_significant(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_days(seconds: float) -> str:
    """A long span in words: days, or hours and minutes where it is short."""
    if seconds < 3600:
        return format_span(seconds)
    if seconds < 2 * 86400 and seconds % 86400:
        return f"{format_trimmed(seconds / 3600)} h"
    days = seconds / 86400
    # A series of ten days ends one step before the end of the tenth.
    number = format_trimmed(round(days) if abs(days - round(days)) < _NEARLY_WHOLE else days)
    return f"{number} day" if number == "1" else f"{number} days"
