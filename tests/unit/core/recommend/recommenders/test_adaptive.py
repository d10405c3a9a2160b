"""`adaptive` sizes each container by the candidate that would have sized its own past best."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.core.recommend.amounts import CPU, MEMORY
from trellis.core.recommend.forecast.candidates import (
    FORECAST_CANDIDATES,
    HistoryAtMoments,
    RecentHours,
    WeightedHistory,
)
from trellis.core.recommend.parameters import ParameterValue
from trellis.core.recommend.protocol import Estimates, Rows
from trellis.core.recommend.recommenders.adaptive import AdaptiveRecommender
from trellis.core.recommend.recommenders.default import DefaultRecommender
from trellis.core.recommend.registry import create_built_in_recommenders
from trellis.core.usage.columns import FloatColumn
from trellis.testing.estimates import request_estimates, require_equal, select_estimates, select_rows
from trellis.testing.rows import GIB, HOUR, NOW, UsageExample, build_rows
from trellis.testing.usage import any_rows

DAYS = 28
HOURS = DAYS * 24
NAMES = sorted(create_built_in_recommenders())


def adaptive() -> AdaptiveRecommender:
    return AdaptiveRecommender(DefaultRecommender(), FORECAST_CANDIDATES)


def estimated(*used: UsageExample, **given: ParameterValue) -> Estimates:
    return request_estimates(
        adaptive(), build_rows(used), {name.replace("_", "-"): value for name, value in given.items()}
    )


def daily() -> FloatColumn:
    hour = (np.floor(NOW / HOUR) - np.arange(HOURS - 1, -1, -1)) % 24
    result: FloatColumn = np.where((hour >= 9) & (hour < 18), 2.0, 0.2).astype(np.float64)
    return result


def wandering() -> FloatColumn:
    draw = np.random.default_rng(4)
    walk = np.cumsum(draw.normal(0.0, 0.15, HOURS))
    result: FloatColumn = np.exp(walk - walk.max())
    return result


def costs(result: Estimates, row: int = 0) -> dict[str, float]:
    """What each candidate would have cost, by its name."""
    explanations = result.explanation.items()
    return {name.removeprefix("cost of "): float(of[row]) for name, of in explanations if name.startswith("cost of ")}


def chosen_for(result: Estimates) -> int:
    """How many rows something has been chosen for."""
    return int((~np.isnan(result.explanation[f"cost of {FORECAST_CANDIDATES[0].name}"])).sum())


def test_the_explanation_has_the_chosen_candidate_and_the_cost_of_each() -> None:
    result = estimated(UsageExample(daily()))
    assert set(costs(result)) == {forecast_candidate.name for forecast_candidate in FORECAST_CANDIDATES}
    assert result.explanation["cpu"][0] == min(costs(result), key=lambda name: costs(result)[name])


def test_each_container_gets_the_cheapest_candidate() -> None:
    noise = np.random.default_rng(0).lognormal(-1.0, 0.6, HOURS)
    result = estimated(UsageExample(daily()), UsageExample(noise))
    assert result.explanation["cpu"][0].startswith("season")
    assert result.explanation["cpu"][1] == "last day"


def test_it_sizes_by_the_chosen_candidate() -> None:
    short, long = (WeightedHistory(f"last {hours:g}", ((RecentHours(hours), 1.0),)) for hours in (2.0, 48.0))
    used, recommender = (
        build_rows([UsageExample(wandering())]),
        AdaptiveRecommender(DefaultRecommender(), (long, short)),
    )
    alone = AdaptiveRecommender(DefaultRecommender(), (short,))
    assert request_estimates(recommender, used).explanation["cpu"][0] == "last 2"
    assert request_estimates(recommender, used).target[CPU, 0] == request_estimates(alone, used).target[CPU, 0]


def test_weights_are_parameters() -> None:
    careful, careless = estimated(UsageExample(wandering())), estimated(UsageExample(wandering()), time_over_weight=0.0)
    assert all(costs(careless)[name] < cost for name, cost in costs(careful).items())


def test_with_too_little_history_the_estimate_is_that_of_default_and_explained() -> None:
    used = UsageExample([0.5] * 30, [3e8] * 30)
    result = estimated(used)
    assert result.target.tolist() == request_estimates(DefaultRecommender(), build_rows([used])).target.tolist()
    assert (result.explanation["cpu"], result.explanation["memory"]) == (["too little history"],) * 2


def test_memory_stays_at_the_highest_peak_of_the_last_weeks() -> None:
    memory = np.full(HOURS, GIB)
    memory[-10 * 24] = 3 * GIB
    assert estimated(UsageExample([0.1] * HOURS, memory)).target[MEMORY, 0] >= 3 * GIB


def test_choices_are_spread_over_passes() -> None:
    rows, recommender = build_rows([UsageExample([0.5] * 96)] * 80), adaptive()
    passes = [chosen_for(request_estimates(recommender, rows, now=NOW + 60.0 * number)) for number in range(4)]
    assert passes == [32, 64, 80, 80]


def test_a_row_without_a_choice_is_sized_by_the_first_candidate() -> None:
    rows = build_rows([UsageExample([0.5] * 96)] * 40)
    result = request_estimates(adaptive(), rows)
    assert chosen_for(result) == 32
    waiting = np.flatnonzero(np.isnan(result.explanation[f"cost of {FORECAST_CANDIDATES[0].name}"]))
    assert {result.explanation["cpu"][row] for row in waiting.tolist()} == {FORECAST_CANDIDATES[0].name}


def test_a_choice_lasts_for_a_day() -> None:
    rows, recommender = build_rows([UsageExample(daily())]), adaptive()
    first = costs(request_estimates(recommender, rows))
    later = [costs(request_estimates(recommender, rows, now=NOW + HOUR * hour)) for hour in range(1, 25)]
    assert sum(before != after for before, after in zip([first, *later], later, strict=False)) == 1


class Counted(msgspec.Struct):
    """A candidate that counts how often it is replayed: asked about more moments than the coming ones."""

    name: str = "counted"
    replays: int = 0

    def quantiles(self, remembered: HistoryAtMoments, fractions: Sequence[float], /) -> FloatColumn:
        result = FORECAST_CANDIDATES[0].quantiles(remembered, fractions)
        self.replays += result.shape[-1] > 2
        return result


def test_a_row_is_replayed_once_a_day_however_many_passes_there_are() -> None:
    counted, rows = Counted(), build_rows([UsageExample(daily())])
    recommender = AdaptiveRecommender(DefaultRecommender(), (counted,))
    for minute in range(0, 24 * 60, 20):
        request_estimates(recommender, rows, now=NOW + 60.0 * minute)
    assert counted.replays == 2  # the choice at the start, and that of its hour


def test_a_choice_does_not_depend_on_the_pass_that_makes_it() -> None:
    rows, early, late = build_rows([UsageExample(wandering())]), adaptive(), adaptive()
    before = request_estimates(early, rows)
    assert (
        costs(request_estimates(early, rows, now=NOW + 600.0))
        == costs(request_estimates(late, rows, now=NOW + 600.0))
        == costs(before)
    )


def test_bounds_contain_the_target_for_every_recommender() -> None:
    for recommender in create_built_in_recommenders().values():
        rows = build_rows([UsageExample(daily(), GIB * daily()), UsageExample([0.0] * 400, [0.0] * 400)])
        result = request_estimates(recommender, rows)
        assert (result.lower <= result.target).all()
        assert (result.target <= result.upper).all()


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=6, deadline=None)
@given(rows=any_rows(most=4), draw=st.randoms(use_true_random=False))
def test_estimates_do_not_depend_on_other_rows_or_their_order(name: str, rows: Rows, draw: st.DataObject) -> None:
    order = list(range(len(rows)))
    draw.shuffle(order)  # type: ignore[attr-defined]
    some = order[: len(order) // 2 + 1]
    together = request_estimates(create_built_in_recommenders()[name], rows)
    turned = request_estimates(create_built_in_recommenders()[name], select_rows(rows, order))
    require_equal(
        select_estimates(together, np.array(order, dtype=np.int64)),
        turned,
        select_rows(rows, order),
        "in another order",
    )
    fewer = request_estimates(create_built_in_recommenders()[name], select_rows(rows, some))
    require_equal(
        select_estimates(together, np.array(some, dtype=np.int64)), fewer, select_rows(rows, some), "without others"
    )
