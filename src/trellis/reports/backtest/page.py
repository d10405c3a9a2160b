"""The HTML page of a backtest: the answer, the cost-risk frontier, all scores, and each series.

The table of series has a body per variant, of which a script shows one.
"""

from __future__ import annotations

from html import escape
from typing import Any

from trellis.reports.backtest.frontier import FrontierLine, draw_frontier
from trellis.reports.backtest.headline import compare_variant, find_best, list_facts, no_better_sentence, partial_notice
from trellis.reports.backtest.measures import ScoredVariant, measures_for, score_variants
from trellis.reports.html.chart_columns import ChartColumns
from trellis.reports.html.page import (
    render_banner,
    render_difference,
    render_field,
    render_header,
    render_number_cell,
    render_page,
    render_script_notice,
    render_search,
    render_section,
    render_switch,
    typeset,
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
    facts = {each.name: each for each in result.facts}
    charts = [_chart(chart, columns) for chart in result.charts if chart.times]
    for chart in charts:
        fact = facts.get(chart["name"])
        chart["end"] = fact.end if fact else None
        chart["scoredFrom"] = fact.scored_from if fact else 0.0
    return {"variants": [variant.name for variant in result.variants], "series": charts, "columns": columns.told}


def _chart(chart: SeriesChart, columns: ChartColumns) -> dict[str, Any]:
    lines = [_line(line, columns) for line in chart.lines]
    return {"name": chart.series, "times": columns.add_times(chart.times), "lines": lines}


def _line(line: ChartLine, columns: ChartColumns) -> dict[str, Any]:
    return {
        "resource": line.resource,
        "used": columns.add(line.used),
        "peak": columns.add(line.peak),
        "requested": [columns.add(column) for column in line.requested],
    }


_MOST_ROWS = 3000  # of all variants together: about a megabyte of page
_NOTHING = ResourceScore()
_SELECT = '<select id="series-select"></select>'


def render_series(result: BacktestResult) -> str:
    """Charts above, the table below."""
    shown = _shown(result)
    lead = ""
    if len(shown) < len(result.facts):
        lead = f"The {len(shown)} series that use most of {len(result.facts)}; the CSV file has all of them."
    chart = ""
    if result.charts:
        chart = (
            f'<div class="controls scripted">{render_field("series-select", "Series", _SELECT)}</div>'
            f'<div class="plot scripted" id="series-chart"></div>{render_script_notice("The chart is missing:")}'
        )
    names = [variant.name for variant in result.variants]
    choice = f'<div class="controls scripted">{render_switch("variant", "Recommender", names, find_best(result))}</div>'
    narrow = choice + render_search("series", "name of a series")
    return render_section("series", "Each series", chart + narrow + _series_table(result, shown), lead)


def _shown(result: BacktestResult) -> list[int]:
    """The numbers of the series in the table, in their own order."""
    most = max(_MOST_ROWS // max(len(result.variants), 1), 1)
    if len(result.facts) <= most:
        return list(range(len(result.facts)))
    ranked = sorted(range(len(result.facts)), key=lambda number: (-_used(_series_scores(result, number)[0]), number))
    return sorted(ranked[:most])


def _series_scores(result: BacktestResult, number: int) -> list[SeriesScore]:
    wide = len(result.variants)
    return result.series[number * wide : (number + 1) * wide]


def _used(score: SeriesScore) -> float:
    used = (score.cpu or _NOTHING).used
    return used if used == used else 0.0  # noqa: PLR0124 (NaN is not itself)


def _series_table(result: BacktestResult, shown: list[int]) -> str:
    resources = [("CPU", "cpu"), ("Memory", "memory")]
    over = "".join(
        f'<th class="over part" colspan="{len(measures_for(resource))}">{title}</th>' for title, resource in resources
    )
    heads, number = [], 1
    for _, resource in resources:
        for at, measure in enumerate(measures_for(resource)):
            part = "" if at else ' class="part"'
            heads.append(
                f'<th scope="col" data-sort="number" data-column="{number}"{part}>{escape(measure.title)}</th>'
            )
            number += 1
    head = (
        f'<thead><tr><td></td>{over}</tr><tr><th scope="col" data-sort="text" data-column="0">Series</th>'
        f"{''.join(heads)}</tr></thead>"
    )
    bodies = "".join(_body(result, variant, shown, number) for variant in range(len(result.variants)))
    return f'<div class="scroll"><table class="figures members" id="series-table">{head}{bodies}</table></div>'


def _body(result: BacktestResult, variant: int, shown: list[int], wide: int) -> str:
    name = escape(result.variants[variant].name)
    heading = f'<tr class="heading"><th scope="rowgroup" colspan="{wide}">{name}</th></tr>'
    rows = []
    for number in shown:
        score = _series_scores(result, number)[variant]
        cells = "".join(_cells(score.cpu, "cpu") + _cells(score.memory, "memory"))
        series = escape(score.series)
        rows.append(f'<tr data-series="{series}"><td>{series}</td>{cells}</tr>')
    return f"<tbody>{heading}{''.join(rows)}</tbody>"


def _cells(figures: ResourceScore | None, resource: str) -> list[str]:
    told = figures or _NOTHING
    values = [(measure, measure.read(told)) for measure in measures_for(resource)]
    return [render_number_cell(measure.show(value), value, begins=not at) for at, (measure, value) in enumerate(values)]


_MOST_CARDS = 6
_MOST_CURVES = 8
_RESOURCES = (("CPU", "cpu"), ("Memory", "memory"))


def as_html(result: BacktestResult) -> str:
    """The whole page, the same bytes for the same result."""
    names = dict.fromkeys(variant.recommender for variant in result.variants)
    title = f"Backtest of {', '.join(names)}" if names else "Backtest"
    parts = [render_header("Trellis backtest", title, list_facts(result))]
    parts += [render_banner(partial_notice(result))] if result.partial else []
    if result.variants:
        parts.append(f"<main>{_answer(result)}{_frontier(result)}{_scores(result)}{render_series(result)}</main>")
    parts.append(_footer(result))
    return render_page(f"{title} · Trellis", "\n".join(parts), build_chart_data(result), "backtest.js")


def _answer(result: BacktestResult) -> str:
    first, number = result.variants[0], find_best(result)
    if number:
        cost, risk = compare_variant(result.variants[number], first)
        lead = f'<p class="lead">{escape(cost)}<small>{escape(risk)}</small></p>'
    elif len(result.variants) > 1:
        told = no_better_sentence(first)
        lead = f'<p class="lead">{escape(told)}</p>'
    else:
        lead = ""
    swept = _swept(result)
    alone = [number for number, variant in enumerate(result.variants) if not number or variant.name not in swept]
    cards = "".join(_card(result, number) for number in alone) if len(alone) <= _MOST_CARDS else ""
    heading = '<h2 id="answer-title" class="unseen">What each recommender requests and risks</h2>'
    content = f'{heading}{lead}<div class="cards">{cards}</div>'
    return f'<section id="answer" class="bare" aria-labelledby="answer-title">{content}</section>'


def _swept(result: BacktestResult) -> set[str]:
    """The variants of sweeps: one line together, and no card each."""
    return {name for sweep in result.sweeps for name in sweep.variants}


def _card(result: BacktestResult, number: int) -> str:
    variant = result.variants[number]
    blocks = []
    for title, resource in _RESOURCES:
        mine = next((each for each in score_variants(result, resource) if each.variant == number), None)
        if mine is not None:
            blocks.append(_block(title, resource, mine))
    return (
        f'<article class="card" style="--accent:var(--v{number % 8})"><h3>{escape(variant.name)}</h3>'
        f"{''.join(blocks)}</article>"
    )


def _block(title: str, resource: str, mine: ScoredVariant) -> str:
    measures = measures_for(resource)
    beside = render_difference(mine.against, mine.verdict) if mine.variant else "<small>baseline</small>"
    figures = "".join(
        f"<dt>{escape(measure.title)}</dt><dd>{typeset(mine.values[at])}</dd>"
        for at, measure in enumerate(measures)
        if at and measure.key != "changes"
    )
    return (
        f'<p class="price"><span>{typeset(mine.values[0])}</span>{beside}</p>'
        f'<p class="per">{escape(title)} requested per used</p><dl class="alone">{figures}</dl>'
    )


def _frontier(result: BacktestResult) -> str:
    numbers = {variant.name: number for number, variant in enumerate(result.variants)}
    swept = _swept(result)
    tracks = [
        _curve(curve, numbers.get(curve.variant, 0))
        for curve in [each for each in result.curves if each.variant not in swept][:_MOST_CURVES]
    ]
    by_name = {variant.name: variant for variant in result.variants}
    for sweep in result.sweeps:
        points = [
            (*point, f"{sweep.parameter}={value}")
            for value, name in zip(sweep.values, sweep.variants, strict=True)
            if (point := _point(by_name.get(name))) is not None
        ]
        costs, risks = [point[0] for point in points], [point[1] for point in points]
        tracks.append(
            FrontierLine(f"{sweep.recommender} {sweep.parameter}", "var(--muted)", costs, risks, points, dashed=True)
        )
    picture = draw_frontier(tracks, "CPU requested per used and time over request of each recommender")
    if not picture:
        return ""
    lead = (
        "CPU. Each line is a recommender with all its targets made smaller or larger; the spot is as it was run. "
        "Dashed lines join the values of a sweep. Down and to the left is better."
    )
    return render_section("frontier", "What less risk costs", f'<div class="scroll">{picture}</div>', lead)


def _curve(curve: CostRiskCurve, number: int) -> FrontierLine:
    """A curve with a spot where its targets are as they are."""
    as_run = min(range(len(curve.factors)), key=lambda at: abs(curve.factors[at] - 1.0))
    spot = (curve.footprint[as_run], curve.time_over[as_run], curve.variant)
    return FrontierLine(curve.variant, f"var(--v{number % 8})", curve.footprint, curve.time_over, [spot])


def _point(variant: VariantScore | None) -> tuple[float, float] | None:
    if variant is None or variant.cpu is None:
        return None
    return variant.cpu.figures.footprint, variant.cpu.figures.time_over


def _scores(result: BacktestResult) -> str:
    tables = "".join(_table(result, title, resource) for title, resource in _RESOURCES)
    lead = f"Over all series that have the resource; requested is against {result.variants[0].name}."
    return render_section("scores", "All scores", tables, lead)


def _table(result: BacktestResult, title: str, resource: str) -> str:
    rows = score_variants(result, resource)
    if not rows:
        return ""
    heads = "".join(
        f'<th scope="col" data-sort="number" data-column="{number + 2}" title="{escape(measure.meaning)}">'
        f"{escape(measure.title)}</th>"
        for number, measure in enumerate(measures_for(resource))
    )
    body = "".join(_row(each) for each in rows)
    return (
        '<div class="scroll"><table class="figures sortable"><thead><tr>'
        f'<th scope="col" data-sort="text" data-column="0">{title}</th>'
        f'<th scope="col" data-sort="number" data-column="1">requested</th>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _row(each: ScoredVariant) -> str:
    told = render_difference(each.against, each.verdict) if each.variant else '<span class="diff even">baseline</span>'
    cells = "".join(render_number_cell(text, value) for text, value in zip(each.values, each.numbers, strict=True))
    swatch = f'<i class="swatch" style="background:var(--v{each.variant % 8})"></i>'
    return f'<tr><th scope="row">{swatch}{escape(each.name)}</th><td data-v="{each.ratio:.6g}">{told}</td>{cells}</tr>'


def _footer(result: BacktestResult) -> str:
    left = "".join(f"<li>{escape(line)}</li>" for line in result.left_out)
    notes = "".join(f"<li>{escape(line)}</li>" for line in result.notes)
    told = f"<p>Left out:</p><ul>{left}</ul>" if left else ""
    told += f"<p>Worth knowing:</p><ul>{notes}</ul>" if notes else ""
    return (
        f"<footer>{told}<p>A backtest tells what would have been recommended for usage as it was; it does not tell how "
        "usage would have changed with the requests.</p></footer>"
    )
