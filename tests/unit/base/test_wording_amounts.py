"""Amounts as people read them."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.base.wording import format_amount


@pytest.mark.parametrize(
    ("value", "resource", "binary", "parts", "expected"),
    [
        (1500, "cpu", False, 1000, "1.5"),
        (1, "cpu", False, 1000, "0.001"),
        (Fraction(1, 3), "cpu", False, 1, "0.3333"),
        (3 * 2**29, "memory", True, 1, "1.5Gi"),
        (3 * 2**29, "memory", False, 1, "1.6106G"),
        (2**20 - 1, "memory", True, 1, "1023.999Ki"),
        (999, "memory", False, 1, "999"),
        (0, "memory", True, 1, "0"),
    ],
)
def test_an_amount_is_written_in_its_family_of_suffixes(
    value: Fraction | int, resource: str, binary: bool, parts: int, expected: str
) -> None:
    assert format_amount(value, resource, binary, parts) == expected


@given(st.integers(0, 2**60), st.sampled_from([1, 7, 1000]), st.sampled_from(["cpu", "memory"]), st.booleans())
def test_parts_of_a_unit_read_like_the_fraction_they_are(value: int, parts: int, resource: str, binary: bool) -> None:
    assert format_amount(value, resource, binary, parts) == format_amount(Fraction(value, parts), resource, binary)
