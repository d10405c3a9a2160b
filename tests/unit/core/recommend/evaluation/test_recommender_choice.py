"""The choice of a candidate: the cheapest in a replay, changed only for a clearly cheaper one."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trellis.core.recommend.evaluation.recommender_choice import (
    CandidateChoice,
    ChoiceSettings,
    ChoiceTable,
    CostWeights,
    choose_candidates,
)
from trellis.core.recommend.forecast.caches import find_daily_slots
from trellis.core.recommend.forecast.candidates import (
    FORECAST_CANDIDATES,
    ForecastCandidate,
    HistoryAtMoments,
    RecentHours,
    WeightedHistory,
)
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.history.hours import HOUR, Ring
from trellis.testing.rows import NOW, UsageExample, build_rows

DAYS = 20
HOURS = DAYS * 24


class Times(msgspec.Struct, frozen=True):
    """What was used last, so many times."""

    name: str
    factor: float
    lately: float | None = None
    """Another factor for the last two days."""

    def quantiles(self, remembered: HistoryAtMoments, fractions: Sequence[float], /) -> FloatColumn:
        last = remembered.build_histograms(WeightedHistory("last", ((RecentHours(), 1.0),))).quantiles(fractions)
        factors = np.full(last.shape[-1], self.factor)
        factors[-48:] = self.factor if self.lately is None else self.lately
        result: FloatColumn = last * factors
        return result


def summed_up(*used: FloatColumn) -> Ring:
    """Hours in which no sample differs from another, (rows, measures, hours), in millicores."""
    return np.repeat(1000 * np.stack(used)[:, np.newaxis], 5, axis=1).astype(np.float32)


def chosen(used: FloatColumn, *candidates: ForecastCandidate, terms: ChoiceSettings = ChoiceSettings()) -> str:  # noqa: B008 - frozen
    return candidates[int(choose_candidates(summed_up(used), candidates, terms).number[0])].name


STEADY = np.full(HOURS, 1.0)
RHYTHM = np.where(np.arange(HOURS) % 24 < 6, 2.0, 0.2)


def test_the_cheapest_candidate_is_chosen() -> None:
    assert chosen(STEADY, Times("far too much", 5.0), Times("enough", 1.0), Times("too much", 2.0)) == "enough"
    assert chosen(STEADY, Times("too little", 0.7), Times("enough", 1.0)) == "enough"


def test_costs_equal_those_of_a_replay() -> None:
    result = choose_candidates(summed_up(STEADY), (Times("twice", 2.0), Times("half", 0.5)), ChoiceSettings(margin=0.0))
    # Percentiles are as fine as buckets, of 5 %. Short all the time, by half of all that is used: 0.5 + 10 + 5 / 2.
    assert result.costs[:, 0].tolist() == pytest.approx([2.0, 13.0], rel=0.05)


def test_a_small_gain_is_no_reason_to_switch() -> None:
    assert chosen(STEADY, Times("first", 1.0), Times("a little less", 0.98)) == "first"
    assert (
        chosen(STEADY, Times("first", 1.0), Times("a little less", 0.98), terms=ChoiceSettings(gain=0.01))
        == "a little less"
    )
    assert chosen(STEADY, Times("first", 1.0), Times("clearly less", 0.94)) == "clearly less"


def test_a_choice_of_earlier_days_lasts_while_little_speaks_for_another() -> None:
    other, two_days = Times("other", 1.0), ChoiceSettings(window=48)
    # Far too dear three days ago, it is the cheaper of the two by now.
    assert chosen(STEADY, Times("first", 1.5, lately=0.98), other, terms=two_days) == "other"
    assert chosen(STEADY, Times("first", 1.5, lately=0.94), other, terms=two_days) == "first"


def test_weights_determine_the_cheaper_candidate() -> None:
    candidates = (Times("spare", 1.6), Times("short", 0.8))
    cautious, thrifty = CostWeights(time_over=10.0, overrun=5.0), CostWeights(time_over=0.0, overrun=0.1)
    assert chosen(STEADY, *candidates, terms=ChoiceSettings(weights=cautious)) == "spare"
    assert chosen(STEADY, *candidates, terms=ChoiceSettings(weights=thrifty)) == "short"


def test_unrest_is_a_cost() -> None:
    still, restless = (
        WeightedHistory("still", ((RecentHours(48.0), 1.0),)),
        WeightedHistory("restless", ((RecentHours(1.0), 1.0),)),
    )
    calm, careless = CostWeights(0.0, 0.0, changes=1.0), CostWeights(0.0, 0.0, changes=0.0)
    assert chosen(RHYTHM, still, restless, terms=ChoiceSettings(weights=careless)) == "restless"
    assert chosen(RHYTHM, still, restless, terms=ChoiceSettings(weights=calm)) == "still"


def test_a_daily_rhythm_is_assigned_to_the_seasonal_candidate() -> None:
    assert chosen(RHYTHM, *FORECAST_CANDIDATES).startswith("season")
    assert chosen(RHYTHM, *reversed(FORECAST_CANDIDATES)).startswith("season")


def test_with_little_history_the_first_candidate_is_chosen_and_costs_are_unknown() -> None:
    result = choose_candidates(summed_up(STEADY[:40]), FORECAST_CANDIDATES, ChoiceSettings())
    assert result.number.tolist() == [0]
    assert np.isnan(result.costs).all()


def test_usage_before_the_replayed_window_does_not_affect_the_choice() -> None:
    past = STEADY.copy()
    past[: HOURS - 8 * 24] = RHYTHM[: HOURS - 8 * 24] * 3
    short = ChoiceSettings(window=4 * 24)
    own, alone = (
        choose_candidates(summed_up(item), (Times("a", 1.0), Times("b", 0.9)), short) for item in (past, STEADY)
    )
    assert own.costs[:, 0].tolist() == pytest.approx(alone.costs[:, 0].tolist(), rel=0.06)


@settings(max_examples=10, deadline=None)
@given(arrays(np.float64, (3, 12), elements=st.floats(0.01, 10.0)), st.permutations(range(3)), st.integers(0, 2))
def test_a_choice_does_not_depend_on_other_rows_or_their_order(used: FloatColumn, order: list[int], alone: int) -> None:
    rows = summed_up(*np.tile(used, 10))
    together = choose_candidates(rows, FORECAST_CANDIDATES, ChoiceSettings())
    turned, single = (
        choose_candidates(rows[order], FORECAST_CANDIDATES, ChoiceSettings()),
        choose_candidates(rows[[alone]], FORECAST_CANDIDATES, ChoiceSettings()),
    )
    assert turned.number.tolist() == together.number[order].tolist()
    assert single.number[0] == together.number[alone]
    assert np.array_equal(single.costs[:, 0], together.costs[:, alone])


# Whose turn it is


def waiting(choices: ChoiceTable, now: float, limit: int = 1000) -> IntColumn:
    """Rows that are due, after which they are chosen for."""
    result = choices.select_outdated(ROWS, now, limit)
    none = np.zeros(len(result), dtype=np.int64)
    choices.record_choices(ROWS, result, now, CandidateChoice(none + 1, np.zeros((2, len(result)))), none)
    return result


ROWS = build_rows([UsageExample([0.1] * 3)] * 60)


def test_every_row_is_chosen_for_once_a_day() -> None:
    choices, times = ChoiceTable(2), np.zeros(len(ROWS))
    waiting(choices, NOW)
    for minute in range(5, 24 * 60, 5):
        times[waiting(choices, NOW + 60.0 * minute)] += 1
    assert times.tolist() == [1.0] * len(ROWS)


def test_rows_are_chosen_for_in_different_hours() -> None:
    moments, _ = find_daily_slots(ROWS, NOW)
    assert len(set(moments.tolist())) > 12
    assert (moments <= NOW // HOUR).all()
    assert (moments > NOW // HOUR - 24).all()


def test_a_pass_chooses_for_a_limited_number_of_rows_until_all_have_a_choice() -> None:
    choices = ChoiceTable(2)
    passes = [waiting(choices, NOW, limit=25).tolist() for _ in range(4)]
    assert [len(item) for item in passes] == [25, 25, 10, 0]
    assert sorted(row for item in passes for row in item) == list(range(len(ROWS)))


def test_a_row_has_the_first_candidate_until_its_choice() -> None:
    choices = ChoiceTable(2)
    first = waiting(choices, NOW, limit=25)
    number = choices.read_choices(ROWS).number
    assert number[first].tolist() == [1] * 25
    assert number.sum() == 25


def test_history_that_has_come_from_elsewhere_is_chosen_by_at_once() -> None:
    choices, known = ChoiceTable(2), np.zeros(len(ROWS))
    waiting(choices, NOW)
    known[7] = 500.0
    choices.record_known_hours(ROWS, known)
    assert waiting(choices, NOW).tolist() == [7]


def test_another_history_clears_the_choices() -> None:
    choices = ChoiceTable(2)
    waiting(choices, NOW)
    assert len(choices.select_outdated(build_rows([UsageExample([0.1] * 3)] * 3), NOW, 1000)) == 3
