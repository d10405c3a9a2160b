from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.base.errors import InvalidQuantity
from trellis.base.quantities import Quantity
from trellis.base.quantity_columns import parse_milli_column, parse_unit_column

digits = st.text(alphabet="0123456789", max_size=21)
suffixes = st.sampled_from(["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E-2", "e+5"])
texts = st.builds(
    lambda sign, whole, point, fraction, suffix: sign + whole + (point and point + fraction) + suffix,
    st.sampled_from(["", "", "", "+", "-"]),
    digits,
    st.sampled_from(["", "", "."]),
    digits,
    suffixes,
)


def is_read(text: str) -> bool:
    try:
        Quantity.parse(text)
    except InvalidQuantity:
        return False
    return True


@given(st.lists(texts.filter(is_read)))
def test_a_column_parses_like_single_quantities(column: list[str]) -> None:
    assert parse_milli_column(column).tolist() == [Quantity.parse(text).milli for text in column]
    assert parse_unit_column(column).tolist() == [Quantity.parse(text).units for text in column]


@given(st.lists(st.text(alphabet="0123456789.+-eEiKMmnuk \n\u0661", max_size=5), min_size=1))
def test_a_column_reports_its_first_invalid_quantity(column: list[str]) -> None:
    bad = [index for index, text in enumerate(column) if not is_read(text)]
    if not bad:
        assert parse_milli_column(column).tolist() == [Quantity.parse(text).milli for text in column]
        return
    with pytest.raises(InvalidQuantity) as caught:
        parse_milli_column(column)
    assert caught.value.value == column[bad[0]]
    assert caught.value.rule.startswith(f"item {bad[0]}: ")


def test_common_quantity_texts_are_parsed() -> None:
    cpu = ["250m", "1", "1.5", "0.25", "12k", "100u", "1n", "2e3"]
    assert parse_milli_column(cpu).tolist() == [250, 1000, 1500, 250, 12_000_000, 1, 1, 2_000_000]
    memory = ["128974848", "129e6", "129M", "123Mi", "1536Mi", "1.5Gi", "128974848000m", "1m"]
    assert parse_unit_column(memory).tolist() == [
        128974848,
        129_000_000,
        129_000_000,
        128974848,
        1610612736,
        1610612736,
        128974848,
        1,
    ]


def test_counts_saturate() -> None:
    largest = np.iinfo(np.int64).max
    assert parse_unit_column(["9Ei", "10E", "9223372036854775807", "9999999999999999999"]).tolist() == [largest] * 4
    assert parse_milli_column(["1Pi", "1Ei", "0Ei", "0.1Ei", "-1Ei"]).tolist() == [
        1125899906842624000,
        largest,
        0,
        largest,
        -largest,
    ]


def test_missing_values_are_filled_in() -> None:
    assert parse_milli_column(["1", None, "2m"]).tolist() == [1000, 0, 2]
    assert parse_milli_column([None, "1"], missing=-1).tolist() == [-1, 1000]
    assert parse_milli_column([None, None], missing=7).tolist() == [7, 7]


def test_an_empty_text_is_not_a_missing_one() -> None:
    with pytest.raises(InvalidQuantity, match="item 1"):
        parse_milli_column([None, ""])


def test_an_empty_column_is_empty() -> None:
    assert parse_milli_column([]).shape == (0,)
    assert parse_unit_column([]).dtype == np.int64


def test_a_number_in_a_column_of_texts_is_refused() -> None:
    with pytest.raises(InvalidQuantity, match=r"^5: item 1: "):
        parse_unit_column(["1", 5])  # type: ignore[list-item]


def test_a_text_with_a_line_feed_does_not_shift_other_rows() -> None:
    with pytest.raises(InvalidQuantity, match=r'^"2\\n3": item 1: '):
        parse_unit_column(["1", "2\n3", "4"])


@pytest.mark.parametrize("text", ["1" + "x" * length for length in (1, 2, 98, 99, 100, 101, 255, 256)])
def test_a_long_tail_is_no_suffix(text: str) -> None:
    with pytest.raises(InvalidQuantity, match="item 0"):
        parse_unit_column([text])
