"""`Quantity` reads and prints what the API server reads and prints.

Left out is where Kubernetes errs, and we saturate or stay exact on purpose: counts beyond int64 (it wraps around or
says 0), counts of negative amounts that it keeps as a big decimal (it rounds towards zero, or past it), amounts of
1000E and more (it drops the suffix), and exponents of many digits (it computes the power, for minutes).
"""

from __future__ import annotations

import re
from fractions import Fraction

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from support.oracles.kubernetes import Oracle
from trellis.base.errors import InvalidQuantity
from trellis.base.quantities import Quantity

LARGEST = 2**63 - 1

digits = st.text(alphabet="0123456789", max_size=20)
suffixes = st.sampled_from(
    ["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e3", "E3", "e+3", "e-3", "e10", "e-12", "E0"]
)
well_formed = st.builds(
    lambda sign, whole, point, fraction, suffix: sign + whole + (point and point + fraction) + suffix,
    st.sampled_from(["", "", "+", "-"]),
    digits,
    st.sampled_from(["", "."]),
    digits,
    suffixes,
)
near_misses = st.builds(
    lambda text, place, slip: text[:place] + slip + text[place:],
    well_formed,
    st.integers(0, 40),
    st.sampled_from([" ", "\n", "-", "+", ".", "e", "E", "i", "K", "k", "x", "_", "\u0661", "0", "000"]),
)
texts = st.one_of(well_formed, near_misses, st.text(alphabet="0123456789+-.eEinumkKMGTP", max_size=6))


def read(text: str) -> Quantity | None:
    try:
        return Quantity.parse(text)
    except InvalidQuantity:
        return None


def spelled_out(text: str) -> str:
    """The same amount with zeros after its last digit.

    Kubernetes prints a text such as 1.500 or +5Mi as it was written; with three zeros behind it has to compose.
    """
    sign, whole, fraction, suffix = re.fullmatch(r"([+-]?)(\d*)\.?(\d*)(.*)", text, re.ASCII).groups()  # type: ignore[union-attr]
    return f"{sign}{whole or '0'}.{fraction}000{suffix}"


@given(texts)
@example("m")
@example("Ti")
@example("Pi")
@example(".e-10")
@example("1.500")
@example("-")
@example("+00000000001000E")
@settings(deadline=None, max_examples=400)
def test_quantities_are_read_and_printed_as_by_kubernetes(oracle: Oracle, text: str) -> None:
    assume(not re.search(r"[eE][+-]?\d{3}", text))
    decision, ours = oracle.quantity(text), read(text)
    assert decision.ok == (ours is not None), decision.why or str(ours)
    if ours is None:
        return
    assume(abs(ours.exact()) < 10**36)
    assert ours.exact() == Fraction(decision.decimal)
    assert ours.format == decision.format
    if abs(ours.exact()) < 10**21:
        # Beyond, Kubernetes loses the suffix: it prints 1000E as 1.
        assert str(ours) == oracle.quantity(spelled_out(text)).canonical
        assert oracle.quantity(str(ours)).canonical == str(ours)


@given(texts)
@settings(deadline=None, max_examples=400)
def test_counts_are_those_of_kubernetes(oracle: Oracle, text: str) -> None:
    ours = read(text)
    assume(ours is not None)
    assert ours is not None
    assume(0 <= ours.exact() <= LARGEST)
    assume(not re.search(r"[eE][+-]?\d{3}", text))
    decision = oracle.quantity(text)
    assert ours.units == decision.value
    if ours.exact() * 1000 <= LARGEST:
        assert ours.milli == decision.milli_value


@pytest.mark.parametrize("text", ["-1", "-1500m", "-1n", "-2Gi", "-1e3"])
def test_negative_counts_are_those_of_kubernetes_where_it_rounds_away_from_zero(oracle: Oracle, text: str) -> None:
    decision, ours = oracle.quantity(text), Quantity.parse(text)
    assert (ours.units, ours.milli) == (decision.value, decision.milli_value)


def test_kubernetes_still_errs_where_we_differ(oracle: Oracle) -> None:
    assert oracle.quantity("1000E").canonical == "1"
    assert oracle.quantity("-0.0000000001").value == 1
    assert oracle.quantity("1e30").value == 0
    assert oracle.quantity("1e4294967299").value == 1000
