"""What will rows need in the coming hours, going by the hours of the last weeks?

CPU is sized for the hours that the horizon touches, by a candidate for each row; memory by its highest peak. All of it
changes with the hour, and so is worked out once an hour.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from trellis.core.recommend.amounts import CPU, MEMORY
from trellis.core.recommend.by_setting import BySetting
from trellis.core.recommend.candidates import Candidate
from trellis.core.recommend.hourly_work import HourlyWork
from trellis.core.recommend.memory_peaks import PeakRule, memory_bounds
from trellis.core.recommend.past_hours import past_hours, since_known
from trellis.core.recommend.protocol import Rows
from trellis.core.recommend.recollection import Remembered
from trellis.core.recommend.sizing_parameters import SizingFigures
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.hours import HOUR, MEASURES
from trellis.core.usage.rings import Ring

_WEEK = 168
_USUAL, _BUSY = 0.5, 0.95
_P95: Final = MEASURES.index("p95")
_BESIDE: Final = 6  # columns that are no hours: the upper bound of CPU, those of memory, and hours known of each


class Sized(msgspec.Struct, frozen=True):
    """Bounds (3, rows) of each resource, NaN where too little is known, and of how many hours something is, (2, rows).

    A pod is too small if it has less CPU than the coming hours use half of the time, and too large if it has more than
    the busiest hours of the last week used: so it is not made smaller every night.
    """

    cpu: FloatColumn
    memory: FloatColumn
    known: FloatColumn


class ComingHours:
    """What has been worked out, for each setting that VPAs have."""

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._candidates = tuple(candidates)
        self._done: BySetting[SizingFigures, HourlyWork] = BySetting(_hourly_work)

    def sized(self, rows: Rows, figures: SizingFigures, choice: IntColumn, now: float) -> Sized:
        """By the candidate that was chosen for each row, by its number."""
        moments = _moments(figures)

        def work(positions: IntColumn) -> FloatColumn:
            return self._worked_out(rows.hours(now, positions), choice[positions], figures, moments)

        found = self._done.of(figures).done(rows, now, choice, work)
        touched = touched_hours(now, figures.horizon)
        lower, target, (upper, *memory, known_cpu, known_memory) = np.split(found, [moments, 2 * moments])
        known = np.nan_to_num(np.stack([known_cpu, known_memory]))
        enough = known >= figures.history_needed / HOUR
        cpu = np.stack([lower[:touched].max(axis=0), target[:touched].max(axis=0), upper])
        return Sized(np.where(enough[CPU], cpu, np.nan), np.where(enough[MEMORY], np.stack(memory), np.nan), known)

    def _worked_out(self, summaries: Ring, choice: IntColumn, figures: SizingFigures, moments: int) -> FloatColumn:
        """By row: lower bounds and targets of the coming hours, the upper bound, those of memory, and hours known."""
        fractions = (_USUAL, figures.target_cpu_percentile)
        quantiles = np.empty((2, len(summaries), moments))
        for number in np.unique(choice).tolist():
            mine = choice == number
            past = past_hours(since_known(summaries[mine, CPU]))
            remembered = Remembered(past, past.hours + np.arange(moments))
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
        return np.concatenate(
            [lower.T, target.T * more, upper[None], memory_bounds(summaries[:, MEMORY], peaks), known]
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
