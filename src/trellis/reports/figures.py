"""How is a number written in a report? With three digits that tell something, and the same way everywhere.

Text is plain ASCII; pages put a real minus and a dash in its place. What cannot be said (NaN) is `-`.
"""

from __future__ import annotations

import math

GIB = 2.0**30
NOTHING = "-"
_SMALLEST_SHARE = 0.0001  # of one: below that a share is only known to be small
_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def significant(value: float) -> str:
    """Three digits, with thousands set apart: `0.0123`, `1.2`, `41.2`, `1,234`."""
    if not math.isfinite(value):
        return NOTHING
    if value == 0:
        return "0"
    places = 2 - math.floor(math.log10(abs(value)))
    if places <= 0 or abs(round(value, 1)) >= 100:
        return f"{value:,.0f}"
    return f"{value:.{min(places, 6)}f}"


def gibibytes(value: float) -> str:
    """Bytes as a number of GiB."""
    return significant(value / GIB)


def share(value: float) -> str:
    """A share of one, in per cent: `41 %`, `1.2 %`, `0.05 %`."""
    if not math.isfinite(value):
        return NOTHING
    return f"{_percent(abs(value))} %" if value >= 0 else f"-{_percent(abs(value))} %"


def _percent(value: float) -> str:
    if value == 0:
        return "0"
    if value < _SMALLEST_SHARE:
        return "<0.01"
    places = 2 if value < 0.00995 else 1 if value < 0.0995 else 0
    return f"{value * 100:,.{places}f}"


def money(value: float) -> str:
    """With cents while they matter."""
    if not math.isfinite(value):
        return NOTHING
    return f"{value:,.2f}" if abs(value) < 99.995 else f"{value:,.0f}"


def count(value: float) -> str:
    """A whole number."""
    return f"{value:,.0f}" if math.isfinite(value) else NOTHING


def rate(value: float) -> str:
    """So many times in some span of time: one place is plenty."""
    if not math.isfinite(value):
        return NOTHING
    return "0" if value == 0 else "<0.1" if 0 < value < 0.05 else f"{value:,.1f}"


def factor(value: float) -> str:
    """So many times as much: `1.31x`."""
    return f"{value:.2f}x" if math.isfinite(value) else NOTHING


def span(seconds: float) -> str:
    """Seconds in the unit that suits them: `12 s`, `5 min`, `14 d`."""
    if not math.isfinite(seconds):
        return NOTHING
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{trimmed(seconds / size)} {unit}"
    return f"{trimmed(seconds)} s"


def trimmed(value: float) -> str:
    """Three digits at most, without noughts at the end."""
    text = significant(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def days(seconds: float) -> str:
    """A long span in words: days, or hours where it is short."""
    if seconds < 2 * 86400 and seconds % 86400:
        return f"{trimmed(seconds / 3600)} h"
    number = trimmed(seconds / 86400)
    return f"{number} day" if number == "1" else f"{number} days"
