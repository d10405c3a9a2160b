"""What comes next in a run? For what runs again and again in the same phases: training, Spark, CronJobs.

A run is found again in earlier runs by the phase that it is in and by the time since its start, and is given what those
used from there until the horizon: so it is raised before the next phase begins, and not when that is short. Phases may
last longer or shorter than before. Where there are too few earlier runs, where this one is like none of them, and where
pods run on for days, a row gets what the recommender says that this one falls back to.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trellis.core.recommend.amounts import CPU, MEMORY, MIDDLE
from trellis.core.recommend.by_setting import BySetting
from trellis.core.recommend.coming_hours import Sized
from trellis.core.recommend.coming_phases import SIZED, TOO_FEW, TOO_LONG, UNLIKE, Coming, coming
from trellis.core.recommend.explaining import Explanations
from trellis.core.recommend.overlay import fallen_back, overlaid
from trellis.core.recommend.parameters import Parameter, ParameterValues
from trellis.core.recommend.phase_parameters import PhaseFigures, phase_figures, phase_parameters
from trellis.core.recommend.phase_work import PhaseWork
from trellis.core.recommend.pod_minimums import minimums
from trellis.core.recommend.protocol import Estimates, Recommender, Rows
from trellis.core.recommend.settings import DefaultSettings
from trellis.core.usage.columns import IntColumn
from trellis.core.usage.runs import RUNS

_TOLD: Final = {SIZED: "phases", TOO_FEW: "too few runs", UNLIKE: "unlike earlier runs", TOO_LONG: "runs for too long"}
_NOT_SAMPLED: Final = "not sampled"


class PhasesRecommender:
    """Sizes by what earlier runs used after the phase that a run is in."""

    name = "phases"
    needs_history = False
    needs_runs = True

    def __init__(self, fallback: Recommender, settings: DefaultSettings | None = None) -> None:
        self.parameters: tuple[Parameter, ...] = phase_parameters(settings or DefaultSettings())
        self._fallback = fallback
        self._done: BySetting[PhaseFigures, PhaseWork] = BySetting(_no_work)

    def estimate(self, rows: Rows, values: ParameterValues, now: float, /) -> Estimates:
        """For what comes from now until the horizon."""
        figures = phase_figures(values)

        def work(positions: IntColumn) -> Coming:
            most = min(figures.runs + 1, RUNS)
            seen = rows.runs(positions, longest=figures.longest_run, most=most)
            return coming(seen, rows.started[positions], figures, now)

        found = self._done.of(figures).done(rows, now, work)
        least = minimums(
            figures.pod_recommendation_min_cpu_millicores, figures.pod_recommendation_min_memory_mb, rows.containers
        )
        below = fallen_back(self._fallback, rows, values, now)
        sized = Sized(found.bounds[:, CPU], found.bounds[:, MEMORY], found.runs.astype(np.float64)[np.newaxis])
        return overlaid(below, sized, least, _explained(found))


def _no_work(_figures: PhaseFigures) -> PhaseWork:
    return PhaseWork()


def _explained(found: Coming) -> Explanations:
    """Where each row's sizes come from, and what is known of its runs."""
    why = [_TOLD[each] for each in found.why.tolist()]
    unknown = np.isnan(found.bounds[MIDDLE])
    sized = found.why == SIZED
    cpu, memory = (
        [_NOT_SAMPLED if lacks else text for lacks, text in zip((sized & column).tolist(), why, strict=True)]
        for column in unknown
    )
    return {
        "cpu": cpu,
        "memory": memory,
        "runs": found.runs.astype(np.float64),
        "alike": found.alike.astype(np.float64),
        "phase": found.phase.astype(np.float64),
        "seconds-to-rise": found.rise,
    }
