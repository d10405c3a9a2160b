from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.reports.measures import COSTS_MORE, ComparisonMode, Measure
from trellis.reports.text.numbers import (
    format_count,
    format_days,
    format_factor,
    format_gib,
    format_money,
    format_rate,
    format_share,
    format_significant,
    format_span,
)

NUMBERS = st.floats(allow_nan=True, allow_infinity=True)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (0.01234, "0.0123"),
        (0.5, "0.500"),
        (9.876, "9.88"),
        (41.25, "41.2"),
        (99.96, "100"),
        (9.997, "10.0"),
        (0.99998, "1.00"),
        (-9.997, "-10.0"),
        (565.4, "565"),
        (12345.6, "12,346"),
        (math.nan, "-"),
    ],
)
def test_an_amount_has_three_significant_digits(value: float, text: str) -> None:
    assert format_significant(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 %"),
        (0.00001, "<0.01 %"),
        (0.0006, "0.06 %"),
        (0.012, "1.2 %"),
        (0.41, "41 %"),
        (12.0, "1,200 %"),
        (-0.05, "-5.0 %"),
        (math.nan, "-"),
    ],
)
def test_a_share_is_never_rounded_to_nought(value: float, text: str) -> None:
    assert format_share(value) == text


def test_money_has_cents_while_they_matter() -> None:
    assert [format_money(value) for value in (0.0, 7.5, 99.99, 100.0, 7306.4)] == [
        "0.00",
        "7.50",
        "99.99",
        "100",
        "7,306",
    ]


def test_spans_are_in_the_unit_that_suits_them() -> None:
    assert [format_span(value) for value in (4.0, 90.0, 3600.0, 1209600.0)] == ["4 s", "1.5 min", "1 h", "14 d"]
    assert [format_days(value) for value in (300.0, 3600.0, 86400.0, 129600.0, 1209600.0)] == [
        "5 min",
        "1 h",
        "1 day",
        "36 h",
        "14 days",
    ]


@given(NUMBERS)
def test_any_number_can_be_written(value: float) -> None:
    for show in (
        format_count,
        format_factor,
        format_gib,
        format_money,
        format_rate,
        format_share,
        format_significant,
        format_span,
    ):
        assert show(value)


def _measure(compared: ComparisonMode) -> Measure[float]:
    return Measure("any", "Any", "", "", lambda value: value, format_significant, compared)


@pytest.mark.parametrize(
    ("compared", "value", "first", "text", "improvement"),
    [
        (ComparisonMode.RELATIVELY, 59.0, 100.0, "-41 %", 1),
        (ComparisonMode.RELATIVELY, 103.0, 100.0, "+3.0 %", -1),
        (ComparisonMode.RELATIVELY, 100.0, 100.0, "=", 0),
        (ComparisonMode.RELATIVELY, 1500.0, 100.0, "15.0x", -1),
        (ComparisonMode.RELATIVELY, 5.0, 0.0, "", 0),
        (ComparisonMode.RELATIVELY, 0.0, 0.0, "", 0),
        (ComparisonMode.RELATIVELY, 100.4, 100.0, "=", 0),
        (ComparisonMode.IN_POINTS, 0.0121, 0.001, "+1.1 pt", -1),
        (ComparisonMode.IN_POINTS, 0.00001, 0.0, "", 0),
        (ComparisonMode.BY_COUNT, 13.0, 0.0, "+13", -1),
        (ComparisonMode.BY_COUNT, 13.0, 13.0, "=", 0),
        (ComparisonMode.BY_COUNT, 0.0, 0.0, "", 0),
        (ComparisonMode.NONE, 13.0, 2.0, "", 0),
        (ComparisonMode.BY_COUNT, 2.0, 5.0, "-3", 1),
        (ComparisonMode.RELATIVELY, math.nan, 5.0, "", 0),
    ],
)
def test_a_difference_says_how_much_and_which_way_is_better(
    compared: ComparisonMode, value: float, first: float, text: str, improvement: int
) -> None:
    measure = _measure(compared)
    assert measure.format_difference(value, first) == text
    assert measure.compare(value, first) == improvement


def test_more_cost_is_told_apart_from_what_is_worse() -> None:
    cost = Measure[float]("cost", "Cost", "", "", lambda value: value, format_money, is_cost=True)
    risk = Measure[float]("risk", "Risk", "", "", lambda value: value, format_money)
    assert [cost.compare(value, 10.0) for value in (12.0, 10.0, 8.0)] == [COSTS_MORE, 0, 1]
    assert [risk.compare(value, 10.0) for value in (12.0, 10.0, 8.0)] == [-1, 0, 1]
