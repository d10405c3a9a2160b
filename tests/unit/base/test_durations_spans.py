"""Spans of days and weeks, as scenarios write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.base.durations import describe_span, format_span, parse_span
from trellis.base.errors import InvalidDuration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("14d", 1_209_600), ("1d12h", 129_600), ("1.5h", 5_400), ("90s", 90), ("2w", 1_209_600), ("0", 0), ("0s", 0)],
)
def test_a_span_is_read_in_seconds(text: str, seconds: float) -> None:
    assert parse_span(text) == seconds


@pytest.mark.parametrize("text", ["", "14", "14 d", "-1d", "1y", "d", "1d\n", "1.d", "1ms"])
def test_an_invalid_span_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidDuration, match="such as 90s, 10m, 36h or 14d"):
        parse_span(text)


@given(st.integers(0, 10**8))
def test_spans_round_trip(seconds: int) -> None:
    assert parse_span(format_span(seconds)) == seconds


def test_a_span_in_a_sentence_has_units_set_apart() -> None:
    assert [describe_span(seconds) for seconds in (0, 90, 360_000)] == ["0 s", "1 min 30 s", "4 d 4 h"]


def test_spans_print_in_days_hours_minutes_and_seconds() -> None:
    assert [format_span(seconds) for seconds in (0, 90, 3_600, 129_600, 0.25)] == [
        "0s",
        "1m30s",
        "1h",
        "1d12h",
        "0.25s",
    ]
