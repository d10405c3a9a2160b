"""How many of what? A number with its noun, and the words that go with it, as people say them."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """`1 replica`, `2 replicas`."""
    return f"{count} {in_number(count, noun, f'{noun}s')}"


def in_number(count: int, one: str, many: str) -> str:
    """The form of a word that goes with so many: `has` or `have`."""
    return one if count == 1 else many
