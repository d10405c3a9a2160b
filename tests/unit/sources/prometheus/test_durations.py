"""Durations as Prometheus writes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.base.durations import Duration
from trellis.base.errors import InvalidDuration
from trellis.sources.prometheus.durations import check_span, parse_prometheus_duration

SECOND = 10**9


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("0w", 0),
        ("0s", 0),
        ("324ms", 324 * 10**6),
        ("3s", 3 * SECOND),
        ("5m", 300 * SECOND),
        ("1h", 3600 * SECOND),
        ("8d", 8 * 86400 * SECOND),
        ("3w", 21 * 86400 * SECOND),
        ("10y", 3650 * 86400 * SECOND),
        ("4d1h", (4 * 24 + 1) * 3600 * SECOND),
        ("14d", 14 * 86400 * SECOND),
        ("3w2d1h", (23 * 24 + 1) * 3600 * SECOND),
        ("10y5w3d2h1m30s100ms", (3650 + 35 + 3) * 86400 * SECOND + 7290 * SECOND + 100 * 10**6),
        ("00000000000000000000001h", 3600 * SECOND),
    ],
)
def test_valid_prometheus_durations_are_read(text: str, nanos: int) -> None:
    assert parse_prometheus_duration(text) == Duration(nanos)


# Most of these are the ones that prometheus/common's own tests refuse.
@pytest.mark.parametrize(
    "text", ["", "1", "00", "1y1m1d", "-1w", "1.5d", "d", "1h1h", "1m1h", "8D", " 8d", "8d ", "1µs", "\u0661d", 8, None]
)
def test_invalid_prometheus_durations_are_refused_with_the_rule(text: object) -> None:
    with pytest.raises(InvalidDuration, match="must be a duration of Prometheus, such as 8d"):
        parse_prometheus_duration(text)


@pytest.mark.parametrize("text", ["294y", "99999999999999999999999999999d", "200y10400w3660d87680h"])
def test_a_duration_longer_than_gos_is_refused(text: str) -> None:
    with pytest.raises(InvalidDuration, match="longer than a duration can be"):
        parse_prometheus_duration(text)


@given(st.lists(st.integers(0, 9), min_size=7, max_size=7).filter(any))
def test_a_duration_is_the_sum_of_its_parts(numbers: list[int]) -> None:
    units = {"y": 365 * 86400, "w": 7 * 86400, "d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 0.001}
    terms = [(number, unit) for number, unit in zip(numbers, units, strict=True) if number]
    text = "".join(f"{number}{unit}" for number, unit in terms)
    assert parse_prometheus_duration(text).total_seconds() == pytest.approx(
        sum(number * units[unit] for number, unit in terms)
    )


def test_a_span_must_be_longer_than_zero() -> None:
    assert check_span("1h") is None
    assert check_span("0d") == "must be longer than 0s"
    assert "such as 8d" in (check_span("90") or "")
