"""What is told of a recommender in a backtest, overall and of each series?"""

from __future__ import annotations

import math

import msgspec

from trellis.reports.figures import NOTHING, factor, rate, share
from trellis.reports.measures import Compared, Measure
from trellis.sim.backtest.results import BacktestResult, Figures, Overall, VariantScore

FOOTPRINT = Measure[Figures](
    "footprint",
    "requested per used",
    "",
    "How many times as much as is used is requested; over all series the geometric mean",
    lambda figures: figures.footprint,
    factor,
)
TIME_OVER = Measure[Figures](
    "time_over",
    "time over",
    "",
    "Share of time in which more is used than requested",
    lambda figures: figures.time_over,
    share,
    Compared.IN_POINTS,
)
OVERRUN = Measure[Figures](
    "overrun",
    "overrun",
    "",
    "How much more that is, as a share of all that is used",
    lambda figures: figures.overrun,
    share,
    Compared.IN_POINTS,
)
CHANGES = Measure[Figures](
    "changes", "changes a day", "", "How often the request changes", lambda figures: figures.changes, rate
)
KILLS = Measure[Figures](
    "kills",
    "OOM kills a week",
    "",
    "How often the memory used exceeds a limit in proportion to the request",
    lambda figures: figures.kills,
    rate,
)
OF_CPU = (FOOTPRINT, TIME_OVER, OVERRUN, CHANGES)
OF_MEMORY = (FOOTPRINT, TIME_OVER, CHANGES, KILLS)


class Scored(msgspec.Struct, frozen=True):
    """A variant's score for one resource, ready to be shown: what it requests against the first, and its measures."""

    variant: int
    name: str
    ratio: float
    against: str
    verdict: int
    values: list[str]
    numbers: list[float]


def scored(result: BacktestResult, resource: str) -> list[Scored]:
    """Every variant that was scored on a resource."""
    measures = measures_of(resource)
    told = []
    for number, variant in enumerate(result.variants):
        each = overall(variant, resource)
        if each is None:
            continue
        numbers = [measure.read(each.figures) for measure in measures]
        shown = [measure.show(value) for measure, value in zip(measures, numbers, strict=True)]
        verdict = FOOTPRINT.verdict(each.footprint, 1.0)
        told.append(Scored(number, variant.name, each.footprint, against(each.footprint), verdict, shown, numbers))
    return told


def measures_of(resource: str) -> tuple[Measure[Figures], ...]:
    """CPU kills nobody, and memory is never a little short."""
    return OF_CPU if resource == "cpu" else OF_MEMORY


def overall(variant: VariantScore, resource: str) -> Overall | None:
    """Of one resource."""
    return variant.cpu if resource == "cpu" else variant.memory


def against(ratio: float) -> str:
    """What is requested against the first variant, of which it is 1."""
    if not math.isfinite(ratio):
        return NOTHING
    return FOOTPRINT.difference(ratio, 1.0)
