from __future__ import annotations

import copy
import pickle
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.base.durations import Duration, parse_duration
from trellis.base.errors import InvalidDuration

SECOND = 10**9
durations = st.builds(Duration, st.integers(min_value=-(2**63), max_value=2**63 - 1))


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1h30m", 5400 * SECOND),
        ("1.5h", 5400 * SECOND),
        ("300ms", 300 * 10**6),
        ("+5s", 5 * SECOND),
        ("-5s", -5 * SECOND),
        ("0", 0),
        ("-0", 0),
        (".5s", SECOND // 2),
        ("5.s", 5 * SECOND),
        ("1us", 1000),
        ("1\u00b5s", 1000),
        ("1\u03bcs", 1000),
        ("1ns", 1),
        ("1.9ns", 1),
        ("1m1h1m", 3720 * SECOND),
        ("9223372036854775807ns", 2**63 - 1),
        ("-9223372036854775808ns", -(2**63)),
        ("0.3333333333333333333h", 1200 * SECOND),
        ("0.100000000000000000000h", 360 * SECOND),
        ("0.9223372036854775807m", 55340232221),
    ],
)
def test_durations_parse_as_in_go(text: str, nanos: int) -> None:
    assert parse_duration(text).nanos == nanos


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1d",
        " 1s",
        "1s ",
        "s",
        ".s",
        "-",
        "+",
        "--1s",
        "1h-30m",
        "1.2.3s",
        "1e3s",
        "\u0661s",
        "1S",
        "00",
        "9223372036854775808ns",
        "-9223372036854775809ns",
        "2562048h",
        "9" * 5000 + "ns",
        "1s\n",
        ".",
    ],
)
def test_durations_that_go_refuses_are_refused(text: str) -> None:
    with pytest.raises(InvalidDuration):
        parse_duration(text)


@pytest.mark.parametrize("value", [5, 1.5, None, True])
def test_a_number_is_no_duration_because_it_has_no_unit(value: object) -> None:
    with pytest.raises(InvalidDuration, match="text with a unit"):
        parse_duration(value)


def test_a_refusal_names_the_unit() -> None:
    with pytest.raises(InvalidDuration, match=r'^"1d": "d" is not a unit; the units are ns, us, ms, s, m and h$'):
        parse_duration("1d")


def test_a_refusal_is_one_line_whatever_was_written() -> None:
    with pytest.raises(InvalidDuration) as caught:
        parse_duration("1\n2\u2028")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1500, "1.5\u00b5s"),
        (100 * 10**6, "100ms"),
        (1_000_001, "1.000001ms"),
        (SECOND, "1s"),
        (90 * SECOND, "1m30s"),
        (5400 * SECOND, "1h30m0s"),
        (3600 * SECOND, "1h0m0s"),
        (3600 * SECOND + 1, "1h0m0.000000001s"),
        (-90 * SECOND, "-1m30s"),
        (-(2**63), "-2562047h47m16.854775808s"),
    ],
)
def test_durations_print_as_in_go(nanos: int, text: str) -> None:
    assert str(Duration(nanos)) == text


@given(durations)
def test_a_printed_duration_parses_to_the_same_value_within_float_precision(duration: Duration) -> None:
    # Go computes 0.854775808 * 10^9 as a float and cuts off: half of all fractions come back a nanosecond short.
    assert 0 <= abs(duration.nanos) - abs(parse_duration(str(duration)).nanos) <= 1


@given(st.integers(min_value=-(9 * 10**9), max_value=9 * 10**9))
def test_whole_seconds_round_trip_exactly(seconds: int) -> None:
    duration = Duration.from_seconds(seconds)
    assert parse_duration(str(duration)) == duration
    assert duration.total_seconds() == seconds
    assert duration.timedelta() == timedelta(seconds=seconds)


def test_a_timedelta_is_truncated_to_microseconds() -> None:
    assert Duration(1999).timedelta() == timedelta(microseconds=1)
    assert Duration(-1999).timedelta() == -timedelta(microseconds=1)


@given(durations, durations)
def test_order_is_that_of_the_nanoseconds(a: Duration, b: Duration) -> None:
    assert (a < b, a <= b, a > b, a >= b, a == b) == (
        a.nanos < b.nanos,
        a.nanos <= b.nanos,
        a.nanos > b.nanos,
        a.nanos >= b.nanos,
        a.nanos == b.nanos,
    )
    assert len({a, b}) == len({a.nanos, b.nanos})


def test_a_duration_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Duration.ZERO.nanos = 1
    with pytest.raises(AttributeError):
        del Duration.ZERO.nanos


def test_copies_and_pickles_are_the_same_duration() -> None:
    duration = parse_duration("1h30m")
    assert copy.deepcopy(duration) == pickle.loads(pickle.dumps(duration)) == duration  # noqa: S301


def test_only_zero_is_false() -> None:
    assert not Duration.ZERO
    assert Duration(-1)
