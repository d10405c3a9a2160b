"""A backtest as a page: the answer first, what less risk costs, all scores, and each series."""

from __future__ import annotations

from html import escape

from trellis.reports.backtest_data import page_data
from trellis.reports.backtest_headline import best, facts, none_better, partial, sentence
from trellis.reports.backtest_measures import Scored, measures_of, scored
from trellis.reports.backtest_series import series_section
from trellis.reports.html.frontier import Track, drawing
from trellis.reports.html.page import banner, header, page, section
from trellis.reports.html.typeset import difference, number_cell, typeset
from trellis.sim.backtest.results import BacktestResult, Curve, VariantScore

_MOST_CARDS = 6
_MOST_CURVES = 8
_RESOURCES = (("CPU", "cpu"), ("Memory", "memory"))


def as_html(result: BacktestResult) -> str:
    """The whole page, the same bytes for the same result."""
    names = dict.fromkeys(variant.recommender for variant in result.variants)
    title = f"Backtest of {', '.join(names)}" if names else "Backtest"
    parts = [header("Trellis backtest", title, facts(result))]
    parts += [banner(partial(result))] if result.partial else []
    if result.variants:
        parts.append(f"<main>{_answer(result)}{_frontier(result)}{_scores(result)}{series_section(result)}</main>")
    parts.append(_footer(result))
    return page(f"{title} · Trellis", "\n".join(parts), page_data(result), "backtest.js")


def _answer(result: BacktestResult) -> str:
    first, number = result.variants[0], best(result)
    if number:
        cost, risk = sentence(result.variants[number], first)
        lead = f'<p class="lead">{escape(cost)}<small>{escape(risk)}</small></p>'
    elif len(result.variants) > 1:
        told = none_better(first)
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
        mine = next((each for each in scored(result, resource) if each.variant == number), None)
        if mine is not None:
            blocks.append(_block(title, resource, mine))
    return (
        f'<article class="card" style="--accent:var(--v{number % 8})"><h3>{escape(variant.name)}</h3>'
        f"{''.join(blocks)}</article>"
    )


def _block(title: str, resource: str, mine: Scored) -> str:
    measures = measures_of(resource)
    beside = difference(mine.against, mine.verdict) if mine.variant else "<small>baseline</small>"
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
            Track(f"{sweep.recommender} {sweep.parameter}", "var(--muted)", costs, risks, points, dashed=True)
        )
    picture = drawing(tracks, "CPU requested per used and time over request of each recommender")
    if not picture:
        return ""
    lead = (
        "CPU. Each line is a recommender with all its targets made smaller or larger; the spot is as it was run. "
        "Dashed lines join the values of a sweep. Down and to the left is better."
    )
    return section("frontier", "What less risk costs", f'<div class="scroll">{picture}</div>', lead)


def _curve(curve: Curve, number: int) -> Track:
    """A curve with a spot where its targets are as they are."""
    as_run = min(range(len(curve.factors)), key=lambda at: abs(curve.factors[at] - 1.0))
    spot = (curve.footprint[as_run], curve.time_over[as_run], curve.variant)
    return Track(curve.variant, f"var(--v{number % 8})", curve.footprint, curve.time_over, [spot])


def _point(variant: VariantScore | None) -> tuple[float, float] | None:
    if variant is None or variant.cpu is None:
        return None
    return variant.cpu.figures.footprint, variant.cpu.figures.time_over


def _scores(result: BacktestResult) -> str:
    tables = "".join(_table(result, title, resource) for title, resource in _RESOURCES)
    lead = f"Over all series that have the resource; requested is against {result.variants[0].name}."
    return section("scores", "All scores", tables, lead)


def _table(result: BacktestResult, title: str, resource: str) -> str:
    rows = scored(result, resource)
    if not rows:
        return ""
    heads = "".join(
        f'<th scope="col" data-sort="number" data-column="{number + 2}" title="{escape(measure.meaning)}">'
        f"{escape(measure.title)}</th>"
        for number, measure in enumerate(measures_of(resource))
    )
    body = "".join(_row(each) for each in rows)
    return (
        '<div class="scroll"><table class="figures sortable"><thead><tr>'
        f'<th scope="col" data-sort="text" data-column="0">{title}</th>'
        f'<th scope="col" data-sort="number" data-column="1">requested</th>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _row(each: Scored) -> str:
    told = difference(each.against, each.verdict) if each.variant else '<span class="diff even">baseline</span>'
    cells = "".join(number_cell(text, value) for text, value in zip(each.values, each.numbers, strict=True))
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
