"""Hypothesis strategies for the usage of containers, and for rows of a recommender.

@given(any_rows())
def test_mine(rows): ...
"""

from __future__ import annotations

import math

from hypothesis import strategies as st

from trellis.core.recommend.protocol import Rows
from trellis.testing.rows import DAY, HOUR, NOW, UsageExample, build_rows

_NEVER = st.just(math.nan)


def amounts(most: float) -> st.SearchStrategy[float]:
    """Amounts from zero to `most`, often small, sometimes not measured."""
    powers = st.floats(0.0, 12.0).map(lambda power: most / 10.0**power)
    return st.one_of(powers, st.just(0.0), st.just(most), _NEVER)


@st.composite
def used_containers(draw: st.DrawFn) -> UsageExample:
    """A container, and up to two weeks of its usage."""
    # A few repeated values make long series out of small draws.
    cpu = draw(st.lists(amounts(1000.0), max_size=8)) * draw(st.sampled_from((1, 3, 40)))
    memory = draw(st.lists(amounts(1e12), max_size=8)) * draw(st.sampled_from((1, 3, 40)))
    length = max(len(cpu), len(memory))
    return UsageExample(
        cpu=cpu + [math.nan] * (length - len(cpu)),
        memory=memory + [math.nan] * (length - len(memory)),
        interval=draw(st.sampled_from((60.0, 600.0, HOUR))),
        ended_ago=draw(st.sampled_from((0.0, 0.0, 90.0, 2 * HOUR, 3 * DAY))),
        requests=(draw(st.one_of(_NEVER, st.floats(0.0, 1e6))), draw(st.one_of(_NEVER, st.floats(0.0, 1e13)))),
        age=draw(st.one_of(_NEVER, st.floats(0.0, 400 * DAY))),
        killed_ago=draw(st.one_of(_NEVER, _NEVER, st.floats(0.0, 8 * DAY))),
        siblings=draw(st.integers(1, 20)),
        run_starts_ago=draw(st.one_of(st.just([]), st.lists(st.floats(60.0, 3 * DAY), max_size=14))),
    )


def any_rows(*, history: bool = True, most: int = 5, now: float = NOW, runs: bool = False) -> st.SearchStrategy[Rows]:
    """At most `most` rows; without `history` they have no hourly history, and without `runs` no usage by run."""
    return st.lists(used_containers(), max_size=most).map(
        lambda used: build_rows(used, now, history=history, runs=runs)
    )
