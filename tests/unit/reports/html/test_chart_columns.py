from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.reports.html.chart_columns import ChartColumns

VALUES = st.lists(st.one_of(st.floats(1e-6, 1e12), st.just(0.0), st.just(math.nan)), max_size=40)


def decoded(encoded: list[float | str]) -> list[float]:
    """As the page's script reads it."""
    unit, steps = encoded
    values: list[float] = []
    at = 0.0
    for part in str(steps).split(",") if steps else []:
        step, _, often = part.partition("*")
        for _ in range(int(often or 1)):
            at += 0.0 if step in {"n", ""} else float(step)
            values.append(math.nan if step == "n" else at * float(unit))
    return values


@given(VALUES)
def test_a_column_comes_back_within_a_ten_thousandth_of_its_largest(values: list[float]) -> None:
    columns = ChartColumns()
    decoded_values = decoded(columns.encoded[columns.add(values)])
    top = max((value for value in values if not math.isnan(value)), default=0.0)
    assert len(decoded_values) == len(values)
    for value, again in zip(values, decoded_values, strict=True):
        assert math.isnan(value) == math.isnan(again)
        assert math.isnan(value) or again == pytest.approx(value, abs=top / 9000)


def test_constant_values_are_encoded_once() -> None:
    columns = ChartColumns()
    number = columns.add([2.5] * 300)
    assert str(columns.encoded[number][1]).endswith(",*299")


def test_the_same_column_is_kept_once() -> None:
    columns = ChartColumns()
    assert columns.add([1.0, 2.0]) == columns.add([1.0, 2.0])
    assert columns.add([1.0, 3.0]) != columns.add([1.0, 2.0])
    assert len(columns.encoded) == 2


def test_times_are_exact() -> None:
    columns = ChartColumns()
    times = [1767571200.0 + 3600.0 * hour for hour in range(48)]
    encoded = columns.encoded[columns.add_times(times)]
    assert decoded(encoded) == times
    assert encoded[1] == "1767571200,3600*47"
