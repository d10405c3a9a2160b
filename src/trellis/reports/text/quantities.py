"""Formats resource quantities, points in time and sparklines for explanations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from fractions import Fraction
from typing import Final

from trellis.base.errors import InvalidQuantity
from trellis.base.quantities import Quantity
from trellis.base.times import parse_time
from trellis.base.wording import RESOURCE_WORDS, format_amount
from trellis.reports.text.numbers import format_trimmed
from trellis.reports.text.phrases import join_words

# From little to much. A terminal that has no such characters gets the others.
_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_PLAIN: Final = ".:-=+*%#"
_UNKNOWN: Final = " "
_UNITS: Final = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
# Digits from which an amount is rounded.
_MANY_DIGITS: Final = 5
_DECIMAL: Final = ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k"))
_BINARY: Final = ((2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))


def format_quantity(resource: str, text: str) -> str:
    """A quantity for people: CPU and memory of many digits are rounded to three digits."""
    digits = text.rstrip("kKMGTPEim")
    if resource not in RESOURCE_WORDS or len(digits) < _MANY_DIGITS:
        return text or "none"
    try:
        quantity = Quantity.parse(text)
    except InvalidQuantity:
        return text
    if resource == "cpu":
        return format_trimmed(quantity.milli / 1000)
    units = quantity.units
    for size, suffix in _BINARY:
        if units >= size:
            return f"{format_trimmed(units / size)}{suffix}"
    return text


def format_quantities(quantities: Mapping[str, str]) -> str:
    """`CPU 500m and memory 1Gi`."""
    return join_words(
        [f"{get_resource_word(resource)} {format_quantity(resource, text)}" for resource, text in quantities.items()]
    )


def format_bucket_quantity(resource: str, text: str, binary: bool) -> str:
    """An amount of buckets, exact to four places, in the family of suffixes that they are written in."""
    return format_amount(Quantity.parse(text).exact(), resource, binary)


def format_short_quantity(resource: str, exact: Fraction, binary: bool) -> str:
    """An amount with three digits, for narrow columns."""
    if resource == "memory":
        for size, suffix in _BINARY if binary else _DECIMAL:
            if exact >= size:
                return f"{format_trimmed(float(exact / size))}{suffix}"
    return format_trimmed(float(exact))


def get_resource_word(resource: str) -> str:
    """A resource in a sentence."""
    return RESOURCE_WORDS.get(resource, resource)


def format_moment(text: str, now: str) -> str:
    """A time, and how far it is from the time of the explanation: `14:05 UTC, in 3 min`."""
    moment, reference = parse_time(text), parse_time(now)
    away = (moment - reference).total_seconds()
    shown = format_clock(moment, reference)
    if abs(away) < 1:
        return f"{shown}, now"
    return f"{shown}, in {format_seconds(away)}" if away > 0 else f"{shown}, {format_seconds(-away)} ago"


def format_elapsed(since: str, until: str) -> str:
    """The time between two instants."""
    return format_seconds((parse_time(until) - parse_time(since)).total_seconds())


def format_seconds(seconds: float) -> str:
    """A span of time in its two largest units: `2 d 3 h`, `1 min 40 s`."""
    parts: list[str] = []
    remaining = round(seconds)
    for size, unit in _UNITS:
        count, remaining = divmod(remaining, size)
        if parts or count:
            parts.append(f"{count} {unit}" if count else "")
        if len(parts) == 2:
            break
    return " ".join(part for part in parts if part) or "0 s"


def format_clock(moment: datetime, now: datetime) -> str:
    """The time of day, with the date where it is another one."""
    at = moment.astimezone(UTC)
    day = "" if at.date() == now.astimezone(UTC).date() else f"{at:%Y-%m-%d} "
    return f"{day}{at:%H:%M} UTC"


def draw_sparkline(values: Sequence[float | None], *, plain: bool = False) -> str:
    """Numbers as a line of blocks, scaled to the highest; a gap where a value is unknown."""
    numbers = [value for value in values if value is not None]
    highest = max(numbers, default=0.0)
    steps = _PLAIN if plain else _BLOCKS
    if highest <= 0:
        return steps[0] * len(values)
    last = len(steps) - 1
    return "".join(_UNKNOWN if value is None else steps[round(last * value / highest)] for value in values)


def merge_values(values: Sequence[float | None], most: int) -> list[float | None]:
    """A limited number of values: of neighbours that share a place the highest, which a request has to cover."""
    size = math.ceil(len(values) / max(most, 1)) or 1
    groups = ([value for value in values[at : at + size] if value is not None] for at in range(0, len(values), size))
    return [max(group, default=None) for group in groups]
