"""What has been needed lately? A moving window in which usage counts by the load it was: Autopilot's rule.

CPU is a percentile of the last hours, each counting less than the next, in which a sample counts as often as it is
large: of what a workload did, so much was done within the target. Memory is sized by how well the workload bears to be
killed. (Rzadca et al., Autopilot: workload autoscaling at Google, EuroSys 2020.) It follows what happens and expects
nothing: for what has a rhythm there are better ones.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trellis.core.recommend.amounts import CPU, MEMORY
from trellis.core.recommend.by_setting import BySetting
from trellis.core.recommend.coming_hours import Sized
from trellis.core.recommend.hourly_work import HourlyWork
from trellis.core.recommend.overlay import fallen_back, origins, overlaid
from trellis.core.recommend.parameters import Parameter, ParameterValues
from trellis.core.recommend.past_hours import past_hours, since_known
from trellis.core.recommend.pod_minimums import minimums
from trellis.core.recommend.protocol import Estimates, Recommender, Rows
from trellis.core.recommend.recollection import Recent, Recollection, Remembered
from trellis.core.recommend.settings import DefaultSettings
from trellis.core.recommend.window_parameters import OomTolerance, WindowFigures, window_figures, window_parameters
from trellis.core.usage.columns import FloatColumn, IntColumn
from trellis.core.usage.hours import HOUR, MAXIMUM
from trellis.core.usage.rings import Ring

_USUAL: Final = 0.5
# Where kills are borne rarely, and where they are borne: above usage for so much of the time.
_RARELY, _OFTEN = 0.98, 0.6
_BOUNDS: Final = 3
_WIDTH: Final = 2 * _BOUNDS + 2  # bounds of each resource, and how many hours of each are known


class WindowRecommender:
    """Sizes by the last hours."""

    name = "window"
    needs_history = True

    def __init__(self, fallback: Recommender, settings: DefaultSettings | None = None) -> None:
        self.parameters: tuple[Parameter, ...] = window_parameters(settings or DefaultSettings())
        self._fallback = fallback
        self._done: BySetting[WindowFigures, HourlyWork] = BySetting(_hourly_work)

    def estimate(self, rows: Rows, values: ParameterValues, now: float, /) -> Estimates:
        """By the hours before this one."""
        figures = window_figures(values)

        def work(positions: IntColumn) -> FloatColumn:
            return _worked_out(rows.hours(now, positions), figures)

        found = self._done.of(figures).done(rows, now, np.zeros(len(rows), dtype=np.int64), work)
        found_cpu, found_memory, known = np.split(found, [_BOUNDS, 2 * _BOUNDS])
        known = np.nan_to_num(known)
        enough = known >= figures.history_needed / HOUR
        cpu, memory = np.where(enough[CPU], found_cpu, np.nan), np.where(enough[MEMORY], found_memory, np.nan)
        sized = Sized(cpu, memory, known)
        least = minimums(
            figures.pod_recommendation_min_cpu_millicores, figures.pod_recommendation_min_memory_mb, rows.containers
        )
        below = fallen_back(self._fallback, rows, values, now)
        return overlaid(below, sized, least, origins(sized, ["window"] * len(rows)))


def _hourly_work(_figures: WindowFigures) -> HourlyWork:
    return HourlyWork(_WIDTH)


def _worked_out(summaries: Ring, figures: WindowFigures) -> FloatColumn:
    """By row: the bounds of CPU and of memory, and the hours known of each."""
    known = (~np.isnan(summaries[:, :, 0])).sum(axis=2).T
    return np.concatenate([_cpu(summaries[:, CPU], figures), _memory(summaries[:, MEMORY], figures), known])


def _cpu(summaries: Ring, figures: WindowFigures) -> FloatColumn:
    past = past_hours(since_known(summaries), followed=0.0)
    what = Recollection("window", ((Recent(figures.cpu_half_life / HOUR), 1.0),))
    recalled = Remembered(past, np.array([past.hours])).recall(what)
    lower, target, upper = recalled.by_load().quantiles((_USUAL, figures.target_cpu_percentile, 1.0))[:, :, 0]
    more = 1.0 + figures.recommendation_margin_fraction
    return np.stack([np.minimum(lower, target), target * more, upper * more])


def _memory(summaries: Ring, figures: WindowFigures) -> FloatColumn:
    """Lower bound, target and upper bound: what kills cost decides how near to the highest peak the target is."""
    window = round(figures.memory_window / HOUR)
    peaks = summaries[:, MAXIMUM, -window:].astype(np.float64)
    highest = np.fmax.reduce(peaks, axis=1)
    usual, rarely, often = _quantiles(peaks, figures.memory_half_life / HOUR, (_USUAL, _RARELY, _OFTEN))
    target = {
        OomTolerance.MINIMAL: highest,
        OomTolerance.LOW: rarely,
        OomTolerance.INTERMEDIATE: np.maximum(often, highest / 2.0),
    }[figures.oom_tolerance]
    more = 1.0 + figures.memory_margin_fraction
    return np.stack([np.minimum(usual, target), target * more, np.maximum(highest, target) * more * more])


def _quantiles(values: FloatColumn, half_life: float, fractions: tuple[float, ...]) -> FloatColumn:
    """(fractions, rows) of hourly values (rows, hours), each counting less than the next; NaN where none is known."""
    ages = np.arange(values.shape[1], 0, -1.0)
    order = np.argsort(values, axis=1)  # what is not known comes last
    ordered = np.take_along_axis(values, order, axis=1)
    weights = np.where(np.isnan(ordered), 0.0, np.exp2(-ages / half_life)[order])
    sums = np.cumsum(weights, axis=1)
    rows = np.arange(len(values))
    return np.stack(
        [ordered[rows, (sums < fraction * sums[:, -1:]).sum(axis=1)] for fraction in fractions],
    )
