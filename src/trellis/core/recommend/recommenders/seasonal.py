"""The seasonal recommender: sizes for this time of the day and of the week, learned from the last weeks.

CPU is sized for the hours that the horizon touches: by the same hours of earlier days, above all of those that were
like the day that has just passed, and by the last hours. So it rises before a daily peak and not after it, and
recognises weekends. Memory is sized by its cycle of a week to a quarter where it has one, and else by the highest peak
of the last weeks. A row whose history is too short for that gets the estimate of the fallback.
"""

from __future__ import annotations

import numpy as np

from trellis.core.recommend.forecast.candidates import SEASONAL_CANDIDATE, ForecastCandidate
from trellis.core.recommend.forecast.hourly_forecast import (
    HourlyForecast,
    declare_hourly_forecast_parameters,
    read_hourly_forecast_settings,
)
from trellis.core.recommend.parameters import Parameter, ParameterValues, share_pod_minimums
from trellis.core.recommend.protocol import Estimates, Recommender, Rows
from trellis.core.recommend.recommenders.fallback import estimate_fallback, explain_origins, overlay_bounds
from trellis.core.recommend.settings import DefaultSettings

_MARGIN = 0.15


class SeasonalRecommender:
    """Sizes by the time of day."""

    name = "seasonal"
    needs_history = True

    def __init__(
        self,
        fallback: Recommender,
        settings: DefaultSettings | None = None,
        season: ForecastCandidate = SEASONAL_CANDIDATE,
    ) -> None:
        self.parameters: tuple[Parameter, ...] = declare_hourly_forecast_parameters(
            settings or DefaultSettings(), _MARGIN
        )
        self._fallback = fallback
        self._season = season
        self._forecast = HourlyForecast([season])

    def estimate(self, rows: Rows, values: ParameterValues, now: float, /) -> Estimates:
        """Estimate the hours from now until the horizon."""
        forecast_settings = read_hourly_forecast_settings(values)
        sized = self._forecast.compute_bounds(rows, forecast_settings, np.zeros(len(rows), dtype=np.int64), now)
        fallback_estimates = estimate_fallback(self._fallback, rows, values, now)
        minimums = share_pod_minimums(
            forecast_settings.pod_recommendation_min_cpu_millicores,
            forecast_settings.pod_recommendation_min_memory_mb,
            rows.containers,
        )
        return overlay_bounds(
            fallback_estimates, sized, minimums, explain_origins(sized, [self._season.name] * len(rows))
        )
