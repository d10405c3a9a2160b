"""Which rule suits a workload? The one that its own last weeks would have been best sized by.

Every row is sized by one of the candidates it was given, chosen once a day by what each would have cost: what it sets
aside, how long and by how much that would have been too little, and how often it changes. Which hour of the day that
is depends on the row's name, and only so many rows are looked at in one pass, so that the work is spread. Until then a
row is sized by the first candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from trellis.core.recommend.adaptive_parameters import CHOOSING_PARAMETERS, choosing_terms
from trellis.core.recommend.amounts import CPU
from trellis.core.recommend.by_setting import BySetting
from trellis.core.recommend.candidates import Candidate
from trellis.core.recommend.choices import Choices, moments_of
from trellis.core.recommend.choosing import ChoiceTerms, choose
from trellis.core.recommend.coming_hours import ComingHours
from trellis.core.recommend.overlay import fallen_back, origins, overlaid
from trellis.core.recommend.parameters import Parameter, ParameterValues
from trellis.core.recommend.pod_minimums import minimums
from trellis.core.recommend.protocol import Estimates, Recommender, Rows
from trellis.core.recommend.settings import DefaultSettings
from trellis.core.recommend.sizing_parameters import sizing_figures, sizing_parameters
from trellis.core.usage.hours import HOUR

_MARGIN = 0.17
_LEAST_ROWS, _PASSES = 32, 100  # that are looked at in one pass, and passes in which all can be
_ROWS_AT_ONCE: Final = 32  # what they are spread out to stays in the processor's caches


class AdaptiveRecommender:
    """Sizes by what has worked."""

    name = "adaptive"
    needs_history = True

    def __init__(
        self, fallback: Recommender, candidates: Sequence[Candidate], settings: DefaultSettings | None = None
    ) -> None:
        sizing = sizing_parameters(settings or DefaultSettings(), _MARGIN)
        self.parameters: tuple[Parameter, ...] = (*sizing, *CHOOSING_PARAMETERS)
        self._fallback = fallback
        self._candidates = tuple(candidates)
        self._hours = ComingHours(candidates)
        self._choices: BySetting[ChoiceTerms, Choices] = BySetting(self._no_choices)

    def estimate(self, rows: Rows, values: ParameterValues, now: float, /) -> Estimates:
        """By the candidate that was chosen for each row."""
        figures = sizing_figures(values)
        terms = choosing_terms(values, figures.target_cpu_percentile, figures.recommendation_margin_fraction)
        choices = self._choices.of(terms)
        self._choose(rows, choices, terms, now)
        chosen = choices.of(rows)
        sized = self._hours.sized(rows, figures, chosen.number, now)
        choices.note(rows, sized.known[CPU])
        below = fallen_back(self._fallback, rows, values, now)
        least = minimums(
            figures.pod_recommendation_min_cpu_millicores, figures.pod_recommendation_min_memory_mb, rows.containers
        )
        said = origins(sized, [self._candidates[number].name for number in chosen.number.tolist()])
        costs = {f"cost of {each.name}": found for each, found in zip(self._candidates, chosen.costs, strict=True)}
        return overlaid(below, sized, least, said | costs)

    def _no_choices(self, _terms: ChoiceTerms) -> Choices:
        return Choices(len(self._candidates))

    def _choose(self, rows: Rows, choices: Choices, terms: ChoiceTerms, now: float) -> None:
        due = choices.due(rows, now, max(_LEAST_ROWS, len(rows) // _PASSES))
        moments, _ = moments_of(rows, now)
        # Rows of one moment together: nothing that came after it counts, however late they are looked at.
        for moment in np.unique(moments[due]).tolist():
            together = due[moments[due] == moment]
            for begin in range(0, len(together), _ROWS_AT_ONCE):
                part = together[begin : begin + _ROWS_AT_ONCE]
                before = rows.hours(moment * HOUR, part)[:, CPU]
                known = (~np.isnan(before[:, 0])).sum(axis=1)
                choices.put(rows, part, now, choose(before, self._candidates, terms), known)
