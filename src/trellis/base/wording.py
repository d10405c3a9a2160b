"""Numbers and amounts of resources in sentences: plurals, and amounts with the suffixes that people read."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

_AGE_UNITS: Final = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"))


def pluralize(count: int, noun: str) -> str:
    """`1 replica`, `2 replicas`, `1,234 replicas`."""
    return f"{count:,} {choose_form(count, noun, f'{noun}s')}"


def choose_form(count: int, singular: str, plural: str) -> str:
    """The singular or plural form of a word for a count: `has` or `have`."""
    return singular if count == 1 else plural


# Decisions count millicores and bytes: how many of them make one unit.
AMOUNTS_PER_UNIT: Final = {"cpu": 1000, "memory": 1}

RESOURCE_WORDS: Final = {"cpu": "CPU", "memory": "memory"}

_DECIMAL: Final = ((10**9, "G"), (10**6, "M"), (10**3, "k"))
_BINARY: Final = ((2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))


def format_amount(value: Fraction | int, resource: str, binary: bool, parts: int = 1) -> str:
    """An amount without its unit: CPU as a number of cores, memory with a suffix; at most four places.

    `value` is in `parts` of a unit. No quantity is constructed: every pass formats messages of many plans.
    """
    above, below = value.numerator, value.denominator * parts
    if resource == "memory":
        for size, suffix in _BINARY if binary else _DECIMAL:
            if above >= size * below:
                return f"{_format_places(above / (size * below))}{suffix}"
    return _format_places(above / below)


def _format_places(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".")


def format_age(seconds: float) -> str:
    """A rounded age: `40 s`, `3 min`, `2 h`, `5 d`."""
    size, unit = next(((size, unit) for size, unit in _AGE_UNITS if seconds >= size), (1.0, "s"))
    return f"{seconds / size:.0f} {unit}"
