"""The adaptive recommender: sizes each row by the candidate that would have sized its own last weeks best.

The candidate is chosen once a day by what each would have cost: what it requests, how long and by how much that would
have been too little, and how often it changes. The hour of the choice depends on the row's name, and one pass chooses
for a limited number of rows, so that the work is spread. Until then a row is sized by the first candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from trellis.core.recommend.amounts import CPU
from trellis.core.recommend.evaluation.recommender_choice import (
    ChoiceSettings,
    ChoiceTable,
    CostWeights,
    choose_candidates,
)
from trellis.core.recommend.forecast.caches import SettingsCache, find_daily_slots
from trellis.core.recommend.forecast.candidates import ForecastCandidate
from trellis.core.recommend.forecast.hourly_forecast import (
    HourlyForecast,
    declare_hourly_forecast_parameters,
    read_hourly_forecast_settings,
)
from trellis.core.recommend.parameters import Parameter, ParameterKind, ParameterValues, share_pod_minimums
from trellis.core.recommend.protocol import Estimates, Recommender, Rows
from trellis.core.recommend.recommenders.fallback import estimate_fallback, explain_origins, overlay_bounds
from trellis.core.recommend.settings import DAY, DefaultSettings
from trellis.core.usage.history.hours import HOUR

_HEAVIEST = 1000.0


class AdaptiveSettings(msgspec.Struct, frozen=True):
    """The values; the window in seconds."""

    replayed_window: float
    switching_gain: float
    time_over_weight: float
    overrun_weight: float
    change_weight: float


CHOICE_PARAMETERS = (
    Parameter(
        "replayed-window",
        ParameterKind.DURATION,
        "Length of history over which candidates are compared.",
        *(14 * DAY, "seconds", 3 * DAY, 28 * DAY),
    ),
    Parameter(
        "switching-gain",
        ParameterKind.NUMBER,
        "Fraction by which another candidate must have cost less to be chosen.",
        *(0.03, "fraction", 0.0, 1.0),
    ),
    Parameter(
        "time-over-weight",
        ParameterKind.NUMBER,
        "Cost of usage above the target all the time, relative to the cost of requesting what is used, which is 1.",
        *(10.0, "times", 0.0, _HEAVIEST),
    ),
    Parameter(
        "overrun-weight",
        ParameterKind.NUMBER,
        "Cost of usage that exceeds the target by as much as is used in total.",
        *(5.0, "times", 0.0, _HEAVIEST),
    ),
    Parameter(
        "change-weight",
        ParameterKind.NUMBER,
        "Cost of changing the target once a day.",
        *(0.01, "times", 0.0, _HEAVIEST),
    ),
)


def read_choice_settings(values: ParameterValues, fraction: float, margin: float) -> ChoiceSettings:
    """The settings of choices, from a value for every parameter and the percentile and margin in use."""
    choice_values = {name: values[name.replace("_", "-")] for name in AdaptiveSettings.__struct_fields__}
    forecast_settings = msgspec.convert(choice_values, AdaptiveSettings)
    return ChoiceSettings(
        window=round(forecast_settings.replayed_window / HOUR),
        fraction=fraction,
        margin=margin,
        gain=forecast_settings.switching_gain,
        weights=CostWeights(
            forecast_settings.time_over_weight, forecast_settings.overrun_weight, forecast_settings.change_weight
        ),
    )


_MARGIN = 0.17
_LEAST_ROWS, _PASSES = 32, 100  # rows to choose for in a pass at least, and passes in which all rows are chosen for
_ROWS_AT_ONCE: Final = 32  # their histograms stay in the processor's caches


class AdaptiveRecommender:
    """Sizes by what has worked."""

    name = "adaptive"
    needs_history = True

    def __init__(
        self, fallback: Recommender, candidates: Sequence[ForecastCandidate], settings: DefaultSettings | None = None
    ) -> None:
        sizing = declare_hourly_forecast_parameters(settings or DefaultSettings(), _MARGIN)
        self.parameters: tuple[Parameter, ...] = (*sizing, *CHOICE_PARAMETERS)
        self._fallback = fallback
        self._candidates = tuple(candidates)
        self._forecast = HourlyForecast(candidates)
        self._choices: SettingsCache[ChoiceSettings, ChoiceTable] = SettingsCache(self._create_choice_table)

    def estimate(self, rows: Rows, values: ParameterValues, now: float, /) -> Estimates:
        """Estimate by the chosen candidate of each row."""
        forecast_settings = read_hourly_forecast_settings(values)
        choice_settings = read_choice_settings(
            values, forecast_settings.target_cpu_percentile, forecast_settings.recommendation_margin_fraction
        )
        choices = self._choices.get(choice_settings)
        self._update_choices(rows, choices, choice_settings, now)
        chosen = choices.read_choices(rows)
        sized = self._forecast.compute_bounds(rows, forecast_settings, chosen.number, now)
        choices.record_known_hours(rows, sized.known_hours[CPU])
        fallback_estimates = estimate_fallback(self._fallback, rows, values, now)
        minimums = share_pod_minimums(
            forecast_settings.pod_recommendation_min_cpu_millicores,
            forecast_settings.pod_recommendation_min_memory_mb,
            rows.containers,
        )
        explanation = explain_origins(sized, [self._candidates[number].name for number in chosen.number.tolist()])
        costs = {
            f"cost of {candidate.name}": cost for candidate, cost in zip(self._candidates, chosen.costs, strict=True)
        }
        return overlay_bounds(fallback_estimates, sized, minimums, explanation | costs)

    def _create_choice_table(self, _terms: ChoiceSettings) -> ChoiceTable:
        return ChoiceTable(len(self._candidates))

    def _update_choices(self, rows: Rows, choices: ChoiceTable, choice_settings: ChoiceSettings, now: float) -> None:
        outdated = choices.select_outdated(rows, now, max(_LEAST_ROWS, len(rows) // _PASSES))
        moments, _ = find_daily_slots(rows, now)
        # Rows of one moment together: later usage does not count, however late the choice is made.
        for moment in np.unique(moments[outdated]).tolist():
            same_moment = outdated[moments[outdated] == moment]
            for begin in range(0, len(same_moment), _ROWS_AT_ONCE):
                part = same_moment[begin : begin + _ROWS_AT_ONCE]
                summaries = rows.hours(moment * HOUR, part)[:, CPU]
                known_hours = (~np.isnan(summaries[:, 0])).sum(axis=1)
                choices.record_choices(
                    rows, part, now, choose_candidates(summaries, self._candidates, choice_settings), known_hours
                )
