"""`Duration` reads and prints what Go reads and prints."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.oracles.kubernetes import Oracle
from trellis.base.durations import Duration, parse_duration
from trellis.base.errors import InvalidDuration

digits = st.text(alphabet="0123456789", max_size=21)
units = st.sampled_from(["ns", "us", "\u00b5s", "\u03bcs", "ms", "s", "m", "h", "", "d", " s", "S"])
terms = st.builds("{}{}{}{}".format, digits, st.sampled_from(["", "."]), digits, units)
texts = st.builds(
    lambda sign, parts: sign + "".join(parts), st.sampled_from(["", "+", "-"]), st.lists(terms, max_size=3)
)


def read(text: str) -> Duration | None:
    try:
        return parse_duration(text)
    except InvalidDuration:
        return None


@given(texts)
@example("0")
@example("-9223372036854775808ns")
@example("9223372036854775808ns")
@example("0.9223372036854775808h")
@settings(deadline=None, max_examples=400)
def test_durations_are_read_as_by_go(oracle: Oracle, text: str) -> None:
    decision, ours = oracle.duration(text), read(text)
    assert decision.ok == (ours is not None), decision.why or str(ours)
    if ours is not None:
        assert (ours.nanos, str(ours)) == (decision.nanoseconds, decision.canonical)


@given(st.integers(-(2**63), 2**63 - 1).map(Duration))
@settings(deadline=None)
def test_durations_are_printed_as_by_go(oracle: Oracle, duration: Duration) -> None:
    decision = oracle.duration(f"{duration.nanos}ns")
    assert str(duration) == decision.canonical
