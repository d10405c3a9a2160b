from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.base.yaml.values import Scalar, convert_json_number, format_key, resolve_plain_scalar


@pytest.mark.parametrize("text", ["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"])
def test_yaml_1_1_words_for_true_are_true(text: str) -> None:
    assert resolve_plain_scalar(text) is True


@pytest.mark.parametrize("text", ["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"])
def test_yaml_1_1_words_for_false_are_false(text: str) -> None:
    assert resolve_plain_scalar(text) is False


@pytest.mark.parametrize("text", ["", "~", "null", "Null", "NULL"])
def test_yaml_1_1_words_for_null_are_null(text: str) -> None:
    assert resolve_plain_scalar(text) is None


@pytest.mark.parametrize("text", ["yEs", "oFF", "nULL", "tRUE", "Y es", "~~", "truely", ".Nan", "inf"])
def test_other_spellings_of_boolean_and_null_words_are_text(text: str) -> None:
    assert resolve_plain_scalar(text) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-0", 0),
        ("+12", 12),
        ("010", 8),
        ("00", 0),
        ("0_7", 7),
        ("0o17", 15),
        ("-0O7", -7),
        ("0x1F", 31),
        ("-0Xff", -255),
        ("0b101", 5),
        ("+0B11", 3),
        ("0b-1", -1),
        ("1_000", 1000),
        ("-_1", -1),
        ("1__0_", 10),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("18446744073709551615", 2**64 - 1),
        ("0xffffffffffffffff", 2**64 - 1),
    ],
)
def test_integers_in_every_notation_of_go(text: str, value: int) -> None:
    read = resolve_plain_scalar(text)
    assert read == value
    assert type(read) is int


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("08", 8.0),
        ("09.5", 9.5),
        ("1.", 1.0),
        (".5", 0.5),
        ("+.5", 0.5),
        (".1_0", 0.1),
        ("1_0.5", 10.5),
        ("1e3", 1000.0),
        ("12E-03", 0.012),
        ("1e-400", 0.0),
        ("18446744073709551616", 2.0**64),
        ("-9223372036854775809", -(2.0**63)),
        ("+9223372036854775808", 2.0**63),
        ("9" * 300, 1e300),
        (".inf", math.inf),
        ("-.INF", -math.inf),
    ],
)
def test_floats_and_integers_beyond_64_bits_are_floats(text: str, value: float) -> None:
    read = resolve_plain_scalar(text)
    assert read == value
    assert type(read) is float


@pytest.mark.parametrize(
    "text",
    [
        "1:30",
        "190:20:30.15",
        "2001-01-01",
        "2001-12-14T21:59:43Z",
        "0o8",
        "0b",
        "0b12",
        "-0b-1",
        "0x",
        "0x1ffffffffffffffffff",
        "1e400",
        "9" * 400,
        "1e",
        ".",
        ".e5",
        "._5",
        ".5_",
        "+_",
        "-",
        "1.5.2",
        "100m",
        "4Gi",
        "<<",
        "=",
        "٣",
    ],
)
def test_invalid_numbers_are_text(text: str) -> None:
    assert resolve_plain_scalar(text) == text


def test_not_a_number_is_a_float() -> None:
    read = resolve_plain_scalar(".NaN")
    assert isinstance(read, float)
    assert math.isnan(read)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("cpu", "cpu"),
        (16, "16"),
        (-(2**63), "-9223372036854775808"),
        (True, "true"),
        (False, "false"),
        (1.5, "1.5"),
        (0.1, "0.1"),
        (100000.0, "100000"),
        (1e6, "1e+06"),
        (1e20, "1e+20"),
        (16777217.0, "1.6777216e+07"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1234.5, "1234.5"),
        (-0.0, "-0"),
        (1e39, ".inf"),
        (-math.inf, "-.inf"),
        (math.nan, ".nan"),
    ],
)
def test_scalar_keys_are_named_as_in_kubectl(value: Scalar, name: str) -> None:
    assert format_key(value) == name


@pytest.mark.parametrize("value", [None, 2**63, 2**64 - 1])
def test_null_and_integers_beyond_int64_have_no_name(value: Scalar) -> None:
    assert format_key(value) is None


@pytest.mark.parametrize(("value", "sent"), [(1.0, 1), (-0.0, 0), (1e3, 1000), (-(2.0**63), -(2**63))])
def test_whole_floats_reach_the_api_server_as_integers(value: float, sent: int) -> None:
    assert convert_json_number(value) == sent
    assert type(convert_json_number(value)) is int


@pytest.mark.parametrize("value", [0.5, 2.0**63, 1e300])
def test_fractional_floats_remain_floats(value: float) -> None:
    assert type(convert_json_number(value)) is float


@given(st.text(alphabet="0123456789abcdefxXoOBE_+-.~nyf"))
def test_every_special_word_is_resolved(text: str) -> None:
    read = resolve_plain_scalar(text)
    assert read == text or not isinstance(read, str)


@given(st.integers(-(2**63), 2**64 - 1))
def test_every_64_bit_integer_is_read_back_exactly(number: int) -> None:
    assert resolve_plain_scalar(str(number)) == number
    assert resolve_plain_scalar(hex(number)) == number
