"""What will rows need in the coming hours, going by the hours of the last weeks?

CPU is sized for the hours that the horizon touches, by a candidate for each row; memory by its cycle where it has one,
and else by its highest peak. All of it changes with the hour, and so is worked out once an hour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np

from trellis.core.recommend.amounts import CPU, MEMORY
from trellis.core.recommend.by_setting import BySetting
from trellis.core.recommend.candidates import Candidate
from trellis.core.recommend.choices import moments_of
from trellis.core.recommend.hourly_work import HourlyWork
from trellis.core.recommend.known_periods import KnownPeriods
from trellis.core.recommend.memory_cycles import CycleRule, phase_of
from trellis.core.recommend.memory_peaks import PeakRule, memory_bounds
from trellis.core.recommend.past_hours import past_hours, since_known
from trellis.core.recommend.protocol import Rows
from trellis.core.recommend.recollection import Remembered
from trellis.core.recommend.sizing_parameters import SizingFigures
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.hours import HOUR, MEASURES
from trellis.core.usage.long_peaks import CELL_HOURS
from trellis.core.usage.rings import Ring

_WEEK = 168
_USUAL, _BUSY = 0.5, 0.95
_P95: Final = MEASURES.index("p95")
# Columns that are no hours: the upper bound of CPU, those of memory, hours known of each, and the cycle of memory.
_BESIDE: Final = 8


class Sized(msgspec.Struct, frozen=True):
    """Bounds (3, rows) of each resource, NaN where too little is known, and of how many hours something is, (2, rows).

    `cycle` has the length of a row's cycle of memory and the time until its next peak, (2, rows) in days; NaN without.
    None where cycles are not looked for.
    A pod is too small if it has less CPU than the coming hours use half of the time, and too large if it has more than
    the busiest hours of the last week used: so it is not made smaller every night.
    """

    cpu: FloatColumn
    memory: FloatColumn
    known: FloatColumn
    cycle: FloatColumn | None = None


class _Cycle(NamedTuple):
    """What rows need at this phase of their cycle of memory, and its length and the time until its peak, in days."""

    needed: FloatColumn
    days: FloatColumn


class ComingHours:
    """What has been worked out, for each setting that VPAs have."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._candidates = tuple(candidates)
        self._done: BySetting[SizingFigures, HourlyWork] = BySetting(_hourly_work)
        self._periods: BySetting[CycleRule, KnownPeriods] = BySetting(KnownPeriods)

    def sized(self, rows: Rows, figures: SizingFigures, choice: IntColumn, now: float) -> Sized:
        """By the candidate that was chosen for each row, by its number."""
        moments = _moments(figures)

        def work(positions: IntColumn) -> FloatColumn:
            summaries = rows.hours(now, positions)
            cycle = self._cycles(rows, positions, now, _cycle_rule(figures))
            return self._worked_out(summaries, cycle, choice[positions], figures, moments)

        found = self._done.of(figures).done(rows, now, choice, work)
        touched = touched_hours(now, figures.horizon)
        lower, target, beside = np.split(found, [moments, 2 * moments])
        upper, *memory, known_cpu, known_memory, period, until_peak = beside
        known = np.nan_to_num(np.stack([known_cpu, known_memory]))
        enough = known >= figures.history_needed / HOUR
        cpu = np.stack([lower[:touched].max(axis=0), target[:touched].max(axis=0), upper])
        memory_sized = np.where(enough[MEMORY], np.stack(memory), np.nan)
        return Sized(np.where(enough[CPU], cpu, np.nan), memory_sized, known, np.stack([period, until_peak]))

    def _cycles(self, rows: Rows, positions: IntColumn, now: float, rule: CycleRule) -> _Cycle:
        peaks = rows.memory_peaks(now, positions)
        numbers = rows.usage.history_rows[positions]
        hours, _ = moments_of(rows, now, positions)
        periods = self._periods.of(rule).of(numbers, peaks, hours, int(now // HOUR))
        phase = phase_of(peaks, periods, rule)
        days = np.stack([np.where(periods > 0, periods, np.nan), phase.until_peak]) * (CELL_HOURS / 24)
        return _Cycle(phase.needed, days)

    def _worked_out(
        self, summaries: Ring, cycle: _Cycle, choice: IntColumn, figures: SizingFigures, moments: int
    ) -> FloatColumn:
        """By row: lower bounds and targets of the coming hours, and what `_BESIDE` counts."""
        fractions = (_USUAL, figures.target_cpu_percentile)
        quantiles = np.empty((2, len(summaries), moments))
        for number in np.unique(choice).tolist():
            mine = choice == number
            hours = past_hours(since_known(summaries[mine, CPU]))
            remembered = Remembered(hours, hours.hours + np.arange(moments))
            quantiles[:, mine] = self._candidates[number].quantiles(remembered, fractions)
        lower, target = quantiles
        more = 1.0 + figures.recommendation_margin_fraction
        peaks = PeakRule(
            window=round(figures.memory_window / HOUR),
            margin=figures.memory_margin_fraction,
            horizon=figures.growth_horizon / HOUR,
        )
        upper = busy_hours(summaries[:, CPU]) * more
        known = (~np.isnan(summaries[:, :, 0])).sum(axis=2).T
        memory = memory_bounds(summaries[:, MEMORY], peaks, cycle.needed)
        return np.concatenate([lower.T, target.T * more, upper[None], memory, known, cycle.days])


def _cycle_rule(figures: SizingFigures) -> CycleRule:
    cell = CELL_HOURS * HOUR
    return CycleRule(
        longest=int(figures.longest_memory_cycle // cell),
        tolerance=round(figures.memory_cycle_tolerance / cell),
        margin=figures.memory_margin_fraction,
    )


def _hourly_work(figures: SizingFigures) -> HourlyWork:
    return HourlyWork(2 * _moments(figures) + _BESIDE)


def _moments(figures: SizingFigures) -> int:
    """How many hours, the current one included, can be touched until the horizon."""
    return 1 + math.ceil(figures.horizon / HOUR)


def touched_hours(now: float, horizon: float) -> int:
    """How many of them are by now."""
    return max(1, math.ceil((now % HOUR + horizon) / HOUR))


def busy_hours(summaries: Ring) -> FloatColumn:
    """What the busiest hours of the last week used, from summaries (rows, measures, hours)."""
    week = np.sort(summaries[:, _P95, -_WEEK:].astype(np.float64), axis=1)  # what is not known comes last
    count = (~np.isnan(week)).sum(axis=1)
    at = np.clip(np.ceil(_BUSY * count).astype(np.int64) - 1, 0, week.shape[1] - 1)
    found: FloatColumn = week[np.arange(len(week)), at]
    return np.nan_to_num(found)
