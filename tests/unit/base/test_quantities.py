from __future__ import annotations

import copy
import pickle
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.base.errors import InvalidQuantity
from trellis.base.quantities import Quantity, QuantityFormat

LARGEST = 2**63 - 1

nanos = st.integers(min_value=-(10**30), max_value=10**30)
quantities = st.builds(Quantity, nanos, st.sampled_from(QuantityFormat))


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("1n", Fraction(1, 10**9)),
        ("1u", Fraction(1, 10**6)),
        ("1m", Fraction(1, 1000)),
        ("1", 1),
        ("1k", 10**3),
        ("1M", 10**6),
        ("1G", 10**9),
        ("1T", 10**12),
        ("1P", 10**15),
        ("1E", 10**18),
        ("1Ki", 2**10),
        ("1Mi", 2**20),
        ("1Gi", 2**30),
        ("1Ti", 2**40),
        ("1Pi", 2**50),
        ("1Ei", 2**60),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1e+3", 1000),
        ("5e-1", Fraction(1, 2)),
        ("+5", 5),
        ("-5", -5),
        ("1.", 1),
        (".5", Fraction(1, 2)),
        ("007", 7),
        ("1.5Gi", 3 * 2**29),
        ("-1.5Ki", -1536),
    ],
)
def test_every_suffix_and_number_form_is_read(text: str, units: Fraction) -> None:
    assert Quantity.parse(text).exact() == units


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1\n",
        "1K",
        "1ki",
        "1KI",
        "1mi",
        "0x1",
        "1_000",
        "NaN",
        "inf",
        "1e1.5",
        "1e",
        "1e+",
        "1ee3",
        "--1",
        "+-1",
        "1.2.3",
        "1,5",
        "1 Gi",
        "1GB",
        "\u0661",
        "\uff11",
        "1e9223372036854775808",
        "Pi",
        "e-10",
        "1i",
    ],
)
def test_quantities_that_the_api_server_refuses_are_refused(text: str) -> None:
    with pytest.raises(InvalidQuantity):
        Quantity.parse(text)


@pytest.mark.parametrize("text", ["m", "Ki", "-", "+", ".", "e5", ".M"])
def test_a_text_without_digits_is_zero_as_for_the_api_server(text: str) -> None:
    assert Quantity.parse(text) == Quantity.ZERO


def test_a_refusal_names_the_text_and_the_suffix() -> None:
    with pytest.raises(InvalidQuantity, match=r'^"1K": "K": no such suffix; the suffixes are n u m k .*Ei$'):
        Quantity.parse("1K")


@pytest.mark.parametrize("value", [True, False, None, [], b"1", float("nan"), float("inf")])
def test_values_that_are_no_amounts_are_refused(value: object) -> None:
    with pytest.raises(InvalidQuantity):
        Quantity.parse(value)


@pytest.mark.parametrize(("number", "text"), [(2, "2"), (0.5, "500m"), (1e-7, "100e-9"), (-3, "-3"), (2048, "2048")])
def test_bare_numbers_of_a_file_are_read(number: float, text: str) -> None:
    assert str(Quantity.parse(number)) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1.5", "1500m"),
        ("1.500", "1500m"),
        ("0.5Mi", "512Ki"),
        ("1.5Gi", "1536Mi"),
        ("1024Ki", "1Mi"),
        ("1000Ki", "1000Ki"),
        ("0.5Ki", "512"),
        ("1.1Ki", "1126400m"),
        ("0.0001Ki", "102400u"),
        ("1000m", "1"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("1e3", "1e3"),
        ("1E3", "1e3"),
        ("100e1", "1e3"),
        ("1e2", "100"),
        ("1e-1", "100e-3"),
        ("1e21", "1e21"),
        ("-0", "0"),
        ("0Ki", "0"),
        ("+5Mi", "5Mi"),
        ("0005", "5"),
        ("-2048Ki", "-2Mi"),
        ("20E", "20E"),
        ("1000E", "1000E"),
    ],
)
def test_quantities_print_canonically(text: str, canonical: str) -> None:
    assert str(Quantity.parse(text)) == canonical


def test_finer_than_nano_is_rounded_away_from_zero() -> None:
    assert str(Quantity.parse("0.1n")) == "1n"
    assert str(Quantity.parse("-1.0000000001")) == "-1000000001n"
    assert str(Quantity.parse("1.00000000000000000001Ki")) == "1024000000001n"


def test_a_digit_far_behind_the_point_still_rounds_up() -> None:
    assert Quantity.parse("1." + "0" * 5000 + "1Ki").nanos == 1024 * 10**9 + 1
    assert Quantity.parse("1." + "0" * 5000 + "Ki").nanos == 1024 * 10**9


def test_binary_amounts_are_capped_at_the_largest_int64_and_decimal_ones_are_not() -> None:
    assert Quantity.parse("9Ei").exact() == LARGEST
    assert Quantity.parse("-9Ei").exact() == -LARGEST
    assert Quantity.parse("9" * 30 + "Ki").exact() == LARGEST
    assert Quantity.parse("10E").exact() == 10**19


@pytest.mark.parametrize("text", ["1e999999999", "1e9223372036854775807", "9" * 100_000, "1" + "0" * 40 + "E"])
def test_an_astronomical_number_is_capped_without_being_computed(text: str) -> None:
    quantity = Quantity.parse(text)
    assert quantity.exact() == 10**36
    assert quantity.milli == quantity.units == LARGEST


def test_an_astronomical_integer_is_capped_like_a_text() -> None:
    assert Quantity.parse(10**5000).exact() == 10**36
    assert Quantity.parse(-(10**5000)).exact() == -(10**36)


@pytest.mark.parametrize("text", ["1e-999999999", "0." + "0" * 100_000 + "1", "1e-9223372036854775808"])
def test_an_infinitesimal_number_is_one_nano(text: str) -> None:
    assert Quantity.parse(text).nanos == 1


def test_zero_is_zero_with_any_exponent() -> None:
    assert not Quantity.parse("0e999999999")
    assert not Quantity.parse("0.000e-999999999")


def test_counts_are_rounded_away_from_zero() -> None:
    assert Quantity.parse("1n").milli == 1
    assert Quantity.parse("-1n").milli == -1
    assert Quantity.parse("1001m").units == 2
    assert Quantity.parse("-1001m").units == -2


def test_counts_saturate_where_int64_ends() -> None:
    assert Quantity.parse("1Ei").milli == LARGEST
    assert Quantity.parse("-1e30").units == -LARGEST


def test_exact_counts_are_distinguished_from_rounded_ones() -> None:
    assert Quantity.parse("250m").is_whole_milli
    assert not Quantity.parse("250u").is_whole_milli
    assert Quantity.parse("1Ki").is_whole_unit
    assert not Quantity.parse("1m").is_whole_unit


def test_equal_amounts_are_equal_however_written() -> None:
    same = {Quantity.parse(text) for text in ("1", "1000m", "1e0", "1.0", "0.001k")}
    assert len(same) == 1


def test_a_quantity_is_no_number() -> None:
    assert Quantity.parse("1") != 1


@pytest.mark.parametrize("attribute", ["nanos", "format", "other"])
def test_a_quantity_cannot_be_changed(attribute: str) -> None:
    with pytest.raises(AttributeError):
        setattr(Quantity.ZERO, attribute, 1)
    with pytest.raises(AttributeError):
        delattr(Quantity.ZERO, attribute)


def test_a_sum_has_the_format_of_its_left_operand_unless_that_is_zero() -> None:
    gibi, mega = Quantity.parse("1Gi"), Quantity.parse("1M")
    assert str(gibi + mega) == "1074741824"
    assert (gibi + mega).format is QuantityFormat.BINARY_SI
    assert (Quantity.ZERO + gibi).format is QuantityFormat.BINARY_SI
    assert str(sum([gibi, gibi], Quantity.ZERO)) == "2Gi"
    assert str(Quantity.ZERO - gibi) == "-1Gi"


def test_a_product_is_exact_to_the_nano_and_rounded_away_from_zero() -> None:
    assert str(Quantity.parse("100m") * Fraction(3, 2)) == "150m"
    assert str(2 * Quantity.parse("1Gi")) == "2Gi"
    assert (Quantity.parse("1n") * Fraction(1, 3)).nanos == 1
    assert (Quantity.parse("-1n") * Fraction(1, 3)).nanos == -1
    assert (Quantity.parse("1n") * Fraction(-4, 3)).nanos == -2


def test_a_ratio_is_exact() -> None:
    assert Quantity.parse("1Gi").ratio(Quantity.parse("3Gi")) == Fraction(1, 3)


def test_counts_become_quantities() -> None:
    assert str(Quantity.from_milli(1500)) == "1500m"
    assert str(Quantity.from_units(2**30)) == "1073741824"
    assert str(Quantity.from_units(2**30, binary=True)) == "1Gi"


@given(quantities)
def test_a_printed_quantity_parses_to_the_same_amount(quantity: Quantity) -> None:
    if quantity.format is QuantityFormat.BINARY_SI and abs(quantity.exact()) > LARGEST:
        return  # reading caps it, arithmetic does not
    assert Quantity.parse(str(quantity)) == quantity


@given(quantities)
def test_printing_is_settled_after_one_round(quantity: Quantity) -> None:
    printed = str(Quantity.parse(str(quantity)))
    assert str(Quantity.parse(printed)) == printed


@given(quantities, quantities)
def test_comparison_and_arithmetic_are_exact(a: Quantity, b: Quantity) -> None:
    assert (a < b, a <= b, a > b, a >= b, a == b) == (
        a.exact() < b.exact(),
        a.exact() <= b.exact(),
        a.exact() > b.exact(),
        a.exact() >= b.exact(),
        a.exact() == b.exact(),
    )
    assert (a + b).exact() == a.exact() + b.exact()
    assert (a - b).exact() == a.exact() - b.exact()
    assert (-a).exact() == -a.exact()
    assert abs(a).exact() == abs(a.exact())
    assert bool(a) == bool(a.exact())
    if a == b:
        assert hash(a) == hash(b)


@given(quantities, st.fractions(min_value=-1000, max_value=1000))
def test_a_product_is_never_nearer_to_zero_than_the_exact_one_nor_a_nano_farther(a: Quantity, f: Fraction) -> None:
    exact = a.exact() * f
    excess = abs((a * f).exact()) - abs(exact)
    assert 0 <= excess < Fraction(1, 10**9)


@given(quantities)
def test_copies_and_pickles_are_the_same_quantity(quantity: Quantity) -> None:
    for twin in (copy.copy(quantity), copy.deepcopy(quantity), pickle.loads(pickle.dumps(quantity))):  # noqa: S301
        assert twin == quantity
        assert twin.format is quantity.format


@given(st.text(alphabet="0123456789+-.eEinumkKMGTP \u0661\u2028\n_", max_size=12))
def test_any_text_is_either_read_or_refused_in_one_line(text: str) -> None:
    try:
        answer = str(Quantity.parse(text))
    except InvalidQuantity as error:
        answer = str(error)
    assert len(answer.splitlines()) == 1
