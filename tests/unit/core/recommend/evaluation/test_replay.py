"""Replays of a sizing rule: its input, when decisions apply, and the scores."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from trellis.base.errors import InternalError
from trellis.core.recommend.evaluation.recommender_choice import CostWeights, compute_cost
from trellis.core.recommend.evaluation.replay import (
    DAY,
    HOUR,
    DecisionTable,
    RecommenderRule,
    ReplayClock,
    ReplayedUsage,
    ReplayResult,
    ReplaySettings,
    combine_usage,
    replay_rule,
)
from trellis.core.recommend.evaluation.scores import SizingScores, compute_scores
from trellis.core.recommend.recommenders.default import DefaultRecommender
from trellis.core.usage.columns import FloatColumn

BEGIN = 1_790_035_200.0
MIB = 1024.0 * 1024.0


def hourly(*values: float) -> ReplayedUsage:
    """One series, a point an hour."""
    return ReplayedUsage(np.array(values).reshape(-1, 1, 1))


def decided(*targets: float) -> DecisionTable:
    return DecisionTable(np.array(targets).reshape(-1, 1))


def scored(usage: ReplayedUsage, rule: DecisionTable, terms: ReplaySettings = ReplaySettings()) -> SizingScores:  # noqa: B008
    return compute_scores(usage, replay_rule(usage, rule, terms))


def test_footprint_is_the_mean_target_in_units_of_the_mean_usage() -> None:
    result = scored(hourly(1.0, 2.0, 3.0), decided(4.0, 4.0, 4.0))
    assert result.footprint.tolist() == [2.0]


def test_time_over_and_overrun_count_usage_above_the_target() -> None:
    result = scored(hourly(1.0, 3.0, 2.0, 2.0), decided(2.0, 2.0, 2.0, 2.0))
    assert result.time_over.tolist() == [0.25]
    assert result.overrun.tolist() == [1.0 / 8.0]


def test_a_decision_that_hardly_moves_the_target_is_not_applied() -> None:
    outcome = replay_rule(hourly(1.0, 1.0, 1.0, 1.0), decided(100.0, 104.0, 106.0, 101.0))
    assert outcome.targets[:, 0].tolist() == [100.0, 100.0, 106.0, 106.0]
    assert outcome.changes[:, 0].tolist() == [False, False, True, False]


def test_a_rule_without_a_decision_leaves_the_target_unchanged() -> None:
    outcome = replay_rule(hourly(1.0, 1.0, 1.0, 1.0), decided(np.nan, 2.0, np.nan, 3.0))
    assert outcome.targets[:, 0].tolist()[1:] == [2.0, 2.0, 3.0]
    assert np.isnan(outcome.targets[0, 0])
    assert outcome.changes[:, 0].tolist() == [False, False, False, True]


def test_changes_are_counted_per_day_of_known_usage() -> None:
    usage = ReplayedUsage(np.where(np.arange(48) < 24, 1.0, np.nan).reshape(-1, 1, 1))
    result = compute_scores(usage, replay_rule(usage, DecisionTable(np.tile([1.0, 2.0], 24).reshape(-1, 1))))
    assert result.days.tolist() == [1.0]
    assert result.changes.tolist() == [23.0]


def test_steps_of_a_warm_up_are_not_scored() -> None:
    usage = hourly(9.0, 9.0, 1.0, 1.0)
    outcome = replay_rule(usage, decided(2.0, 2.0, 2.0, 2.0))
    result = compute_scores(usage, outcome, np.array([[False], [False], [True], [True]]))
    assert (result.footprint.tolist(), result.time_over.tolist()) == ([2.0], [0.0])


def test_a_series_without_usage_has_no_score() -> None:
    usage = ReplayedUsage(np.full((3, 1, 1), np.nan))
    assert np.isnan(compute_scores(usage, replay_rule(usage, decided(1.0, 1.0, 1.0))).footprint).all()


def test_points_of_a_summary_count_by_their_weights() -> None:
    usage = ReplayedUsage(np.array([[[1.0], [4.0]]]), weights=np.array([0.9, 0.1]))
    result = compute_scores(usage, replay_rule(usage, decided(2.0)))
    assert result.time_over.tolist() == pytest.approx([0.1])
    assert result.overrun.tolist() == pytest.approx([0.2 / 1.3])


def test_variants_of_a_rule_are_replayed_side_by_side() -> None:
    usage = hourly(1.0, 2.0)
    result = compute_scores(usage, replay_rule(usage, DecisionTable(np.array([[[1.0], [3.0]], [[1.0], [3.0]]]))))
    assert result.footprint[:, 0].tolist() == pytest.approx([2.0 / 3.0, 2.0])
    assert result.time_over[:, 0].tolist() == [0.5, 0.0]


def test_memory_above_the_target_is_a_kill_that_raises_it_at_once() -> None:
    usage = ReplayedUsage(np.array([[[300.0], [400.0], [400.0]]]) * MIB)
    outcome = replay_rule(usage, decided(350 * MIB), ReplaySettings(killed=np.array([True])))
    assert outcome.kills[0, 0] == 1
    assert outcome.targets[0, 0] == pytest.approx((350 + 500 + 500) / 3 * MIB)


def test_the_raise_after_a_kill_of_a_large_container_is_a_fifth() -> None:
    usage = ReplayedUsage(np.array([[[4000.0]], [[4000.0]]]) * MIB)
    outcome = replay_rule(usage, decided(3000 * MIB, 4700 * MIB), ReplaySettings(killed=np.array([True])))
    assert outcome.targets[:, 0].tolist() == [4800 * MIB, 4800 * MIB]


def test_nothing_to_replay_is_refused() -> None:
    with pytest.raises(InternalError):
        replay_rule(ReplayedUsage(np.zeros((0, 1, 1))), decided())


def test_a_cost_weighs_shortage_and_unrest_against_slack() -> None:
    usage = hourly(1.0, 3.0, 2.0, 2.0)
    result = scored(usage, decided(2.0, 2.0, 2.0, 2.0))
    assert compute_cost(result, CostWeights(time_over=10.0, overrun=5.0)).tolist() == pytest.approx([1.0 + 2.5 + 0.625])


class RecordingRule:
    """A rule that decides for what it saw last, and notes what it was told."""

    def __init__(self) -> None:
        self.observed: list[float] = []

    def decide(self, _step: int, _now: float, /) -> FloatColumn:
        return np.array([max(self.observed, default=np.nan)])

    def observe(self, _step: int, used: FloatColumn, _needed: FloatColumn, /) -> None:
        self.observed += used[:, 0].tolist()


amounts = st.floats(0.01, 100.0)


@given(arrays(np.float64, (6, 2, 1), elements=amounts), arrays(np.float64, (2, 1), elements=amounts), st.integers(0, 5))
def test_later_usage_never_changes_an_earlier_decision(values: FloatColumn, other: FloatColumn, step: int) -> None:
    changed = values.copy()
    changed[step:] = other
    before, after = (
        replay_rule(ReplayedUsage(item), RecordingRule()).targets[: step + 1] for item in (values, changed)
    )
    assert np.array_equal(before, after, equal_nan=True)


@settings(max_examples=8)
@given(arrays(np.float64, (12, 2, 2), elements=amounts), st.integers(1, 11))
def test_a_replayed_recommender_reads_only_the_past(values: FloatColumn, step: int) -> None:
    changed = values.copy()
    changed[step:] *= 3.0
    before, after = (decisions_on(item)[: step + 1] for item in (values, changed))
    assert np.array_equal(before, after, equal_nan=True)


class Noting(RecommenderRule):
    """Keeps what it decided, before any kill has raised it."""

    def __init__(self) -> None:
        super().__init__(DefaultRecommender(), ["a", "b"], ReplayClock(BEGIN))
        self.decided: list[FloatColumn] = []

    def decide(self, step: int, now: float, /) -> FloatColumn:
        self.decided.append(super().decide(step, now))
        return self.decided[-1]


def decisions_on(cpu: FloatColumn) -> FloatColumn:
    rule = Noting()
    replay_rule(combine_usage(cpu, cpu * 400 * MIB, ReplayClock(BEGIN)), rule, ReplaySettings(killed=np.arange(4) >= 2))
    return np.stack(rule.decided)


def test_a_replayed_recommender_decides_as_it_would_in_a_cluster() -> None:
    steady = np.full((48, 12, 1), 1.0)
    clock = ReplayClock(BEGIN)
    outcome = replay_rule(
        combine_usage(steady, steady * 1024 * MIB, clock), RecommenderRule(DefaultRecommender(), ["web"], clock)
    )
    assert outcome.targets[-1].tolist() == [1.168, 1238659775.0]


def test_a_kill_in_a_replay_teaches_the_recommender() -> None:
    memory = np.full((72, 12, 1), 1000 * MIB)
    memory[48:] = 2000 * MIB
    clock = ReplayClock(BEGIN)
    usage = combine_usage(np.full(memory.shape, 1.0), memory, clock)
    outcome = replay_rule(
        usage, RecommenderRule(DefaultRecommender(), ["web"], clock), ReplaySettings(killed=np.array([False, True]))
    )
    assert outcome.kills[:, 1].tolist() == [0.0] * 48 + [1.0] + [0.0] * 23
    assert (outcome.targets[49:, 1] >= 2400 * MIB).all()


def test_margins_are_variants_of_a_replay() -> None:
    usage = hourly(1.0, 2.0)
    outcome = replay_rule(usage, decided(2.0, 3.0)).with_margins(np.array([0.5, 1.0]))
    assert isinstance(outcome, ReplayResult)
    result = compute_scores(usage, outcome)
    assert result.footprint[:, 0].tolist() == pytest.approx([2.5 / 3.0, 5.0 / 3.0])
    assert result.time_over[:, 0].tolist() == [0.5, 0.0]
    assert result.changes[:, 0].tolist() == [DAY / HOUR / 2] * 2
