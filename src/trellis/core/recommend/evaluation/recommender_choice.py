"""Chooses the candidate that would have sized a row best lately, by a replay of the row's own last weeks.

The cheapest is chosen, day by day, and another is only switched to where it would have cost clearly less: so a choice
lasts. The choices of earlier days are computed again from the same history, and need not be stored. Every row has its
hour of the day, by its name. A choice is made from the hours before that, so that it does not matter in which pass it
is made.

A cost is slack, shortage and changes in one number. The unit is what the workload uses on average: a footprint of 1.5
costs 1.5. Time above the target and overrun volume are both counted, because either alone can be had for nothing: a
batch job that is always a little short is hardly over by volume, and one that starves for an hour is hardly over in
time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from trellis.core.recommend.evaluation.replay import HOUR, DecisionTable, ReplayedUsage, replay_rule
from trellis.core.recommend.evaluation.scores import ScoreSums, SizingScores, sum_steps
from trellis.core.recommend.forecast.caches import find_daily_slots, grow_column
from trellis.core.recommend.forecast.candidates import ForecastCandidate, HistoryAtMoments
from trellis.core.recommend.forecast.normalized_history import (
    SAMPLE_MEASURES,
    SAMPLE_SHARES,
    normalize_hours,
    trim_unknown_hours,
)
from trellis.core.recommend.protocol import Rows
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.history.hourly import HourlyHistory
from trellis.core.usage.history.hours import Ring


class CostWeights(msgspec.Struct, frozen=True):
    """The cost of one unit of each, against 1 for a unit of footprint."""

    time_over: float = 10.0
    overrun: float = 5.0
    changes: float = 0.0
    """Per change a day."""
    kills: float = 0.0
    """Per kill a day."""


def compute_cost(scores: SizingScores, weights: CostWeights) -> FloatColumn:
    """Per series and variant, as the scores are."""
    return (
        scores.footprint
        + weights.time_over * scores.time_over
        + weights.overrun * scores.overrun
        + weights.changes * scores.changes
        + weights.kills * scores.kills
    )


_DAY = 24
_DAYS_CHOSEN = 4  # today's choice and those before it, which it does not leave without a reason
_LEAST_HOURS = 48  # with less to replay there is nothing to choose by


class ChoiceSettings(msgspec.Struct, frozen=True):
    """Settings of a choice: the replayed window in hours, percentile, margin, and weights of costs.

    `gain` is by how much another candidate must be cheaper to be switched to, as a fraction.
    """

    window: int = 14 * _DAY
    fraction: float = 0.9
    margin: float = 0.15
    gain: float = 0.03
    weights: CostWeights = CostWeights()


class CandidateChoice(msgspec.Struct, frozen=True):
    """The number of a candidate for each row, and what each would have cost, (candidates, rows); NaN if unknown."""

    number: IntColumn
    costs: FloatColumn


def choose_candidates(
    summaries: Ring, candidates: Sequence[ForecastCandidate], settings: ChoiceSettings
) -> CandidateChoice:
    """Choose by summaries of CPU (rows, measures, hours) up to the moment of the choice."""
    summaries = trim_unknown_hours(summaries)
    hours = summaries.shape[-1]
    if hours <= _LEAST_HOURS:
        return CandidateChoice(
            np.zeros(len(summaries), dtype=np.int64), np.full((len(candidates), len(summaries)), np.nan)
        )
    first = max(hours - settings.window - (_DAYS_CHOSEN - 1) * _DAY, 1)
    history = HistoryAtMoments(normalize_hours(summaries), np.arange(first, hours))
    quantiles = [candidate.quantiles(history, (settings.fraction,))[0] for candidate in candidates]
    decisions = np.moveaxis(np.stack(quantiles) * (1.0 + settings.margin), 2, 0)
    usage_by_step = np.moveaxis(summaries[:, SAMPLE_MEASURES, first:], (0, 1, 2), (2, 1, 0)).astype(np.float64)
    usage = ReplayedUsage(usage_by_step, weights=SAMPLE_SHARES)
    comparable = np.logical_not(np.isnan(decisions).any(axis=1))
    steps = list(sum_steps(usage, replay_rule(usage, DecisionTable(decisions)), comparable))
    sums = {
        name: np.cumsum(np.concatenate([getattr(part, name) for part in steps]), axis=0)
        for name in ScoreSums.__struct_fields__
    }
    return _choose_day_by_day(sums, hours - first, settings)


def _choose_day_by_day(sums: dict[str, FloatColumn], steps: int, settings: ChoiceSettings) -> CandidateChoice:
    """The choices of the last days, one after the other."""
    number = np.zeros(sums["time"].shape[-1], dtype=np.int64)
    rows = np.arange(len(number))
    costs = np.empty(sums["target"].shape[1:])
    for days_ago in range(_DAYS_CHOSEN - 1, -1, -1):
        end = steps - days_ago * _DAY
        if end < 1:
            continue
        costs = _compute_window_costs(sums, end, settings)
        with np.errstate(invalid="ignore"):
            best = np.argmin(np.nan_to_num(costs, nan=np.inf), axis=0)
            switches = costs[best, rows] < costs[number, rows] * (1.0 - settings.gain)
        number = np.where(switches, best, number)
    return CandidateChoice(number, costs)


def _compute_window_costs(sums: dict[str, FloatColumn], end: int, settings: ChoiceSettings) -> FloatColumn:
    """(candidates, rows) over the window that ends before a step."""
    begin = end - settings.window
    tally = ScoreSums(
        **{name: column[end - 1] - (column[begin - 1] if begin > 0 else 0.0) for name, column in sums.items()}
    )
    costs = compute_cost(tally.compute_scores(HOUR), settings.weights)
    costs[:, tally.steps < _LEAST_HOURS] = np.nan
    return costs


_NEVER: Final = -1
_BACKFILLED_HOURS = 48  # hours that are known more since the last choice: history has come from elsewhere


class ChoiceTable:
    """The choices of rows, by their number in the hourly history. Another history clears the table."""

    def __init__(self, candidates: int) -> None:
        self._candidates = candidates
        self._history: HourlyHistory | None = None
        self._reset()

    def select_outdated(self, rows: Rows, now: float, limit: int) -> IntColumn:
        """Positions of rows to be chosen for, those that waited longest first, and of one moment together."""
        if rows.usage.history is not self._history:
            self._history = rows.usage.history
            self._reset()
        numbers = rows.usage.history_rows
        self._reserve(int(numbers.max(initial=-1)) + 1)
        with_history = np.flatnonzero(numbers >= 0)
        numbers = numbers[with_history]
        moments, names = find_daily_slots(rows, now)
        is_current = (self._moments[numbers] == moments[with_history]) & (self._names[numbers] == names[with_history])
        outdated = np.flatnonzero(
            ~is_current | (self._known_hours[numbers] - self._known_hours_at_choice[numbers] >= _BACKFILLED_HOURS)
        )
        order = np.lexsort((moments[with_history[outdated]], self._moments[numbers[outdated]]))
        return with_history[outdated[order]][:limit]

    def record_choices(
        self, rows: Rows, positions: IntColumn, now: float, choice: CandidateChoice, known_hours: IntColumn
    ) -> None:
        """Record the choices of rows, and from how many known hours of each they were made."""
        numbers = rows.usage.history_rows[positions]
        moments, names = find_daily_slots(rows, now)
        self._moments[numbers], self._names[numbers] = moments[positions], names[positions]
        self._chosen[numbers], self._costs[:, numbers] = choice.number, choice.costs
        self._known_hours_at_choice[numbers] = known_hours

    def record_known_hours(self, rows: Rows, known_hours: FloatColumn) -> None:
        """Record how many hours of each row are known."""
        with_history = rows.usage.history_rows >= 0
        self._known_hours[rows.usage.history_rows[with_history]] = known_hours[with_history]

    def read_choices(self, rows: Rows) -> CandidateChoice:
        """The choices of all rows; the first candidate where none was made."""
        numbers = rows.usage.history_rows
        with_history = np.flatnonzero(numbers >= 0)
        choice = CandidateChoice(np.zeros(len(rows), dtype=np.int64), np.full((self._candidates, len(rows)), np.nan))
        choice.number[with_history] = self._chosen[numbers[with_history]]
        choice.costs[:, with_history] = self._costs[:, numbers[with_history]]
        return choice

    def _reset(self) -> None:
        self._moments: IntColumn = np.zeros(0, dtype=np.int64)
        self._names: IntColumn = np.zeros(0, dtype=np.int64)
        self._chosen: IntColumn = np.zeros(0, dtype=np.int64)
        self._known_hours: FloatColumn = np.zeros(0)
        self._known_hours_at_choice: FloatColumn = np.zeros(0)
        self._costs: FloatColumn = np.zeros((self._candidates, 0))

    def _reserve(self, size: int) -> None:
        self._moments = grow_column(self._moments, size, _NEVER)
        self._names, self._chosen = grow_column(self._names, size, 0), grow_column(self._chosen, size, 0)
        self._known_hours, self._known_hours_at_choice = (
            grow_column(self._known_hours, size, 0),
            grow_column(self._known_hours_at_choice, size, 0),
        )
        self._costs = grow_column(self._costs, size, np.nan)
