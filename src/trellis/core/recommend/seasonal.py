"""What will be needed at this time of the day and of the week? Learned from the hours of the last weeks.

CPU is sized for the hours that the horizon touches: by the same hours of earlier days, above all of those that were
like the day that has just passed, and by the last hours. So it rises before a daily peak and not after it, and knows a
weekend when it sees one. Memory is sized by its cycle of a week to a quarter where it has one, and else by the highest
peak of the last weeks. A row whose history is too short for that gets what the recommender says that this one falls
back to.
"""

from __future__ import annotations

import numpy as np

from trellis.core.recommend.candidates import SEASON, Candidate
from trellis.core.recommend.coming_hours import ComingHours
from trellis.core.recommend.overlay import fallen_back, origins, overlaid
from trellis.core.recommend.parameters import Parameter, ParameterValues
from trellis.core.recommend.pod_minimums import minimums
from trellis.core.recommend.protocol import Estimates, Recommender, Rows
from trellis.core.recommend.settings import DefaultSettings
from trellis.core.recommend.sizing_parameters import sizing_figures, sizing_parameters

_MARGIN = 0.15


class SeasonalRecommender:
    """Sizes by the time of day."""

    name = "seasonal"
    needs_history = True

    def __init__(
        self, fallback: Recommender, settings: DefaultSettings | None = None, season: Candidate = SEASON
    ) -> None:
        self.parameters: tuple[Parameter, ...] = sizing_parameters(settings or DefaultSettings(), _MARGIN)
        self._fallback = fallback
        self._season = season
        self._hours = ComingHours([season])

    def estimate(self, rows: Rows, values: ParameterValues, now: float, /) -> Estimates:
        """For the hours from now until the horizon."""
        figures = sizing_figures(values)
        sized = self._hours.sized(rows, figures, np.zeros(len(rows), dtype=np.int64), now)
        below = fallen_back(self._fallback, rows, values, now)
        least = minimums(
            figures.pod_recommendation_min_cpu_millicores, figures.pod_recommendation_min_memory_mb, rows.containers
        )
        return overlaid(below, sized, least, origins(sized, [self._season.name] * len(rows)))
