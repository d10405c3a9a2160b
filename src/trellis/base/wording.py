"""Numbers and amounts of resources in sentences: plurals, and amounts with the suffixes that people read."""

from __future__ import annotations

from fractions import Fraction
from typing import Final


def pluralize(count: int, noun: str) -> str:
    """`1 replica`, `2 replicas`."""
    return f"{count} {choose_form(count, noun, f'{noun}s')}"


def choose_form(count: int, singular: str, plural: str) -> str:
    """The form of a word that goes with so many: `has` or `have`."""
    return singular if count == 1 else plural


# Decisions count whole millicores and bytes: so many of them are a core, and a byte.
AMOUNTS_PER_UNIT: Final = {"cpu": 1000, "memory": 1}

RESOURCE_WORDS: Final = {"cpu": "CPU", "memory": "memory"}

_DECIMAL: Final = ((10**9, "G"), (10**6, "M"), (10**3, "k"))
_BINARY: Final = ((2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))


def format_amount(value: Fraction | int, resource: str, binary: bool, parts: int = 1) -> str:
    """Without its unit: CPU as a number of cores, memory with a suffix; at most four places, as many as it needs.

    `value` is in so many `parts` of a unit. Nothing is made of it on the way: messages of many plans are written in
    every pass.
    """
    above, below = value.numerator, value.denominator * parts
    if resource == "memory":
        for size, suffix in _BINARY if binary else _DECIMAL:
            if above >= size * below:
                return f"{_places(above / (size * below))}{suffix}"
    return _places(above / below)


def _places(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".")
