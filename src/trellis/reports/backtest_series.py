"""How did each series fare? A table for every variant, of which a script shows one, and charts of some."""

from __future__ import annotations

from html import escape

from trellis.reports.backtest_headline import best
from trellis.reports.backtest_measures import measures_of
from trellis.reports.html.page import field, needs_script, search, section, switch
from trellis.reports.html.typeset import number_cell
from trellis.sim.backtest.results import BacktestResult, Figures, SeriesScore

_MOST_ROWS = 3000  # of all variants together: about a megabyte of page
_NOTHING = Figures()
_SELECT = '<select id="series-select"></select>'


def series_section(result: BacktestResult) -> str:
    """Charts above, the table below."""
    shown = _shown(result)
    lead = ""
    if len(shown) < len(result.facts):
        lead = f"The {len(shown)} series that use most of {len(result.facts)}; the CSV file has all of them."
    chart = ""
    if result.charts:
        chart = (
            f'<div class="controls scripted">{field("series-select", "Series", _SELECT)}</div>'
            f'<div class="plot scripted" id="series-chart"></div>{needs_script("The chart is missing:")}'
        )
    names = [variant.name for variant in result.variants]
    choice = f'<div class="controls scripted">{switch("variant", "Recommender", names, best(result))}</div>'
    narrow = choice + search("series", "name of a series")
    return section("series", "Each series", chart + narrow + _table(result, shown), lead)


def _shown(result: BacktestResult) -> list[int]:
    """The numbers of the series in the table, in their own order."""
    most = max(_MOST_ROWS // max(len(result.variants), 1), 1)
    if len(result.facts) <= most:
        return list(range(len(result.facts)))
    ranked = sorted(range(len(result.facts)), key=lambda number: (-_used(_scores(result, number)[0]), number))
    return sorted(ranked[:most])


def _scores(result: BacktestResult, number: int) -> list[SeriesScore]:
    wide = len(result.variants)
    return result.series[number * wide : (number + 1) * wide]


def _used(score: SeriesScore) -> float:
    used = (score.cpu or _NOTHING).used
    return used if used == used else 0.0  # noqa: PLR0124 (NaN is not itself)


def _table(result: BacktestResult, shown: list[int]) -> str:
    resources = [("CPU", "cpu"), ("Memory", "memory")]
    over = "".join(
        f'<th class="over part" colspan="{len(measures_of(resource))}">{title}</th>' for title, resource in resources
    )
    heads, number = [], 1
    for _, resource in resources:
        for at, measure in enumerate(measures_of(resource)):
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
        score = _scores(result, number)[variant]
        cells = "".join(_cells(score.cpu, "cpu") + _cells(score.memory, "memory"))
        series = escape(score.series)
        rows.append(f'<tr data-series="{series}"><td>{series}</td>{cells}</tr>')
    return f"<tbody>{heading}{''.join(rows)}</tbody>"


def _cells(figures: Figures | None, resource: str) -> list[str]:
    told = figures or _NOTHING
    values = [(measure, measure.read(told)) for measure in measures_of(resource)]
    return [number_cell(measure.show(value), value, begins=not at) for at, (measure, value) in enumerate(values)]
