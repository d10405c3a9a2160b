"""Results of a backtest: scores of every series and of all together, and curves over the margin.

Everything here can be written as JSON as it is, is the same for the same series, and holds no time of day at which it
was made. NaN stands for what cannot be said: of memory that was not measured, or of a series too short to be scored.
"""

from __future__ import annotations

import math

import msgspec

NAN = math.nan


class ResourceScore(msgspec.Struct, frozen=True):
    """How one resource was sized, in the time that is scored.

    `requested` and `used` are means over time, in cores or bytes, and `footprint` is the one over the other.
    `time_over` is the share of time in which more was used than requested, and `overrun` how much more, as a share of
    all that was used. `changes` are of the request, a day. `kills` are out-of-memory kills, a week; CPU has none.
    """

    requested: float = NAN
    used: float = NAN
    footprint: float = NAN
    time_over: float = NAN
    overrun: float = NAN
    changes: float = NAN
    kills: float = NAN


class SeriesScore(msgspec.Struct, frozen=True):
    """The scores of one series under one variant. `cpu` or `memory` is None where there is too little of it."""

    series: str
    variant: str
    cpu: ResourceScore | None
    memory: ResourceScore | None


class SeriesFacts(msgspec.Struct, frozen=True):
    """Facts of a series: its source, its begin and end, and the part that is scored.

    `interval` is the usual distance between samples in seconds and `missing` the share of them that is not there.
    """

    name: str
    source: str
    begin: float
    end: float
    scored_from: float
    interval: float
    samples: int
    missing: float


class OverallScore(msgspec.Struct, frozen=True):
    """One resource under one variant, over all series that have it.

    `figures` are sums of `requested` and `used`, the geometric mean of footprints, and means of all else. What follows
    is against the first variant, of which it is 1: the geometric mean of footprints, each clipped to 0.5 to 2 so that
    no series decides alone, and ratios of the means of the others; NaN where the first has none. `worse` is the share
    of series with both a larger footprint and more time over (for memory: more kills) than under the first variant.
    """

    series: int
    figures: ResourceScore
    footprint: float
    time_over: float
    overrun: float
    kills: float
    worse: float


class VariantScore(msgspec.Struct, frozen=True):
    """The scores of a recommender with parameters. `name` says both, and is unique."""

    name: str
    recommender: str
    parameters: dict[str, str]
    cpu: OverallScore | None
    memory: OverallScore | None


class CostRiskCurve(msgspec.Struct, frozen=True):
    """The cost and the risk of a variant for CPU, with its targets multiplied by each of `factors`; 1 is among them.

    Columns as long as the factors, absolute: the geometric mean of footprints, and means of time over and overrun.
    Down and to the left is better.
    """

    variant: str
    factors: list[float]
    footprint: list[float]
    time_over: list[float]
    overrun: list[float]


class SweepFrontier(msgspec.Struct, frozen=True):
    """The variants of a sweep, one for each value of a parameter. Their cost and risk are in their scores."""

    recommender: str
    parameter: str
    values: list[str]
    variants: list[str]


class ChartLine(msgspec.Struct, frozen=True):
    """The chart of one resource of a series: mean and highest usage, and the request of each variant.

    Columns as long as the times of the chart; `requested` has one for each variant, in the order of the variants.
    """

    resource: str
    used: list[float]
    peak: list[float]
    requested: list[list[float]]


class SeriesChart(msgspec.Struct, frozen=True):
    """The chart of one series, thinned out."""

    series: str
    times: list[float]
    lines: list[ChartLine]


class BacktestResult(msgspec.Struct, frozen=True):
    """The result of a backtest. `partial` says that it was stopped: it has only what was finished by then.

    `series` has one score for each series and variant: all variants of the first series, then of the second, in the
    order of `facts` and of `variants`. `step` is how often was decided, in seconds, `warm_up` the longest time at the
    beginning of a series that is not scored, and `threshold` by what fraction a decision must differ to be applied.
    Charts are there for some series only. `left_out` says, in a line each, what could not be used and why; `notes` what
    is worth knowing of the rest, such as gaps.
    """

    facts: list[SeriesFacts]
    series: list[SeriesScore]
    variants: list[VariantScore]
    curves: list[CostRiskCurve]
    sweeps: list[SweepFrontier]
    charts: list[SeriesChart]
    step: float
    warm_up: float
    threshold: float
    left_out: list[str] = []
    notes: list[str] = []
    partial: bool = False
