"""Totals over the scores of all series: one line for each variant, compared with the first, and curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from trellis.core.recommend.evaluation.margin_curves import (
    MARGIN_FACTORS,
    NEGLIGIBLE_DIFFERENCE,
    SHIPPED_MARGIN,
    build_margin_curve,
    compute_mean_ratio,
)
from trellis.core.recommend.evaluation.margin_curves import MarginCurve as ComparedCurve
from trellis.core.recommend.evaluation.scores import SizingScores
from trellis.core.usage.columns import BoolColumn, FloatColumn
from trellis.sim.backtest.batch import BatchResult
from trellis.sim.backtest.request import BacktestRequest
from trellis.sim.backtest.results import CostRiskCurve, OverallScore, ResourceScore, SeriesScore, VariantScore
from trellis.sim.backtest.scores import BatchScores

FOOTPRINT, TIME_OVER, OVERRUN, CHANGES, KILLS = range(5)
_CPU, _MEMORY = 0, 1
_NAN: Final = math.nan


class ScoreColumns(msgspec.Struct, frozen=True):
    """The scores of all batches together, one `BatchScores` for each variant."""

    scored: list[BatchScores]

    @classmethod
    def join(cls, batches: Sequence[BatchResult], variants: int) -> ScoreColumns:
        """Join the scores of batches, in order."""
        return cls(
            [
                BatchScores(
                    *(
                        np.concatenate([getattr(batch.scored[number], name) for batch in batches], axis=-1)
                        for name in ("cpu", "memory", "used")
                    )
                )
                for number in range(variants)
            ]
        )

    def measures(self, variant: int, resource: int) -> FloatColumn:
        """The (measures, series) of a variant, at factor 1."""
        scored = self.scored[variant]
        return scored.cpu[:, SHIPPED_MARGIN] if resource == _CPU else scored.memory

    def margins(self, variant: int) -> SizingScores:
        """The CPU measures of a variant at every factor."""
        footprint, time_over, overrun, changes, kills = self.scored[variant].cpu
        return SizingScores(footprint, time_over, overrun, changes, kills, np.ones(footprint.shape[1]))

    def find_scored_series(self, resource: int) -> BoolColumn:
        """The series for which every variant has a score."""
        result = [np.isfinite(self.measures(number, resource)[FOOTPRINT]) for number in range(len(self.scored))]
        positive = [self.measures(number, resource)[FOOTPRINT] > 0 for number in range(len(self.scored))]
        sound: BoolColumn = np.logical_and.reduce([*result, *positive])
        return sound


def build_series_scores(columns: ScoreColumns, names: Sequence[str], request: BacktestRequest) -> list[SeriesScore]:
    """The scores of each series under each variant."""
    sound = [columns.find_scored_series(resource) for resource in (_CPU, _MEMORY)]
    return [
        SeriesScore(
            name,
            variant.name,
            *(
                _figures(columns, number, resource, place) if sound[resource][place] else None
                for resource in (_CPU, _MEMORY)
            ),
        )
        for place, name in enumerate(names)
        for number, variant in enumerate(request.variants)
    ]


def build_variant_scores(columns: ScoreColumns, request: BacktestRequest) -> list[VariantScore]:
    """The scores of every variant; all but the first are compared with the first."""
    return [
        VariantScore(
            variant.name,
            variant.recommender,
            variant.parameters,
            _overall(columns, number, _CPU),
            _overall(columns, number, _MEMORY),
        )
        for number, variant in enumerate(request.variants)
    ]


def build_curves(columns: ScoreColumns, request: BacktestRequest) -> list[CostRiskCurve]:
    """The cost and the risk of every variant at every factor; none if no series has CPU."""
    result = (_compare_with_first(columns, number) for number in range(len(request.variants)))
    return [
        CostRiskCurve(
            variant.name,
            MARGIN_FACTORS.tolist(),
            compared.shown_footprint.tolist(),
            compared.shown_time_over.tolist(),
            compared.shown_overrun.tolist(),
        )
        for variant, compared in zip(request.variants, result, strict=True)
        if compared is not None
    ]


def _compare_with_first(columns: ScoreColumns, variant: int) -> ComparedCurve | None:
    """Compare a variant with the first, for CPU."""
    sound = columns.find_scored_series(_CPU)
    if not sound.any():
        return None
    return build_margin_curve("", columns.margins(variant), columns.margins(0), sound.astype(np.float64))


def _figures(columns: ScoreColumns, variant: int, resource: int, place: int) -> ResourceScore:
    footprint, time_over, overrun, changes, kills = columns.measures(variant, resource)[:, place].tolist()
    used = float(columns.scored[variant].used[resource, place])
    return ResourceScore(footprint * used, used, footprint, time_over, overrun, changes, kills if resource else _NAN)


def _overall(columns: ScoreColumns, variant: int, resource: int) -> OverallScore | None:
    sound = columns.find_scored_series(resource)
    if not sound.any():
        return None
    measures, first = (columns.measures(number, resource)[:, sound] for number in (variant, 0))
    used = columns.scored[variant].used[resource, sound]
    averages = measures.mean(axis=1)
    ratio = measures[FOOTPRINT] / first[FOOTPRINT]
    risk = TIME_OVER if resource == _CPU else KILLS
    return OverallScore(
        series=int(sound.sum()),
        figures=ResourceScore(
            requested=float((measures[FOOTPRINT] * used).sum()),
            used=float(used.sum()),
            footprint=float(np.exp(np.log(measures[FOOTPRINT]).mean())),
            time_over=float(averages[TIME_OVER]),
            overrun=float(averages[OVERRUN]),
            changes=float(averages[CHANGES]),
            kills=float(averages[KILLS]) if resource else _NAN,
        ),
        footprint=compute_mean_ratio(ratio),
        time_over=_ratio(measures[TIME_OVER], first[TIME_OVER]),
        overrun=_ratio(measures[OVERRUN], first[OVERRUN]),
        kills=_ratio(measures[KILLS], first[KILLS]) if resource else _NAN,
        worse=float(
            ((ratio > 1 + NEGLIGIBLE_DIFFERENCE) & (measures[risk] > first[risk] + NEGLIGIBLE_DIFFERENCE)).mean()
        ),
    )


def _ratio(values: FloatColumn, first: FloatColumn) -> float:
    mean = float(first.mean())
    return float(values.mean()) / mean if mean > 0 else _NAN
