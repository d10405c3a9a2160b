"""What do the scores of all series amount to? One line for each variant, held against the first, and curves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from trellis.core.recommend.curves import AS_SHIPPED, FACTORS, SAME, clipped_ratio, curve
from trellis.core.recommend.curves import Curve as ComparedCurve
from trellis.core.recommend.scores import Scores
from trellis.core.usage.columns import BoolColumn, FloatColumn
from trellis.sim.backtest.batch import BatchResult
from trellis.sim.backtest.request import Request
from trellis.sim.backtest.results import Curve, Figures, Overall, SeriesScore, VariantScore
from trellis.sim.backtest.scoring import Scored

FOOTPRINT, TIME_OVER, OVERRUN, CHANGES, KILLS = range(5)
_CPU, _MEMORY = 0, 1
_NAN: Final = math.nan


class Columns(msgspec.Struct, frozen=True):
    """All batches together, one `Scored` for each variant."""

    scored: list[Scored]

    @classmethod
    def joined(cls, batches: Sequence[BatchResult], variants: int) -> Columns:
        """Of batches in order."""
        return cls(
            [
                Scored(
                    *(
                        np.concatenate([getattr(each.scored[number], name) for each in batches], axis=-1)
                        for name in ("cpu", "memory", "used")
                    )
                )
                for number in range(variants)
            ]
        )

    def measures(self, variant: int, resource: int) -> FloatColumn:
        """(measures, series) of a variant as it is."""
        scored = self.scored[variant]
        return scored.cpu[:, AS_SHIPPED] if resource == _CPU else scored.memory

    def margins(self, variant: int) -> Scores:
        """The CPU of a variant at every factor."""
        footprint, time_over, overrun, changes, kills = self.scored[variant].cpu
        return Scores(footprint, time_over, overrun, changes, kills, np.ones(footprint.shape[1]))

    def sound(self, resource: int) -> BoolColumn:
        """The series of which all variants have something to say."""
        found = [np.isfinite(self.measures(number, resource)[FOOTPRINT]) for number in range(len(self.scored))]
        positive = [self.measures(number, resource)[FOOTPRINT] > 0 for number in range(len(self.scored))]
        sound: BoolColumn = np.logical_and.reduce([*found, *positive])
        return sound


def series_scores(columns: Columns, names: Sequence[str], request: Request) -> list[SeriesScore]:
    """One for each series and variant."""
    sound = [columns.sound(resource) for resource in (_CPU, _MEMORY)]
    return [
        SeriesScore(
            name,
            asked.name,
            *(
                _figures(columns, number, resource, place) if sound[resource][place] else None
                for resource in (_CPU, _MEMORY)
            ),
        )
        for place, name in enumerate(names)
        for number, asked in enumerate(request.variants)
    ]


def variant_scores(columns: Columns, request: Request) -> list[VariantScore]:
    """Every variant, the others held against the first."""
    return [
        VariantScore(
            asked.name,
            asked.recommender,
            asked.parameters,
            _overall(columns, number, _CPU),
            _overall(columns, number, _MEMORY),
        )
        for number, asked in enumerate(request.variants)
    ]


def curves(columns: Columns, request: Request) -> list[Curve]:
    """The cost and the risk of every variant at every factor; none if no series has CPU."""
    found = (_compared(columns, number) for number in range(len(request.variants)))
    return [
        Curve(
            asked.name,
            FACTORS.tolist(),
            each.shown_footprint.tolist(),
            each.shown_time_over.tolist(),
            each.shown_overrun.tolist(),
        )
        for asked, each in zip(request.variants, found, strict=True)
        if each is not None
    ]


def _compared(columns: Columns, variant: int) -> ComparedCurve | None:
    """A variant against the first, for CPU."""
    sound = columns.sound(_CPU)
    if not sound.any():
        return None
    return curve("", columns.margins(variant), columns.margins(0), sound.astype(np.float64))


def _figures(columns: Columns, variant: int, resource: int, place: int) -> Figures:
    footprint, time_over, overrun, changes, kills = columns.measures(variant, resource)[:, place].tolist()
    used = float(columns.scored[variant].used[resource, place])
    return Figures(footprint * used, used, footprint, time_over, overrun, changes, kills if resource else _NAN)


def _overall(columns: Columns, variant: int, resource: int) -> Overall | None:
    sound = columns.sound(resource)
    if not sound.any():
        return None
    mine, first = (columns.measures(number, resource)[:, sound] for number in (variant, 0))
    used = columns.scored[variant].used[resource, sound]
    means = mine.mean(axis=1)
    ratio = mine[FOOTPRINT] / first[FOOTPRINT]
    risk = TIME_OVER if resource == _CPU else KILLS
    return Overall(
        series=int(sound.sum()),
        figures=Figures(
            requested=float((mine[FOOTPRINT] * used).sum()),
            used=float(used.sum()),
            footprint=float(np.exp(np.log(mine[FOOTPRINT]).mean())),
            time_over=float(means[TIME_OVER]),
            overrun=float(means[OVERRUN]),
            changes=float(means[CHANGES]),
            kills=float(means[KILLS]) if resource else _NAN,
        ),
        footprint=clipped_ratio(ratio),
        time_over=_ratio(mine[TIME_OVER], first[TIME_OVER]),
        overrun=_ratio(mine[OVERRUN], first[OVERRUN]),
        kills=_ratio(mine[KILLS], first[KILLS]) if resource else _NAN,
        worse=float(((ratio > 1 + SAME) & (mine[risk] > first[risk] + SAME)).mean()),
    )


def _ratio(mine: FloatColumn, first: FloatColumn) -> float:
    mean = float(first.mean())
    return float(mine.mean()) / mean if mean > 0 else _NAN
