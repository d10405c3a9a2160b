"""Measures of a recommender in a backtest, overall and per series."""

from __future__ import annotations

import math

import msgspec

from trellis.reports.measures import ComparisonMode, Measure
from trellis.reports.text.numbers import NO_VALUE, format_factor, format_rate, format_share
from trellis.sim.backtest.results import BacktestResult, OverallScore, ResourceScore, VariantScore

FOOTPRINT = Measure[ResourceScore](
    "footprint",
    "requested per used",
    "",
    "Requested divided by used; over all series the geometric mean",
    lambda figures: figures.footprint,
    format_factor,
    is_cost=True,
)
TIME_OVER = Measure[ResourceScore](
    "time_over",
    "time above",
    "",
    "Share of time with usage above the request",
    lambda figures: figures.time_over,
    format_share,
    ComparisonMode.IN_POINTS,
)
OVERRUN = Measure[ResourceScore](
    "overrun",
    "overrun",
    "",
    "Usage above the request, as a share of all usage",
    lambda figures: figures.overrun,
    format_share,
    ComparisonMode.IN_POINTS,
)
CHANGES = Measure[ResourceScore](
    "changes", "changes per day", "", "How often the request changes", lambda figures: figures.changes, format_rate
)
KILLS = Measure[ResourceScore](
    "kills",
    "OOM kills per week",
    "",
    "How often the memory used exceeds a limit in proportion to the request",
    lambda figures: figures.kills,
    format_rate,
)
OF_CPU = (FOOTPRINT, TIME_OVER, OVERRUN, CHANGES)
OF_MEMORY = (FOOTPRINT, TIME_OVER, CHANGES, KILLS)


class ScoredVariant(msgspec.Struct, frozen=True):
    """A variant's score for one resource, ready to be shown: what it requests against the first, and its measures."""

    variant: int
    name: str
    ratio: float
    against: str
    improvement: int
    values: list[str]
    numbers: list[float]


def score_variants(result: BacktestResult, resource: str) -> list[ScoredVariant]:
    """Every variant that was scored on a resource."""
    measures = get_measures(resource)
    scored = []
    for number, variant in enumerate(result.variants):
        score = get_overall_score(variant, resource)
        if score is None:
            continue
        numbers = [measure.read(score.figures) for measure in measures]
        shown = [measure.show(value) for measure, value in zip(measures, numbers, strict=True)]
        improvement = FOOTPRINT.compare(score.footprint, 1.0)
        scored.append(
            ScoredVariant(
                number,
                variant.name,
                score.footprint,
                format_footprint_ratio(score.footprint),
                improvement,
                shown,
                numbers,
            )
        )
    return scored


def get_measures(resource: str) -> tuple[Measure[ResourceScore], ...]:
    """The measures of a resource: CPU kills no container, and memory is never a little short."""
    return OF_CPU if resource == "cpu" else OF_MEMORY


def get_overall_score(variant: VariantScore, resource: str) -> OverallScore | None:
    """A variant's score for one resource."""
    return variant.cpu if resource == "cpu" else variant.memory


def format_footprint_ratio(ratio: float) -> str:
    """What is requested against the first variant, of which it is 1."""
    if not math.isfinite(ratio):
        return NO_VALUE
    return FOOTPRINT.format_difference(ratio, 1.0)
