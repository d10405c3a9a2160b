"""`adaptive` sizes each container by the rule that would have sized its own past best; `window` by a moving window."""

from __future__ import annotations

import numpy as np

from trellis.core.recommend.amounts import CPU, MEMORY
from trellis.core.recommend.built_in import built_in_recommenders
from trellis.core.recommend.protocol import Estimates
from trellis.core.usage.columns import FloatColumn
from trellis.testing.rows import GIB, HOUR, NOW, Used, rows_of

DAYS = 28


def estimated(name: str, *used: Used) -> Estimates:
    recommender = built_in_recommenders()[name]
    values = {each.name: each.default for each in recommender.parameters}
    return recommender.estimate(rows_of(used), values, NOW)


def daily() -> FloatColumn:
    hour = (np.floor(NOW / HOUR) - np.arange(DAYS * 24 - 1, -1, -1)) % 24
    found: FloatColumn = np.where((hour >= 9) & (hour < 18), 2.0, 0.2).astype(np.float64)
    return found


def test_the_winner_and_what_every_candidate_would_have_cost_are_in_the_explanation() -> None:
    found = estimated("adaptive", Used(daily()), Used([0.5] * (DAYS * 24)))
    costs = {name: column for name, column in found.explanation.items() if name.startswith("cost of ")}
    assert len(costs) >= 2
    rhythmic = {name.removeprefix("cost of "): float(column[0]) for name, column in costs.items()}
    assert found.explanation["cpu"][0] == min(rhythmic, key=lambda name: rhythmic[name])
    assert found.explanation["cpu"][0].startswith("season")


def test_with_too_little_history_it_says_what_default_says() -> None:
    used = Used([0.5] * 30, [3e8] * 30)
    assert estimated("adaptive", used).target.tolist() == estimated("default", used).target.tolist()


def test_memory_stays_at_the_highest_peak_of_the_last_weeks() -> None:
    memory = np.full(DAYS * 24, GIB)
    memory[-10 * 24] = 3 * GIB
    assert estimated("adaptive", Used([0.1] * (DAYS * 24), memory)).target[MEMORY, 0] >= 3 * GIB


def test_a_window_forgets_what_came_before_it() -> None:
    long_ago = np.full(DAYS * 24, 0.2)
    long_ago[: 7 * 24] = 4.0
    assert estimated("window", Used(long_ago)).target[CPU, 0] < 500


def test_bounds_contain_the_target_for_every_recommender() -> None:
    for name in built_in_recommenders():
        found = estimated(name, Used(daily(), GIB * daily()), Used([0.0] * 400, [0.0] * 400))
        assert (found.lower <= found.target).all()
        assert (found.target <= found.upper).all()
