"""Measures that reports compare: name, unit, meaning, and which direction is better.

A measure is declared once and so has one name, unit and meaning in tables, pages and CSV files.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from trellis.reports.text.numbers import format_count, format_share, format_significant

T = TypeVar("T")
_SAME = 0.005  # a relative difference that is no more than chance
COSTS_MORE = (
    -2
)  # beside 1, 0 and -1 for better, the same and worse: more cost buys something, and is not worse by itself


class ComparisonMode(StrEnum):
    """How two values are compared."""

    RELATIVELY = "relatively"  # per cent of the first
    IN_POINTS = "in points"  # shares: percentage points
    BY_COUNT = "by count"  # the difference of two counts
    NONE = "not"


class Measure(msgspec.Struct, Generic[T], frozen=True):
    """A measure of a result. `better` is -1 where less is better, 0 where neither is.

    More of a measure that `is_cost` costs more, which is not worse by itself.
    """

    key: str
    title: str
    unit: str
    meaning: str
    read: Callable[[T], float]
    show: Callable[[float], str]
    compared: ComparisonMode = ComparisonMode.RELATIVELY
    better: int = -1
    is_cost: bool = False

    def format_difference(self, value: float, first: float) -> str:
        """How far off the first a value is, in words of one size: `-41 %`, `+0.3 pt`, `+12`, or nothing to say."""
        if self.compared is ComparisonMode.NONE or not (math.isfinite(value) and math.isfinite(first)):
            return ""
        if value == first == 0:
            return ""
        if self.show(value) == self.show(first):
            return "="
        apart = value - first
        if self.compared is ComparisonMode.BY_COUNT:
            return f"{'+' if apart > 0 else '-'}{format_count(abs(apart))}"
        if self.compared is ComparisonMode.IN_POINTS:
            shown = format_share(abs(apart)).removesuffix(" %")
            return "" if shown.startswith("<") else f"{'+' if apart > 0 else '-'}{shown} pt"
        if first == 0:
            return ""
        if abs(apart / first) < _SAME:
            return "="
        if apart / first > 9.995:
            return f"{format_significant(value / first)}x"
        return f"{'+' if apart > 0 else '-'}{format_share(abs(apart / first))}"

    def compare(self, value: float, first: float) -> int:
        """1 where a value is better than the first, -1 where it is worse or `COSTS_MORE`, 0 where it is neither."""
        if self.format_difference(value, first) in ("", "="):
            return 0
        if self.is_cost and value > first:
            return COSTS_MORE
        return self.better if value > first else -self.better

    def format_title(self, unit: str = "") -> str:
        """The title with its unit, or with the one given in its stead."""
        named = unit or self.unit
        return f"{self.title}, {named}" if named else self.title
