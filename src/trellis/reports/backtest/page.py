"""The HTML page of a backtest: the answer, the cost-risk frontier, all scores, and each series.

The table of series has a body per variant, of which a script shows one.
"""

from __future__ import annotations

from typing import Any

import msgspec

from trellis.reports.backtest.frontier import FrontierCurve, draw_frontier
from trellis.reports.backtest.headline import (
    compare_variant,
    describe_no_better,
    describe_rejected,
    describe_stopped_backtest,
    find_best,
    list_facts,
)
from trellis.reports.backtest.measures import ScoredVariant, get_measures, score_variants
from trellis.reports.html.chart_columns import ChartColumns
from trellis.reports.html.documentation import UNPUBLISHED, Documentation
from trellis.reports.html.page import (
    ColumnGroup,
    ColumnHead,
    Difference,
    TableCell,
    format_sort_value,
    make_difference,
    number_cell,
    render_page,
)
from trellis.sim.backtest.results import (
    BacktestResult,
    ChartLine,
    CostRiskCurve,
    ResourceScore,
    SeriesChart,
    SeriesScore,
    VariantScore,
)


def build_chart_data(result: BacktestResult) -> dict[str, Any]:
    """Everything that the page's script reads."""
    columns = ChartColumns()
    facts = {fact.name: fact for fact in result.facts}
    charts = [_build_chart(chart, columns) for chart in result.charts if chart.times]
    for chart in charts:
        fact = facts.get(chart["name"])
        chart["end"] = fact.end if fact else None
        chart["scoredFrom"] = fact.scored_from if fact else 0.0
    return {"variants": [variant.name for variant in result.variants], "series": charts, "columns": columns.encoded}


def _build_chart(chart: SeriesChart, columns: ChartColumns) -> dict[str, Any]:
    lines = [_build_line(line, columns) for line in chart.lines]
    return {"name": chart.series, "times": columns.add_times(chart.times), "lines": lines}


def _build_line(line: ChartLine, columns: ChartColumns) -> dict[str, Any]:
    return {
        "resource": line.resource,
        "used": columns.add(line.used),
        "peak": columns.add(line.peak),
        "requested": [columns.add(column) for column in line.requested],
    }


_MAX_ROWS = 3000  # of all variants together: about a megabyte of page
_MAX_CARDS = 6
_MAX_CURVES = 8
_NOTHING = ResourceScore()
_RESOURCES = (("CPU", "cpu"), ("Memory", "memory"))


class _BacktestCardBlock(msgspec.Struct, frozen=True):
    """A resource on a card: what is requested per used, and the other measures."""

    title: str
    footprint: str
    difference: Difference | None
    figures: list[tuple[str, str]]


class _BacktestCard(msgspec.Struct, frozen=True):
    """A variant, by number."""

    number: int
    title: str
    blocks: list[_BacktestCardBlock]


class _ScoreRow(msgspec.Struct, frozen=True):
    """A variant's overall scores; `order` sorts by what it requests against the first variant."""

    number: int
    name: str
    order: str
    difference: Difference | None
    cells: list[TableCell]


class _ScoreTable(msgspec.Struct, frozen=True):
    """The scores of all variants for one resource."""

    heads: list[ColumnHead]
    rows: list[_ScoreRow]


class _SeriesBody(msgspec.Struct, frozen=True):
    """The scores of each series under one variant."""

    title: str
    rows: list[tuple[str, list[TableCell]]]


class _SeriesSection(msgspec.Struct, frozen=True):
    """Charts above, the table below. `labels` name the cells on narrow screens."""

    lead: str
    has_charts: bool
    variants: list[str]
    chosen: int
    groups: list[ColumnGroup]
    heads: list[ColumnHead]
    labels: list[str]
    bodies: list[_SeriesBody]


def as_html(result: BacktestResult, documentation: Documentation = UNPUBLISHED) -> str:
    """The page, the same bytes for the same result."""
    names = dict.fromkeys(variant.recommender for variant in result.variants)
    heading = f"Backtest of {', '.join(names)}" if names else "Backtest"
    return render_page(
        "backtest.html.j2",
        "backtest.js",
        build_chart_data(result),
        documentation,
        title=f"{heading} · Trellis",
        kind="Trellis backtest",
        heading=heading,
        facts=list_facts(result),
        banners=[describe_stopped_backtest(result)] if result.partial else [],
        left_out=result.left_out,
        notes=result.notes,
        **(_comparison(result) if result.variants else {"compared": False}),
    )


def _comparison(result: BacktestResult) -> dict[str, Any]:
    """What the template needs where there are variants to compare."""
    return {
        "compared": True,
        "lead": _describe_best(result),
        "rejected": list(describe_rejected(result)) if len(result.variants) > 1 else [],
        "cards": _build_cards(result),
        "frontier": _draw_frontier(result),
        "scores_lead": f"Over all series that have the resource; requested compares with {result.variants[0].name}.",
        "scores": [table for title, resource in _RESOURCES if (table := _score_table(result, title, resource))],
        "series": _series_section(result),
    }


def _describe_best(result: BacktestResult) -> tuple[str, str] | None:
    first, best = result.variants[0], find_best(result)
    if best:
        return compare_variant(result.variants[best], first)
    return (describe_no_better(first), "") if len(result.variants) > 1 else None


def _build_cards(result: BacktestResult) -> list[_BacktestCard]:
    """A card for each variant that is no part of a sweep; none if there are too many of them."""
    swept = _swept_variants(result)
    numbers = [number for number, variant in enumerate(result.variants) if not number or variant.name not in swept]
    return [_build_card(result, number) for number in numbers] if len(numbers) <= _MAX_CARDS else []


def _swept_variants(result: BacktestResult) -> set[str]:
    """The variants of sweeps: one line together, and no card each."""
    return {name for sweep in result.sweeps for name in sweep.variants}


def _build_card(result: BacktestResult, number: int) -> _BacktestCard:
    blocks = [
        _build_card_block(title, resource, score)
        for title, resource in _RESOURCES
        for score in score_variants(result, resource)
        if score.variant == number
    ]
    return _BacktestCard(number, result.variants[number].name, blocks)


def _build_card_block(title: str, resource: str, score: ScoredVariant) -> _BacktestCardBlock:
    figures = [
        (measure.title, score.values[at])
        for at, measure in enumerate(get_measures(resource))
        if at and measure.key != "changes"
    ]
    return _BacktestCardBlock(title, score.values[0], make_difference(score.against, score.improvement), figures)


def _draw_frontier(result: BacktestResult) -> list[str]:
    numbers = {variant.name: number for number, variant in enumerate(result.variants)}
    swept = _swept_variants(result)
    curves = [curve for curve in result.curves if curve.variant not in swept][:_MAX_CURVES]
    lines = [_build_frontier_curve(curve, numbers.get(curve.variant, 0)) for curve in curves]
    by_name = {variant.name: variant for variant in result.variants}
    for sweep in result.sweeps:
        points = [
            (*point, f"{sweep.parameter}={value}")
            for value, name in zip(sweep.values, sweep.variants, strict=True)
            if (point := _get_point(by_name.get(name))) is not None
        ]
        costs, risks = [point[0] for point in points], [point[1] for point in points]
        lines.append(
            FrontierCurve(f"{sweep.recommender} {sweep.parameter}", "var(--muted)", costs, risks, points, dashed=True)
        )
    return draw_frontier(lines, "CPU requested per used and time above the request of each recommender")


def _build_frontier_curve(curve: CostRiskCurve, number: int) -> FrontierCurve:
    """A curve with a spot where its targets are as they are."""
    as_run = min(range(len(curve.factors)), key=lambda at: abs(curve.factors[at] - 1.0))
    spot = (curve.footprint[as_run], curve.time_over[as_run], curve.variant)
    return FrontierCurve(curve.variant, f"var(--v{number % 8})", curve.footprint, curve.time_over, [spot])


def _get_point(variant: VariantScore | None) -> tuple[float, float] | None:
    if variant is None or variant.cpu is None:
        return None
    return variant.cpu.figures.footprint, variant.cpu.figures.time_over


def _score_table(result: BacktestResult, title: str, resource: str) -> _ScoreTable | None:
    scores = score_variants(result, resource)
    if not scores:
        return None
    measures = [ColumnHead(measure.title, meaning=measure.meaning) for measure in get_measures(resource)]
    return _ScoreTable([ColumnHead(title, "text"), ColumnHead("requested"), *measures], [_score_row(s) for s in scores])


def _score_row(score: ScoredVariant) -> _ScoreRow:
    cells = [number_cell(text, value) for text, value in zip(score.values, score.numbers, strict=True)]
    difference = make_difference(score.against, score.improvement)
    return _ScoreRow(score.variant, score.name, format_sort_value(score.ratio), difference, cells)


def _series_section(result: BacktestResult) -> _SeriesSection:
    shown = _select_series(result)
    lead = ""
    if len(shown) < len(result.facts):
        lead = f"The {len(shown)} series that use most of {len(result.facts)}; the CSV file has all of them."
    groups = [ColumnGroup(title, len(get_measures(resource))) for title, resource in _RESOURCES]
    heads = [ColumnHead("Series", "text")]
    labels = [""] + [f"{title} {measure.title}" for title, resource in _RESOURCES for measure in get_measures(resource)]
    for _, resource in _RESOURCES:
        heads += [
            ColumnHead(measure.title, classes="" if at else "part") for at, measure in enumerate(get_measures(resource))
        ]
    bodies = [_series_body(result, number, shown) for number in range(len(result.variants))]
    names = [variant.name for variant in result.variants]
    return _SeriesSection(lead, bool(result.charts), names, find_best(result), groups, heads, labels, bodies)


def _select_series(result: BacktestResult) -> list[int]:
    """The numbers of the series in the table, in their own order."""
    most = max(_MAX_ROWS // max(len(result.variants), 1), 1)
    if len(result.facts) <= most:
        return list(range(len(result.facts)))
    ranked = sorted(
        range(len(result.facts)), key=lambda number: (-_cpu_usage(_series_scores(result, number)[0]), number)
    )
    return sorted(ranked[:most])


def _series_scores(result: BacktestResult, number: int) -> list[SeriesScore]:
    """The scores of a series, one for each variant."""
    variants = len(result.variants)
    return result.series[number * variants : (number + 1) * variants]


def _cpu_usage(score: SeriesScore) -> float:
    used = (score.cpu or _NOTHING).used
    return used if used == used else 0.0  # noqa: PLR0124 (NaN is not itself)


def _series_body(result: BacktestResult, variant: int, shown: list[int]) -> _SeriesBody:
    scores = [_series_scores(result, number)[variant] for number in shown]
    rows = [
        (score.series, [*_resource_cells(score.cpu, "cpu"), *_resource_cells(score.memory, "memory")])
        for score in scores
    ]
    return _SeriesBody(result.variants[variant].name, rows)


def _resource_cells(score: ResourceScore | None, resource: str) -> list[TableCell]:
    values = [(measure, measure.read(score or _NOTHING)) for measure in get_measures(resource)]
    return [number_cell(measure.show(value), value, begins=not at) for at, (measure, value) in enumerate(values)]
