"""Phrases for sentences: number words, lists, durations, times of day, ranges."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from trellis.base.durations import Duration
from trellis.base.quantities import Quantity
from trellis.base.times import TimeOfDay

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
_NUMBERS = (
    "no",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
)


def spell_number(count: int) -> str:
    """Small numbers as words."""
    return _NUMBERS[count] if 0 <= count < len(_NUMBERS) else str(count)


def spell_factor(factor: int) -> str:
    """A factor: twice, three times."""
    return "twice" if factor == 2 else f"{spell_number(factor)} times"


def join_words(items: Sequence[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {last} {items[-1]}"


def format_duration(duration: Duration) -> str:
    """A duration as people write it: `10 s`, `5 min`, `1 h 30 min`."""
    seconds = Fraction(duration.nanos, 10**9)
    parts = []
    for size, unit in ((3600, "h"), (60, "min")):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}")
    if seconds or not parts:
        parts.append(f"{float(seconds):g} s")
    return " ".join(parts)


def format_time_of_day(time: TimeOfDay) -> str:
    """A time of day: `22:00 UTC`, `06:30 UTC+05:30`."""
    hours, minutes = divmod(abs(time.offset_minutes), 60)
    sign = "-" if time.offset_minutes < 0 else "+"
    seconds = f":{time.second:02}" if time.second else ""
    offset = f"{sign}{hours:02}:{minutes:02}" if time.offset_minutes else ""
    return f"{time.hour:02}:{time.minute:02}{seconds} UTC{offset}"


def format_bounds(minimum: Quantity | None, maximum: Quantity | None) -> str:
    """A range that may be open at either end."""
    if minimum is not None and maximum is not None:
        return f"between {minimum} and {maximum}"
    return f"at least {minimum}" if minimum is not None else f"at most {maximum}"


def spell_code(code: str) -> str:
    """The code of a reason in words: `ResizedInPlace` is `resized in place`, `OOMKilled` is `OOM killed`."""
    words = _WORDS.findall(code)
    return " ".join(word if word.isupper() and len(word) > 1 else word.lower() for word in words) or code


def format_clause(text: str) -> str:
    """A sentence as a clause of a longer one: without its full stop, and with a lower-case initial."""
    short = text.removesuffix(".")
    head, _, _ = short.partition(" ")
    return short if head[1:] != head[1:].lower() else short[:1].lower() + short[1:]
